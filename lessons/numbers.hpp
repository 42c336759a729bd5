#pragma once

// Whole numbers and masks, as the real numbers that terms compute with.

#include "attn/core/trace.hpp"
#include "attn/reference/ops/terms.hpp"

#include <cstdint>
#include <string_view>

namespace attn {

/// 1 where it is so, and 0 elsewhere: "1 * mask".
inline Term<Matrix> ones(const Term<Mask>& mask)
{
    return {Matrix(xt::cast<double>(*mask)),
            operator_between(wording_of(1, mask.wording()), "*", mask.wording(),
                             Wording::multiplies)};
}

/// @name The same whole numbers, to compute with
/// @{
inline Term<double> reals(const Term<std::int64_t>& x)
{
    return {static_cast<double>(*x), x.wording()};
}
inline Term<Vector> reals(const Term<Integers>& x)
{
    return {Vector(xt::cast<double>(*x)), x.wording()};
}
inline Term<Matrix> reals(const Term<IntegerMatrix>& x)
{
    return {Matrix(xt::cast<double>(*x)), x.wording()};
}
/// @}

/// @name And back: exact up to 2^53
/// @{
inline Term<std::int64_t> wholes(const Term<double>& x)
{
    return {static_cast<std::int64_t>(*x), x.wording()};
}
inline Term<Integers> wholes(const Term<Vector>& x)
{
    return {Integers(xt::cast<std::int64_t>(*x)), x.wording()};
}
inline Term<IntegerMatrix> wholes(const Term<Matrix>& x)
{
    return {IntegerMatrix(xt::cast<std::int64_t>(*x)), x.wording()};
}
/// @}

/// The steps of a scope that are whole numbers.
///
///     const Term d_k = whole("d_k", d_model / h);
class WholeNumbers {
public:
    explicit WholeNumbers(const Trace& trace) : trace_(trace) {}

    Term<Vector> given(std::string_view step, const Integers& numbers) const
    {
        return reals(trace_.given(step, numbers));
    }
    Term<double> given(std::string_view step, std::int64_t number) const
    {
        return reals(trace_.given(step, number));
    }
    template <class T>
    Term<T> operator()(std::string_view step, const Term<T>& x) const
    {
        return reals(trace_(step, wholes(x)));
    }

private:
    const Trace& trace_;
};

} // namespace attn
