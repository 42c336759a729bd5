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

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

using namespace attn;

namespace {

void count(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Queries, keys and values: those of lesson 2");
    const Term queries =
        lesson.input("queries[n, d_q]", Matrix{{1, 0, 2}, {2, 2, 2}, {2, 1, 3}});
    const Term keys =
        lesson.input("keys[m, d_k]", Matrix{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}});
    const Term values =
        lesson.input("values[m, d_v]", Matrix{{1, 2, 3}, {2, 8, 0}, {2, 6, 3}});

    lesson.heading("2. Dot product, and dot product divided by the root of d_k");
    const Trace dot_product = trace.scope("dot"), scaled = trace.scope("scaled_dot");
    //! [dot]
    dot_product_attention(queries, keys, values, {}, dot_product);
    scaled_dot_product_attention(queries, keys, values, {}, scaled);
    //! [dot]

    lesson.heading("3. The additive score of one pair");
    const Term query_weights = lesson.input(
        "query_weights[d_q, d_hidden]",
        Matrix{{0.5, -0.25, 0, 0.25}, {0, 0.5, -0.5, 0.25}, {-0.25, 0, 0.5, 0.25}});
    const Term key_weights = lesson.input(
        "key_weights[d_k, d_hidden]",
        Matrix{{0.25, 0, -0.25, 0.5}, {0.25, -0.5, 0, 0}, {0, 0.5, 0.25, -0.5}});
    const Term score_weights =
        lesson.input("score_weights[d_hidden]", Vector{1, -1, 2, 0.5});

    // Project both to the hidden size, add, apply tanh, and take the dot product with one
    // vector.
    const Trace pair = trace.scope("pair");
    //! [pair]
    const Term query = pair("query[d_q]", row(queries, 0));
    const Term key = pair("key[d_k]", row(keys, 0));
    const Term query_part = pair("query_part[d_hidden]", matmul(query, query_weights));
    const Term key_part = pair("key_part[d_hidden]", matmul(key, key_weights));
    const Term hidden = pair("hidden[d_hidden]", tanh(query_part + key_part));
    std::ignore = pair("score", "hidden @ score_weights", dot(*hidden, *score_weights));
    //! [pair]

    // Query and key in one vector, and both matrices in one: the product is the sum of
    // the two products above.
    //! [both]
    const Term both = pair("both[d_pair]", concat(std::vector{query, key}, 0));
    const Term both_weights = concat(std::vector{query_weights, key_weights}, 0);
    const Term both_hidden =
        pair("both_hidden[d_hidden]", tanh(matmul(both, both_weights)));
    //! [both]
    lesson.expect_equal(
        "[query; key] @ [query_weights; key_weights] is the sum of the parts",
        both_hidden, hidden);

    lesson.heading("4. Additive scores of all pairs, also in the concatenated form");
    const Trace::Aliases own{
        {"queries", "queries"}, {"keys", "keys"}, {"values", "values"}};
    const AdditiveWeights weights{*query_weights, *key_weights, *score_weights};
    //! [additive]
    const Trace additive = trace.scope("additive", own);
    const Attention by_sum =
        additive_attention(*queries, *keys, *values, weights, {}, additive);
    //! [additive]

    //! [concatenated]
    const Trace concatenated = trace.scope("concatenated", own);
    const Term joined = concatenated("hidden_weights[d_pair, d_hidden]", both_weights);
    const Attention by_pairs = concatenated_attention(
        *queries, *keys, *values, {*joined, *score_weights}, {}, concatenated);
    //! [concatenated]
    lesson.expect_equal("the concatenated form gives the same weights", by_pairs.weights,
                        by_sum.weights);
    lesson.expect_equal("and the same context", by_pairs.context, by_sum.context);

    lesson.heading("5. Queries of another size: bilinear and additive scores work");
    const Term short_queries =
        lesson.input("short_queries[n, d_short]", Matrix{{1, 2}, {2, 2}, {0, 1}});
    const Term bilinear_weights = lesson.input("bilinear_weights[d_short, d_k]",
                                               Matrix{{0.5, 0, -0.5}, {0, 0.25, 0.5}});
    const Trace::Aliases of_another_size{
        {"queries", "short_queries"}, {"keys", "keys"}, {"values", "values"}};
    //! [bilinear]
    const Trace bilinear = trace.scope("bilinear", of_another_size);
    bilinear_attention(*short_queries, *keys, *values, *bilinear_weights, {}, bilinear);
    //! [bilinear]

    const Term short_query_weights =
        lesson.input("short_query_weights[d_short, d_hidden]",
                     Matrix{{0.5, 0, -0.5, 0.25}, {-0.25, 0.5, 0.25, 0}});
    const Trace short_additive = trace.scope("short_additive", of_another_size);
    short_additive.alias("query_weights", "short_query_weights");
    additive_attention(*short_queries, *keys, *values,
                       {*short_query_weights, *key_weights, *score_weights}, {},
                       short_additive);

    lesson.heading("6. Without softmax: the scores are the weights");
    const Trace unnormalized = trace.scope("unnormalized");
    //! [unnormalized]
    const auto linear = dot_product_attention(
        queries, keys, values, {.normalization = Normalization::none}, unnormalized);
    //! [unnormalized]
    //! [regrouped]
    const Term keys_with_values =
        unnormalized("keys_with_values[d_k, d_v]", matmul(transpose(keys), values));
    const Term regrouped =
        unnormalized("regrouped[n, d_v]", matmul(queries, keys_with_values));
    //! [regrouped]
    lesson.expect_equal(
        "without softmax, (Q K^T) V is Q (K^T V): no n-by-m matrix is needed", regrouped,
        linear.context);

    lesson.heading("7. What each score costs, in multiplications");
    count(lesson);
}

std::string rounded_text(double ratio)
{
    return std::isfinite(ratio) ? std::to_string(std::lround(ratio)) : "?";
}

/// Seconds of the fastest of several runs.
template <class Work>
double shortest_time(const Work& work)
{
    double shortest = -minus_infinity;
    for (int run = 0; run < 5; ++run) {
        const auto start = std::chrono::steady_clock::now();
        work();
        shortest = std::min(shortest, std::chrono::duration<double>(
                                          std::chrono::steady_clock::now() - start)
                                          .count());
    }
    return shortest;
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
    const Matrix tokens({n, width}, 0.125), square({width, width}, 0.125);
    const AdditiveWeights weights{square, square, Vector({width}, 0.125)};
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

} // namespace

int main(int argc, char** argv) { return Lesson::run("04_scoring", argc, argv, teach); }
