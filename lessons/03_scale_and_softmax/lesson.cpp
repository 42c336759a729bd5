// Lesson 3: why scores are divided by the square root of d_k, and how softmax keeps from overflowing.
//
// A dot product adds up d_k products. If their factors are independent, with mean 0 and variance 1, the sum has mean 0
// and variance d_k: the more features, the larger the scores. Large scores make softmax pick one key and ignore the
// rest, and there its slope is zero: nothing can be learned.

#include "../lesson.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/ops/softmax.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

/// How much of its weight a query gives to the key that it likes best, averaged over the queries: 1 is one-hot.
double mean_largest(const Matrix& weights) { return mean_all(max_along(weights, 1)); }

/// The trace of softmax's Jacobian, sum_i p_i (1 - p_i), averaged over the queries: 0 means that no score matters.
double mean_slope(const Matrix& weights)
{
    const Matrix slopes = weights * (1.0 - weights);
    return mean_all(sum_along(slopes, 1));
}

Matrix first_features(const Matrix& tokens, std::size_t count)
{
    return xt::view(tokens, xt::all(), xt::range(std::size_t{0}, count));
}

/// The numbers of features to compare: 4, 16, 64, ... up to all that there are.
std::vector<std::size_t> feature_counts(std::size_t all)
{
    std::vector<std::size_t> counts;
    for (std::size_t count = 4; count < all; count *= 4)
        counts.push_back(count);
    counts.push_back(all);
    return counts;
}

/// What one number of features gives.
struct Measured {
    double d_k, mean, variance, largest, slope, scaled_variance, scaled_largest,
        scaled_slope;
};

//! [measure]
/// Scores by the first d_k features, unscaled and scaled, and what softmax makes of them.
Measured measure(const Trace& trace, const Matrix& all_queries, const Matrix& all_keys,
                 std::size_t d_k)
{
    const std::string first = "[:, 0:" + std::to_string(d_k) + "]";
    const Matrix queries =
        trace("queries[n, d_k]", "queries" + first, first_features(all_queries, d_k));
    const Matrix keys =
        trace("keys[m, d_k]", "keys" + first, first_features(all_keys, d_k));

    const Matrix scores =
        trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const double mean = trace("mean", "mean(scores)", mean_all(scores));
    const double variance =
        trace("variance", "mean((scores - mean(scores)) ** 2)", variance_all(scores));
    const Matrix weights = trace("weights[n, m]", "softmax(scores)", softmax(scores));
    const double largest =
        trace("largest", "mean(max(weights, axis=1))", mean_largest(weights));
    const double slope =
        trace("slope", "mean(sum(weights * (1 - weights), axis=1))", mean_slope(weights));

    const Trace by_root = trace.scope("by_root");
    const Matrix scaled = by_root("scaled[n, m]", "scores / sqrt(keys.shape[1])",
                                  Matrix(scores / std::sqrt(static_cast<double>(d_k))));
    const double scaled_variance =
        by_root("variance", "mean((scaled - mean(scaled)) ** 2)", variance_all(scaled));
    const Matrix scaled_weights =
        by_root("weights[n, m]", "softmax(scaled)", softmax(scaled));
    const double scaled_largest =
        by_root("largest", "mean(max(weights, axis=1))", mean_largest(scaled_weights));
    const double scaled_slope =
        by_root("slope", "mean(sum(weights * (1 - weights), axis=1))",
                mean_slope(scaled_weights));

    return {static_cast<double>(d_k), mean,           variance,    largest, slope,
            scaled_variance,          scaled_largest, scaled_slope};
}
//! [measure]

