// Lesson 8: where a token stands.
//
// Attention takes a set: without help it is a bag of words. So each place gets numbers of its own, which are added to the
// token that stands there. Later models turn queries and keys instead, or take something off the scores.

#include "../lesson.hpp"

#include "attn/attention/dot_product.hpp"
#include "attn/layers/grouped_query.hpp"
#include "attn/layers/position.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"

#include <cmath>

using namespace attn;

namespace {

/// Self-attention without any weights of its own.
Matrix attend(const Trace& trace, std::string_view formula, const Matrix& tokens)
{
    const Matrix x = trace("x[n, d]", formula, tokens);
    trace("queries[n, d_k]", "x", x);
    trace("keys[m, d_k]", "x", x);
    trace("values[m, d_v]", "x", x);
    return scaled_dot_product_attention(x, x, x, {}, {}, {}, trace).context;
}

/// The last token in front of the others.
Integers last_in_front(std::size_t count)
{
    Integers order(Integers::shape_type{count});
    for (std::size_t i = 0; i < count; ++i)
        order(i) = static_cast<std::int64_t>((i + count - 1) % count);
    return order;
}

double largest_difference(const Matrix& left, const Matrix& right) { return max_all(Matrix(xt::abs(left - right))); }

//! [bag]
/// Tokens in another order come out in that order, and are otherwise the same.
void show_a_bag_of_words(Lesson& lesson, const Matrix& tokens, const Integers& order)
{
    const Trace bag = lesson.trace().scope("bag");
    const Matrix straight = attend(bag.scope("straight"), "tokens", tokens);
    const Matrix turned = attend(bag.scope("turned"), "tokens[order]", take_rows(tokens, order));
    lesson.expect_equal("permute the tokens, and the outputs permute alike: attention can't tell their order", turned,
                        take_rows(straight, order));
}
//! [bag]

//! [layouts]
/// The two ways to lay out sines and cosines are one permutation of each other.
void compare_layouts(Lesson& lesson, const Matrix& positions)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1), sines = (d + 1) / 2;
    const Trace halves = lesson.trace().scope("halves");
    const Matrix sines_first = sinusoidal_positions(n, d, {.layout = SineLayout::halves}, halves);
    Integers order(Integers::shape_type{d}); // interleaved feature i stands at order(i) of the halves
    for (std::size_t i = 0; i < d; ++i)
        order(i) = static_cast<std::int64_t>(i / 2 + (i % 2) * sines);
    halves("order[d]", "", order);
    const Matrix reordered =
        halves("reordered[n, d]", "positions.T[order].T", transpose(take_rows(transpose(sines_first), order)));
    lesson.expect_equal("halves are the interleaved features in another order", reordered, positions);
}
//! [layouts]

//! [join]
/// Added, or put beside: either way the order makes a difference now.
void join_positions(Lesson& lesson, const Matrix& tokens, const Matrix& positions, const Integers& order)
{
    const Trace added = lesson.trace().scope("added");
    const Matrix straight = attend(added.scope("straight"), "tokens + positions", Matrix(tokens + positions));
    const Matrix turned =
        attend(added.scope("turned"), "tokens[order] + positions", Matrix(take_rows(tokens, order) + positions));
    if (lesson.is_example())
        lesson.expect("with positions added, another order of the tokens gives other outputs",
                      largest_difference(turned, take_rows(straight, order)) > 0.1);

    attend(lesson.trace().scope("beside"), "concat(tokens, positions, axis=1)",
           concat_columns(std::vector<Matrix>{tokens, positions}));
}
//! [join]

//! [shift]
/// Moving on by k places is one fixed linear map: each pair of features turns by k times its frequency.
void shift_positions(Lesson& lesson, const Matrix& positions)
{
    constexpr std::size_t k = 2;
    const std::size_t n = positions.shape(0), d = positions.shape(1);
    if (d % 2 != 0 || n <= k)
        return; // the last sine of an odd size has no cosine to turn with
    const Trace shift = lesson.trace().scope("shift");
    const Matrix by_halves = shift("by_halves[d, d]",
                                   "concat(concat(diag(cos(2 * frequencies)), -diag(sin(2 * frequencies)), axis=1), "
                                   "concat(diag(sin(2 * frequencies)), diag(cos(2 * frequencies)), axis=1), axis=0)",
                                   position_shift(k, d, {.layout = SineLayout::halves}));
    const Matrix matrix = shift("matrix[d, d]", "by_halves[halves.order].T[halves.order].T", position_shift(k, d));
    const Matrix earlier = xt::view(positions, xt::range(0, n - k), xt::all());
    const Matrix later = xt::view(positions, xt::range(k, n), xt::all());
    const Matrix moved = shift("moved[rest, d]", "positions[:-2] @ matrix", matmul(earlier, matrix));
    lesson.expect_equal("each position, times this matrix, is the position two places on", moved, later);
}
//! [shift]

