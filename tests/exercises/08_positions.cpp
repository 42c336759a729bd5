#include "08_positions/exercise.hpp"

#include <cmath>

double my_sinusoid(std::size_t position, std::size_t feature, std::size_t d)
{
    const double exponent =
        2.0 * static_cast<double>(feature / 2) / static_cast<double>(d);
    const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
    return feature % 2 == 0 ? std::sin(angle) : std::cos(angle);
}
