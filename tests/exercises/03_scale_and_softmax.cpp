#include "03_scale_and_softmax/exercise.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

Vector my_softmax(const Vector& scores)
{
    Vector weights({scores.size()}, 0.0);
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (std::size_t j = 0; j < scores.size(); ++j)
        sum += weights(j) = std::exp(scores(j) - largest);
    for (double& weight : weights)
        weight /= sum;
    return weights;
}

double my_divisor(std::size_t d_k, double variance)
{
    return std::sqrt(static_cast<double>(d_k) * variance * variance);
}
