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

#include <algorithm>
#include <numeric>

using namespace attn;

namespace {

Integers last_in_front(std::size_t count);
double nearest_rows(const Term<Matrix>& x);
void shuffle_sentence(Lesson& lesson);
Term<Integers> compare_layouts(Lesson& lesson, const Matrix& positions);
void shift_positions(Lesson& lesson, const Term<Matrix>& positions,
                     const Term<Integers>& order);

/// Self-attention without any weights of its own: tokens are queries, keys and values at
/// once.
Term<Matrix> attend(const Trace& trace, const Term<Matrix>& tokens)
{
    const Term x = trace.input("x[n, d]", tokens);
    return scaled_dot_product_attention(x, x, x, {}, trace).context;
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A bag of words: four tokens, and the same with the last in front");
    const Term tokens = lesson.input(
        "tokens[n, d]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}, {2, 0, 0, 1}});
    const std::size_t n = tokens.shape(0), d = tokens.shape(1);
    const Term order = trace(
        "order[n]",
        "concat(arange(tokens.shape[0])[-1:], arange(tokens.shape[0])[:-1], axis=0)",
        Term(last_in_front(n)));
    const Trace bag = trace.scope("bag");
    const Trace straight = bag.scope("straight"), turned = bag.scope("turned");
    //! [bag]
    const Term context = attend(straight, tokens);
    const Term other = attend(turned, take_rows(tokens, order));
    //! [bag]
    lesson.expect_equal("the reordered tokens have the same outputs, reordered", other,
                        take_rows(context, order));

    lesson.heading("2. The words of the sentence, with Lily and ball exchanged");
    shuffle_sentence(lesson);

    lesson.heading("3. Sinusoidal positions: a sine and a cosine per pair of features");
    //! [sinusoidal]
    const Matrix sinusoids = sinusoidal_positions(n, d, {}, trace);
    //! [sinusoidal]
    const Term positions = named(sinusoids, "positions", trace);

    lesson.heading("4. The same for 100 positions and 64 features");
    //! [map]
    const Matrix map = sinusoidal_positions(100, 64, {}, trace.scope("map"));
    //! [map]
    lesson.expect("no two of the 100 rows are equal", nearest_rows(Term(map)) > 0.1);

    lesson.heading("5. All sines first, then all cosines");
    const Term layout = compare_layouts(lesson, sinusoids);

    // Either way the order makes a difference.
    lesson.heading("6. Added to the tokens, or concatenated with them");
    const Trace added = trace.scope("added");
    const Trace here = added.scope("straight"), there = added.scope("turned");
    //! [added]
    const Term with_positions = attend(here, tokens + positions);
    const Term moved = attend(there, take_rows(tokens, order) + positions);
    //! [added]
    if (lesson.is_example())
        lesson.expect("with positions added, another order gives other outputs",
                      *max_all(abs(moved - take_rows(with_positions, order))) > 0.1);
    const Trace beside = trace.scope("beside");
    //! [beside]
    attend(beside, concat(std::vector{tokens, positions}, 1));
    //! [beside]

    lesson.heading("7. Learned positions: one row per position of the longest sequence");
    const Term table = lesson.input("table[n_max, d]", Matrix{{0.5, -0.25, 0, 0.75},
                                                              {-1, 0.5, 0.25, 0},
                                                              {0.25, 1, -0.5, -0.75},
                                                              {0, -0.5, 1, 0.25},
                                                              {0.75, 0, -1, 0.5},
                                                              {-0.25, 0.75, 0.5, -1}});
    const Trace learned = trace.scope("learned");
    //! [learned]
    const Term rows = learned_positions(table, n, 0, learned);
    const Term embedded = learned("embedded[n, d]", tokens + rows);
    //! [learned]
    lesson.expect("a row of the table per token", embedded.shape(0) == n);

    lesson.heading("8. Two positions later: one fixed matrix");
    shift_positions(lesson, positions, layout);

    lesson.heading("9. An odd number of features, and another base");
    //! [odd]
    sinusoidal_positions(n, 5, {.base = 100}, trace.scope("odd"));
    //! [odd]
}

/// The last token in front of the others.
Integers last_in_front(std::size_t count)
{
    Integers order(Integers::shape_type{count});
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.end() - 1, order.end());
    return order;
}

/// The least distance of two rows.
double nearest_rows(const Term<Matrix>& x)
{
    double least = -minus_infinity;
    for (std::size_t i = 0; i < x.shape(0); ++i)
        for (std::size_t j = 0; j < i; ++j)
            least = std::min(least, *sqrt(sum_all(square(row(x, i) - row(x, j)))));
    return least;
}

/// The sentence of the course with two words exchanged, without positions and with the
/// small model's.
void shuffle_sentence(Lesson& lesson)
{
    const SmallModel model = small_model();
    const Trace words = lesson.trace().scope("sentence");
    const Term tokens = words.given(
        "tokens[n, d]", take_rows(model.weights.token_embedding, model.ids(sentence())));
    const Term positions =
        words.given("positions[n, d]",
                    learned_positions(model.weights.position_embedding, tokens.shape(0)));
    const Term order = words.given("order[n]", Integers{4, 1, 2, 3, 0, 5, 6});

    const Trace without = words.scope("without"), with = words.scope("with");
    const Trace straight = without.scope("straight"), turned = without.scope("turned");
    const Term context = attend(straight, tokens);
    lesson.expect_equal(
        "without positions each word's output is the same after the shuffle",
        attend(turned, take_rows(tokens, order)), take_rows(context, order));

    const Trace placed = with.scope("straight"), moved = with.scope("turned");
    const Term here = attend(placed, tokens + positions);
    const Term there = attend(moved, take_rows(tokens, order) + positions);
    const Term change = with("change", max_all(abs(there - take_rows(here, order))));
    lesson.expect("with positions it is another one", *change > 1e-3);
}

/// The two ways to lay out sines and cosines are one permutation of each other.
/// @return the permutation: row i of the interleaved features is row order(i) of those in
/// halves
Term<Integers> compare_layouts(Lesson& lesson, const Matrix& positions)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1), sines = (d + 1) / 2;
    const Trace halves = lesson.trace().scope("halves");
    Integers places(Integers::shape_type{
        d}); // interleaved feature i stands at places(i) of the halves
    for (std::size_t i = 0; i < d; ++i)
        places(i) = static_cast<std::int64_t>(i / 2 + (i % 2) * sines);
    //! [layouts]
    const Matrix by_halves =
        sinusoidal_positions(n, d, {.layout = SineLayout::halves}, halves);
    const Term order = halves.given("order[d]", places);
    const Term features = transpose(named(by_halves, "positions", halves));
    const Term reordered =
        halves("reordered[n, d]", transpose(take_rows(features, order)));
    //! [layouts]
    lesson.expect_equal("halves are the interleaved features in another order", reordered,
                        positions);
    return order;
}

