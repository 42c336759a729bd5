// Lesson 16: rotary positions and ALiBi.
//
// Lesson 8 added positions to the tokens. The models of today leave the tokens as they are and put positions where two
// tokens are compared. Rotary embeddings rotate queries and keys by their positions; ALiBi lowers each score by the
// distance between query and key. Either way a score depends on the distance.

#include "../lesson.hpp"

#include "attn/layers/grouped_query.hpp"
#include "attn/layers/position.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

using namespace attn;

namespace {

//! [rotary]
/// The same token at every position, rotated: a score tells how far apart two positions are, and nothing else.
void rotate_one_token(Lesson& lesson, const Matrix& tokens)
{
    const std::size_t n = tokens.shape(0);
    const Trace turned = lesson.trace().scope("turned");
    const Matrix first = xt::view(tokens, xt::range(0, 1), xt::all());
    const Matrix same =
        turned("x[n, d]", "repeat(tokens[0:1], " + std::to_string(n) + ", axis=0)",
               take_rows(first, xt::zeros<std::int64_t>({n})));
    const Matrix rotated = rotary(same, {}, turned);
    const Matrix scores =
        turned("scores[n, m]", "output @ output.T", matmul(rotated, transpose(rotated)));
    const Matrix upper_left = xt::view(scores, xt::range(0, n - 1), xt::range(0, n - 1));
    const Matrix lower_right = xt::view(scores, xt::range(1, n), xt::range(1, n));
    lesson.expect_equal("one position further on both axes, every score is the same",
                        lower_right, upper_left);
}
//! [rotary]

//! [heads]
/// Two heads that have no weights of their own: what positions change in the trace of a head.
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
    grouped_query_attention(tokens, {}, {}, weights, {.heads = 2, .positions = positions},
                            trace);
}
//! [heads]

void teach(Lesson& lesson)
{
    lesson.heading("1. Four tokens");
    const Matrix tokens = lesson.input(
        "tokens[n, d]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}, {2, 0, 0, 1}});
    if (tokens.shape(1) % 4 != 0)
        throw ShapeError("tokens " + to_string(shape_of(tokens)) +
                         ": this lesson has 2 heads and rotates pairs of features: d "
                         "must be a multiple of 4");

    lesson.heading("2. Rotary: queries and keys are rotated by their positions");
    rotate_one_token(lesson, tokens);
    attend_by_position(lesson, tokens, HeadPositions::rotary, "with_rotary");

    //! [alibi]
    lesson.heading("3. ALiBi: each score is lowered by the distance between query and "
                   "key, in each head at another rate");
    const Vector slopes =
        lesson.trace()("slopes[h]", "2 ** (0 - arange(8) - 1)", alibi_slopes(8));
    lesson.expect("the last of eight heads hardly sees a distance", slopes(7) < 0.004);
    attend_by_position(lesson, tokens, HeadPositions::alibi, "with_alibi");
    //! [alibi]
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("16_rotary_and_alibi", argc, argv, teach);
}
