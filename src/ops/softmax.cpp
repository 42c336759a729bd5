#include "attn/ops/softmax.hpp"

#include "attn/ops/batch.hpp"
#include "attn/ops/heads.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"

#include <cmath>
#include <limits>

namespace attn {

Matrix softmax(const Matrix& scores) { return softmax(Matrix(scores)); }

Matrix softmax(Matrix&& scores)
{
    // Reducers stand by themselves: inside a larger expression xtensor's would be silently wrong.
    Vector largest = max_along(scores, 1);
    for (double& score : largest)
        if (score == -std::numeric_limits<double>::infinity())
            score = 0; // -inf - -inf would be NaN
    for (std::size_t i = 0; i < scores.shape(0); ++i)
        for (std::size_t j = 0; j < scores.shape(1); ++j)
            scores(i, j) = std::exp(scores(i, j) - largest(i));

    Vector totals = sum_along(scores, 1);
    for (double& total : totals)
        if (total == 0)
            total = 1; // a row that can attend to nothing stays zero
    for (std::size_t i = 0; i < scores.shape(0); ++i)
        for (std::size_t j = 0; j < scores.shape(1); ++j)
            scores(i, j) /= totals(i);
    return std::move(scores);
}

Tensor3 softmax(const Tensor3& scores)
{
    return token_by_token(scores, [](const Matrix& rows) { return softmax(rows); });
}

Tensor4 softmax(const Tensor4& scores) { return as_heads(softmax(as_batch(scores)), scores.shape(0), scores.shape(1)); }

Vector softmax(const Vector& scores)
{
    const Matrix row = xt::view(scores, xt::newaxis(), xt::all());
    const Matrix weights = softmax(row);
    return xt::view(weights, 0, xt::all());
}

Matrix softmax_jacobian(const Vector& weights)
{
    Matrix jacobian = -outer(weights, weights);
    for (std::size_t i = 0; i < weights.size(); ++i)
        jacobian(i, i) += weights(i);
    return jacobian;
}

} // namespace attn
