// Lesson 16: rotary positions and ALiBi.
//
// Lesson 8 added positions to the tokens. Today's models use positions where two tokens
// are compared: rotary embeddings rotate queries and keys by an angle that grows with the
// position; ALiBi lowers each score in proportion to the distance between query and key.
// With both, the score of two tokens depends on their distance only.

#include "../lesson.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/multi_head.hpp"

using namespace attn;

namespace {

void attend_by_position(Lesson& lesson, const Term<Matrix>& tokens,
                        HeadPositions positions, std::string_view scope);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Four tokens");
    const Term tokens = lesson.input(
        "tokens[n, d]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}, {2, 0, 0, 1}});
    const std::size_t n = tokens.shape(0), d = tokens.shape(1);
    if (d % 4 != 0)
        throw ShapeError("tokens " + to_string(shape_of(tokens)) +
                         ": this lesson has 2 heads and rotates pairs of features: d "
                         "must be a multiple of 4");

    // Positions that are added, as in lesson 8. The first token stands at every position.
    lesson.heading("2. Positions that are added: a score depends on both positions");
    const Trace turned = trace.scope("turned");
    const Term same = turned("x[n, d]", repeat(slice(tokens, 0, 1), n, 0));
    const Trace added = trace.scope("added");
    const Term x = added.alias("x", same);
    //! [added]
    const Matrix table = sinusoidal_positions(n, d, {}, added);
    const Term positions = named(table, "positions", added);
    const Term placed = added("output[n, d]", x + positions);
    const Term placed_scores = added("scores[n, m]", matmul(placed, transpose(placed)));
    //! [added]
    if (n > 2)
        lesson.table({"score of tokens 0 and 1", "of the last two"},
                     {{(*placed_scores)(0, 1), (*placed_scores)(n - 2, n - 1)}});

    lesson.heading("3. Rotary: queries and keys are rotated by their positions");
    //! [rotary]
    const Term rotated = rotary(same, {}, turned);
    const Term scores = turned("scores[n, m]", matmul(rotated, transpose(rotated)));
    //! [rotary]
    const Term upper_left = columns(slice(scores, 0, n - 1), 0, n - 1);
    const Term lower_right = columns(slice(scores, 1, n), 1, n);
    lesson.expect_equal("one position further on both axes, every score is the same",
                        lower_right, upper_left);
    attend_by_position(lesson, tokens, HeadPositions::rotary, "with_rotary");

    lesson.heading("4. ALiBi: each score is lowered by the distance between query and "
                   "key, times a slope per head");
    //! [slopes]
    const Term heads = arange(number(8, trace));
    const Term slopes = trace("slopes[h]", power(2, 0 - heads - 1));
    //! [slopes]
    lesson.expect(
        "the last of eight heads lowers a score by less than 0.004 per position",
        (*slopes)(7) < 0.004);
    attend_by_position(lesson, tokens, HeadPositions::alibi, "with_alibi");
}

/// Two heads whose projections are the identity: what positions change in the trace of a
/// head.
void attend_by_position(Lesson& lesson, const Term<Matrix>& tokens,
                        HeadPositions positions, std::string_view scope)
{
    const Trace trace = lesson.trace().scope(scope);
    const auto map = [&](std::string_view step) {
        return LinearWeights{*trace(step, diag(0 * row(tokens, std::size_t{0}) + 1))};
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

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("16_rotary_and_alibi", argc, argv, teach);
}
