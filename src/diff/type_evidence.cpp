#include "type_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace attn::diff {
namespace {

constexpr NumberType short_types[] = {NumberType::bfloat16, NumberType::float16, NumberType::float32};

/// How many different numbers have to tell of a type: one of 24 digits is no accident, one of 8 can be.
std::size_t needed_for(NumberType type) { return type == NumberType::float32 ? 1 : 2; }

/// True where a number is as near to the reference's as a rounding or two: one such number is enough.
bool is_near(NumberType type, double found, double reference)
{
    return std::abs(found - reference) <= 2 * roundoff_of(type) * std::abs(reference);
}

/// True where all numbers of an array are of a type, and enough of them tell of it.
bool tells_of(NumberType type, const Array& found, const Array& reference)
{
    const auto is_of_type = [type](double number) { return is_exactly(type, number); };
    // A float32 number that is not the reference's tells as well; one of so few digits as a 16-bit type has can be an accident.
    const bool is_long = type == NumberType::float32;
    if ((!is_long && std::ranges::all_of(reference.values, is_of_type)) ||
        !std::ranges::all_of(found.values, is_of_type))
        return false;
    const bool fits = found.size() == reference.size();
    std::set<double> tell; // different numbers that do
    for (std::size_t i = 0; i < found.size(); ++i) {
        const bool is_same =
            fits && (is_long ? found.values[i] == reference.values[i] : is_of_type(reference.values[i]));
        if (!needs_digits(type, found.values[i]) || is_same)
            continue;
        tell.insert(found.values[i]);
        if (tell.size() == needed_for(type) || (fits && is_near(type, found.values[i], reference.values[i])))
            return true;
    }
    return false;
}

/// True for a number that is printed in so many digits and read back.
bool has_digits(double number, int digits)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    return !std::isfinite(number) || std::strtod(text, nullptr) == number;
}

/// The type that an array tells of; float64 where it tells of none.
NumberType type_told_by(const Array& found, const Array& reference)
{
    for (const NumberType type : short_types)
        if (tells_of(type, found, reference))
            return type;
    return NumberType::float64;
}

} // namespace

bool needs_digits(NumberType type, double number)
{
    int exponent = 0;
    const double digits = std::ldexp(std::frexp(number, &exponent), digits_of(type) / 2);
    return std::isfinite(number) && digits != std::trunc(digits) &&
           (number != std::trunc(number) || exponent > digits_of(type));
}

bool is_selection(std::string_view formula)
{
    return formula.find_first_of("(@+*/") == std::string_view::npos && formula.find(" - ") == std::string_view::npos;
}

void TypeEvidence::add(const Array& found, const Array& reference)
{
    const auto is_finite = [](double number) { return std::isfinite(number); };
    if (reference.type != ElementType::real || std::ranges::none_of(found.values, is_finite))
        return; // nothing tells of a type
    ++arrays_;
    for (const NumberType type : short_types)
        if (std::ranges::all_of(found.values, [type](double number) { return is_exactly(type, number); }))
            ++exact_[static_cast<std::size_t>(type)];
    // A float32 number needs nine digits to be read back; with eight it is nearly the same.
    is_text_ = is_text_ && std::ranges::all_of(found.values, [](double number) { return has_digits(number, 9); });
    if (is_text_)
        long_texts_ += static_cast<std::size_t>(
            std::ranges::count_if(found.values, [](double number) { return !has_digits(number, 7); }));
    const NumberType told = type_told_by(found, reference);
    if (roundoff_of(told) > roundoff_of(type_))
        type_ = told;
}

NumberType TypeEvidence::type() const
{
    constexpr std::size_t enough = 4; // that many are no accident
    const auto are_all = [&](NumberType one) { return exact_[static_cast<std::size_t>(one)] == arrays_; };
    // Some numbers of float16 need no more digits than bfloat16 has.
    if (type_ == NumberType::bfloat16 && are_all(NumberType::float16) && !are_all(NumberType::bfloat16))
        return NumberType::float16;
    return type_ == NumberType::float64 && is_text_ && long_texts_ >= enough ? NumberType::float32 : type_;
}

std::vector<NumberType> TypeEvidence::coarser_types() const
{
    if (type() == NumberType::float32)
        return {NumberType::float16, NumberType::bfloat16};
    std::vector<NumberType> types;
    for (const NumberType one : {NumberType::float32, NumberType::float16, NumberType::bfloat16})
        if (type_ == NumberType::float64 && exact_[static_cast<std::size_t>(one)] == arrays_)
            types.push_back(one);
    return types;
}

std::string TypeEvidence::hint() const
{
    const NumberType told = type();
    const std::size_t exact = exact_[static_cast<std::size_t>(told)];
    if (told == NumberType::float64 || exact == 0 || exact == arrays_)
        return "";
    return fmt::format(
        "{0} of {1} arrays hold {2} numbers only, so all of them are compared as {2}; --type float64 compares "
        "every digit",
        exact, arrays_, name_of(told));
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

} // namespace attn::diff
