#include "attn/reference/ops/softmax.hpp"

#include "attn/reference/ops/matmul.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace attn {
namespace {

void softmax_row(std::span<double> scores)
{
    double largest = minus_infinity;
    for (const double score : scores)
        largest = std::max(largest, score);
    if (largest == minus_infinity)
        largest = 0; // -inf - -inf would be NaN

    double total = 0;
    for (double& score : scores)
        total += score = std::exp(score - largest);
    if (total == 0)
        total = 1; // a row that can attend to nothing stays zero
    for (double& score : scores)
        score /= total;
}

template <class T>
T softmax_rows(T scores)
{
    const std::size_t m = scores.shape(scores.dimension() - 1);
    for (std::size_t first = 0; first < scores.size(); first += m)
        softmax_row({scores.data() + first, m});
    return scores;
}

} // namespace

Vector softmax(Vector scores) { return softmax_rows(std::move(scores)); }
Matrix softmax(Matrix scores) { return softmax_rows(std::move(scores)); }
Tensor3 softmax(Tensor3 scores) { return softmax_rows(std::move(scores)); }
Tensor4 softmax(Tensor4 scores) { return softmax_rows(std::move(scores)); }

Matrix softmax_jacobian(const Vector& weights)
{
    Matrix jacobian = -outer(weights, weights);
    for (std::size_t i = 0; i < weights.size(); ++i)
        jacobian(i, i) += weights(i);
    return jacobian;
}

} // namespace attn
