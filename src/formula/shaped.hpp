#pragma once

#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"

#include "operations.hpp"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace attn {

/// An expression with the shape of its value, and with what its operation needs to know, worked out without its value.
struct Shaped {
    enum class Operation {
        number,
        name,
        size,
        negated,
        elementwise,
        matmul,
        transposed,
        indexed,
        gathered,
        softmax,
        reduced,
        where,
        concat,
        repeat,
        interleave,
        diag,
        outer,
        arange,
        reshape,
        permute,
        function
    };

    Operation operation = Operation::number;
    std::size_t id = 0; ///< no two of one formula have the same
    const Expression* expression = nullptr;
    Shape shape;
    bool truth = false; ///< true and false rather than numbers
    std::vector<Shaped> operands;

    const Array* array = nullptr;    ///< of a name
    double number = 0;               ///< of a number or a size
    std::vector<Range> ranges;       ///< of subscripts, one for each axis and each new axis
    std::vector<std::size_t> order;  ///< of permute
    std::optional<std::size_t> axis; ///< none: a reduction of everything
    bool keeps_axes = false;         ///< keepdims=True
    std::size_t count = 0;           ///< of repeat

    std::size_t rank() const { return shape.size(); }
};

/// The value of a single number in a formula, such as the axis of a sum.
using NumberOf = std::function<double(const Shaped&)>;

/// Works out the shapes of a formula, by the same rules and with the same complaints as evaluate().
class Shaper {
public:
    /// @param number_of  computes the numbers that shapes depend on
    Shaper(std::string_view formula, const Lookup& lookup, NumberOf number_of)
        : formula_(formula), lookup_(lookup), number_of_(std::move(number_of))
    {
    }

    /// @throws FormulaError at the place of the innermost expression that can't be computed
    Shaped shaped(const Expression& expression);

private:
    Shaped shaped_kind(const Expression& e);
    void name(Shaped& result) const;
    void binary(Shaped& result);
    void subscripted(Shaped& result);
    void called(Shaped& result);
    void reduce(Shaped& result);
    void concat(Shaped& result);
    void repeat(Shaped& result);
    void pair(Shaped& result);
    void rearrange(Shaped& result);

    std::ptrdiff_t whole(const Expression& expression);
    std::size_t count(const Expression& expression);
    std::size_t axis_of(const Expression& expression, std::size_t rank);
    std::size_t axis_or(const Expression& call, std::size_t rank, std::optional<std::ptrdiff_t> otherwise);
    Range index(const Subscript& subscript, std::ptrdiff_t length);
    Range slice(const Subscript& subscript, std::ptrdiff_t length);
    const Shaped& operand(Shaped& result, std::size_t i);
    void expect(const Expression& call, std::size_t arguments, std::initializer_list<std::string_view> keywords) const;

    std::string_view formula_;
    const Lookup& lookup_;
    NumberOf number_of_;
    std::size_t ids_ = 0;
};

} // namespace attn
