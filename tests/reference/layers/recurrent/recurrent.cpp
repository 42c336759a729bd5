#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"

#include "interventions.hpp"
#include "reference/layers/laws.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

#include <cmath>

using namespace attn;
using namespace attn::test;

namespace {

double share(double x) { return 1 / (1 + std::exp(-x)); }

/// Column j of a map of a vector.
double mapped_by_hand(const Vector& x, const LinearWeights& weights, std::size_t j)
{
    double sum = weights.bias ? (*weights.bias)(j) : 0.0;
    for (std::size_t i = 0; i < x.size(); ++i)
        sum += x(i) * weights.weight(i, j);
    return sum;
}

Vector gru_by_hand(const Vector& x, const Vector& h, const RecurrentCellWeights& w, ResetGate where)
{
    const std::size_t d = h.size();
    Vector reset(h.shape()), update(h.shape()), selected(h.shape()), result(h.shape());
    for (std::size_t j = 0; j < d; ++j) {
        reset(j) = share(mapped_by_hand(x, w.input, j) + mapped_by_hand(h, w.recurrent, j));
        update(j) = share(mapped_by_hand(x, w.input, d + j) + mapped_by_hand(h, w.recurrent, d + j));
        selected(j) = reset(j) * h(j);
    }
    for (std::size_t j = 0; j < d; ++j) {
        const double past = where == ResetGate::after_product ? reset(j) * mapped_by_hand(h, w.recurrent, 2 * d + j)
                                                              : mapped_by_hand(selected, w.recurrent, 2 * d + j);
        const double candidate = std::tanh(mapped_by_hand(x, w.input, 2 * d + j) + past);
        result(j) = (1 - update(j)) * candidate + update(j) * h(j);
    }
    return result;
}

LstmStateOf<Vector> lstm_by_hand(const Vector& x, const LstmStateOf<Vector>& before, const RecurrentCellWeights& w)
{
    const std::size_t d = before.hidden.size();
    LstmStateOf<Vector> after{before.hidden, before.cell};
    for (std::size_t j = 0; j < d; ++j) {
        const auto sum = [&](std::size_t gate) {
            return mapped_by_hand(x, w.input, gate * d + j) + mapped_by_hand(before.hidden, w.recurrent, gate * d + j);
        };
        after.cell(j) = share(sum(1)) * before.cell(j) + share(sum(0)) * std::tanh(sum(2));
        after.hidden(j) = share(sum(3)) * std::tanh(after.cell(j));
    }
    return after;
}

Vector row_of(const Matrix& matrix, std::size_t i) { return xt::view(matrix, i, xt::all()); }
RecurrentWeights forward_only(const RecurrentCellWeights& cell) { return {{{cell, {}}}}; }
RecurrentWeights backward_only(const RecurrentCellWeights& cell) { return {{{{}, cell}}}; }

Matrix reversed(const Matrix& x)
{
    std::vector<std::size_t> order;
    for (std::size_t i = x.shape(0); i-- > 0;)
        order.push_back(i);
    return rows_by_hand(x, order);
}

constexpr ResetGate both_gates[] = {ResetGate::after_product, ResetGate::before_product};

/// A cell whose biases open (large) or shut (small) each gate, whatever comes in.
RecurrentCellWeights cell_with_gates(const std::vector<double>& biases, std::size_t d_hidden)
{
    const std::size_t d_gates = biases.size() * d_hidden;
    Vector bias(Vector::shape_type{d_gates});
    for (std::size_t i = 0; i < d_gates; ++i)
        bias(i) = biases[i / d_hidden];
    return {{xt::zeros<double>({2ul, d_gates}), bias}, {xt::zeros<double>({d_hidden, d_gates})}};
}

constexpr double open = 1000, shut = -1000; // so far out that the gate is exactly one or zero

std::string complaint_of(const std::function<void()>& run) { return caught<ShapeError>(run, "fits"); }

} // namespace

// --------------------------------------------------------------------------------------------------------------- cells

TEST_CASE("a step of a GRU is its equations, number by number", "[layers][recurrent]")
{
    Numbers numbers(1);
    for (const ResetGate reset : both_gates)
        for (const std::size_t d_in : {1, 3})
            for (const std::size_t d_hidden : {1, 2, 4})
                for (const bool is_biased : {true, false}) {
                    CAPTURE(d_in, d_hidden, is_biased);
                    const RecurrentCellWeights weights = random_cell(numbers, d_in, d_hidden, 3, is_biased);
                    const Vector x = numbers.vector(d_in), hidden = numbers.vector(d_hidden);
                    CHECK(close(gru_cell(x, hidden, weights, {reset}), gru_by_hand(x, hidden, weights, reset)));
                }
}

