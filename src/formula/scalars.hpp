#pragma once

#include "shaped.hpp"

#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attn::formula {

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
        noted     ///< a, with a note of the reason
    };
    enum class Note : std::uint8_t {
        branch,  ///< of where: for the condition `about`
        largest, ///< of `count` numbers, or the `rank`-th largest
        smallest,
        row,           ///< of a gather: by the number `about`
        nothing_there, ///< 0: off a diagonal, in padding, where no row is added
        all_forbidden  ///< 0: softmax of minus infinities, the largest of which is `about`
    };

    Kind kind = Kind::number;
    Note note = Note::branch;
    Rounded value = {};
    bool truth = false;                 ///< a boolean
    const Expression* origin = nullptr; ///< what it is a number of
    std::string_view text = {};         ///< the operator or function
    std::vector<const Scalar*> operands = {};
    const Array* array = nullptr; ///< that a cell is of
    Shape index = {};             ///< of a cell or a part in the value of its origin
    std::size_t count = 0;        ///< of the numbers that were chosen from
    std::size_t rank = 1;         ///< 2 for the second largest of them
    const Scalar* about = nullptr;
};

/// The scalars of a formula. What was made once is used again.
class Scalars {
public:
    /// @throws FormulaError where the formula can't be parsed, a name means nothing, or shapes don't fit
    Scalars(std::string_view formula, const Lookup& lookup) : formula_(formula, lookup) {}

    const ShapedFormula& formula() const { return formula_; }

    /// The arithmetic of one cell of the formula; it lives as long as this.
    /// @throws FormulaError where that needs a row that isn't there, or millions of numbers
    const Scalar& at(std::size_t offset) { return cell(formula_.root(), offset); }

    /// The arithmetic of one cell of a part of the formula.
    const Scalar& cell(const Shaped& shaped, std::size_t offset);

    /// The operand's cell that a cell at an offset is made from.
    const Scalar& operand(const Shaped& shaped, std::size_t operand, std::size_t offset);

    void remember(const Shaped& shaped, std::size_t offset, const Scalar& scalar);

    /// Keeps a scalar.
    /// @throws Error where there would be too many
    const Scalar& keep(Scalar scalar);

    const Rounding& rounding() const { return rounding_; }

private:
    struct Place {
        const Shaped* shaped;
        std::size_t offset;
        bool operator==(const Place&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Place& place) const
        {
            return place.offset * 0x9E3779B97F4A7C15u + std::hash<const Shaped*>()(place.shaped);
        }
    };

    ShapedFormula formula_;
    Rounding rounding_{ErrorModel{}};
    std::deque<Scalar> scalars_;
    std::unordered_map<Place, const Scalar*, Hash> made_;
};

/// Writes the operations of Rounding down, for one cell: what is computed with a Rounding is explained with this.
class Arithmetic {
public:
    using Number = const Scalar*;

    Arithmetic(Scalars& scalars, const Shaped& shaped, std::size_t offset)
        : scalars_(scalars), shaped_(shaped), offset_(offset)
    {
    }

    Number subtract(Number a, Number b);
    Number multiply(Number a, Number b);
    Number divide(Number a, Number b);
    Number exponential(Number x);

    template <class At>
    Number sum(std::size_t count, const At& at)
    {
        std::vector<Number> terms;
        for (std::size_t i = 0; i < count; ++i)
            terms.push_back(at(i));
        return total(std::move(terms));
    }

    template <class At>
    Number extreme(std::size_t count, const At& at, bool is_largest)
    {
        std::vector<Number> cells;
        for (std::size_t i = 0; i < count; ++i)
            cells.push_back(at(i));
        return extreme(cells, is_largest);
    }

    Number number(double value);

    /// A largest number, whose error doesn't matter, because the same number is subtracted everywhere.
    Number subtracted(Number x, std::size_t count);

    /// 0, since the largest number is minus infinity.
    Number forbidden(Number largest);

    Number negated(Rounded value, Number x);
    Number function(std::string_view name, Rounded value, Number x);
    Number binary(std::string_view op, Rounded value, Number a, Number b);
    Number noted(Scalar::Note note, Number taken, Number about, std::size_t count = 0, std::size_t rank = 1);

    /// The whole arithmetic of a cell: a part of its own where it is in another sum, if it has two terms or more.
    Number part(Number whole, std::size_t terms);

private:
    Number keep(Scalar::Kind kind, Rounded value, std::vector<Number> operands, std::string_view text = {});
    Number total(std::vector<Number> terms);
    Number extreme(const std::vector<Number>& cells, bool is_largest);

    Scalars& scalars_;
    const Shaped& shaped_;
    std::size_t offset_;
};

} // namespace attn::formula
