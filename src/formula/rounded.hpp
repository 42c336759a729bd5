#pragma once

#include "attn/formula/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace attn::formula {

/// A number, and how much another correct computation of it can differ.
///
/// What is recorded is exact. Each operation rounds its result by at most a unit roundoff u of itself, or by the smallest
/// positive number where it underflows, and passes on the errors of its operands to first order (Higham 2002, chapters 2
/// and 3). An infinity or NaN has no
/// error. But where finite numbers overflow, and in what follows from that, the error is infinite: a sum in another order can
/// be infinite, NaN, or finite.
struct Rounded {
    double value = 0;
    double error = 0;

    bool is_unknown() const { return std::isinf(error); }
};

inline constexpr double unknown_error = std::numeric_limits<double>::infinity();

/// Arithmetic on Rounded numbers with a unit roundoff: 2^-53 for double. Arithmetic has the same operations for scalars, so
/// that what consists of several is written once, for computing and for explaining.
class Rounding {
public:
    using Number = Rounded;

    explicit Rounding(const ErrorModel& errors)
        : unit_(errors.stores_each ? std::max(errors.roundoff, errors.stored_roundoff) : errors.roundoff),
          sum_unit_(errors.roundoff),
          stored_unit_(errors.stored_roundoff),
          smallest_(errors.smallest),
          sums_(errors.sums)
    {
    }

    double unit() const { return unit_; }
    double smallest() const { return smallest_; }
    /// The unit roundoff of additions and multiplications inside a sum.
    double sum_unit() const { return sum_unit_; }
    /// The arithmetic inside a sum.
    Rounding inside_sums() const { return Rounding(ErrorModel{sum_unit_, stored_unit_, sums_, false, smallest_}); }
    /// What a sum errs by when it is stored.
    double stored(double sum) const { return unit_ > sum_unit_ ? unit_ * std::abs(sum) : 0; }
    SumErrors sums() const { return sums_; }

    /// A result with the error that its operands bring, plus so many roundings of its own.
    Rounded result(double value, double inherited, double roundings = 1) const
    {
        if (!std::isfinite(value))
            return {value, 0};
        return {value, inherited + roundings * (unit_ * std::abs(value) + smallest_)};
    }

    /// The same of two numbers, which can overflow.
    Rounded result(double value, Rounded a, Rounded b, double inherited, double roundings = 1) const
    {
        if (!std::isfinite(value)) [[unlikely]]
            return {value, overflows(a, b) ? unknown_error : 0};
        return {value, inherited + roundings * (unit_ * std::abs(value) + smallest_)};
    }

    Rounded add(Rounded a, Rounded b) const { return result(a.value + b.value, a, b, a.error + b.error); }
    Rounded subtract(Rounded a, Rounded b) const { return result(a.value - b.value, a, b, a.error + b.error); }

    /// What a sum or difference of a and b can also differ by where they are sums of so many terms themselves: a program
    /// can add the terms of one to the other, one by one, and round by the size of both each time.
    Rounded term_by_term(Rounded sum, Rounded a, std::size_t terms_of_a, Rounded b, std::size_t terms_of_b) const
    {
        const auto roundings = [&](std::size_t terms) {
            const double count = terms == 1 ? 0 : static_cast<double>(terms);
            return sums_ == SumErrors::largest ? count : std::sqrt(count);
        };
        if (std::isfinite(sum.value))
            sum.error +=
                sum_unit_ * (roundings(terms_of_b) * std::abs(a.value) + roundings(terms_of_a) * std::abs(b.value));
        return sum;
    }

    Rounded multiply(Rounded a, Rounded b) const
    {
        return result(a.value * b.value, a, b, times(b.value, a.error) + times(a.value, b.error));
    }

    Rounded divide(Rounded a, Rounded b) const
    {
        const double quotient = a.value / b.value;
        if (b.value == 0 && !a.is_unknown() && !b.is_unknown())
            return result(quotient, 0); // an infinity, or NaN
        const double inherited = (a.error + times(quotient, b.error)) / std::abs(b.value);
        return result(quotient, a, b, std::isnan(inherited) ? unknown_error : inherited);
    }

    Rounded exponential(Rounded x) const
    {
        const double value = std::exp(x.value);
        return function(value, value, x);
    }

    /// A function with a known slope; the libraries' functions are within a few units of the truth.
    Rounded function(double value, double slope, Rounded argument) const
    {
        if (argument.is_unknown())
            return {value, unknown_error};
        return result(value, times(slope, argument.error), library_roundings());
    }

    /// By how many roundings a library's function is off: four of its own, or the one that stores it.
    double library_roundings() const { return std::max(4 * sum_unit_ / unit_, 1.0); }

