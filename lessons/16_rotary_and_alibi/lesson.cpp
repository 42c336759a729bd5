// Lesson 16: rotary positions and ALiBi.
//
// Lesson 8 added positions to the tokens. Today's models use positions where two tokens
// are compared: rotary embeddings rotate queries and keys by an angle that grows with the
// position; ALiBi lowers each score in proportion to the distance between query and key.
// With both, the score of two tokens depends on their distance only.

#include "../lesson.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/position.hpp"
#include "attn/reference/layers/rotary.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

using namespace attn;

namespace {

/// The first token at every position.
Matrix at_every_position(const Matrix& tokens, const Trace& turned)
{
    const std::size_t n = tokens.shape(0);
    const Matrix first = xt::view(tokens, xt::range(0, 1), xt::all());
    return turned("x[n, d]", "repeat(tokens[0:1], " + std::to_string(n) + ", axis=0)",
                  take_rows(first, xt::zeros<std::int64_t>({n})));
}

/// Positions that are added, as in lesson 8: the score of equal tokens depends on where
/// they stand.
void add_positions(Lesson& lesson, const Matrix& same)
{
    //! [added]
    const Trace added = lesson.trace().scope("added", {{"x", "turned.x"}});
    const Matrix positions =
        sinusoidal_positions(same.shape(0), same.shape(1), {}, added);
    const Matrix placed =
        added("output[n, d]", "x + positions", Matrix(same + positions));
    const Matrix scores =
        added("scores[n, m]", "output @ output.T", matmul(placed, transpose(placed)));
    //! [added]
    const std::size_t n = same.shape(0);
    if (n > 2)
        lesson.table({"score of tokens 0 and 1", "of the last two"},
                     {{scores(0, 1), scores(n - 2, n - 1)}});
}

/// Queries and keys that are rotated: the score of equal tokens depends on their
/// distance.
void rotate(Lesson& lesson, const Matrix& same, const Trace& turned)
{
    //! [rotary]
    const Matrix rotated = rotary(same, {}, turned);
    const Matrix scores =
        turned("scores[n, m]", "output @ output.T", matmul(rotated, transpose(rotated)));
    //! [rotary]
    const std::size_t n = same.shape(0);
    const Matrix upper_left = xt::view(scores, xt::range(0, n - 1), xt::range(0, n - 1));
    const Matrix lower_right = xt::view(scores, xt::range(1, n), xt::range(1, n));
    lesson.expect_equal("one position further on both axes, every score is the same",
                        lower_right, upper_left);
}

/// Two heads whose projections are the identity: what positions change in the trace of a
/// head.
void attend_by_position(Lesson& lesson, const Matrix& tokens, HeadPositions positions,
                        std::string_view scope)
{
    const Trace trace = lesson.trace().scope(scope, {{"x", "tokens"}});
    const Matrix identity = xt::eye<double>(tokens.shape(1));
    const auto map = [&](std::string_view step) {
        return LinearWeights{trace(step, "diag(0 * tokens[0] + 1)", identity)};
    };
    LinearWeights query = map("query_weights[d_model, h_d_k]"),
                  key = map("key_weights[d_model, h_d_k]");
    const MultiHeadWeights weights{std::move(query), std::move(key),
                                   map("value_weights[d_model, h_d_v]")};
    //! [heads]
    const MultiHeadOptions options{.heads = 2, .positions = positions};
    multi_head_attention(tokens, weights, options, trace);
    //! [heads]
}

void teach(Lesson& lesson)
{
    lesson.heading("1. Four tokens");
    const Matrix tokens = lesson.input(
        "tokens[n, d]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}, {2, 0, 0, 1}});
    if (tokens.shape(1) % 4 != 0)
        throw ShapeError("tokens " + to_string(shape_of(tokens)) +
                         ": this lesson has 2 heads and rotates pairs of features: d "
                         "must be a multiple of 4");

    lesson.heading("2. Positions that are added: a score depends on both positions");
    const Trace turned = lesson.trace().scope("turned");
    const Matrix same = at_every_position(tokens, turned);
    add_positions(lesson, same);

    lesson.heading("3. Rotary: queries and keys are rotated by their positions");
    rotate(lesson, same, turned);
    attend_by_position(lesson, tokens, HeadPositions::rotary, "with_rotary");

    lesson.heading("4. ALiBi: each score is lowered by the distance between query and "
                   "key, times a slope per head");
    //! [slopes]
    const Vector slopes =
        lesson.trace()("slopes[h]", "2 ** (0 - arange(8) - 1)", alibi_slopes(8));
    //! [slopes]
    lesson.expect(
        "the last of eight heads lowers a score by less than 0.004 per position",
        slopes(7) < 0.004);
    attend_by_position(lesson, tokens, HeadPositions::alibi, "with_alibi");
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("16_rotary_and_alibi", argc, argv, teach);
}
