// Lesson 3: why scores are divided by the square root of d_k, and how softmax keeps from
// overflowing.
//
// A dot product adds up d_k products. If their factors are independent, with mean 0 and
// variance 1, the sum has mean 0 and variance d_k: the more features, the larger the
// scores. With large scores softmax gives almost all weight to one key, and its
// derivative is almost zero there, so that training changes nothing.

#include "../lesson.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

/// Scores, and what softmax makes of them.
struct Softened {
    double variance, largest, slope;
};

std::vector<std::size_t> feature_counts(std::size_t all);
Term<double> variance_of(const Term<Matrix>& x);
Softened soften(const Trace& trace, const Term<Matrix>& scores);
void sharpen(Lesson& lesson);
void overflow(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Stored queries and keys: independent, mean 0, variance 1");
    const Term queries = lesson.stored<Matrix>("queries[n, d]", "inputs.npz");
    const Term keys = lesson.stored<Matrix>("keys[m, d]", "inputs.npz");
    lesson.table({"variance: of queries", "of keys"},
                 {{*trace("query_variance", variance_of(queries)),
                   *trace("key_variance", variance_of(keys))}});

    lesson.heading("2. Their dot products, by the first 4, 16, 64, ... features");
    std::vector<std::vector<double>> variances, largest, slopes;
    for (const std::size_t d_k :
         feature_counts(std::min(queries.shape(1), keys.shape(1)))) {
        const Trace first = trace.scope("d_k", d_k);
        //! [scores]
        const Term q = first("queries[n, d_k]", matrix_columns(queries, 0, d_k));
        const Term k = first("keys[m, d_k]", matrix_columns(keys, 0, d_k));
        const Term scores = first("scores[n, m]", matmul(q, transpose(k)));
        const Term mean = first("mean", mean_all(scores));
        //! [scores]
        const Softened unscaled = soften(first, scores);

        //! [quotients]
        const Trace root = first.scope("by_root"), whole = first.scope("by_d_k");
        const Softened by_root =
            soften(root, root("scaled[n, m]", scores / sqrt(size_along(k, 1))));
        const Softened by_d_k =
            soften(whole, whole("scaled[n, m]", scores / size_along(k, 1)));
        //! [quotients]
        const auto d = static_cast<double>(d_k);
        variances.push_back(
            {d, *mean, unscaled.variance, by_root.variance, by_d_k.variance});
        largest.push_back({d, unscaled.largest, by_root.largest, by_d_k.largest});
        slopes.push_back({d, unscaled.slope, by_root.slope, by_d_k.slope});
    }

    lesson.heading(
        "3. The scores: their mean, and their variance by what they are divided by");
    lesson.table({"d_k", "mean", "variance: of scores", "over the root", "over d_k"},
                 variances);

    lesson.heading("4. The largest weight of a query, and softmax's slope");
    lesson.table({"d_k", "largest: of scores", "over the root", "over d_k"}, largest);
    lesson.table({"d_k", "slope: of scores", "over the root", "over d_k"}, slopes);

    lesson.heading(
        "5. Larger scores: softmax nearer to one-hot, its Jacobian nearer to 0");
    sharpen(lesson);

    lesson.heading("6. A softmax that overflows, and one that does not");
    overflow(lesson);
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

/// The mean of the squared distances from the mean.
Term<double> variance_of(const Term<Matrix>& x)
{
    return mean_all(square(x - mean_all(x)));
}

/// The largest weight of each query is 1 where the query takes one key only. The slope,
/// the trace of softmax's Jacobian, is sum_i p_i (1 - p_i): 0 where no score has an
/// effect. Both are averaged over the queries.
Softened soften(const Trace& trace, const Term<Matrix>& scores)
{
    //! [weights]
    const Term variance = trace("variance", variance_of(scores));
    const Term weights = trace("weights[n, m]", softmax(scores));
    const Term largest = trace("largest", mean_all(max_along(weights, 1)));
    const Term slope = trace("slope", mean_all(sum_along(weights * (1 - weights), 1)));
    //! [weights]
    return {*variance, *largest, *slope};
}

/// One row of scores, multiplied: softmax approaches one-hot, its Jacobian approaches
/// zero.
void sharpen(Lesson& lesson)
{
    const Term row = lesson.trace().given("row[m]", Vector{1, 2, 3});
    std::vector<std::vector<double>> table;
    for (const std::size_t factor : {1, 4, 16}) {
        const Trace trace = lesson.trace().scope("times", factor);
        const auto times = static_cast<double>(factor);
        //! [jacobian]
        const Term scores = trace("scores[m]", row * times);
        const Term weights = trace("weights[m]", softmax(scores));
        const Term jacobian =
            trace("jacobian[m, m]", diag(weights) - outer(weights, weights));
        //! [jacobian]
        table.push_back({times, (*weights)(2), (*jacobian)(2, 2)});
    }
    lesson.table({"times", "largest weight", "its slope"}, table);
}

/// Scores too large for exp: softmax by its definition, and softmax after the largest
/// score is subtracted.
void overflow(Lesson& lesson)
{
    const Trace large = lesson.trace().scope("large");
    const Term scores = large.given("scores[m]", Vector{1000, 1001, 1002});

    const Trace naive = large.scope("naive");
    lesson.expect_overflow("large.naive");
    //! [naive]
    const Term too_large = naive("exponentials[m]", exp(scores));
    const Term undefined = naive("weights[m]", too_large / sum_all(too_large));
    //! [naive]
    lesson.expect("exp(1000) is infinite, and infinity over infinity is not a number",
                  std::isnan((*undefined)(0)));

    // Subtracting one number from all scores divides numerator and denominator by the
    // same factor.
    const Trace shifted = large.scope("shifted");
    //! [shifted]
    const Term differences = shifted("scores[m]", scores - max_all(scores));
    const Term exponentials = shifted("exponentials[m]", exp(differences));
    const Term weights = shifted("weights[m]", exponentials / sum_all(exponentials));
    //! [shifted]
    lesson.expect_equal("softmax subtracts the largest score first", softmax(scores),
                        weights);
    lesson.expect_equal("so scores 0, 1, 2 give the same weights",
                        softmax(Term(Vector{0, 1, 2})), weights);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("03_scale_and_softmax", argc, argv, teach);
}
