#include "31_fewer_bits/exercise.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

Matrix my_stored_keys(const Matrix& keys, double largest_code)
{
    Matrix stored = keys;
    for (std::size_t channel = 0; channel < keys.shape(1); ++channel) {
        double limit = 0;
        for (std::size_t token = 0; token < keys.shape(0); ++token)
            limit = std::max(limit, std::abs(keys(token, channel)));
        const double scale = limit / largest_code;
        for (std::size_t token = 0; token < keys.shape(0); ++token)
            stored(token, channel) = std::nearbyint(keys(token, channel) / scale) * scale;
    }
    return stored;
}
