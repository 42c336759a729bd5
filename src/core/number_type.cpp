#include "attn/core/number_type.hpp"

#include "attn/core/array.hpp"
#include "attn/core/choices.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace attn {
namespace {

struct Format {
    NumberType choice;
    std::string_view name;
    int digits;            ///< binary ones
    int smallest, largest; ///< exponents of the smallest normal and the largest number
    int decimals;          ///< that tell two numbers apart
    bool has_infinity;     ///< or else NaN has its digits, and the largest number is the one before
};

constexpr Format formats[] = {{NumberType::float64, "float64", 53, -1022, 1023, 17, true},
                              {NumberType::float32, "float32", 24, -126, 127, 9, true},
                              {NumberType::float16, "float16", 11, -14, 15, 5, true},
                              {NumberType::bfloat16, "bfloat16", 8, -126, 127, 4, true},
                              {NumberType::float8_e4m3, "float8_e4m3", 4, -6, 8, 3, false},
                              {NumberType::float8_e5m2, "float8_e5m2", 3, -14, 15, 2, true}};

const Format& format_of(NumberType type) { return row_for<formats>(type); }

} // namespace

std::string_view name_of(NumberType type) { return format_of(type).name; }

int digits_of(NumberType type) { return format_of(type).digits; }

double roundoff_of(NumberType type) { return std::ldexp(1.0, -format_of(type).digits); }

double smallest_of(NumberType type)
{
    const Format& format = format_of(type);
    return std::ldexp(1.0, format.smallest - format.digits + 1);
}

double spacing_at(double number, NumberType type)
{
    const Format& format = format_of(type);
    // Below the smallest normal number, the spacing stays what it is there.
    const int exponent = number == 0 ? format.smallest : std::max(std::ilogb(number), format.smallest);
    return std::ldexp(1.0, exponent - format.digits + 1);
}

double largest_of(NumberType type)
{
    const Format& format = format_of(type);
    return std::ldexp(2.0 - std::ldexp(format.has_infinity ? 1.0 : 2.0, 1 - format.digits), format.largest);
}

double rounded_to(NumberType type, double number)
{
    if (type == NumberType::float64 || !std::isfinite(number) || number == 0)
        return number;
    const double spacing = spacing_at(number, type);
    const double rounded = std::nearbyint(number / spacing) * spacing;
    if (std::abs(rounded) <= largest_of(type))
        return rounded;
    return format_of(type).has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), number)
                                        : std::numeric_limits<double>::quiet_NaN();
}

bool is_exactly(NumberType type, double number)
{
    const Format& format = format_of(type);
    const auto bits = std::bit_cast<std::uint64_t>(number);
    const int exponent = static_cast<int>((bits >> 52) & 2047) - 1023;
    if (std::isinf(number))
        return format.has_infinity;
    if (exponent == 1024 || (bits << 1) == 0) // NaN, zero
        return true;
    if (std::abs(number) > largest_of(type))
        return false;
    const int dropped = 53 - format.digits + std::max(0, format.smallest - exponent);
    if (dropped > 52)
        return std::abs(number) == smallest_of(type); // or none of its digits is left
    return (bits & ((std::uint64_t{1} << dropped) - 1)) == 0;
}

std::string number_text(double number, NumberType type)
{
    if (std::isnan(number))
        return "nan";
    if (type == NumberType::float64)
        return exact_text(number);
    char text[32];
    const auto end =
        std::to_chars(text, text + sizeof text, number, std::chars_format::general, format_of(type).decimals);
    return {text, end.ptr};
}

} // namespace attn
