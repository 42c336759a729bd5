// Lesson 4: other scoring functions.
//
// Attention has three parts: a score per pair of query and key, weights from the scores,
// and the average of the values. This lesson replaces the first part: dot product, scaled
// dot product, additive in two forms, bilinear. Then it leaves softmax out. At the end it
// counts what each score costs.

#include "../lesson.hpp"

#include "attn/reference/attention/additive.hpp"
#include "attn/reference/attention/bilinear.hpp"
#include "attn/reference/attention/cost.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>

using namespace attn;

namespace {

Matrix constant(std::size_t rows, std::size_t columns)
{
    return 0.125 * xt::ones<double>({rows, columns});
}

std::string rounded_text(double ratio)
{
    return std::isfinite(ratio) ? std::to_string(std::lround(ratio)) : "?";
}

/// Seconds of the fastest of several runs.
template <class Work>
double shortest_time(const Work& work)
{
    double shortest = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 5; ++run) {
        const auto start = std::chrono::steady_clock::now();
        work();
        shortest = std::min(shortest, std::chrono::duration<double>(
                                          std::chrono::steady_clock::now() - start)
                                          .count());
    }
    return shortest;
}

/// The additive score of one pair, and the same in its concatenated form.
void score_one_pair(Lesson& lesson, const Matrix& queries, const Matrix& keys,
                    const AdditiveWeights& weights)
{
    const Trace pair = lesson.trace().scope("pair");
    const Vector query = pair("query[d_q]", "queries[0]", Vector(xt::row(queries, 0)));
    const Vector key = pair("key[d_k]", "keys[0]", Vector(xt::row(keys, 0)));

    // Project both to the hidden size, add, apply tanh, and take the dot product with one
    // vector.
    //! [pair]
    const Vector query_part = pair("query_part[d_hidden]", "query @ query_weights",
                                   matmul(query, weights.query));
    const Vector key_part =
        pair("key_part[d_hidden]", "key @ key_weights", matmul(key, weights.key));
    const Vector hidden = pair("hidden[d_hidden]", "tanh(query_part + key_part)",
                               Vector(xt::tanh(query_part + key_part)));
    std::ignore = pair("score", "hidden @ score_weights", dot(hidden, weights.score));
    //! [pair]

    // Query and key in one vector, and both matrices in one: the product is the sum of
    // the two products above.
    //! [both]
    const Vector both =
        pair("both[d_pair]", "concat(query, key, axis=0)", concat(query, key));
    const Vector product = matmul(both, concatenate(weights).hidden);
    const Vector both_hidden =
        pair("both_hidden[d_hidden]",
             "tanh(both @ concat(query_weights, key_weights, axis=0))",
             Vector(xt::tanh(product)));
    //! [both]
    lesson.expect_equal(
        "[query; key] @ [query_weights; key_weights] is the sum of the parts",
        both_hidden, hidden);
}