TEST_CASE("a step of an LSTM is its equations, number by number", "[layers][recurrent]")
{
    Numbers numbers(2);
    for (const std::size_t d_hidden : {1, 2, 5})
        for (const bool is_biased : {true, false}) {
            const RecurrentCellWeights weights = random_cell(numbers, 3, d_hidden, 4, is_biased);
            const Vector x = numbers.vector(3), hidden = numbers.vector(d_hidden);
            const LstmStateOf<Vector> before{hidden, numbers.vector(d_hidden)};
            const LstmStateOf<Vector> found = lstm_cell(x, before, weights);
            const LstmStateOf<Vector> expected = lstm_by_hand(x, before, weights);
            CHECK(close(found.hidden, expected.hidden));
            CHECK(close(found.cell, expected.cell));
        }
}

TEST_CASE("a GRU whose update gate is open keeps its state, and one whose gate is shut takes the candidate",
          "[layers][recurrent]")
{
    const Vector x{1, 2}, hidden{0.5, -0.25, 3};
    for (const ResetGate reset : both_gates) {
        CHECK(same_bits(gru_cell(x, hidden, cell_with_gates({0, open, 1}, 3), {reset}), hidden));
        const double candidate = std::tanh(1.0);
        CHECK(close(gru_cell(x, hidden, cell_with_gates({0, shut, 1}, 3), {reset}),
                    Vector{candidate, candidate, candidate}, 1e-15));
    }
}

TEST_CASE("an open reset gate gives one candidate wherever it acts, and a shut one hides the past",
          "[layers][recurrent]")
{
    Numbers numbers(3);
    RecurrentCellWeights weights = random_cell(numbers, 2, 3, 3, true);
    const Vector x = numbers.vector(2), hidden = numbers.vector(3), other = numbers.vector(3);
    CHECK_FALSE(close(gru_cell(x, hidden, weights, {ResetGate::after_product}),
                      gru_cell(x, hidden, weights, {ResetGate::before_product})));
    for (std::size_t j = 0; j < 3; ++j)
        (*weights.input.bias)(j) = open;
    CHECK(close(gru_cell(x, hidden, weights, {ResetGate::after_product}),
                gru_cell(x, hidden, weights, {ResetGate::before_product})));

    for (std::size_t j = 0; j < 3; ++j) {
        (*weights.input.bias)(j) = shut;     // of the reset gate
        (*weights.input.bias)(3 + j) = shut; // of the update gate
    }
    for (const ResetGate reset : both_gates)
        CHECK(close(gru_cell(x, hidden, weights, {reset}), gru_cell(x, other, weights, {reset}), 1e-15));
}

TEST_CASE("negating the update gate's weights exchanges state and candidate in a GRU's mixture", "[layers][recurrent]")
{
    Numbers numbers(4);
    const RecurrentCellWeights weights = random_cell(numbers, 2, 2, 3, false);
    RecurrentCellWeights turned = weights;
    for (std::size_t j = 2; j < 4; ++j)
        for (std::size_t i = 0; i < 2; ++i) {
            turned.input.weight(i, j) *= -1;
            turned.recurrent.weight(i, j) *= -1;
        }
    const Vector x = numbers.vector(2), hidden = numbers.vector(2);
    Recorder recorder;
    const Vector found = gru_cell(x, hidden, turned, {}, Trace(recorder));
    const auto step = [&](const std::string& path) {
        for (const Step& one : recorder.steps())
            if (one.path == path)
                return from_array<Vector>(one.value);
        throw std::out_of_range(path);
    };
    const Vector candidate = step("candidate"), update = step("update");
    CHECK(close(gru_cell(x, hidden, weights), Vector(update * candidate + (1 - update) * hidden)));
    CHECK_FALSE(close(gru_cell(x, hidden, weights), found));
}

