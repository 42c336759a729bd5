// Lesson 8: positions.
//
// Attention gives a token the same result wherever it stands. So each position gets a row
// of numbers of its own, which is added to the token's row: sines and cosines, or a
// learned table. (Later models rotate queries and keys instead, or lower the scores:
// lesson 16.)

#include "../lesson.hpp"
#include "../small_model.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/layers/position.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <cmath>
#include <limits>

using namespace attn;

namespace {

/// Self-attention without any weights of its own: tokens are queries, keys and values at
/// once.
Matrix attend(const Trace& trace, const Matrix& x)
{
    for (const std::string_view name : {"queries", "keys", "values"})
        trace.alias(name, "x");
    return scaled_dot_product_attention(x, x, x, {}, trace).context;
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

/// The least distance of two rows.
double nearest_rows(const Matrix& x)
{
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < x.shape(0); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const Vector between = xt::row(x, static_cast<std::ptrdiff_t>(i)) -
                                   xt::row(x, static_cast<std::ptrdiff_t>(j));
            least = std::min(least, std::sqrt(sum_all(Vector(between * between))));
        }
    return least;
}

/// Tokens in another order give the same outputs in that order.
void show_a_bag_of_words(Lesson& lesson, const Matrix& tokens, const Integers& order)
{
    const Trace bag = lesson.trace().scope("bag");
    //! [bag]
    const Trace straight = bag.scope("straight", {{"x", "tokens"}});
    const Trace turned = bag.scope("turned");
    const Matrix context = attend(straight, tokens);
    const Matrix reordered = turned("x[n, d]", "tokens[order]", take_rows(tokens, order));
    const Matrix other = attend(turned, reordered);
    //! [bag]
    lesson.expect_equal("the reordered tokens have the same outputs, reordered", other,
                        take_rows(context, order));
}

/// The sentence of the course with two words exchanged, without positions and with the
/// small model's.
void shuffle_sentence(Lesson& lesson)
{
    const SmallModel model = small_model();
    const Trace words = lesson.trace().scope("sentence");
    const Matrix tokens =
        words("tokens[n, d]", "",
              take_rows(model.weights.token_embedding, model.ids(sentence())));
    const Matrix positions =
        words("positions[n, d]", "",
              learned_positions(model.weights.position_embedding, tokens.shape(0)));
    const Integers order = words("order[n]", "", Integers{4, 1, 2, 3, 0, 5, 6});

    const Trace without = words.scope("without"), with = words.scope("with");
    const Trace straight = without.scope("straight", {{"x", "tokens"}});
    const Trace turned = without.scope("turned");
    const Matrix context = attend(straight, tokens);
    const Matrix shuffled = turned("x[n, d]", "tokens[order]", take_rows(tokens, order));
    lesson.expect_equal(
        "without positions each word's output is the same after the shuffle",
        attend(turned, shuffled), take_rows(context, order));

    const Trace placed = with.scope("straight"), moved = with.scope("turned");
    const Matrix here = attend(
        placed, placed("x[n, d]", "tokens + positions", Matrix(tokens + positions)));
    const Matrix there =
        attend(moved, moved("x[n, d]", "tokens[order] + positions",
                            Matrix(take_rows(tokens, order) + positions)));
    const double change =
        with("change", "max(abs(turned.context - straight.context[order]))",
             largest_difference(there, take_rows(here, order)));
    lesson.expect("with positions it is another one", change > 1e-3);
}

/// The two ways to lay out sines and cosines are one permutation of each other.
/// @return the permutation: row i of the interleaved features is row order(i) of those in
/// halves
Integers compare_layouts(Lesson& lesson, const Matrix& positions)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1), sines = (d + 1) / 2;
    const Trace halves = lesson.trace().scope("halves");
    Integers places(Integers::shape_type{
        d}); // interleaved feature i stands at places(i) of the halves
    for (std::size_t i = 0; i < d; ++i)
        places(i) = static_cast<std::int64_t>(i / 2 + (i % 2) * sines);
    //! [layouts]
    const Matrix sines_first =
        sinusoidal_positions(n, d, {.layout = SineLayout::halves}, halves);
    const Integers order = halves("order[d]", "", places);
    const Matrix reordered = halves("reordered[n, d]", "positions.T[order].T",
                                    transpose(take_rows(transpose(sines_first), order)));
    //! [layouts]
    lesson.expect_equal("halves are the interleaved features in another order", reordered,
                        positions);
    return order;
}

