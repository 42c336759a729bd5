#pragma once

#include "attn/core/array.hpp"

/// How near numbers are to each other.
namespace attn {

/// The largest absolute value among the finite numbers; 0 where there is none.
double largest_of(const Array& array);

/// By how many tolerances a number is off; not above 1 where it agrees. An infinity agrees with itself only, NaN with NaN. Where
/// the tolerance is infinite, every number agrees.
double times_off(double found, double expected, double tolerance);

} // namespace attn
