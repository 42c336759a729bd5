#include "01_single_query/exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_scores(const Vector& query, const Matrix& keys)
{
    Vector scores({keys.shape(0)}, 0.0);
    for (std::size_t j = 0; j < keys.shape(0); ++j)
        for (std::size_t i = 0; i < query.size(); ++i)
            scores(j) += query(i) * keys(j, i);
    return scores;
}

Vector my_weights(const Vector& scores)
{
    Vector weights({scores.size()}, 0.0);
    double sum = 0;
    for (std::size_t j = 0; j < scores.size(); ++j)
        sum += weights(j) = std::exp(scores(j));
    for (double& weight : weights)
        weight /= sum;
    return weights;
}

Vector my_output(const Vector& weights, const Matrix& values)
{
    Vector output({values.shape(1)}, 0.0);
    for (std::size_t j = 0; j < weights.size(); ++j)
        for (std::size_t i = 0; i < output.size(); ++i)
            output(i) += weights(j) * values(j, i);
    return output;
}