//! [jacobian]
/// One row of scores made larger and larger: softmax goes to one-hot, its Jacobian to zero.
void sharpen(Lesson& lesson)
{
    const Vector row = lesson.trace()("row[m]", "", Vector{1, 2, 3});
    std::vector<std::vector<double>> table;
    for (const std::size_t factor : {1, 4, 16}) {
        const Trace trace = lesson.trace().scope("times", factor);
        const Vector scores = trace("scores[m]", "row * " + std::to_string(factor),
                                    Vector(static_cast<double>(factor) * row));
        const Vector weights = trace("weights[m]", "softmax(scores)", softmax(scores));
        const Matrix jacobian =
            trace("jacobian[m, m]", "diag(weights) - outer(weights, weights)",
                  softmax_jacobian(weights));
        table.push_back({static_cast<double>(factor), weights(2), jacobian(2, 2)});
    }
    lesson.table({"times", "largest weight", "its slope"}, table);
}
//! [jacobian]

//! [overflow]
/// Softmax by its definition and softmax after subtracting the largest score, of scores too large for exp.
void overflow(Lesson& lesson)
{
    const Trace large = lesson.trace().scope("large");
    const Vector scores = large("scores[m]", "", Vector{1000, 1001, 1002});

    const Trace naive = large.scope("naive");
    const Vector too_large =
        naive("exponentials[m]", "exp(scores)", Vector(xt::exp(scores)));
    const Vector undefined = naive("weights[m]", "exponentials / sum(exponentials)",
                                   Vector(too_large / sum_all(too_large)));
    lesson.expect("exp(1000) is infinite, and infinity over infinity is not a number",
                  std::isnan(undefined(0)));

    // Subtracting the same number from all scores multiplies numerator and denominator alike.
    const Trace shifted = large.scope("shifted");
    const Vector differences =
        shifted("scores[m]", "scores - max(scores)", Vector(scores - max_all(scores)));
    const Vector exponentials =
        shifted("exponentials[m]", "exp(scores)", Vector(xt::exp(differences)));
    const Vector weights = shifted("weights[m]", "exponentials / sum(exponentials)",
                                   Vector(exponentials / sum_all(exponentials)));
    lesson.expect_equal("softmax subtracts the largest score first", softmax(scores),
                        weights);
    lesson.expect_equal("and so sees differences only", softmax(Vector{0, 1, 2}),
                        weights);
}
//! [overflow]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Stored queries and keys, independent, with mean 0 and variance 1");
    const Matrix queries = lesson.stored<Matrix>("queries[n, d]", "inputs.npz");
    const Matrix keys = lesson.stored<Matrix>("keys[m, d]", "inputs.npz");
    lesson.table(
        {"variance: of queries", "of keys"},
        {{trace("query_variance", "mean((queries - mean(queries)) ** 2)",
                variance_all(queries)),
          trace("key_variance", "mean((keys - mean(keys)) ** 2)", variance_all(keys))}});

    //! [table]
    lesson.heading("2. Their dot products, by the first 4, 16, 64, ... features");
    std::vector<std::vector<double>> scores, weights;
    for (const std::size_t d_k :
         feature_counts(std::min(queries.shape(1), keys.shape(1)))) {
        const Measured of = measure(trace.scope("d_k", d_k), queries, keys, d_k);
        scores.push_back({of.d_k, 0, of.mean, of.d_k, of.variance, of.scaled_variance});
        weights.push_back(
            {of.d_k, of.largest, of.slope, of.scaled_largest, of.scaled_slope});
    }

    lesson.heading("3. The scores: mean 0 and variance d_k, as predicted; and variance 1 "
                   "after division by the root");
    lesson.table({"d_k", "mean: predicted", "measured", "variance: predicted", "measured",
                  "scaled"},
                 scores);

    lesson.heading("4. The weights: the largest of a query, and softmax's slope, "
                   "unscaled beside scaled");
    lesson.table({"d_k", "largest", "slope", "scaled: largest", "slope"}, weights);
    //! [table]

    lesson.heading("5. Why it matters: larger scores, softmax nearer to one-hot, its "
                   "Jacobian nearer to zero");
    sharpen(lesson);

    lesson.heading("6. A softmax that overflows, and one that doesn't");
    overflow(lesson);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("03_scale_and_softmax", argc, argv, teach);
}