TEST_CASE("an LSTM whose forget gate is open and whose input gate is shut remembers, bit for bit",
          "[layers][recurrent]")
{
    const LstmStateOf<Vector> before{Vector{0.5, 1}, Vector{0.75, -20}};
    const LstmStateOf<Vector> hides = lstm_cell(Vector{1, 2}, before, cell_with_gates({shut, open, 1, shut}, 2));
    CHECK(same_bits(hides.cell, before.cell));
    CHECK(close(hides.hidden, Vector{0, 0}, 0));
    const LstmStateOf<Vector> shows = lstm_cell(Vector{1, 2}, before, cell_with_gates({shut, open, 1, open}, 2));
    CHECK(close(shows.hidden, Vector{std::tanh(0.75), std::tanh(-20.0)}, 1e-15));
    const LstmStateOf<Vector> forgets = lstm_cell(Vector{1, 2}, before, cell_with_gates({open, shut, 1, open}, 2));
    CHECK(close(forgets.cell, Vector{std::tanh(1.0), std::tanh(1.0)}, 1e-15));
}

TEST_CASE("a cell gives for a batch what it gives for each sequence alone", "[layers][recurrent][batch]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(3, 2), hidden = numbers.matrix(3, 4), cell = numbers.matrix(3, 4);
    const RecurrentCellWeights three = random_cell(numbers, 2, 4, 3), four = random_cell(numbers, 2, 4, 4);
    const LstmStateOf<Matrix> of_lstm = lstm_cell(x, {hidden, cell}, four);
    for (std::size_t b = 0; b < 3; ++b) {
        for (const ResetGate reset : both_gates)
            CHECK(close(row_of(gru_cell(x, hidden, three, {reset}), b),
                        gru_cell(row_of(x, b), row_of(hidden, b), three, {reset})));
        const LstmStateOf<Vector> alone = lstm_cell(row_of(x, b), {row_of(hidden, b), row_of(cell, b)}, four);
        CHECK(close(row_of(of_lstm.hidden, b), alone.hidden));
        CHECK(close(row_of(of_lstm.cell, b), alone.cell));
    }
}

// ----------------------------------------------------------------------------------------------------------- sequences

TEST_CASE("a GRU is its cell, token by token", "[layers][recurrent]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(5, 3), initial = numbers.matrix(1, 2);
    const RecurrentCellWeights cell = random_cell(numbers, 3, 2, 3);
    for (const ResetGate reset : both_gates) {
        const Gru found = gru(x, initial, {}, forward_only(cell), {reset});
        Vector state = row_of(initial, 0);
        for (std::size_t i = 0; i < 5; ++i) {
            state = gru_cell(row_of(x, i), state, cell, {reset});
            CHECK(close(row_of(found.output, i), state));
        }
        CHECK(close(row_of(found.final_hidden, 0), state));
    }
}

TEST_CASE("an LSTM is its cell, token by token", "[layers][recurrent]")
{
    Numbers numbers(7);
    const Matrix x = numbers.matrix(4, 3), hidden = numbers.matrix(1, 2), cell = numbers.matrix(1, 2);
    const RecurrentCellWeights weights = random_cell(numbers, 3, 2, 4);
    const Lstm found = lstm(x, LstmStateOf<Matrix>{hidden, cell}, {}, forward_only(weights));
    LstmStateOf<Vector> state{row_of(hidden, 0), row_of(cell, 0)};
    for (std::size_t i = 0; i < 4; ++i) {
        state = lstm_cell(row_of(x, i), state, weights);
        CHECK(close(row_of(found.output, i), state.hidden));
    }
    CHECK(close(row_of(found.final.hidden, 0), state.hidden));
    CHECK(close(row_of(found.final.cell, 0), state.cell));
}

TEST_CASE("states are zeros unless given", "[layers][recurrent]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(3, 2), zeros = xt::zeros<double>({2, 3});
    const RecurrentWeights three = random_recurrent(numbers, 2, 3, 3, 2), four = random_recurrent(numbers, 2, 3, 4, 2);
    CHECK(same_bits(gru(x, three).output, gru(x, zeros, {}, three).output));
    CHECK(same_bits(lstm(x, four).output, lstm(x, LstmStateOf<Matrix>{zeros, zeros}, {}, four).output));
}

