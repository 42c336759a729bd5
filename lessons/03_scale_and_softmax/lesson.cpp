// Lesson 3: why scores are divided by the square root of d_k, and how softmax keeps from
// overflowing.
//
// A dot product adds up d_k products. If their factors are independent, with mean 0 and
// variance 1, the sum has mean 0 and variance d_k: the more features, the larger the
// scores. With large scores softmax gives almost all weight to one key, and its
// derivative is almost zero there, so that training changes nothing.

#include "../lesson.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

/// The largest weight of each query, averaged over the queries: 1 where each query takes
/// one key only.
double mean_largest(const Matrix& weights) { return mean_all(max_along(weights, 1)); }

/// The trace of softmax's Jacobian, sum_i p_i (1 - p_i), averaged over the queries: 0
/// where no score has an effect.
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

/// Scores, and what softmax makes of them.
struct Softened {
    double variance, largest, slope;
};

/// The measurements for one number of features: of the scores, and of two quotients.
struct Measured {
    double d_k, mean;
    Softened unscaled, by_root, by_d_k;
};

/// Softmax of scores that were divided by something.
Softened soften(const Trace& trace, std::string_view formula, const Matrix& quotient)
{
    //! [divided]
    const Matrix scaled = trace("scaled[n, m]", formula, quotient);
    const double variance =
        trace("variance", "mean((scaled - mean(scaled)) ** 2)", variance_all(scaled));
    const Matrix weights = trace("weights[n, m]", "softmax(scaled)", softmax(scaled));
    const double largest =
        trace("largest", "mean(max(weights, axis=1))", mean_largest(weights));
    const double slope =
        trace("slope", "mean(sum(weights * (1 - weights), axis=1))", mean_slope(weights));
    //! [divided]
    return {variance, largest, slope};
}

/// Scores by the first d_k features: as they are, divided by the root of d_k, and divided
/// by d_k.
Measured measure(const Trace& trace, const Matrix& all_queries, const Matrix& all_keys,
                 std::size_t d_k)
{
    const std::string first = "[:, 0:" + std::to_string(d_k) + "]";
    const Matrix queries =
        trace("queries[n, d_k]", "queries" + first, first_features(all_queries, d_k));
    const Matrix keys =
        trace("keys[m, d_k]", "keys" + first, first_features(all_keys, d_k));

    //! [scores]
    const Matrix scores =
        trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const double mean = trace("mean", "mean(scores)", mean_all(scores));
    const double variance =
        trace("variance", "mean((scores - mean(scores)) ** 2)", variance_all(scores));
    //! [scores]
    //! [weights]
    const Matrix weights = trace("weights[n, m]", "softmax(scores)", softmax(scores));
    const double largest =
        trace("largest", "mean(max(weights, axis=1))", mean_largest(weights));
    const double slope =
        trace("slope", "mean(sum(weights * (1 - weights), axis=1))", mean_slope(weights));
    //! [weights]

    //! [quotients]
    const double d = static_cast<double>(d_k);
    const Softened by_root =
        soften(trace.scope("by_root"), "scores / sqrt(keys.shape[1])",
               Matrix(scores / std::sqrt(d)));
    const Softened by_d_k =
        soften(trace.scope("by_d_k"), "scores / keys.shape[1]", Matrix(scores / d));
    //! [quotients]

    return {d, mean, {variance, largest, slope}, by_root, by_d_k};
}

/// One row of scores, multiplied: softmax approaches one-hot, its Jacobian approaches
/// zero.
void sharpen(Lesson& lesson)
{
    const Vector row = lesson.trace()("row[m]", "", Vector{1, 2, 3});
    std::vector<std::vector<double>> table;
    for (const std::size_t factor : {1, 4, 16}) {
        const Trace trace = lesson.trace().scope("times", factor);
        const Vector scores = trace("scores[m]", "row * " + std::to_string(factor),
                                    Vector(static_cast<double>(factor) * row));
        //! [jacobian]
        const Vector weights = trace("weights[m]", "softmax(scores)", softmax(scores));
        const Matrix jacobian =
            trace("jacobian[m, m]", "diag(weights) - outer(weights, weights)",
                  softmax_jacobian(weights));
        //! [jacobian]
        table.push_back({static_cast<double>(factor), weights(2), jacobian(2, 2)});
    }
    lesson.table({"times", "largest weight", "its slope"}, table);
}

