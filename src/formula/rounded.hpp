#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace attn {

/// A number, and how far another correct computation of it can be away.
///
/// What is recorded is exact. Each operation rounds its result by at most a unit roundoff u of itself, and passes on
/// the errors of its operands to first order (Higham 2002, chapters 2 and 3). An infinity or NaN has no error: it is so
/// or it is not.
struct Rounded {
    double value = 0;
    double error = 0;
};

/// Arithmetic on Rounded numbers with a unit roundoff: 2^-53 for double. Arithmetic has the same operations for scalars, so
/// that what consists of several is written once, for computing and for explaining.
class Rounding {
public:
    using Number = Rounded;

    explicit Rounding(double unit) : unit_(unit) {}

    double unit() const { return unit_; }

    /// A result with the error that its operands bring, plus so many roundings of its own.
    Rounded result(double value, double inherited, double roundings = 1) const
    {
        if (!std::isfinite(value))
            return {value, 0};
        return {value, inherited + roundings * unit_ * std::abs(value)};
    }

    Rounded add(Rounded a, Rounded b) const { return result(a.value + b.value, a.error + b.error); }
    Rounded subtract(Rounded a, Rounded b) const { return result(a.value - b.value, a.error + b.error); }

    Rounded multiply(Rounded a, Rounded b) const
    {
        return result(a.value * b.value, times(b.value, a.error) + times(a.value, b.error));
    }

    Rounded divide(Rounded a, Rounded b) const
    {
        const double quotient = a.value / b.value;
        return result(quotient, (a.error + times(quotient, b.error)) / std::abs(b.value));
    }

    Rounded exponential(Rounded x) const
    {
        const double value = std::exp(x.value);
        return function(value, value, x);
    }

    /// A function with a known slope; the libraries' functions are within a few units of the truth.
    Rounded function(double value, double slope, Rounded argument) const
    {
        constexpr double library_roundings = 4;
        return result(value, times(slope, argument.error), library_roundings);
    }

    /// The sum of at(0), at(1), …
    template <class At>
    Rounded sum(std::size_t count, const At& at) const;

    /// The largest or smallest of at(0), at(1), …
    template <class At>
    Rounded extreme(std::size_t count, const At& at, bool is_largest) const;

    // Arithmetic writes these down, where there is nothing to compute.
    static Rounded number(double value) { return {value, 0}; }
    static Rounded exact(Rounded x) { return {x.value, 0}; }
    static Rounded forbidden(Rounded) { return {}; }

private:
    /// 0 * inf is no error at all.
    static double times(double factor, double error) { return error == 0 ? 0 : std::abs(factor) * error; }

    double unit_;
};

/// A sum in any order: n numbers summed by anyone differ by at most about n u times the sum of their sizes.
class RoundedSum {
public:
    void add(Rounded term)
    {
        total_ += term.value;
        sizes_ += std::abs(term.value);
        errors_ += term.error;
    }

    Rounded result(std::size_t count, const Rounding& rounding) const
    {
        return rounding.result(total_, errors_ + static_cast<double>(count) * rounding.unit() * sizes_, 0);
    }

private:
    double total_ = 0, sizes_ = 0, errors_ = 0;
};

template <class At>
Rounded Rounding::sum(std::size_t count, const At& at) const
{
    RoundedSum sum;
    for (std::size_t i = 0; i < count; ++i)
        sum.add(at(i));
    return sum.result(count, *this);
}

/// Which of some numbers is the largest or smallest: the first of equals or of NaNs, which count as both. Any of the
/// others can be the one in another computation, so the largest error is its error.
struct Extreme {
    std::size_t place = 0;
    double error = 0;
};

template <class At>
Extreme extreme_of(std::size_t count, const At& at, bool is_largest)
{
    Extreme best;
    for (std::size_t i = 0; i < count; ++i) {
        const Rounded next = at(i), so_far = at(best.place);
        best.error = std::max(best.error, next.error);
        if (!std::isnan(so_far.value) &&
            (std::isnan(next.value) || (is_largest ? next.value > so_far.value : next.value < so_far.value)))
            best.place = i;
    }
    return {best.place, count > 0 && std::isfinite(at(best.place).value) ? best.error : 0};
}

/// What is larger or smaller than every number: the extreme of none.
inline double extreme_of_none(bool is_largest) { return is_largest ? -INFINITY : INFINITY; }

template <class At>
Rounded Rounding::extreme(std::size_t count, const At& at, bool is_largest) const
{
    if (count == 0)
        return {extreme_of_none(is_largest), 0};
    const Extreme best = extreme_of(count, at, is_largest);
    return {at(best.place).value, best.error};
}

} // namespace attn
