// Lesson 8: where a token stands.
//
// Attention takes a set: without help it is a bag of words. So each place gets numbers of its own, which are added to the
// token that stands there. (Later models rotate queries and keys instead, or lower the scores: lesson 16.)

#include "../lesson.hpp"

#include "attn/attention/dot_product.hpp"
#include "attn/layers/position.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"

#include <cmath>
#include <tuple>

using namespace attn;

namespace {

/// Self-attention without any weights of its own: tokens are queries, keys and values at once.
Matrix attend(const Trace& trace, const Matrix& x)
{
    for (const std::string_view name : {"queries", "keys", "values"})
        trace.alias(name, "x");
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

double largest_difference(const Matrix& left, const Matrix& right)
{
    return max_all(Matrix(xt::abs(left - right)));
}

//! [bag]
/// Tokens in another order come out in that order, and are otherwise the same.
void show_a_bag_of_words(Lesson& lesson, const Matrix& tokens, const Integers& order)
{
    const Trace bag = lesson.trace().scope("bag");
    const Trace straight = bag.scope("straight", {{"x", "tokens"}}),
                turned = bag.scope("turned");
    const Matrix context = attend(straight, tokens);
    const Matrix other =
        attend(turned, turned("x[n, d]", "tokens[order]", take_rows(tokens, order)));
    lesson.expect_equal("permute the tokens, and the outputs permute alike: attention "
                        "can't tell their order",
                        other, take_rows(context, order));
}
//! [bag]

//! [layouts]
/// The two ways to lay out sines and cosines are one permutation of each other.
/// @return the permutation: row i of the interleaved features is row order(i) of those in halves
Integers compare_layouts(Lesson& lesson, const Matrix& positions)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1), sines = (d + 1) / 2;
    const Trace halves = lesson.trace().scope("halves");
    const Matrix sines_first =
        sinusoidal_positions(n, d, {.layout = SineLayout::halves}, halves);
    Integers places(Integers::shape_type{
        d}); // interleaved feature i stands at places(i) of the halves
    for (std::size_t i = 0; i < d; ++i)
        places(i) = static_cast<std::int64_t>(i / 2 + (i % 2) * sines);
    const Integers order = halves("order[d]", "", places);
    const Matrix reordered = halves("reordered[n, d]", "positions.T[order].T",
                                    transpose(take_rows(transpose(sines_first), order)));
    lesson.expect_equal("halves are the interleaved features in another order", reordered,
                        positions);
    return order;
}
//! [layouts]

//! [join]
/// Added, or put beside: either way the order makes a difference now.
void join_positions(Lesson& lesson, const Matrix& tokens, const Matrix& positions,
                    const Integers& order)
{
    const Trace added = lesson.trace().scope("added");
    const Trace straight = added.scope("straight"), turned = added.scope("turned");
    const Matrix context = attend(
        straight, straight("x[n, d]", "tokens + positions", Matrix(tokens + positions)));
    const Matrix other =
        attend(turned, turned("x[n, d]", "tokens[order] + positions",
                              Matrix(take_rows(tokens, order) + positions)));
    if (lesson.is_example())
        lesson.expect(
            "with positions added, another order of the tokens gives other outputs",
            largest_difference(other, take_rows(context, order)) > 0.1);

    const Trace beside = lesson.trace().scope("beside");
    attend(beside, beside("x[n, d]", "concat(tokens, positions, axis=1)",
                          concat_columns(std::vector<Matrix>{tokens, positions})));
}
//! [join]

//! [shift]
/// A rotation for each pair, where all sines stand before all cosines.
Matrix rotations(const Vector& angles)
{
    const std::size_t pairs = angles.size();
    Matrix matrix = xt::zeros<double>({2 * pairs, 2 * pairs});
    for (std::size_t i = 0; i < pairs; ++i) {
        matrix(i, i) = matrix(pairs + i, pairs + i) = std::cos(angles(i));
        matrix(pairs + i, i) = std::sin(angles(i));
        matrix(i, pairs + i) = -std::sin(angles(i));
    }
    return matrix;
}

