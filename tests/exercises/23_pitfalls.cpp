#include "23_pitfalls/exercise.hpp"

using namespace attn;

Matrix my_repaired_weights(const Matrix& weights)
{
    Matrix repaired = weights;
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        double total = 0;
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            total += weights(i, j);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            repaired(i, j) /= total;
    }
    return repaired;
}
