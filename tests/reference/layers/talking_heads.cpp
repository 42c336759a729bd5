#include "attn/reference/layers/talking_heads.hpp"

#include "laws.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

#include <array>

using namespace attn;
using namespace attn::test;

namespace {

/// Maps for h_k heads that compare and h_v that take values, and mixtures over h softmaxes.
TalkingHeadsWeights random_talking_heads(Numbers& numbers, std::size_t h_k, std::size_t h, std::size_t h_v)
{
    MultiHeadWeights maps = random_heads(numbers, {.h_d_k = 2 * h_k, .h_d_v = 3 * h_v});
    Matrix scores = numbers.matrix(h_k, h);
    return {std::move(maps), std::move(scores), numbers.matrix(h, h_v)};
}

/// Pair by pair, one number at a time.
MultiHead by_hand(const Matrix& x, const TalkingHeadsWeights& w, const std::optional<Mask>& mask = {})
{
    const Matrix query = linear_by_hand(x, w.maps.query), key = linear_by_hand(x, w.maps.key);
    const Matrix value = linear_by_hand(x, w.maps.value);
    const std::size_t n = x.shape(0), h_k = w.scores.shape(0), h = w.scores.shape(1), h_v = w.weights.shape(1);
    const std::size_t d_k = query.shape(1) / h_k, d_v = value.shape(1) / h_v;
    std::vector<Matrix> proportions;
    for (std::size_t head = 0; head < h; ++head) {
        Matrix scores(Matrix::shape_type{n, n}, 0.0);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) {
                for (std::size_t k = 0; k < query.shape(1); ++k)
                    scores(i, j) +=
                        w.scores(k / d_k, head) * query(i, k) * key(j, k) / std::sqrt(static_cast<double>(d_k));
                if (mask && !(*mask)(i, j))
                    scores(i, j) = -INFINITY;
            }
        proportions.push_back(softmax_by_hand(scores));
    }
    MultiHead result;
    Matrix merged(Matrix::shape_type{n, value.shape(1)}, 0.0);
    for (std::size_t head = 0; head < h_v; ++head) {
        Matrix mixed(Matrix::shape_type{n, n}, 0.0);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) {
                for (std::size_t from = 0; from < h; ++from)
                    mixed(i, j) += w.weights(from, head) * proportions[from](i, j);
                for (std::size_t k = 0; k < d_v; ++k)
                    merged(i, head * d_v + k) += mixed(i, j) * value(j, head * d_v + k);
            }
        result.weights.push_back(mixed);
    }
    result.output = w.maps.output ? linear_by_hand(merged, *w.maps.output) : merged;
    return result;
}

} // namespace

TEST_CASE("talking heads are what plain loops give, also with other numbers of each kind of head", "[layers][talking]")
{
    Numbers numbers(1);
    for (const auto& [h_k, h, h_v] :
         std::vector<std::array<std::size_t, 3>>{{1, 1, 1}, {2, 2, 2}, {2, 5, 3}, {3, 1, 2}}) {
        CAPTURE(h_k, h, h_v);
        const Matrix x = numbers.matrix(4, 6);
        TalkingHeadsWeights weights = random_talking_heads(numbers, h_k, h, h_v);
        weights.scores *= 0.1; // softmax by hand takes small scores only
        CHECK(close_heads(talking_heads_attention(x, weights), by_hand(x, weights)));
        CHECK(close_heads(talking_heads_attention(x, weights, {.mask = causal_by_hand(4)}),
                          by_hand(x, weights, causal_by_hand(4))));
    }
}

TEST_CASE("talking heads that are mixed by identities are multi-head attention", "[layers][talking][property]")
{
    Numbers numbers(2);
    for (const std::size_t heads : {1, 2, 4}) {
        const Matrix x = numbers.matrix(5, 6);
        const MultiHeadWeights maps = random_heads(numbers, {.h_d_k = 4, .h_d_v = 8, .has_output_map = heads != 2});
        const TalkingHeadsWeights silent{maps, identity(heads), identity(heads)};
        const Mask mask = causal_by_hand(5);
        CHECK(close_heads(talking_heads_attention(x, silent), attend(x, maps, {.heads = heads})));
        CHECK(close_heads(talking_heads_attention(x, silent, {.mask = mask, .scale = 0.5}),
                          attend(x, maps, {.heads = heads, .mask = mask, .scale = 0.5})));
    }
}

TEST_CASE("heads that are mixed by a permutation change places, and nothing else", "[layers][talking][property]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(5, 6);
    const MultiHeadWeights maps = random_heads(numbers, {.h_d_k = 4, .h_d_v = 8});
    const Matrix swap{{0, 1}, {1, 0}};
    CHECK(close_heads(talking_heads_attention(x, {maps, swap, swap}), attend(x, maps, {.heads = 2})));
    CHECK_FALSE(
        close(talking_heads_attention(x, {maps, swap, identity(2)}).output, attend(x, maps, {.heads = 2}).output));
}

TEST_CASE("forbidden pairs have weight 0 in every mixture of talking heads", "[layers][talking][mask]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(5, 6);
    Mask mask = causal_by_hand(5);
    mask(0, 0) = false; // the first can attend to nothing
    for (const Matrix& weights :
         talking_heads_attention(x, random_talking_heads(numbers, 2, 3, 2), {.mask = mask}).weights)
        for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t j = 0; j < 5; ++j)
                CHECK((mask(i, j) || weights(i, j) == 0));
}

