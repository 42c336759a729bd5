#include "attn/core/near.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn {

double largest_of(const Array& array)
{
    double largest = 0;
    for (const double value : array.values)
        if (std::isfinite(value))
            largest = std::max(largest, std::abs(value));
    return largest;
}

double times_off(double found, double expected, double tolerance)
{
    if (found == expected || (std::isnan(found) && std::isnan(expected)))
        return 0;
    if (std::isinf(tolerance)) // where finite numbers overflow, every number can be right
        return 0;
    if (!std::isfinite(found) || !std::isfinite(expected))
        return std::numeric_limits<double>::infinity();
    return std::abs(found - expected) / tolerance; // infinite where no error at all is allowed
}

} // namespace attn
