#include "14_gradients/exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_score_gradient(const Matrix& weights, const Matrix& arriving)
{
    Matrix gradient = xt::zeros<double>(weights.shape());
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        double mean = 0;
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            mean += weights(i, j) * arriving(i, j);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            gradient(i, j) = weights(i, j) * (arriving(i, j) - mean);
    }
    return gradient;
}

Matrix my_key_gradient(const Matrix& arriving, const Matrix& queries)
{
    Matrix gradient = xt::zeros<double>({arriving.shape(1), queries.shape(1)});
    const double root = std::sqrt(static_cast<double>(queries.shape(1)));
    for (std::size_t i = 0; i < arriving.shape(0); ++i)
        for (std::size_t j = 0; j < arriving.shape(1); ++j)
            for (std::size_t k = 0; k < queries.shape(1); ++k)
                gradient(j, k) += arriving(i, j) * queries(i, k) / root;
    return gradient;
}