TEST_CASE("reading on from a final state is reading all at once", "[layers][recurrent]")
{
    Numbers numbers(9);
    const Matrix x = numbers.matrix(6, 2);
    const Matrix head = xt::view(x, xt::range(0, 4), xt::all()), tail = xt::view(x, xt::range(4, 6), xt::all());
    const RecurrentWeights three = random_recurrent(numbers, 2, 3, 3, 2), four = random_recurrent(numbers, 2, 3, 4, 2);
    const Gru of_head = gru(head, three);
    CHECK(close(gru(tail, of_head.final_hidden, {}, three).output,
                Matrix(xt::view(gru(x, three).output, xt::range(4, 6), xt::all()))));
    const Lstm lstm_of_head = lstm(head, four);
    CHECK(close(lstm(tail, lstm_of_head.final, {}, four).output,
                Matrix(xt::view(lstm(x, four).output, xt::range(4, 6), xt::all()))));
}

TEST_CASE("reading backward is reading the reversed sequence", "[layers][recurrent]")
{
    Numbers numbers(10);
    const Matrix x = numbers.matrix(5, 2);
    const RecurrentCellWeights cell = random_cell(numbers, 2, 3, 3);
    const Gru backward = gru(x, backward_only(cell));
    const Gru turned = gru(reversed(x), forward_only(cell));
    CHECK(close(backward.output, reversed(turned.output)));
    CHECK(close(backward.final_hidden, turned.final_hidden));
}

TEST_CASE("both directions stand side by side, forward first", "[layers][recurrent]")
{
    Numbers numbers(11);
    const Matrix x = numbers.matrix(4, 2);
    const RecurrentCellWeights there = random_cell(numbers, 2, 3, 4), back = random_cell(numbers, 2, 3, 4);
    const Lstm both = lstm(x, RecurrentWeights{{{there, back}}});
    CHECK(close(columns_by_hand(both.output, 0, 3), lstm(x, forward_only(there)).output));
    CHECK(close(columns_by_hand(both.output, 3, 6), lstm(x, backward_only(back)).output));
    CHECK(close(row_of(both.final.cell, 0), row_of(lstm(x, forward_only(there)).final.cell, 0)));
    CHECK(close(row_of(both.final.cell, 1), row_of(lstm(x, backward_only(back)).final.cell, 0)));
}

TEST_CASE("a later token changes no earlier output of a GRU that reads forward, and every one that follows",
          "[layers][recurrent]")
{
    Numbers numbers(12);
    const Matrix x = numbers.matrix(5, 2);
    Matrix changed = x;
    changed(2, 0) += 1;
    const RecurrentWeights weights = random_recurrent(numbers, 2, 3, 3, 2);
    const Matrix before = gru(x, weights).output, after = gru(changed, weights).output;
    for (std::size_t i = 0; i < 5; ++i)
        CHECK(same_bits(row_of(before, i), row_of(after, i)) == (i < 2));
}

TEST_CASE("recurrent layers give for a batch what they give for each sequence alone, also of shorter ones",
          "[layers][recurrent][batch]")
{
    Numbers numbers(13);
    const Tensor3 x = numbers.tensor3(3, 4, 2);
    const Integers lengths{4, 1, 3};
    const RecurrentWeights three = random_recurrent(numbers, 2, 3, 3, 2, true);
    const RecurrentWeights four = random_recurrent(numbers, 2, 3, 4, 2, true);
    const BatchGru of_gru = gru(x, {}, lengths, three);
    const BatchLstm of_lstm = lstm(x, {}, lengths, four);
    for (std::size_t b = 0; b < 3; ++b) {
        CAPTURE(b);
        const Matrix whole = sequence_by_hand(x, b);
        const Matrix real = xt::view(whole, xt::range(0, lengths(b)), xt::all());
        const Gru alone = gru(real, three);
        const Lstm lstm_alone = lstm(real, four);
        const Matrix output = sequence_by_hand(of_gru.output, b), lstm_output = sequence_by_hand(of_lstm.output, b);
        for (std::size_t i = 0; i < 4; ++i) {
            const Vector none = xt::zeros<double>({6});
            CHECK(close(row_of(output, i), static_cast<std::int64_t>(i) < lengths(b) ? row_of(alone.output, i) : none));
            CHECK(close(row_of(lstm_output, i),
                        static_cast<std::int64_t>(i) < lengths(b) ? row_of(lstm_alone.output, i) : none));
        }
        for (std::size_t cell = 0; cell < 4; ++cell) {
            CHECK(close(Vector(xt::view(of_gru.final_hidden, cell, b, xt::all())), row_of(alone.final_hidden, cell)));
            CHECK(close(Vector(xt::view(of_lstm.final.cell, cell, b, xt::all())), row_of(lstm_alone.final.cell, cell)));
        }
    }
}

