#include "attn/reference/ops/quantize.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"

#include <bit>
#include <charconv>
#include <optional>
#include <tuple>

namespace attn {
namespace {

struct StoredRow {
    StoredType choice;
    std::string_view name;
    std::size_t bits;
    NumberType number; ///< of floating-point; float64 of whole numbers
    double largest;    ///< of the codes, of floating-point and of whole numbers
    bool has_sign, takes_scale;

    bool is_whole() const { return number == NumberType::float64; }
};

constexpr StoredRow stored_types[] = {
    {StoredType::float16, "float16", 16, NumberType::float16, 65504, true, false},
    {StoredType::bfloat16, "bfloat16", 16, NumberType::bfloat16, 0x1.fep127, true, false},
    {StoredType::float8_e4m3, "float8_e4m3", 8, NumberType::float8_e4m3, 448, true, true},
    {StoredType::float8_e5m2, "float8_e5m2", 8, NumberType::float8_e5m2, 57344, true, true},
    {StoredType::int8, "int8", 8, NumberType::float64, 127, true, true},
    {StoredType::int4, "int4", 4, NumberType::float64, 7, true, true},
    {StoredType::uint8, "uint8", 8, NumberType::float64, 255, false, true},
    {StoredType::uint4, "uint4", 4, NumberType::float64, 15, false, true},
    {StoredType::uint2, "uint2", 2, NumberType::float64, 3, false, true}};

struct ScaleRow {
    SharedScale choice;
    std::string_view name;
    bool takes_group; ///< a number after the name
};

constexpr ScaleRow shared_scales[] = {{SharedScale::none, "", false},
                                      {SharedScale::tensor, "tensor", false},
                                      {SharedScale::token, "token", false},
                                      {SharedScale::channel, "channel", true},
                                      {SharedScale::block, "block", true}};

void expect_storable(const Matrix& x, const StoredRow& type, SharedScale scale)
{
    if (type.is_whole() && scale == SharedScale::none)
        throw Error("quantize: ", type.name, " are whole numbers, which need a scale: ", type.name, ":token, for one");
    if (!type.takes_scale && scale != SharedScale::none)
        throw Error("quantize: ", type.name, " takes no scale");
    const double largest = scale == SharedScale::none ? type.largest : 1e300;
    for (const double number : x)
        if (!(std::abs(scale == SharedScale::none ? rounded_to(type.number, number) : number) <= largest))
            throw Error("quantize: x has ", exact_text(number), ", and numbers up to ", exact_text(largest),
                        " can be stored as ", type.name,
                        (type.takes_scale && scale == SharedScale::none ? " without a scale" : ""));
}

/// The largest or smallest of the numbers that share a scale.
template <class Along>
Term<Matrix> of_each(SharedScale scale, const Term<Matrix>& x, const Along& along)
{
    if (scale == SharedScale::tensor)
        return along(along(x, 1), 0);
    return along(x, scale == SharedScale::channel ? 0 : 1);
}

Term<Matrix> largest_of(SharedScale scale, const Term<Matrix>& x)
{
    return of_each(scale, x, [](const Term<Matrix>& of, int axis) { return max_along(of, axis, keepdims); });
}

Term<Matrix> smallest_of(SharedScale scale, const Term<Matrix>& x)
{
    return of_each(scale, x, [](const Term<Matrix>& of, int axis) { return min_along(of, axis, keepdims); });
}

/// What a code of one is worth, from the range that all codes have to span; 1 where there is nothing to span.
Term<Matrix> span(const Term<Matrix>& range, double codes) { return where(range > 1e-300, range, 1) / codes; }

/// Numbers that share scales by row, by column or altogether.
Quantized quantize_scaled(const Term<Matrix>& x, const StoredRow& type, SharedScale scale, const Trace& trace)
{
    const std::string numbers = scale == SharedScale::block ? "[blocks, block]" : "[n, d]";
    const std::string each = scale == SharedScale::token     ? "[n, one]"
                             : scale == SharedScale::channel ? "[one, d]"
                             : scale == SharedScale::block   ? "[blocks, one]"
                                                             : "[one, one]";
    if (!type.has_sign) {
        const Term lowest = trace("lowest" + each, smallest_of(scale, x));
        const Term highest = trace("highest" + each, largest_of(scale, x));
        const Term unit = trace("scale" + each, span(highest - lowest, type.largest));
        const Term codes = trace("codes" + numbers, rounded((x - lowest) / unit));
        return {codes, codes * unit + lowest};
    }
    const Term limit = trace("limit" + each, largest_of(scale, abs(x)));
    const Term unit = trace("scale" + each, span(limit, type.largest));
    const Term scaled = x / unit;
    const Term codes = trace("codes" + numbers, type.is_whole() ? rounded(scaled) : rounded_to(type.number, scaled));
    return {codes, codes * unit};
}

} // namespace

std::string_view name_of(StoredType type) { return row_for<stored_types>(type).name; }

std::size_t bits_of(StoredType type) { return row_for<stored_types>(type).bits; }

Quantized quantize(const Term<Matrix>& given, const StoredFormat& format, const Trace& trace)
{
    const auto& [type, scale, group] = format;
    const StoredRow& row = row_for<stored_types>(type);
    const Term x = trace.input("x[n, d]", given);
    expect_storable(*x, row, scale);
    if (scale == SharedScale::none) {
        const Term stored = trace("stored[n, d]", rounded_to(row.number, x));
        return {stored, stored};
    }
    if (scale != SharedScale::block) {
        const auto [codes, stored] = quantize_scaled(x, row, scale, trace);
        return {codes, trace("stored[n, d]", stored)};
    }
    const std::size_t n = x.shape(0), d = x.shape(1);
    if (group == 0 || d % group != 0)
        throw ShapeError("quantize: blocks of ", group, " don't divide the ", d, " features of x");
    const Term blocks = trace("blocks[blocks, block]", reshape<Matrix>(x, {n * d / group, group}));
    const auto [codes, stored] = quantize_scaled(blocks, row, scale, trace);
    return {codes, trace("stored[n, d]", reshape<Matrix>(stored, {n, d}))};
}

StoredFormat stored_format_called(std::string_view text)
{
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view after = text.substr(std::min(colon + 1, text.size()));
    const std::size_t letters = std::min(after.find_first_of("0123456789"), after.size());
    const auto type = std::ranges::find(stored_types, text.substr(0, colon), &StoredRow::name);
    const auto scale = std::ranges::find(shared_scales, after.substr(0, letters), &ScaleRow::name);
    const std::string_view digits = after.substr(letters);
    StoredFormat format;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), format.group);
    const bool has_number = error == std::errc() && end == digits.data() + digits.size() && format.group > 0;
    const bool is_known = type != std::end(stored_types) && scale != std::end(shared_scales) &&
                          (colon == text.size()) == after.empty() && (scale->takes_group ? has_number : digits.empty());
    if (!is_known || (after.empty() ? type->is_whole() : !type->takes_scale)) {
        std::string plain, scaled;
        for (const StoredRow& known : stored_types) {
            std::string& names = known.takes_scale ? scaled : plain;
            names += (names.empty() ? "" : ", ") + std::string(known.name);
        }
        throw Error("there is no type of stored numbers '", text, "', expected ", plain,
                    "; or with a scale, such as int8:token, int4:block32, int4:channel32 or int8:tensor, one of ",
                    scaled, ", of which float8 can be without");
    }
    format.type = type->choice;
    format.scale = scale->choice;
    return format;
}

std::string name_of(const StoredFormat& format)
{
    const auto& [type, scale, group] = format;
    const ScaleRow& row = row_for<shared_scales>(scale);
    return std::string(name_of(type)) + (row.name.empty() ? "" : ":") + std::string(row.name) +
           (row.takes_group ? std::to_string(group) : "");
}

Matrix hadamard(std::size_t d)
{
    if (!std::has_single_bit(d))
        throw ShapeError("hadamard: ", d, " is no power of two");
    Matrix h(Matrix::shape_type{d, d});
    for (std::size_t i = 0; i < d; ++i)
        for (std::size_t j = 0; j < d; ++j)
            h(i, j) = (std::popcount(i & j) % 2 == 0 ? 1 : -1) / std::sqrt(static_cast<double>(d));
    return h;
}

} // namespace attn