/// Multiplications of each score, for sizes like those of a real model's head, and the
/// measured times of two of them.
void count(Lesson& lesson)
{
    constexpr std::size_t n = 128, width = 64;
    const ScoringSizes sizes{n, n, width, width, width};
    const Trace cost = lesson.trace().scope("cost");
    const auto number = [&](std::string_view name, std::string_view formula,
                            std::uint64_t value) {
        return static_cast<double>(cost(name, formula, static_cast<std::int64_t>(value)));
    };
    number("n", "", sizes.n);
    number("m", "", sizes.m);
    number("d", "", sizes.d_k);
    number("d_hidden", "", sizes.d_hidden);
    //! [cost]
    const double dot =
        number("dot", "n * m * d", dot_product_cost(sizes).multiplications);
    number("scaled", "n * m * d + n * m", scaled_dot_product_cost(sizes).multiplications);
    number("bilinear", "n * d * d + n * m * d", bilinear_cost(sizes).multiplications);
    const double additive =
        number("additive", "(n + m) * d * d_hidden + n * m * d_hidden",
               additive_cost(sizes).multiplications);
    number("additive_tanhs", "n * m * d_hidden", additive_cost(sizes).tanhs);
    number("concatenated", "n * m * (d + d) * d_hidden + n * m * d_hidden",
           concatenated_cost(sizes).multiplications);
    //! [cost]
    const double ratio = cost("ratio", "additive / dot", additive / dot);

    if (lesson.is_altered() || !lesson.is_example())
        return; // the time is measured without the change, which has no part in it
    const Matrix tokens = constant(n, width);
    const AdditiveWeights weights{constant(width, width), constant(width, width),
                                  Vector({width}, 0.125)};
    const double dot_time =
        shortest_time([&] { scaled_dot_product_attention(tokens, tokens, tokens); });
    const double additive_time =
        shortest_time([&] { additive_attention(tokens, tokens, tokens, weights); });
    lesson.say(rounded_text(ratio) +
               " times the multiplications of a dot product; measured just now, additive "
               "attention took " +
               rounded_text(additive_time / dot_time) +
               " times as long as scaled dot-product attention");
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Queries, keys and values: those of lesson 2");
    const Matrix queries =
        lesson.input("queries[n, d_q]", Matrix{{1, 0, 2}, {2, 2, 2}, {2, 1, 3}});
    const Matrix keys =
        lesson.input("keys[m, d_k]", Matrix{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}});
    const Matrix values =
        lesson.input("values[m, d_v]", Matrix{{1, 2, 3}, {2, 8, 0}, {2, 6, 3}});

    lesson.heading("2. Dot product, and dot product divided by the root of d_k");
    const Trace::Aliases own{
        {"queries", "queries"}, {"keys", "keys"}, {"values", "values"}};
    //! [dot]
    const Trace dot = trace.scope("dot", own);
    dot_product_attention(queries, keys, values, {}, dot);
    const Trace scaled = trace.scope("scaled_dot", own);
    scaled_dot_product_attention(queries, keys, values, {}, scaled);
    //! [dot]

    lesson.heading("3. The additive score of one pair");
    AdditiveWeights weights;
    weights.query = lesson.input(
        "query_weights[d_q, d_hidden]",
        Matrix{{0.5, -0.25, 0, 0.25}, {0, 0.5, -0.5, 0.25}, {-0.25, 0, 0.5, 0.25}});
    weights.key = lesson.input(
        "key_weights[d_k, d_hidden]",
        Matrix{{0.25, 0, -0.25, 0.5}, {0.25, -0.5, 0, 0}, {0, 0.5, 0.25, -0.5}});
    weights.score = lesson.input("score_weights[d_hidden]", Vector{1, -1, 2, 0.5});
    score_one_pair(lesson, queries, keys, weights);

    lesson.heading("4. Additive scores of all pairs, also in the concatenated form");
    //! [additive]
    const Trace additive = trace.scope("additive", own);
    const Attention by_sum =
        additive_attention(queries, keys, values, weights, {}, additive);
    //! [additive]

    const Trace concatenated = trace.scope("concatenated", own);
    const ConcatenatedWeights joined{
        concatenated("hidden_weights[d_pair, d_hidden]",
                     "concat(query_weights, key_weights, axis=0)",
                     concatenate(weights).hidden),
        weights.score};
    //! [concatenated]
    const Attention by_pairs =
        concatenated_attention(queries, keys, values, joined, {}, concatenated);
    //! [concatenated]
    lesson.expect_equal("the concatenated form gives the same weights", by_pairs.weights,
                        by_sum.weights);
    lesson.expect_equal("and the same context", by_pairs.context, by_sum.context);

    lesson.heading("5. Queries of another size: bilinear and additive scores work");
    const Matrix short_queries =
        lesson.input("short_queries[n, d_short]", Matrix{{1, 2}, {2, 2}, {0, 1}});
    const Matrix bilinear_weights = lesson.input("bilinear_weights[d_short, d_k]",
                                                 Matrix{{0.5, 0, -0.5}, {0, 0.25, 0.5}});
    const Trace::Aliases of_another_size{
        {"queries", "short_queries"}, {"keys", "keys"}, {"values", "values"}};
    //! [bilinear]
    const Trace bilinear = trace.scope("bilinear", of_another_size);
    bilinear_attention(short_queries, keys, values, bilinear_weights, {}, bilinear);
    //! [bilinear]

    const Matrix short_query_weights =
        lesson.input("short_query_weights[d_short, d_hidden]",
                     Matrix{{0.5, 0, -0.5, 0.25}, {-0.25, 0.5, 0.25, 0}});
    const Trace short_additive = trace.scope("short_additive", of_another_size);
    short_additive.alias("query_weights", "short_query_weights");
    additive_attention(short_queries, keys, values,
                       {short_query_weights, weights.key, weights.score}, {},
                       short_additive);

    lesson.heading("6. Without softmax: the scores are the weights");
    //! [unnormalized]
    const Trace unnormalized = trace.scope("unnormalized", own);
    const Attention linear = dot_product_attention(
        queries, keys, values, {.normalization = Normalization::none}, unnormalized);
    //! [unnormalized]
    //! [regrouped]
    const Matrix keys_with_values = unnormalized(
        "keys_with_values[d_k, d_v]", "keys.T @ values", matmul(transpose(keys), values));
    const Matrix regrouped =
        unnormalized("regrouped[n, d_v]", "queries @ keys_with_values",
                     matmul(queries, keys_with_values));
    //! [regrouped]
    lesson.expect_equal(
        "without softmax, (Q K^T) V is Q (K^T V): no n-by-m matrix is needed", regrouped,
        linear.context);

    lesson.heading("7. What each score costs, in multiplications");
    count(lesson);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("04_scoring", argc, argv, teach); }
