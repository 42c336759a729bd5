// Lesson 5: which keys a query can attend to.
//
// The sentences of a batch have different lengths. The short ones are filled up with
// padding, which no query should attend to. And a model that predicts the next word must
// not use later words. Both are masks: true where a query can attend to a key.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/mask.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace attn;

namespace {

BatchMask for_all_queries(const Mask& padding, std::size_t n);
void hide_too_late(const Trace& trace, const Term<Tensor3>& scaled,
                   const Term<BatchMask>& mask);
void lower_too_little(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Two sentences in one batch; the second is shorter, and padded");
    const Term tokens = lesson.input(
        "tokens[b, n, d]", Tensor3{{{1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 1, 1}},
                                   {{2, 0, 1}, {1, 2, 0}, {3, 3, 3}, {3, 3, 3}}});
    const Term lengths = lesson.input("lengths[b]", Integers{4, 2});
    //! [batch]
    const Term scores = trace("scores[b, n, m]", matmul(tokens, transpose(tokens)));
    const Term scaled = trace("scaled[b, n, m]", scores / sqrt(size_along(tokens, 2)));
    //! [batch]

    lesson.heading("2. Padding: scores become minus infinity, then softmax");
    const std::size_t n = tokens.shape(1);
    //! [padding]
    const Mask padding = padding_mask(*lengths, n, trace);
    const Term mask = trace(
        "mask[b, n, m]", "repeat(padding[:, None, :], " + std::to_string(n) + ", axis=1)",
        Term(for_all_queries(padding, n)));
    //! [padding]
    //! [masked]
    const Term masked = trace("masked[b, n, m]", where(mask, scaled, minus_infinity));
    const Term weights = trace("weights[b, n, m]", softmax(masked));
    const Term context = trace("context[b, n, d]", matmul(weights, tokens));
    //! [masked]
    lesson.expect_equal(
        "scaled_dot_product_attention with this mask gives the same", context,
        scaled_dot_product_attention(tokens, tokens, tokens, {.mask = *mask}).context);

    lesson.heading("3. Two mistakes: zeros before softmax, and zeros after softmax");
    hide_too_late(trace, scaled, mask);

    lesson.heading("4. A large number instead of minus infinity");
    const Trace large = trace.scope("large");
    //! [large]
    const Term lowered = large("masked[b, n, m]", where(mask, scaled, scaled - 1e12));
    const Term same = large("weights[b, n, m]", softmax(lowered));
    //! [large]
    lesson.expect_equal("subtracting 1e12 gives the same weights as minus infinity, for "
                        "scores like these",
                        same, weights);
    lower_too_little(lesson);

    lesson.heading("5. The rows of padded queries, set to zero");
    const Trace queries = trace.scope("queries");
    //! [queries]
    std::ignore = queries("context[b, n, d]", "context * padding[:, :, None]",
                          context * column(Term(Matrix(padding))));
    //! [queries]

    lesson.heading("6. Causal: no query attends to a later key");
    const Trace alone = trace.scope("causal_only");
    //! [causal]
    const Term sentence = alone("tokens[n, d]", row(tokens, 0));
    const Mask causal = causal_mask(n, n, Causal::bottom_right, alone);
    const Term compared = alone("scaled[n, m]", matmul(sentence, transpose(sentence)) /
                                                    sqrt(size_along(sentence, 1)));
    const Term earlier = alone(
        "masked[n, m]", where(named(causal, "causal", alone), compared, minus_infinity));
    std::ignore = alone("weights[n, m]", softmax(earlier));
    //! [causal]

    // With fewer queries than keys, the triangle has two places.
    const std::size_t newest = std::min<std::size_t>(n, 2);
    const Trace bottom_right = trace.scope("bottom_right");
    const Trace top_left = trace.scope("top_left");
    //! [corners]
    causal_mask(newest, n, Causal::bottom_right, bottom_right);
    causal_mask(newest, n, Causal::top_left, top_left);
    //! [corners]

    lesson.heading("7. Causal and padding: both masks must be true");
    const Trace both = trace.scope("both", {{"lengths", "lengths"}});
    //! [both]
    const OptionalMask joined =
        join_masks(n, n, {.causal = Causal::bottom_right, .key_lengths = *lengths}, both);
    std::ignore = both("weights[b, n, m]",
                       softmax(where_allowed(*joined, scaled, minus_infinity, both)));
    //! [both]

    // 0/0 by the definition of softmax, zero here.
    lesson.heading("8. A query that can attend to nothing");
    const Trace nothing = trace.scope("nothing");
    const Term hidden = nothing.given(
        "masked[m]", Vector{minus_infinity, minus_infinity, minus_infinity});
    //! [nothing]
    const Term naive = nothing("naive[m]", exp(hidden) / sum_all(exp(hidden)));
    const Term zeros = nothing("weights[m]", softmax(hidden));
    //! [nothing]
    lesson.expect(
        "by its definition, softmax of nothing but minus infinity is 0/0, not a number",
        std::isnan((*naive)(0)));
    lesson.expect("here the weights of such a query are zero", *max_all(zeros) == 0);
}

/// The same padding for every one of n queries: (b, m) becomes (b, n, m).
BatchMask for_all_queries(const Mask& padding, std::size_t n)
{
    BatchMask mask(BatchMask::shape_type{padding.shape(0), n, padding.shape(1)});
    for (std::size_t i = 0; i < n; ++i)
        xt::view(mask, xt::all(), i, xt::all()) = padding;
    return mask;
}

/// Two ways to mask padding that do not work.
void hide_too_late(const Trace& trace, const Term<Tensor3>& scaled,
                   const Term<BatchMask>& mask)
{
    // Zero is a score like any other: exp(0) is 1.
    const Trace zeroed = trace.scope("zeroed");
    //! [zeroed]
    const Term zeros = zeroed("scores[b, n, m]", where(mask, scaled, 0.0));
    std::ignore = zeroed("weights[b, n, m]", softmax(zeros));
    //! [zeroed]

    // After softmax the padding has its share of the weight. Setting it to zero leaves
    // rows that sum to less than 1.
    const Trace after = trace.scope("after");
    //! [after]
    const Term unmasked = after("unmasked[b, n, m]", softmax(scaled));
    const Term weights = after("weights[b, n, m]", where(mask, unmasked, 0.0));
    std::ignore = after("row_sums[b, n]", sum_along(weights, -1));
    //! [after]
}

/// A large negative number instead of minus infinity works until a score is as large.
void lower_too_little(Lesson& lesson)
{
    const Trace finite = lesson.trace().scope("finite");
    const Term scores = finite.given("scores[m]", Vector{-100001, -100002, -100003});
    //! [finite]
    const Term replaced = finite(
        "masked[m]",
        concat(std::vector{slice(scores, 0, 2), 0 * slice(scores, 2, 3) - 1e5}, 0));
    const Term wrong = finite("weights[m]", softmax(replaced));
    //! [finite]
    lesson.expect(
        "with -1e5 for minus infinity, the masked third key gets most of the weight",
        (*wrong)(2) > 0.6);

    // In float32, numbers near 1e10 are 1024 apart, so scores that were moved there are
    // all equal.
    const Trace single = lesson.trace().scope("float32");
    const Term small = single.given("scores[m]", Vector{1, 2, 3});
    Vector moved = *small;
    for (double& score : moved)
        score = static_cast<float>(score + 1e10);
    const Term rounded = single("moved[m]", "floor((scores + 1e10) / 1024 + 0.5) * 1024",
                                Term(std::move(moved)));
    const Term uniform = single("weights[m]", softmax(rounded));
    lesson.expect_equal(
        "adding 1e10 to every score changes nothing in theory, and everything in float32",
        uniform, Vector{1 / 3., 1 / 3., 1 / 3.});
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("05_masking", argc, argv, teach); }
