#pragma once

#include "scalars.hpp"
#include "shaped.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace attn::formula {

/// A call on the way back: the gradient of what it gives is known, that of its operands is asked for.
struct Backward {
    const Shaped& call;
    const Expression& grad;   ///< of what the call gives
    const Expression& result; ///< what the call gives: the name of a step, where the call is all of a step's formula
    const std::vector<Expression>& operands;
    const Shaper& shaper;

    const Shape& shape_of(std::size_t operand) const { return call.operands[operand].shape; }
};

/// A function or an operator of the language. Its entry is complete, and stands in one place:
/// in elementwise.cpp, rearranging.cpp, summing.cpp or given.cpp.
struct Function {
    Expression::Kind kind = Expression::Kind::call; ///< of the expressions that it is the meaning of
    std::string_view name = {};                     ///< "softmax", "+"; empty where the kind says all
    std::string_view in_numpy = {};                 ///< NumPy's name where that is another: "concatenate"

    // What a call takes.
    enum class More { nothing, tensors, numbers };
    std::size_t tensors = 1;       ///< arguments whose numbers it computes with
    std::size_t numbers_after = 0; ///< arguments after them that the shape depends on: repeat(x, 2, axis=0)
    More more = More::nothing;     ///< of which sort there can be more
    std::vector<std::string_view> keywords = {}; ///< axis

    // Of a function of each number, or of each two.
    Rounded (*unary)(Rounded x, const Rounding& rounding) = nullptr;
    Rounded (*binary)(Rounded a, Rounded b, const Rounding& rounding) = nullptr;

    /// The shape and type of the result, its loops, and what else the two below need; operands are shaped already.
    void (*shape)(Shaped& call, const Shaper& shaper) = nullptr;

    /// True for an operand whose numbers it takes from the array of a name: no cells are made of them.
    bool (*reads)(const Shaped& operand) = nullptr;

    /// All its numbers, from those of its operands.
    Cells (*numbers)(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding) = nullptr;

    /// How the arithmetic of one number is written. It computes with the same operations of Rounding.
    const Scalar& (*cell)(const Shaped& call, std::size_t offset, Scalars& scalars) = nullptr;

    /// The gradient of one operand, as a formula of the language; nullptr where none arrives, as before `floor` or `<`.
    /// Where the function has a corner, it is PyTorch's: see docs/gradients.md.
    Expression (*gradient)(const Backward& at, std::size_t operand) = nullptr;
    /// True where the second operand says which rows: no gradient arrives there, even where it holds real numbers.
    bool has_ids = false;
};

/// The type that numbers of both types have together: real, else integer, else boolean.
ElementType common(ElementType left, ElementType right);

/// Row-major strides of a shape, which the result's cells are made in.
inline CellView all_of(const Shape& shape) { return {0, strides_of(shape)}; }

/// The function of an expression; nullptr for a call of an unknown function.
const Function* find_function(const Expression& expression);

// The entries, file by file.
std::span<const Function> given_functions();       ///< numbers, names, sizes, arange
std::span<const Function> elementwise_functions(); ///< + exp where …
std::span<const Function> rearranging_functions(); ///< subscripts concat reshape …
std::span<const Function> summing_functions();     ///< @ sum softmax …

} // namespace attn::formula
