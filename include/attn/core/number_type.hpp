#pragma once

#include <string>
#include <string_view>

namespace attn {

/// A type of binary floating-point numbers.
enum class NumberType {
    float64,
    float32,
    float16,
    bfloat16,
    float8_e4m3, ///< a sign, 4 digits of the exponent and 3 of the number: up to 448, and no infinity (e4m3fn)
    float8_e5m2, ///< 5 of the exponent and 2 of the number: up to 57,344
};

/// Its name as flags have it: "float32".
std::string_view name_of(NumberType type);

/// How many binary digits its numbers have: 53, 24, 11, 8, 4, 3.
int digits_of(NumberType type);

/// The largest relative error of one rounding to that type.
double roundoff_of(NumberType type);

/// Its smallest positive number: what is smaller rounds to zero.
double smallest_of(NumberType type);

/// The distance from a number to the next one of the type.
double spacing_at(double number, NumberType type);

/// Its largest number.
double largest_of(NumberType type);

/// The nearest number of the type, ties to even; beyond its largest, infinity, or NaN in a type that has none.
/// @see Micikevicius et al. 2022, "FP8 Formats for Deep Learning", section 3
double rounded_to(NumberType type, double number);

/// True for a number that the type holds as it is.
bool is_exactly(NumberType type, double number);

/// A number with as many digits as its type can tell apart.
std::string number_text(double number, NumberType type);

} // namespace attn
