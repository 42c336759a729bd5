#include "type_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

constexpr NumberType short_types[] = {NumberType::bfloat16, NumberType::float16, NumberType::float32};

/// How many different numbers have to tell of a type: one of 24 digits is no accident, one of 8 can be.
std::size_t needed_for(NumberType type) { return type == NumberType::float32 ? 1 : 2; }

/// True for a number of a type that needs more than half of its digits, and is not whole or too large to be exact.
bool needs_digits(NumberType type, double number)
{
    int exponent = 0;
    const double digits = std::ldexp(std::frexp(number, &exponent), digits_of(type) / 2);
    return digits != std::trunc(digits) && (number != std::trunc(number) || exponent > digits_of(type));
}

/// True where a number is as near to the reference's as a rounding or two: one such number is enough.
bool is_near(NumberType type, double found, double reference)
{
    return std::abs(found - reference) <= 2 * roundoff_of(type) * std::abs(reference);
}

} // namespace

void TypeEvidence::add(const Array& found, const Array& reference)
{
    if (reference.type != ElementType::real || found.size() == 0)
        return;
    bool counts = false;
    for (const NumberType type : short_types) {
        const auto is_of_type = [type](double number) { return is_exactly(type, number); };
        const bool is_proof = !std::ranges::all_of(reference.values, is_of_type);
        counts = counts || is_proof;
        Seen& one = seen(type);
        if (!std::ranges::all_of(found.values, is_of_type)) {
            one.all = false;
            continue;
        }
        one.arrays += is_proof ? 1 : 0;
        const bool fits = found.size() == reference.size();
        for (std::size_t i = 0; is_proof && i < found.size() && !one.is_told; ++i) {
            if (!needs_digits(type, found.values[i]) || (fits && is_of_type(reference.values[i])))
                continue;
            one.tell.insert(found.values[i]);
            one.is_told =
                one.tell.size() == needed_for(type) || (fits && is_near(type, found.values[i], reference.values[i]));
        }
    }
    arrays_ += counts ? 1 : 0;
}

NumberType TypeEvidence::type() const
{
    for (const NumberType type : short_types)
        if (seen(type).all && seen(type).is_told)
            return type;
    return NumberType::float64;
}

std::vector<NumberType> TypeEvidence::coarser_types() const
{
    if (type() == NumberType::float32)
        return {NumberType::float16, NumberType::bfloat16};
    std::vector<NumberType> types;
    for (const NumberType one : {NumberType::float32, NumberType::float16, NumberType::bfloat16})
        if (type() == NumberType::float64 && seen(one).all)
            types.push_back(one);
    return types;
}

std::string TypeEvidence::hint() const
{
    const std::size_t rounded = seen(NumberType::float32).arrays;
    if (type() != NumberType::float64 || rounded == 0 || rounded == arrays_)
        return "";
    return fmt::format("{} of {} arrays hold float32 numbers only, the others do not: if the program computed in "
                       "float32, say so with --type float32",
                       rounded, arrays_);
}

NumberType type_rounded_to(const Array& found, const Array& reference)
{
    const auto is_rounded = [&](NumberType type) {
        for (std::size_t i = 0; i < found.size(); ++i)
            if (found.values[i] != rounded_to(type, reference.values[i]) &&
                !(std::isnan(found.values[i]) && std::isnan(reference.values[i])))
                return false;
        return true;
    };
    if (found.shape == reference.shape && reference.type == ElementType::real)
        for (const NumberType type : {NumberType::float32, NumberType::float16, NumberType::bfloat16})
            if (is_rounded(type))
                return type;
    return NumberType::float64;
}

} // namespace attn