TEST_CASE("padding after a sequence's end changes nothing", "[layers][recurrent][batch]")
{
    Numbers numbers(14);
    const Tensor3 x = numbers.tensor3(2, 4, 2);
    Tensor3 other = x;
    xt::view(other, 1, xt::range(2, 4), xt::all()) = 100.0;
    const RecurrentWeights weights = random_recurrent(numbers, 2, 3, 3, 2, true);
    const Integers lengths{4, 2};
    CHECK(same_bits(gru(x, {}, lengths, weights).output, gru(other, {}, lengths, weights).output));
    CHECK(same_bits(gru(x, {}, lengths, weights).final_hidden, gru(other, {}, lengths, weights).final_hidden));
    CHECK_FALSE(same_bits(gru(x, weights).output, gru(other, weights).output));
}

TEST_CASE("traced GRUs and LSTMs give the same bits, and their formulas hold", "[layers][recurrent][trace]")
{
    Numbers numbers(15);
    const Tensor3 x = numbers.tensor3(2, 3, 2), hidden = numbers.tensor3(4, 2, 3), cell = numbers.tensor3(4, 2, 3);
    const LstmStateOf<Tensor3> state{hidden, cell};
    const Integers lengths{3, 1};
    for (const bool is_biased : {true, false}) {
        const RecurrentWeights three = random_recurrent(numbers, 2, 3, 3, 2, true, is_biased);
        const RecurrentWeights four = random_recurrent(numbers, 2, 3, 4, 2, true, is_biased);
        for (const ResetGate reset : both_gates) {
            const GruOptions options{reset};
            traced([&](const Trace& trace) { return gru(x, hidden, lengths, three, options, trace).output; });
        }
        traced([&](const Trace& trace) { return lstm(x, state, lengths, four, trace).final.cell; });
    }
}

TEST_CASE("after any step is replaced, everything else of a GRU or LSTM follows from it",
          "[layers][recurrent][slow][interventions]")
{
    Numbers numbers(16);
    const Tensor3 x = numbers.tensor3(2, 3, 2), hidden = numbers.tensor3(4, 2, 2), cell = numbers.tensor3(4, 2, 2);
    const Integers lengths{3, 1};
    const RecurrentWeights three = random_recurrent(numbers, 2, 2, 3, 2, true);
    const RecurrentWeights four = random_recurrent(numbers, 2, 2, 4, 2, true);
    for (const ResetGate reset : both_gates) {
        const auto run_gru = [&](const Trace& trace) { gru(x, hidden, lengths, three, {reset}, trace); };
        CHECK(expect_replacements_used(run_gru) > 200);
        expect_roundings_used(run_gru);
    }
    const auto run_lstm = [&](const Trace& trace) {
        lstm(x, LstmStateOf<Tensor3>{hidden, cell}, lengths, four, trace);
    };
    CHECK(expect_replacements_used(run_lstm) > 300);
    expect_roundings_used(run_lstm);

    const Matrix sequence = numbers.matrix(3, 2), tokens = numbers.matrix(2, 2), states = numbers.matrix(2, 2);
    expect_replacements_used([&](const Trace& trace) { gru(sequence, three, {}, trace); });
    expect_replacements_used([&](const Trace& trace) { lstm(sequence, four, trace); });
    expect_replacements_used(
        [&](const Trace& trace) { gru_cell(tokens, states, *three.layers[0].forward, {}, trace); });
    expect_replacements_used([&](const Trace& trace) {
        lstm_cell(tokens, {states, states}, *four.layers[0].forward, trace);
    });
}

TEST_CASE("replaced lengths are used, and refused where no sequence can have them",
          "[layers][recurrent][interventions]")
{
    Numbers numbers(19);
    const Tensor3 x = numbers.tensor3(2, 3, 2);
    const RecurrentWeights weights = random_recurrent(numbers, 2, 3, 3);
    const auto shortened = [&](const Integers& lengths) {
        ReplaceStep shorter("lengths", [](double length) { return length - 1; });
        return gru(x, {}, lengths, weights, {}, Trace(shorter)).output;
    };
    CHECK(same_bits(shortened({3, 2}), gru(x, {}, Integers{2, 1}, weights).output));
    CHECK_THAT(complaint_of([&] { shortened({3, 1}); }), ContainsSubstring("a length is 0"));
}

// -------------------------------------------------------------------------------------------------------------- errors

