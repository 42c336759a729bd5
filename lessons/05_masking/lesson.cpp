// Lesson 5: which keys a query can attend to.
//
// The sentences of a batch have different lengths. The short ones are filled up with
// padding, which no query should attend to. And a model that predicts the next word must
// not use later words. Both are masks: true where a query can attend to a key.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <limits>
#include <tuple>

using namespace attn;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The sum of the weights of each query.
Matrix row_sums(const Tensor3& weights)
{
    Matrix sums(Matrix::shape_type{weights.shape(0), weights.shape(1)});
    for (std::size_t b = 0; b < weights.shape(0); ++b)
        xt::row(sums, static_cast<std::ptrdiff_t>(b)) =
            sum_along(Matrix(xt::view(weights, b, xt::all(), xt::all())), 1);
    return sums;
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
void hide_too_late(Lesson& lesson, const Tensor3& scaled, const AnyMask& mask)
{
    // Zero is a score like any other: exp(0) is 1.
    const Trace zeroed = lesson.trace().scope("zeroed");
    //! [zeroed]
    const Tensor3 zeros =
        zeroed("scores[b, n, m]", "where(mask, scaled, 0)", apply_mask(mask, scaled, 0));
    std::ignore = zeroed("weights[b, n, m]", "softmax(scores)", softmax(zeros));
    //! [zeroed]

    // After softmax the padding has its share of the weight. Setting it to zero leaves
    // rows that sum to less than 1.
    const Trace after = lesson.trace().scope("after");
    //! [after]
    const Tensor3 all = after("unmasked[b, n, m]", "softmax(scaled)", softmax(scaled));
    const Tensor3 weights =
        after("weights[b, n, m]", "where(mask, unmasked, 0)", apply_mask(mask, all, 0));
    std::ignore = after("row_sums[b, n]", "sum(weights, axis=-1)", row_sums(weights));
    //! [after]
}

/// A large negative number instead of minus infinity works until a score is as large.
void subtract_a_large_number(Lesson& lesson, const Tensor3& scaled, const AnyMask& mask,
                             const Tensor3& right)
{
    const Trace large = lesson.trace().scope("large");
    //! [large]
    const Tensor3 lowered = large(
        "masked[b, n, m]", "where(mask, scaled, scaled - 1e12)",
        Tensor3(scaled - 1e12 * (1.0 - apply_mask(mask, xt::ones_like(scaled), 0))));
    const Tensor3 weights =
        large("weights[b, n, m]", "softmax(masked)", softmax(lowered));
    //! [large]
    lesson.expect_equal("subtracting 1e12 gives the same weights as minus infinity, for "
                        "scores like these",
                        weights, right);

    const Trace finite = lesson.trace().scope("finite");
    const Vector scores = finite("scores[m]", "", Vector{-100001, -100002, -100003});
    //! [finite]
    const Vector replaced =
        finite("masked[m]", "concat(scores[0:2], 0 * scores[2:3] - 1e5, axis=0)",
               Vector{scores(0), scores(1), -1e5});
    const Vector wrong = finite("weights[m]", "softmax(masked)", softmax(replaced));
    //! [finite]
    lesson.expect(
        "with -1e5 for minus infinity, the masked third key gets most of the weight",
        wrong(2) > 0.6);

    // In float32, numbers near 1e10 are 1024 apart, so scores that were moved there are
    // all equal.
    const Trace single = lesson.trace().scope("float32");
    const Vector small = single("scores[m]", "", Vector{1, 2, 3});
    Vector moved(small.shape());
    for (std::size_t j = 0; j < moved.size(); ++j)
        moved(j) = static_cast<float>(small(j) + 1e10);
    const Vector rounded =
        single("moved[m]", "floor((scores + 1e10) / 1024 + 0.5) * 1024", moved);
    const Vector uniform = single("weights[m]", "softmax(moved)", softmax(rounded));
    lesson.expect_equal(
        "adding 1e10 to every score changes nothing in theory, and everything in float32",
        uniform, Vector(xt::ones<double>({3}) / 3.0));
}

/// No query attends to a later key; also with fewer queries than keys.
void look_back_only(Lesson& lesson, const Matrix& tokens)
{
    const std::size_t n = tokens.shape(0);
    const Trace causal = lesson.trace().scope("causal_only");
    const Matrix rows = causal("tokens[n, d]", "tokens[0]", tokens);
    //! [causal]
    const Mask mask = causal_mask(n, n, Causal::bottom_right, causal);
    //! [causal]
    const Matrix scaled =
        causal("scaled[n, m]", "tokens @ tokens.T / sqrt(tokens.shape[1])",
               Matrix(matmul(rows, transpose(rows)) /
                      std::sqrt(static_cast<double>(rows.shape(1)))));
    //! [causal_weights]
    const Matrix masked = causal("masked[n, m]", "where(causal, scaled, -inf)",
                                 apply_mask(mask, scaled, -infinity));
    std::ignore = causal("weights[n, m]", "softmax(masked)", softmax(masked));
    //! [causal_weights]

    const std::size_t newest = std::min<std::size_t>(n, 2);
    const Trace bottom_right = lesson.trace().scope("bottom_right");
    const Trace top_left = lesson.trace().scope("top_left");
    //! [corners]
    causal_mask(newest, n, Causal::bottom_right, bottom_right);
    causal_mask(newest, n, Causal::top_left, top_left);
    //! [corners]
}

/// A query that can attend to no key: 0/0 by the definition of softmax, zero here.
void attend_to_nothing(Lesson& lesson)
{
    const Trace nothing = lesson.trace().scope("nothing");
    const Vector masked =
        nothing("masked[m]", "", Vector{-infinity, -infinity, -infinity});
    //! [nothing]
    const Vector naive =
        nothing("naive[m]", "exp(masked) / sum(exp(masked))",
                Vector(xt::exp(masked) / sum_all(Vector(xt::exp(masked)))));
    const Vector weights = nothing("weights[m]", "softmax(masked)", softmax(masked));
    //! [nothing]
    lesson.expect(
        "by its definition, softmax of nothing but minus infinity is 0/0, not a number",
        std::isnan(naive(0)));
    lesson.expect("here the weights of such a query are zero", max_all(weights) == 0);
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Two sentences in one batch; the second is shorter, and padded");
    const Tensor3 tokens = lesson.input(
        "tokens[b, n, d]", Tensor3{{{1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 1, 1}},
                                   {{2, 0, 1}, {1, 2, 0}, {3, 3, 3}, {3, 3, 3}}});
    const Integers lengths = lesson.input("lengths[b]", Integers{4, 2});
    //! [batch]
    const Tensor3 scores =
        trace("scores[b, n, m]", "tokens @ tokens.T", matmul(tokens, transpose(tokens)));
    const Tensor3 scaled =
        trace("scaled[b, n, m]", "scores / sqrt(tokens.shape[2])",
              Tensor3(scores / std::sqrt(static_cast<double>(tokens.shape(2)))));
    //! [batch]

    lesson.heading("2. Padding: scores become minus infinity, then softmax");
    const std::size_t n = tokens.shape(1);
    //! [padding]
    const Mask padding = padding_mask(lengths, n, trace);
    //! [padding]
    const AnyMask mask = trace(
        "mask[b, n, m]", "repeat(padding[:, None, :], " + std::to_string(n) + ", axis=1)",
        for_all_queries(padding, n));
    //! [masked]
    const Tensor3 masked = trace("masked[b, n, m]", "where(mask, scaled, -inf)",
                                 apply_mask(mask, scaled, -infinity));
    const Tensor3 weights = trace("weights[b, n, m]", "softmax(masked)", softmax(masked));
    const Tensor3 context =
        trace("context[b, n, d]", "weights @ tokens", matmul(weights, tokens));
    //! [masked]
    lesson.expect_equal(
        "scaled_dot_product_attention with this mask gives the same", context,
        scaled_dot_product_attention(tokens, tokens, tokens, {.mask = mask}).context);

    lesson.heading("3. Two mistakes: zeros before softmax, and zeros after softmax");
    hide_too_late(lesson, scaled, mask);

    lesson.heading("4. A large number instead of minus infinity");
    subtract_a_large_number(lesson, scaled, mask, weights);

    lesson.heading("5. The rows of padded queries, set to zero");
    const Trace queries = trace.scope("queries");
    const Tensor3 real =
        xt::view(xt::cast<double>(padding), xt::all(), xt::all(), xt::newaxis()) *
        xt::ones_like(context);
    //! [queries]
    std::ignore = queries("context[b, n, d]", "context * padding[:, :, None]",
                          Tensor3(context * real));
    //! [queries]

    lesson.heading("6. Causal: no query attends to a later key");
    look_back_only(lesson, xt::view(tokens, 0, xt::all(), xt::all()));

    lesson.heading("7. Causal and padding: both masks must be true");
    const Trace both = trace.scope("both", {{"lengths", "lengths"}});
    //! [both]
    const AnyMask joined =
        *join_masks(n, n, {.causal = Causal::bottom_right, .key_lengths = lengths}, both);
    std::ignore = both("weights[b, n, m]", "softmax(where(mask, scaled, -inf))",
                       softmax(apply_mask(joined, scaled, -infinity)));
    //! [both]

    lesson.heading("8. A query that can attend to nothing");
    attend_to_nothing(lesson);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("05_masking", argc, argv, teach); }