/// Positions added to the tokens, or concatenated: either way the order makes a
/// difference.
void join_positions(Lesson& lesson, const Matrix& tokens, const Matrix& positions,
                    const Integers& order)
{
    const Trace added = lesson.trace().scope("added");
    //! [added]
    const Trace straight = added.scope("straight"), turned = added.scope("turned");
    const Matrix context = attend(
        straight, straight("x[n, d]", "tokens + positions", Matrix(tokens + positions)));
    const Matrix other =
        attend(turned, turned("x[n, d]", "tokens[order] + positions",
                              Matrix(take_rows(tokens, order) + positions)));
    //! [added]
    if (lesson.is_example())
        lesson.expect("with positions added, another order gives other outputs",
                      largest_difference(other, take_rows(context, order)) > 0.1);

    //! [beside]
    const Trace beside = lesson.trace().scope("beside");
    attend(beside, beside("x[n, d]", "concat(tokens, positions, axis=1)",
                          concat_columns(std::vector<Matrix>{tokens, positions})));
    //! [beside]
}

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

/// A step of two positions is one fixed matrix: it rotates each pair of features by twice
/// its frequency.
/// @param order  from features in halves to interleaved ones
void shift_positions(Lesson& lesson, const Matrix& positions, const Integers& order)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1);
    if (d % 2 != 0 || n <= 2)
        return; // the last sine of an odd size has no cosine to rotate with
    const Trace shift = lesson.trace().scope("shift");
    const Vector frequencies = xt::pow(
        10000.0, -2.0 * xt::arange<double>(static_cast<double>(d / 2)) / double(d));
    const std::string twice = "2 * 10000 ** (-2 * arange(" + std::to_string(d / 2) +
                              ") / " + std::to_string(d) + ")";
    //! [shift]
    const Vector angles = shift("angles[pairs]", twice, Vector(2.0 * frequencies));
    const Matrix by_halves =
        shift("by_halves[d, d]",
              "concat(concat(diag(cos(angles)), -diag(sin(angles)), axis=1), "
              "concat(diag(sin(angles)), diag(cos(angles)), axis=1), axis=0)",
              rotations(angles));
    const Matrix matrix =
        shift("matrix[d, d]", "by_halves[halves.order].T[halves.order].T",
              transpose(take_rows(transpose(take_rows(by_halves, order)), order)));
    //! [shift]
    lesson.expect_equal("position_shift gives the same matrix", matrix,
                        position_shift(2, d));

    const Matrix earlier =
        xt::view(positions, xt::range(std::size_t{0}, n - 2), xt::all());
    const Matrix later = xt::view(positions, xt::range(std::size_t{2}, n), xt::all());
    //! [moved]
    const Matrix moved =
        shift("moved[rest, d]", "positions[:-2] @ matrix", matmul(earlier, matrix));
    //! [moved]
    lesson.expect_equal("each position times this matrix is the position two later",
                        moved, later);
}

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

    lesson.heading("2. The words of the sentence, with Lily and ball exchanged");
    shuffle_sentence(lesson);

    lesson.heading("3. Sinusoidal positions: a sine and a cosine per pair of features");
    //! [sinusoidal]
    const Matrix positions = sinusoidal_positions(n, d, {}, trace);
    //! [sinusoidal]

    lesson.heading("4. The same for 100 positions and 64 features");
    //! [map]
    const Matrix map = sinusoidal_positions(100, 64, {}, trace.scope("map"));
    //! [map]
    lesson.expect("no two of the 100 rows are equal", nearest_rows(map) > 0.1);

    lesson.heading("5. All sines first, then all cosines");
    const Integers layout = compare_layouts(lesson, positions);

    lesson.heading("6. Added to the tokens, or concatenated with them");
    join_positions(lesson, tokens, positions, order);

    lesson.heading("7. Learned positions: one row per position of the longest sequence");
    const Matrix table = lesson.input("table[n_max, d]", Matrix{{0.5, -0.25, 0, 0.75},
                                                                {-1, 0.5, 0.25, 0},
                                                                {0.25, 1, -0.5, -0.75},
                                                                {0, -0.5, 1, 0.25},
                                                                {0.75, 0, -1, 0.5},
                                                                {-0.25, 0.75, 0.5, -1}});
    //! [learned]
    const Trace learned = trace.scope("learned", {{"table", "table"}});
    const Matrix rows = learned_positions(table, n, 0, learned);
    const Matrix embedded =
        learned("embedded[n, d]", "tokens + positions", Matrix(tokens + rows));
    //! [learned]
    lesson.expect("a row of the table per token", embedded.shape(0) == n);

    lesson.heading("8. Two positions later: one fixed matrix");
    shift_positions(lesson, positions, layout);

    lesson.heading("9. An odd number of features, and another base");
    //! [odd]
    sinusoidal_positions(n, 5, {.base = 100}, trace.scope("odd"));
    //! [odd]
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("08_positions", argc, argv, teach); }