TEST_CASE("a cell says what does not fit", "[layers][recurrent][error]")
{
    Numbers numbers(17);
    const RecurrentCellWeights three = random_cell(numbers, 2, 3, 3);
    const Vector x = numbers.vector(2), hidden = numbers.vector(3);
    CHECK(
        complaint_of([&] { gru_cell(numbers.vector(4), hidden, three); }) ==
        "gru_cell: x (4,) and input weights (2, 9) must agree in d_in: axis 0 of x is 4, axis 0 of input weights is 2");
    CHECK_THAT(complaint_of([&] { gru_cell(x, numbers.vector(2), three); }),
               ContainsSubstring("gru_cell: previous_hidden (2,) and recurrent weights (3, 9) must agree in d_hidden"));
    CHECK(complaint_of([&] {
              lstm_cell(x, {hidden, hidden}, three);
          }) == "lstm_cell: recurrent weights (3, 9) do not hold 4 gates of d_hidden columns each, expected (3, 12)");
    CHECK_THAT(complaint_of([&] {
                   lstm_cell(x, {hidden, numbers.vector(2)}, random_cell(numbers, 2, 3, 4));
               }),
               ContainsSubstring("previous_hidden (3,) and previous_cell (2,) must agree in d_hidden"));
    CHECK_THAT(complaint_of([&] { gru_cell(numbers.matrix(2, 2), numbers.matrix(3, 3), three); }),
               ContainsSubstring("must agree in b"));
    RecurrentCellWeights uneven = three;
    uneven.input.weight = numbers.matrix(2, 6);
    CHECK_THAT(complaint_of([&] { gru_cell(x, hidden, uneven); }), ContainsSubstring("must agree in d_gates"));
    uneven = three;
    uneven.recurrent.bias = numbers.vector(3);
    CHECK_THAT(complaint_of([&] { gru_cell(x, hidden, uneven); }),
               ContainsSubstring("its bias (3,) must agree in d_gates"));
}

TEST_CASE("a GRU and an LSTM say what does not fit", "[layers][recurrent][error]")
{
    Numbers numbers(18);
    const Matrix x = numbers.matrix(3, 2), none(Matrix::shape_type{0, 2});
    const Tensor3 batch = numbers.tensor3(2, 3, 2);
    const RecurrentWeights two = random_recurrent(numbers, 2, 3, 3, 2);
    CHECK(complaint_of([&] { gru(x, RecurrentWeights{}); }) == "gru: there are no layers, expected at least one");
    CHECK(complaint_of([&] { lstm(x, RecurrentWeights{{{}}}); }) ==
          "lstm: layer 0 reads neither forward nor backward, expected weights of at least one direction");
    CHECK(complaint_of([&] { gru(none, two); }) == "gru: x (0, 2) has no tokens, expected at least one");
    CHECK(complaint_of([&] { gru(x, numbers.matrix(1, 3), {}, two); }) ==
          "gru: initial_hidden (1, 3) does not fit, expected (2, 3): a state for each layer and direction");
    CHECK(
        complaint_of([&] { gru(batch, numbers.tensor3(2, 1, 3), {}, two); }) ==
        "gru: initial_hidden (2, 1, 3) does not fit, expected (2, 2, 3): a state for each layer and direction, of each "
        "sequence");
    CHECK_THAT(complaint_of([&] {
                   lstm(x, LstmStateOf<Matrix>{numbers.matrix(1, 3), numbers.matrix(1, 2)}, {},
                        random_recurrent(numbers, 2, 3, 4));
               }),
               ContainsSubstring("lstm: initial_cell (1, 2) does not fit"));
    CHECK(complaint_of([&] { gru(batch, {}, Integers{3}, two); }) ==
          "gru: 1 lengths for x (2, 3, 2), expected one for each sequence of a batch");
    CHECK_THAT(complaint_of([&] { gru(x, {}, Integers{3}, two); }), ContainsSubstring("of a batch"));
    CHECK(complaint_of([&] {
              gru(batch, {}, Integers{0, 3}, two);
          }) == "gru: a length is 0, expected 1 to n = 3 tokens");
    CHECK_THAT(complaint_of([&] { gru(batch, {}, Integers{3, 4}, two); }), ContainsSubstring("a length is 4"));
    RecurrentWeights wider = two;
    wider.layers[1] = random_recurrent(numbers, 3, 4, 3).layers[0];
    CHECK_THAT(complaint_of([&] { gru(x, wider); }), ContainsSubstring("must agree in d_hidden"));
}
