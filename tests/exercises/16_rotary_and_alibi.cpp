#include "16_rotary_and_alibi/exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_turned_pair(const Vector& pair, double angle)
{
    return {pair(0) * std::cos(angle) - pair(1) * std::sin(angle),
            pair(0) * std::sin(angle) + pair(1) * std::cos(angle)};
}

double my_alibi_bias(std::size_t query, std::size_t key, double slope)
{
    return -slope * std::abs(static_cast<double>(query) - static_cast<double>(key));
}
