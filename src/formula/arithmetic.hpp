#pragma once

#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"

#include "rounded.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace attn {

/// The row-major offset of an index.
std::size_t offset_of(const Shape& index, const Shape& shape);

/// The arithmetic of single numbers: a tree of scalars, whose equal branches are one.
struct Scalar {
    enum class Kind : std::uint8_t {
        number,   ///< itself: 0.5, a place of arange
        size,     ///< x.shape[1]: by its text and its value
        cell,     ///< one number of a step
        negated,  ///< -a
        binary,   ///< a OP b
        function, ///< f(a)
        total,    ///< a + b + …
        part,     ///< a, which is a sum or a softmax: by its formula and index where it is in another sum
        noted     ///< a, for a reason that a reader wants to know
    };
    enum class Note : std::uint8_t {
        branch,  ///< of where: for the condition `about`
        largest, ///< of `count` numbers
        smallest,
        row,          ///< of a gather: by the number `about`
        off_diagonal, ///< 0
        all_forbidden ///< 0: softmax of minus infinities, the largest of which is `about`
    };

    Kind kind = Kind::number;
    Note note = Note::branch;
    bool truth = false; ///< a boolean
    Rounded value;
    const Expression* origin = nullptr; ///< what has the operator, the function, the name, the text
    const Array* array = nullptr;       ///< that a cell is of
    Shape index;                        ///< of a cell or a part in the value of its origin
    std::size_t count = 0;              ///< of the numbers that were chosen from
    const Scalar* about = nullptr;
    std::vector<const Scalar*> operands;
};

/// A formula, ready to give the arithmetic of any of its cells without computing the others.
class FormulaCells {
public:
    /// @throws FormulaError where it can't be parsed, a name means nothing, or shapes don't fit
    FormulaCells(std::string_view formula, Lookup lookup);
    ~FormulaCells();
    FormulaCells(const FormulaCells&) = delete;
    FormulaCells& operator=(const FormulaCells&) = delete;

    const Shape& shape() const;

    /// The arithmetic of one cell; it lives as long as this.
    /// @throws FormulaError where that needs a row that isn't there, or millions of numbers
    const Scalar& at(const Shape& index);

private:
    class Builder;
    std::unique_ptr<Builder> builder_;
};

} // namespace attn
