#include "attn/ops/softmax.hpp"

#include "attn/ops/batch.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"

#include <limits>

namespace attn {

Matrix softmax(const Matrix& scores)
{
    // Every reducer gets a name first: inside a larger expression xtensor's would be silently wrong.
    Vector largest = max_along(scores, 1);
    for (double& score : largest)
        if (score == -std::numeric_limits<double>::infinity())
            score = 0; // -inf - -inf would be NaN

    const Matrix exponentials = xt::exp(scores - xt::view(largest, xt::all(), xt::newaxis()));
    Vector totals = sum_along(exponentials, 1);
    for (double& total : totals)
        if (total == 0)
            total = 1; // a row that may attend to nothing stays zero

    return exponentials / xt::view(totals, xt::all(), xt::newaxis());
}

Tensor3 softmax(const Tensor3& scores)
{
    return token_by_token(scores, [](const Matrix& rows) { return softmax(rows); });
}

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