    /// The sum of at(0), at(1), …
    template <class At>
    Rounded sum(std::size_t count, const At& at) const;

    /// The largest or smallest of at(0), at(1), …
    template <class At>
    Rounded extreme(std::size_t count, const At& at, bool is_largest) const;

    // Arithmetic writes these down, where there is nothing to compute.
    static Rounded number(double value) { return {value, 0}; }
    /// What softmax subtracts of so many numbers, the largest. Another computation subtracts the logarithm of the sum of
    /// exponentials, which is larger by at most the logarithm of their number, and stores the differences.
    Rounded subtracted(Rounded largest, std::size_t count) const
    {
        if (largest.is_unknown())
            return largest;
        if (!std::isfinite(largest.value))
            return {largest.value, 0};
        return {largest.value, stored_unit_ * (std::abs(largest.value) + std::log(static_cast<double>(count)))};
    }
    static Rounded forbidden(Rounded) { return {}; }

private:
    /// An infinity times no error is no error at all, and what is unknown remains so.
    static double times(double factor, double error)
    {
        if (error == 0) [[likely]]
            return 0;
        return std::isinf(error) ? error : std::abs(factor) * error;
    }

    /// True where what is no finite number follows from finite ones.
    static bool overflows(Rounded a, Rounded b)
    {
        return (std::isfinite(a.value) && std::isfinite(b.value)) || a.is_unknown() || b.is_unknown();
    }

    double unit_, sum_unit_, stored_unit_, smallest_;
    SumErrors sums_;
};

/// A sum in any order: two sums of n numbers differ by at most about n u times the sum of their sizes.
class LargestErrorOfSum {
public:
    LargestErrorOfSum() = default;
    LargestErrorOfSum(double total, double sizes, double errors) : total_(total), sizes_(sizes), errors_(errors) {}

    void add(Rounded term)
    {
        total_ += term.value;
        sizes_ += std::abs(term.value);
        errors_ += term.error;
    }

    Rounded result(std::size_t count, const Rounding& rounding) const
    {
        if (std::isinf(errors_))
            return {total_, unknown_error};
        return rounding.result(
            total_, errors_ + static_cast<double>(count) * rounding.sum_unit() * sizes_ + rounding.stored(total_), 0);
    }

private:
    double total_ = 0, sizes_ = 0, errors_ = 0;
};

/// A sum one after the other: the roundings of its partial sums are independent, so that their squares add up.
class TypicalErrorOfSum {
public:
    TypicalErrorOfSum() = default;
    TypicalErrorOfSum(double total, double partial_squares, double error_squares)
        : total_(total), partial_squares_(partial_squares), error_squares_(error_squares)
    {
    }

    void add(Rounded term)
    {
        total_ += term.value;
        partial_squares_ += total_ * total_;
        error_squares_ += term.error * term.error;
    }

    Rounded result(std::size_t, const Rounding& rounding) const
    {
        const double unit = rounding.sum_unit();
        if (std::isinf(error_squares_))
            return {total_, unknown_error};
        return rounding.result(total_,
                               std::sqrt(error_squares_ + unit * unit * partial_squares_) + rounding.stored(total_), 0);
    }

private:
    double total_ = 0, partial_squares_ = 0, error_squares_ = 0;
};

/// A sum as it is known: where finite terms give no finite number, nothing is.
template <class At>
Rounded with_overflow(Rounded sum, std::size_t count, const At& at)
{
    if (std::isfinite(sum.value)) [[likely]]
        return sum;
    bool are_finite = true;
    for (std::size_t i = 0; i < count && are_finite; ++i)
        are_finite = std::isfinite(at(i).value);
    return are_finite ? Rounded{sum.value, unknown_error} : sum;
}

template <class At>
Rounded Rounding::sum(std::size_t count, const At& at) const
{
    const auto added = [&](auto sum) {
        for (std::size_t i = 0; i < count; ++i)
            sum.add(at(i));
        return with_overflow(sum.result(count, *this), count, at);
    };
    return sums_ == SumErrors::largest ? added(LargestErrorOfSum{}) : added(TypicalErrorOfSum{});
}

/// Which of some numbers is the largest or smallest: the first of equals or of NaNs, which count as both. Any of the
/// others can be the one in another computation, so the largest error is its error.
struct Extreme {
    std::size_t place = 0;
    double error = 0;
};

/// @param count  one or more
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
    const bool has_error = std::isfinite(at(best.place).value) || std::isinf(best.error);
    return {best.place, has_error ? best.error : 0};
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

} // namespace attn::formula
