#pragma once

#include "attn/reference/ops/terms.hpp"

#include <algorithm>
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

/// What a function gives for each two numbers of terms that broadcast.
template <class A, class B>
Wider<A, B> each_two(double (*function)(double, double), const Term<A>& left, const Term<B>& right)
{
    if constexpr (rank_of<A> == 0 && rank_of<B> == 0) {
        return function(*left, *right);
    } else {
        const Wider<A, B> shape = *(left + right); // refuses shapes that don't fit
        const Wider<A, B> a = xt::broadcast(*left, shape.shape()), b = xt::broadcast(*right, shape.shape());
        Wider<A, B> result(shape.shape());
        std::transform(a.begin(), a.end(), b.begin(), result.begin(), function);
        return result;
    }
}

/// left // right
template <class A, class B>
Term<Wider<A, B>> floor_divide(const Term<A>& left, const Term<B>& right)
{
    return {each_two(whole_quotient_of, left, right),
            operator_between(left.wording(), "//", right.wording(), Wording::multiplies)};
}
template <class A, class B>
Term<Wider<A, B>> operator%(const Term<A>& left, const Term<B>& right)
{
    return {each_two(remainder_of, left, right),
            operator_between(left.wording(), "%", right.wording(), Wording::multiplies)};
}

/// @}

} // namespace attn