/// A step of two positions is one fixed matrix: it rotates each pair of features by twice
/// its frequency.
/// @param order  from features in halves to interleaved ones
void shift_positions(Lesson& lesson, const Term<Matrix>& positions,
                     const Term<Integers>& order)
{
    const std::size_t n = positions.shape(0), d = positions.shape(1);
    if (d % 2 != 0 || n <= 2)
        return; // the last sine of an odd size has no cosine to rotate with
    const Trace shift = lesson.trace().scope("shift");
    const auto features = static_cast<double>(d);
    //! [shift]
    const Term places = arange(number(features / 2, shift));
    const Term angles = shift("angles[pairs]", 2 * power(10000, -2 * places / features));
    const Term cosines = diag(cos(angles)), sines = diag(sin(angles));
    const Term minus_sines = diag(-sin(angles)); // in -sines, zeros would be -0
    const Term by_halves =
        shift("by_halves[d, d]",
              concat(std::vector{concat(std::vector{cosines, minus_sines}, 1),
                                 concat(std::vector{sines, cosines}, 1)},
                     0));
    const Term in_rows = take_rows(by_halves, order);
    const Term matrix =
        shift("matrix[d, d]", transpose(take_rows(transpose(in_rows), order)));
    //! [shift]
    lesson.expect_equal("position_shift gives the same matrix", matrix,
                        position_shift(2, d));

    //! [moved]
    const Term moved =
        shift("moved[rest, d]", matmul(slice(positions, 0, n - 2), matrix));
    //! [moved]
    lesson.expect_equal("each position times this matrix is the position two later",
                        moved, slice(positions, 2, n));
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("08_positions", argc, argv, teach); }