//! [rotary]
/// Rotary: the same token at every place, turned; a score tells how far apart two places are, and nothing else.
void turn_queries_and_keys(Lesson& lesson, const Matrix& tokens)
{
    const std::size_t n = tokens.shape(0);
    if (tokens.shape(1) % 2 != 0)
        return; // features are turned in pairs
    const Trace turned = lesson.trace().scope("turned");
    const Matrix first = xt::view(tokens, xt::range(0, 1), xt::all());
    const Matrix same = turned("x[n, d]", "repeat(tokens[0:1], " + std::to_string(n) + ", axis=0)",
                               take_rows(first, Integers(xt::zeros<std::int64_t>({n}))));
    const Matrix rotated = rotary(same, {}, turned);
    const Matrix scores = turned("scores[n, m]", "output @ output.T", matmul(rotated, transpose(rotated)));
    const Matrix upper_left = xt::view(scores, xt::range(0, n - 1), xt::range(0, n - 1));
    const Matrix lower_right = xt::view(scores, xt::range(1, n), xt::range(1, n));
    lesson.expect_equal("one place further on both axes, every score is the same", lower_right, upper_left);
}
//! [rotary]

//! [alibi]
/// What either changes in the trace of two heads that have no weights of their own.
void attend_by_place(Lesson& lesson, const Matrix& tokens, HeadPositions positions, std::string_view scope)
{
    const Trace trace = lesson.trace().scope(scope);
    const Matrix identity = xt::eye<double>(tokens.shape(1));
    trace("x[n, d_model]", "tokens", tokens);
    for (const std::string_view weights :
         {"query_weights[d_model, h_d_k]", "key_weights[d_model, h_d_k]", "value_weights[d_model, h_d_v]"})
        trace(weights, "diag(0 * tokens[0] + 1)", identity);
    grouped_query_attention(tokens, {}, {}, {{identity}, {identity}, {identity}},
                            {.heads = 2, .positions = positions}, trace);
}
//! [alibi]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A bag of words: four tokens, and the same with the last in front");
    const Matrix tokens = lesson.input("tokens[n, d]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}, {2, 0, 0, 1}});
    const std::size_t n = tokens.shape(0), d = tokens.shape(1);
    const Integers order = trace("order[n]", "concat(arange(tokens.shape[0])[-1:], arange(tokens.shape[0])[:-1], axis=0)",
                               last_in_front(n));
    show_a_bag_of_words(lesson, tokens, order);

    //! [sinusoidal]
    lesson.heading("2. Sinusoidal positions: each pair of features is a hand of a clock");
    const Matrix positions = sinusoidal_positions(n, d, {}, trace);
    lesson.heading("3. Sines and cosines in halves");
    compare_layouts(lesson, positions);
    //! [sinusoidal]

    lesson.heading("4. Added to the tokens, or beside them");
    join_positions(lesson, tokens, positions, order);

    //! [learned]
    lesson.heading("5. Learned positions: a table, as long as the longest sequence in training");
    const Matrix table = lesson.input("table[n_max, d]", Matrix{{0.5, -0.25, 0, 0.75},
                                                                {-1, 0.5, 0.25, 0},
                                                                {0.25, 1, -0.5, -0.75},
                                                                {0, -0.5, 1, 0.25},
                                                                {0.75, 0, -1, 0.5},
                                                                {-0.25, 0.75, 0.5, -1}});
    const Trace learned = trace.scope("learned");
    learned("table[n_max, d]", "table", table);
    const Matrix embedded = learned_positions(table, n, 0, learned);
    learned("embedded[n, d]", "tokens + positions", Matrix(tokens + embedded));
    //! [learned]

    lesson.heading("6. Two places on: a fixed linear map");
    shift_positions(lesson, positions);

    lesson.heading("7. Rotary: queries and keys are turned by their places");
    turn_queries_and_keys(lesson, tokens);
    if (d % 4 == 0)
        attend_by_place(lesson, tokens, HeadPositions::rotary, "with_rotary");

    lesson.heading("8. ALiBi: a score loses something for every place between query and key; some heads more");
    trace("slopes[h]", "2 ** (0 - arange(8) - 1)", alibi_slopes(8));
    if (d % 2 == 0)
        attend_by_place(lesson, tokens, HeadPositions::alibi, "with_alibi");

    //! [odd]
    lesson.heading("9. An odd number of features, and another base: the last sine has no cosine");
    sinusoidal_positions(n, 5, {.base = 100}, trace.scope("odd"));
    //! [odd]
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("08_positions", argc, argv, teach); }
