#pragma once

#include <algorithm>
#include <cmath>

namespace attn {

/// A number, and how far another correct computation of it may be away.
///
/// What is recorded is exact. Each operation rounds its result by at most a unit roundoff u of itself, and passes on
/// the errors of its operands to first order (Higham 2002, chapters 2 and 3). An infinity or NaN has no error: it is so
/// or it is not.
struct Rounded {
    double value = 0;
    double error = 0;
};

/// Arithmetic on Rounded numbers with a unit roundoff: 2^-53 for double.
class Rounding {
public:
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

    /// A function with a known slope; the libraries' functions are within a few units of the truth.
    Rounded function(double value, double slope, Rounded argument) const
    {
        constexpr double library_roundings = 4;
        return result(value, times(slope, argument.error), library_roundings);
    }

private:
    /// 0 * inf is no error at all.
    static double times(double factor, double error) { return error == 0 ? 0 : std::abs(factor) * error; }

    double unit_;
};

/// A sum in any order: n numbers summed by anyone differ by at most about n u times the sum of their sizes.
class RoundedSum {
public:
    explicit RoundedSum(const Rounding& rounding) : rounding_(rounding) {}

    void add(Rounded term)
    {
        total_ += term.value;
        sizes_ += std::abs(term.value);
        errors_ += term.error;
        ++count_;
    }

    /// Adds a product of two numbers.
    void add_product(Rounded a, Rounded b) { add(rounding_.multiply(a, b)); }

    Rounded result() const { return rounding_.result(total_, errors_ + count_ * rounding_.unit() * sizes_, 0); }

private:
    const Rounding& rounding_;
    double total_ = 0, sizes_ = 0, errors_ = 0, count_ = 0;
};

} // namespace attn
