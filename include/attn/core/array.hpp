#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// The score of a key that a query can't attend to: softmax makes it zero.
inline constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// The sizes of a tensor, one per axis; empty for a single number.
using Shape = std::vector<std::size_t>;

/// The type of an array's elements, which decides how a file stores them.
enum class ElementType { real, boolean, integer };

/// A tensor as traces, files and formulas see it: its rank is known at run time only.
///
/// Not an xtensor container: the code that checks a computation shares no code with it.
struct Array {
    Shape shape;
    std::vector<double> values; ///< row-major; booleans are 0 and 1
    ElementType type = ElementType::real;

    std::size_t rank() const { return shape.size(); }
    std::size_t size() const { return values.size(); }
};

/// True where both have the same type and shape and the same bits in every value (so NaN equals itself).
bool identical(const Array& left, const Array& right);

/// The number of elements that a shape holds; 1 for a single number.
/// @throws Error where the product does not fit std::size_t
std::size_t element_count(const Shape& shape);

/// The array with its axes in another order: axis i of the result is axis order[i] of the array.
/// @throws Error where the order does not have each axis once
Array permuted(const Array& array, const std::vector<std::size_t>& order);

/// A shape as text: "(3, 4)", "(3,)", "()".
std::string to_string(const Shape& shape);

/// An index in brackets, "[0,2]"; nothing where it is empty.
std::string bracketed(const Shape& index, std::string_view separator = ",");

/// The shortest text that reads back as the same number: "0.1", "1e-05".
std::string exact_text(double number);

/// Reads the number that a text begins with, such as -12, .5 or 1e-9, in any locale.
/// @param text  loses what was read
/// @return nothing where there is no number, or one that is too large or too small for a double
std::optional<double> take_number(std::string_view& text);

/// The index, one entry per axis, of the element at a row-major offset.
Shape index_at(std::size_t offset, const Shape& shape);

} // namespace attn