TEST_CASE("under a causal mask, a later token changes no earlier output of talking heads", "[layers][talking][mask]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(5, 6);
    const TalkingHeadsWeights weights = random_talking_heads(numbers, 2, 2, 2);
    check_causal(x, [&](const Matrix& tokens) {
        return talking_heads_attention(tokens, weights, {.causal = Causal::bottom_right});
    });
}

TEST_CASE("talking heads of a batch give what those of each sequence alone give", "[layers][talking][batch]")
{
    Numbers numbers(6);
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    const TalkingHeadsWeights weights = random_talking_heads(numbers, 2, 3, 2);
    const BatchMask mask = random_batch_mask(numbers, 3, 4, 4);
    check_batch(x, [&](const auto& tokens, const auto& own) {
        return talking_heads_attention(tokens, weights, {.mask = own(mask)});
    });
}

TEST_CASE("talking heads refuse what doesn't fit, in words", "[layers][talking]")
{
    Numbers numbers(7);
    const Matrix x = numbers.matrix(4, 6);
    const TalkingHeadsWeights right = random_talking_heads(numbers, 2, 3, 2);
    const auto with = [&](const auto& change) {
        TalkingHeadsWeights weights = right;
        change(weights);
        return talking_heads_attention(x, weights);
    };
    CHECK_THROWS_WITH(talking_heads_attention(numbers.matrix(4, 5), right),
                      ContainsSubstring("x (4, 5) and query weights (6, 4) must agree in d_model"));
    CHECK_THROWS_WITH(with([&](TalkingHeadsWeights& w) { w.weights = numbers.matrix(2, 2); }),
                      ContainsSubstring("talking_scores (2, 3) and talking_weights (2, 2) must agree in h"));
    CHECK_THROWS_WITH(with([&](TalkingHeadsWeights& w) { w.scores = numbers.matrix(3, 3); }),
                      ContainsSubstring("query weights (6, 4) can't be divided evenly among 3 heads"));
    CHECK_THROWS_WITH(with([&](TalkingHeadsWeights& w) { w.weights = numbers.matrix(3, 4); }),
                      ContainsSubstring("value weights (6, 6) can't be divided evenly among 4 heads"));
    CHECK_THROWS_AS(with([&](TalkingHeadsWeights& w) { w.maps.output->weight = numbers.matrix(5, 6); }), ShapeError);
    CHECK_THROWS_WITH(with([&](TalkingHeadsWeights& w) { w.maps.key_norms = {{numbers.vector(3)}}; }),
                      ContainsSubstring("it takes plain maps, without norms of queries and keys"));
    CHECK_THROWS_AS(talking_heads_attention(x, right, {.mask = Mask(Mask::shape_type{3, 4}, true)}), ShapeError);
}

TEST_CASE("traced talking heads are bit for bit those without, and follow from their formulas",
          "[layers][talking][verify]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(4, 6);
    const TalkingHeadsWeights weights = random_talking_heads(numbers, 3, 2, 2);
    const TalkingHeadsOptions options{.causal = Causal::bottom_right, .scale = 0.3};
    traced([&](const Trace& trace) { return talking_heads_attention(x, weights, options, trace); });
}

TEST_CASE("the steps of talking heads are those of their doc comment", "[steps][layers][talking][source]")
{
    Numbers numbers(9);
    const Matrix x = numbers.matrix(4, 6);
    const TalkingHeadsWeights weights{random_heads(numbers, {.h_d_k = 3, .h_d_v = 3}), numbers.matrix(1, 1),
                                      numbers.matrix(1, 1)};
    const Recorder recorder = recorded([&](const Trace& trace) { talking_heads_attention(x, weights, {}, trace); });
    CHECK(different_rows(promised("reference/layers/talking_heads.hpp", "talking_heads_attention"), recorder) == "");
    CHECK(recorder.steps().front().options ==
          StepOptions{
              {"key_heads", "1"}, {"heads", "1"}, {"value_heads", "1"}, {"mask", "none"}, {"scale", "1/sqrt(d_k)"}});
}

TEST_CASE("mixtures have one term per head, and the mask is applied after the first mixture",
          "[steps][layers][talking]")
{
    Numbers numbers(10);
    const Matrix x = numbers.matrix(4, 6);
    const TalkingHeadsWeights weights = random_talking_heads(numbers, 2, 3, 1);
    const Recorder recorder =
        recorded([&](const Trace& trace) { talking_heads_attention(x, weights, {.mask = causal_by_hand(4)}, trace); });
    const Lines found = lines(recorder);
    const auto has = [&](const std::string& line) {
        return std::ranges::find(found, line + " | talking_heads_attention") != found.end();
    };
    CHECK(has("head.2.mixed_scores | n, m | head.0.scaled * talking_scores[0, 2] + head.1.scaled * "
              "talking_scores[1, 2]"));
    CHECK(has("head.2.masked | n, m | where(mask, mixed_scores, -inf)"));
    CHECK(has("head.2.weights | n, m | softmax(masked)"));
    CHECK(has("head.0.mixed_weights | n, m | head.0.weights * talking_weights[0, 0] + head.1.weights * "
              "talking_weights[1, 0] + head.2.weights * talking_weights[2, 0]"));
    CHECK_FALSE(has("head.1.mixed_weights | n, m | "));
}
