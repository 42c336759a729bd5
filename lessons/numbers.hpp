#pragma once

// Whole numbers and masks, as the real numbers that terms compute with.

#include "attn/core/trace.hpp"
#include "attn/reference/ops/terms.hpp"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace attn {

/// The same numbers as another type has them.
template <Traceable To, Traceable From>
Term<To> numbers_as(const Term<From>& x)
{
    if constexpr (std::is_arithmetic_v<To>)
        return {static_cast<To>(*x), x.wording()};
    else
        return {To(xt::cast<typename To::value_type>(*x)), x.wording()};
}

/// @name Whole numbers to compute with, and back: exact up to 2^53
/// @{
inline auto reals(const Term<std::int64_t>& x) { return numbers_as<double>(x); }
inline auto reals(const Term<Integers>& x) { return numbers_as<Vector>(x); }
inline auto reals(const Term<IntegerMatrix>& x) { return numbers_as<Matrix>(x); }
inline auto wholes(const Term<double>& x) { return numbers_as<std::int64_t>(x); }
inline auto wholes(const Term<Vector>& x) { return numbers_as<Integers>(x); }
inline auto wholes(const Term<Matrix>& x) { return numbers_as<IntegerMatrix>(x); }
/// @}

/// 1 where it is so, and 0 elsewhere: "1 * mask".
inline Term<Matrix> ones(const Term<Mask>& mask) { return 1 * numbers_as<Matrix>(mask); }

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