/// Scores too large for exp: softmax by its definition, and softmax after the largest
/// score is subtracted.
void overflow(Lesson& lesson)
{
    const Trace large = lesson.trace().scope("large");
    const Vector scores = large("scores[m]", "", Vector{1000, 1001, 1002});

    const Trace naive = large.scope("naive");
    lesson.expect_overflow("large.naive");
    //! [naive]
    const Vector too_large =
        naive("exponentials[m]", "exp(scores)", Vector(xt::exp(scores)));
    const Vector undefined = naive("weights[m]", "exponentials / sum(exponentials)",
                                   Vector(too_large / sum_all(too_large)));
    //! [naive]
    lesson.expect("exp(1000) is infinite, and infinity over infinity is not a number",
                  std::isnan(undefined(0)));

    // Subtracting one number from all scores divides numerator and denominator by the
    // same factor.
    const Trace shifted = large.scope("shifted");
    //! [shifted]
    const Vector differences =
        shifted("scores[m]", "scores - max(scores)", Vector(scores - max_all(scores)));
    const Vector exponentials =
        shifted("exponentials[m]", "exp(scores)", Vector(xt::exp(differences)));
    const Vector weights = shifted("weights[m]", "exponentials / sum(exponentials)",
                                   Vector(exponentials / sum_all(exponentials)));
    //! [shifted]
    lesson.expect_equal("softmax subtracts the largest score first", softmax(scores),
                        weights);
    lesson.expect_equal("so scores 0, 1, 2 give the same weights",
                        softmax(Vector{0, 1, 2}), weights);
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Stored queries and keys: independent, mean 0, variance 1");
    const Matrix queries = lesson.stored<Matrix>("queries[n, d]", "inputs.npz");
    const Matrix keys = lesson.stored<Matrix>("keys[m, d]", "inputs.npz");
    lesson.table(
        {"variance: of queries", "of keys"},
        {{trace("query_variance", "mean((queries - mean(queries)) ** 2)",
                variance_all(queries)),
          trace("key_variance", "mean((keys - mean(keys)) ** 2)", variance_all(keys))}});

    lesson.heading("2. Their dot products, by the first 4, 16, 64, ... features");
    std::vector<std::vector<double>> scores, largest, slopes;
    for (const std::size_t d_k :
         feature_counts(std::min(queries.shape(1), keys.shape(1)))) {
        const auto [d, mean, unscaled, by_root, by_d_k] =
            measure(trace.scope("d_k", d_k), queries, keys, d_k);
        scores.push_back({d, mean, unscaled.variance, by_root.variance, by_d_k.variance});
        largest.push_back({d, unscaled.largest, by_root.largest, by_d_k.largest});
        slopes.push_back({d, unscaled.slope, by_root.slope, by_d_k.slope});
    }

    lesson.heading(
        "3. The scores: their mean, and their variance by what they are divided by");
    lesson.table({"d_k", "mean", "variance: of scores", "over the root", "over d_k"},
                 scores);

    lesson.heading("4. The largest weight of a query, and softmax's slope");
    lesson.table({"d_k", "largest: of scores", "over the root", "over d_k"}, largest);
    lesson.table({"d_k", "slope: of scores", "over the root", "over d_k"}, slopes);

    lesson.heading(
        "5. Larger scores: softmax nearer to one-hot, its Jacobian nearer to 0");
    sharpen(lesson);

    lesson.heading("6. A softmax that overflows, and one that does not");
    overflow(lesson);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("03_scale_and_softmax", argc, argv, teach);
}
