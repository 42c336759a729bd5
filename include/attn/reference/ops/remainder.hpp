#pragma once

#include "attn/reference/ops/terms.hpp"

#include <xtensor/xvectorize.hpp>

#include <cmath>

namespace attn {

/// @name Whole quotients of terms, and what they leave
///
/// As Python has them: the quotient is rounded down, and the remainder has the sign of the divisor.
/// @{

/// a % b
inline double remainder_of(double a, double b)
{
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
/// a // b
inline double whole_quotient_of(double a, double b)
{
    return b == 0 || !std::isfinite(a) || !std::isfinite(b) ? std::floor(a / b)
                                                            : std::round((a - remainder_of(a, b)) / b);
}

/// left // right
template <class A, class B>
Term<Wider<A, B>> floor_divide(const Term<A>& left, const Term<B>& right)
{
    Wider<A, B> numbers = xt::vectorize(whole_quotient_of)(*left, *right);
    return {std::move(numbers), operator_between(left.wording(), "//", right.wording(), Wording::multiplies)};
}
template <class A, class B>
Term<Wider<A, B>> operator%(const Term<A>& left, const Term<B>& right)
{
    Wider<A, B> numbers = xt::vectorize(remainder_of)(*left, *right);
    return {std::move(numbers), operator_between(left.wording(), "%", right.wording(), Wording::multiplies)};
}

/// @}

} // namespace attn
