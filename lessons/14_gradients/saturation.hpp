#pragma once

// The gradient at softmax's input, for keys of 1 to 1024 features.

#include "../lesson.hpp"

#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace attn {

/// The gradient at softmax's input, when random numbers arrive at the weights.
/// @return its mean norm, and the share of queries with hardly any
inline std::pair<double, double> reach_scores(const Trace& trace,
                                              const Term<Matrix>& of_pairs,
                                              const Term<Matrix>& arriving)
{
    //! [reach]
    const Term scores = trace("scores[n, m]", of_pairs);
    const Term weights = trace("weights[n, m]", softmax(scores));
    const Term mean_arriving = sum_along(arriving * weights, 1, keepdims);
    const Term reached = trace("reached[n, m]", weights * (arriving - mean_arriving));
    const Term norms = trace("norms[n]", sqrt(sum_along(square(reached), 1)));
    //! [reach]
    const Term mean = trace("mean", mean_all(norms));
    // Terms have no vectors of booleans.
    const double stuck = trace("stuck", "mean(norms < 0.01)",
                               mean_all(Vector(xt::cast<double>(*norms < 0.01))));
    return {*mean, stuck};
}

/// The same 32 queries and keys by their first 1, 4, ... 1024 features.
inline void saturate(Lesson& lesson)
{
    constexpr std::size_t n = 32, features = 1024;
    RandomNumbers numbers(14);
    const Trace random = lesson.trace().scope("random");
    const double spread = std::sqrt(3); // for the variance 1
    const Term queries =
        random.given("queries[n, d]", numbers.matrix(n, features, spread));
    const Term keys = random.given("keys[m, d]", numbers.matrix(n, features, spread));
    const Term arriving = random.given("arriving[n, m]", numbers.matrix(n, n, spread));
    std::vector<std::vector<double>> rows;
    for (std::size_t d_k = 1; d_k <= features; d_k *= 4) {
        const Trace trace = random.scope("d_k", d_k);
        const Trace unscaled = trace.scope("unscaled"), scaled = trace.scope("scaled");
        const Term scores = matmul(matrix_columns(queries, 0, d_k),
                                   transpose(matrix_columns(keys, 0, d_k)));
        const Term d = number(static_cast<double>(d_k), trace);
        const auto [mean, stuck] = reach_scores(unscaled, scores, arriving);
        const auto [scaled_mean, scaled_stuck] =
            reach_scores(scaled, scores / sqrt(d), arriving);
        rows.push_back({*d, mean, stuck, scaled_mean, scaled_stuck});
    }
    lesson.table({"d_k", "mean norm unscaled", "below 0.01", "scaled", "below 0.01"},
                 rows);
}

} // namespace attn
