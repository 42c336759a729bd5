#pragma once

// The gradient at softmax's input, for keys of 1 to 1024 features.

#include "../lesson.hpp"
#include "depth.hpp"
#include "gradients_by_hand.hpp"

#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace attn {

/// The gradient at softmax's input, when random numbers arrive at the weights.
/// @return its mean norm, and the share of queries with hardly any
inline std::pair<double, double> reach_scores(const Trace& trace,
                                              std::string_view formula,
                                              const Matrix& given_scores,
                                              const Matrix& arriving)
{
    //! [reach]
    const Matrix scores = trace("scores[n, m]", formula, given_scores);
    const Matrix weights = trace("weights[n, m]", "softmax(scores)", softmax(scores));
    const Matrix reached =
        trace("reached[n, m]",
              "weights * (arriving - sum(arriving * weights, axis=1, keepdims=True))",
              gradient_of_scores(weights, arriving));
    const Vector norms =
        trace("norms[n]", "sqrt(sum(reached ** 2, axis=1))", norms_of_rows(reached));
    //! [reach]
    const double mean = trace("mean", "mean(norms)", mean_all(norms));
    const double stuck = trace("stuck", "mean(norms < 0.01)",
                               mean_all(Vector(xt::cast<double>(norms < 0.01))));
    return {mean, stuck};
}

/// The same 32 queries and keys by their first 1, 4, ... 1024 features.
inline void saturate(Lesson& lesson)
{
    constexpr std::size_t n = 32, features = 1024;
    RandomNumbers numbers(14);
    const Trace random = lesson.trace().scope("random");
    const double spread = std::sqrt(3); // for the variance 1
    const Matrix queries =
        random("queries[n, d]", "", numbers.matrix(n, features, spread));
    const Matrix keys = random("keys[m, d]", "", numbers.matrix(n, features, spread));
    const Matrix arriving = random("arriving[n, m]", "", numbers.matrix(n, n, spread));
    std::vector<std::vector<double>> rows;
    for (std::size_t d_k = 1; d_k <= features; d_k *= 4) {
        const Trace trace = random.scope("d_k", d_k);
        const std::string first = "[:, 0:" + std::to_string(d_k) + "]";
        const Matrix scores =
            matmul(columns(queries, 0, d_k), transpose(columns(keys, 0, d_k)));
        const std::string formula = "queries" + first + " @ keys" + first + ".T";
        const Trace unscaled = trace.scope("unscaled"), scaled = trace.scope("scaled");
        const auto [mean, stuck] = reach_scores(unscaled, formula, scores, arriving);
        const double d = static_cast<double>(d_k);
        const auto [scaled_mean, scaled_stuck] =
            reach_scores(scaled, formula + " / sqrt(" + std::to_string(d_k) + ")",
                         Matrix(scores / std::sqrt(d)), arriving);
        rows.push_back({d, mean, stuck, scaled_mean, scaled_stuck});
    }
    lesson.table({"d_k", "mean norm unscaled", "below 0.01", "scaled", "below 0.01"},
                 rows);
}

} // namespace attn