/// Moving on by two places is one fixed linear map: each pair of features is rotated by twice its frequency.
/// @param order  from features in halves to interleaved ones
void shift_positions(Lesson& lesson, const Matrix& positions, const Integers& order)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1);
    if (d % 2 != 0 || n <= 2)
        return; // the last sine of an odd size has no cosine to rotate with
    const Trace shift = lesson.trace().scope("shift");
    const Vector frequencies = xt::pow(
        10000.0, -2.0 * xt::arange<double>(static_cast<double>(d / 2)) / double(d));
    const Vector angles = shift("angles[pairs]",
                                "2 * 10000 ** (-2 * arange(" + std::to_string(d / 2) +
                                    ") / " + std::to_string(d) + ")",
                                Vector(2.0 * frequencies));
    const Matrix by_halves =
        shift("by_halves[d, d]",
              "concat(concat(diag(cos(angles)), -diag(sin(angles)), axis=1), "
              "concat(diag(sin(angles)), diag(cos(angles)), axis=1), axis=0)",
              rotations(angles));
    const Matrix matrix =
        shift("matrix[d, d]", "by_halves[halves.order].T[halves.order].T",
              transpose(take_rows(transpose(take_rows(by_halves, order)), order)));
    lesson.expect_equal("position_shift gives the same matrix", matrix,
                        position_shift(2, d));

    const Matrix earlier =
        xt::view(positions, xt::range(std::size_t{0}, n - 2), xt::all());
    const Matrix later = xt::view(positions, xt::range(std::size_t{2}, n), xt::all());
    const Matrix moved =
        shift("moved[rest, d]", "positions[:-2] @ matrix", matmul(earlier, matrix));
    lesson.expect_equal("each position, times this matrix, is the position two places on",
                        moved, later);
}
//! [shift]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A bag of words: four tokens, and the same with the last in front");
    const Matrix tokens = lesson.input(
        "tokens[n, d]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}, {2, 0, 0, 1}});
    const std::size_t n = tokens.shape(0), d = tokens.shape(1);
    const Integers order = trace(
        "order[n]",
        "concat(arange(tokens.shape[0])[-1:], arange(tokens.shape[0])[:-1], axis=0)",
        last_in_front(n));
    show_a_bag_of_words(lesson, tokens, order);

    //! [sinusoidal]
    lesson.heading("2. Sinusoidal positions: each pair of features is a hand of a clock");
    const Matrix positions = sinusoidal_positions(n, d, {}, trace);
    lesson.heading("3. Sines and cosines in halves");
    const Integers layout = compare_layouts(lesson, positions);
    //! [sinusoidal]

    lesson.heading("4. Added to the tokens, or beside them");
    join_positions(lesson, tokens, positions, order);

    //! [learned]
    lesson.heading(
        "5. Learned positions: a table, as long as the longest sequence in training");
    const Matrix table = lesson.input("table[n_max, d]", Matrix{{0.5, -0.25, 0, 0.75},
                                                                {-1, 0.5, 0.25, 0},
                                                                {0.25, 1, -0.5, -0.75},
                                                                {0, -0.5, 1, 0.25},
                                                                {0.75, 0, -1, 0.5},
                                                                {-0.25, 0.75, 0.5, -1}});
    const Trace learned = trace.scope("learned", {{"table", "table"}});
    const Matrix rows = learned_positions(table, n, 0, learned);
    std::ignore = learned("embedded[n, d]", "tokens + positions", Matrix(tokens + rows));
    //! [learned]

    lesson.heading("6. Two places on: a fixed linear map");
    shift_positions(lesson, positions, layout);

    //! [odd]
    lesson.heading(
        "7. An odd number of features, and another base: the last sine has no cosine");
    sinusoidal_positions(n, 5, {.base = 100}, trace.scope("odd"));
    //! [odd]
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("08_positions", argc, argv, teach); }
