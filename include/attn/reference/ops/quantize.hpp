#pragma once

#include "attn/core/number_type.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace attn {

/// @name Rounding of terms, to the nearest; of two numbers that are equally near, the even one
/// @{

/// round(x)
template <class T>
Term<T> rounded(const Term<T>& x)
{
    T result = *x;
    std::ranges::transform(result, result.begin(), [](double one) { return std::nearbyint(one); });
    return {std::move(result), call_of("round", {x.wording()})};
}
/// float16(x), bfloat16(x), float8_e4m3(x), …
template <class T>
Term<T> rounded_to(NumberType type, const Term<T>& x)
{
    T result = *x;
    std::ranges::transform(result, result.begin(), [type](double one) { return rounded_to(type, one); });
    return {std::move(result), call_of(name_of(type), {x.wording()})};
}
/// @}

/// What numbers are stored as: floating-point, or whole numbers times a scale. Those with a sign lie around zero, from -127 to
/// 127 and from -7 to 7; those without begin at the lowest number that is stored, from 0 to 255, 15 and 3.
enum class StoredType { float16, bfloat16, float8_e4m3, float8_e5m2, int8, int4, uint8, uint4, uint2 };

/// Its name as flags have it: "int8".
std::string_view name_of(StoredType type);
/// How many bits a number takes, without scales.
std::size_t bits_of(StoredType type);

/// Which numbers of a matrix (tokens, features) share a scale.
enum class SharedScale {
    none,    ///< no scale: floating-point numbers as they are
    tensor,  ///< all
    token,   ///< those of a row
    channel, ///< those of a column
    block    ///< so many features of a row that lie side by side
};

/// How numbers are stored.
struct StoredFormat {
    StoredType type = StoredType::int8;
    SharedScale scale = SharedScale::token;
    std::size_t group = 32; ///< features in a block; in a cache also the tokens of a channel that share a scale
};

/// A format as programs call it: "float8_e4m3", "int8:token", "int4:block32", "uint2:channel32", "int8:tensor".
/// @throws Error where there is none of that name, with those that there are
StoredFormat stored_format_called(std::string_view text);
std::string name_of(const StoredFormat& format);

/// The results of quantize().
struct Quantized {
    Term<Matrix> codes;  ///< what takes the bits: (n, d), or (blocks, block)
    Term<Matrix> stored; ///< (n, d): what is read back
};

/// Rounds numbers to what fewer bits can hold.
///
/// @param x       (n, d)
/// @param format  type and scales
/// @param trace   with a type with a sign, such as int8, and a scale for each token
///
///                | step   | shape  | formula                                 |
///                |--------|--------|-----------------------------------------|
///                | x      | (n, d) |                                         |
///                | limit  | (n, one) | max(abs(x), axis=1, keepdims=True)    |
///                | scale  | (n, one) | where(limit > 1e-300, limit, 1) / 127 |
///                | codes  | (n, d) | round(x / scale)                        |
///                | stored | (n, d) | codes * scale                           |
///
///                With float8_e4m3, `scale` divides by 448 and `codes` is `float8_e4m3(x / scale)`; without a scale, `stored`
///                is `float8_e4m3(x)`. With a type without a sign, `lowest` and `highest` stand in place of `limit`, `scale` is
///                `where(highest - lowest > 1e-300, highest - lowest, 1) / 15`, `codes` is `round((x - lowest) / scale)` and
///                `stored` is `codes * scale + lowest`. Blocks are the rows of `blocks`, `reshape(x, 6, 4)`, and `stored` is
///                `reshape(codes * scale, 3, 8)`.
/// @throws ShapeError where a block's length does not divide d
/// @throws Error      where whole numbers have no scale, float16 or bfloat16 has one, or a number is beyond 1e300, or beyond
///                    the largest of a type without a scale
/// @see Liu et al. 2024, "KIVI", Algorithm 1, for types without a sign
Quantized quantize(const Term<Matrix>& x, const StoredFormat& format, const Trace& trace = {});

/// A rotation whose numbers all have the same size, so that one large feature is spread over all: (d, d), Sylvester's
/// Hadamard matrix over the root of d. It is its own inverse.
/// @throws ShapeError where d is no power of two
/// @see Ashkboos et al. 2024, "QuaRot"
Matrix hadamard(std::size_t d);

} // namespace attn
