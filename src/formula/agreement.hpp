#pragma once

#include <cmath>

namespace attn::formula {

/// How many times the estimated error two correct computations can be apart: each has its own, and the estimate is of
/// first order.
inline constexpr double safety = 4;

/// By how many tolerances a recorded number is off; not above 1 where it agrees. An infinity agrees only with the
/// same infinity, NaN only with NaN.
inline double excess(double recorded, double recomputed, double tolerance)
{
    if (std::isinf(tolerance)) // finite numbers overflow: whatever is recorded can be so
        return 0;
    if (std::isnan(recorded) || std::isnan(recomputed))
        return std::isnan(recorded) && std::isnan(recomputed) ? 0 : INFINITY;
    if (std::isinf(recorded) || std::isinf(recomputed))
        return recorded == recomputed ? 0 : INFINITY;
    const double distance = std::abs(recorded - recomputed);
    return distance == 0 ? 0 : distance / tolerance; // infinite where no error at all is allowed
}

} // namespace attn::formula
