// Lesson 21: recurrence, which attention replaced.
//
// A recurrent network reads one word after the other and keeps one state; gates control
// what the state keeps. Each state depends on the previous one. A convolution depends on
// neighbours only, attention on all tokens at once. This lesson measures per layer: how
// far a change travels, how many products must wait for each other, how many
// multiplications.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/chain.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/layers/convolution.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"
#include "attn/reference/ops/random.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

/// The three matrices of the GRU that this lesson writes out, each (d_in + d_hidden,
/// d_hidden).
struct GateWeights {
    Term<Matrix> reset, update, candidate;
};

// The helpers of teach(), which stand below it in this order.
Term<Matrix> read_by_gru(const Trace& trace, const Term<Matrix>& x,
                         const Term<Vector>& initial, const GateWeights& weights);
void read_sentence(const Trace& trace);
void compare_conventions(Lesson& lesson, const Term<Matrix>& x,
                         const Term<Vector>& initial, const GateWeights& weights,
                         const Term<Matrix>& states);
RecurrentCellWeights random_cell(RandomNumbers& numbers, std::size_t d_in,
                                 std::size_t d_hidden, std::size_t gates);
void change_first_token(Lesson& lesson, const Term<Matrix>& x, RandomNumbers& numbers);
void count_waiting(const Trace& waiting, RandomNumbers& numbers);
void count_multiplications(const Trace& cost);
void attend_to_encoder(const Trace& trace, const Matrix& x, std::size_t d_hidden,
                       RandomNumbers& numbers);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A GRU, token by token");
    const Term x = lesson.input("x[n, d_in]", Matrix{{1, 0}, {0, 1}, {1, 1}, {-1, 0.5}});
    const Term initial = lesson.input("initial[d_hidden]", Vector{0.5, -0.5});
    const Term reset = lesson.input("reset_weights[d_pair, d_hidden]",
                                    Matrix{{1, 0}, {-1, 2}, {2, 0}, {0, -2}});
    const Term update = lesson.input("update_weights[d_pair, d_hidden]",
                                     Matrix{{0, 1}, {1, 0}, {0, -1}, {1, 0}});
    const Term candidate = lesson.input("candidate_weights[d_pair, d_hidden]",
                                        Matrix{{1, -1}, {0.5, 1}, {1, 1}, {-1, 1}});
    const GateWeights weights{reset, update, candidate};
    const Term states = read_by_gru(trace, x, initial, weights);

    lesson.heading("2. The same GRU reads a sentence, with weights chosen by hand");
    read_sentence(trace.scope("sentence"));

    lesson.heading("3. The library's GRU: reset gate before or after the product");
    compare_conventions(lesson, x, initial, weights, states);

    lesson.heading("4. An LSTM: three gates and a cell state");
    //! [lstm]
    RandomNumbers numbers(16);
    const std::size_t d_hidden = initial.size();
    const RecurrentCellWeights cell = random_cell(numbers, x.shape(1), d_hidden, 4);
    lstm(*x, RecurrentWeights{{{.forward = cell}}}, trace.scope("lstm", {{"x", "x"}}));
    //! [lstm]

    lesson.heading(
        "5. The first token changes: which outputs change, after which layer?");
    change_first_token(lesson, x, numbers);

    lesson.heading("6. Matrix products that must be computed one after the other");
    count_waiting(trace.scope("waiting"), numbers);

    lesson.heading("7. Multiplications of one layer with 64 features");
    count_multiplications(trace.scope("cost"));

    lesson.heading("8. Attention over the states of a recurrent encoder (2015)");
    attend_to_encoder(trace.scope("translator"), *x, d_hidden, numbers);
}

/// One step of a GRU: from a token and the previous state to the new state.
Term<Vector> gru_step(const Trace& step, const Term<Vector>& token,
                      const Term<Vector>& previous, const GateWeights& weights)
{
    //! [gates]
    // Each gate is computed from the token and the state: one number from 0 to 1 per
    // feature.
    const Term joined = step("joined[d_pair]", concat(std::vector{token, previous}, 0));
    const Term reset = step("reset[d_hidden]", sigmoid(matmul(joined, weights.reset)));
    const Term update = step("update[d_hidden]", sigmoid(matmul(joined, weights.update)));
    //! [gates]

    //! [candidate]
    // The candidate is computed from the token and the state times the reset gate.
    const Term selected = step("selected[d_hidden]", reset * previous);
    const Term both = concat(std::vector{token, selected}, 0);
    const Term candidate =
        step("candidate[d_hidden]", tanh(matmul(both, weights.candidate)));
    //! [candidate]

    //! [blend]
    // The new state lies between the previous state and the candidate.
    return step("hidden[d_hidden]", (1 - update) * previous + update * candidate);
    //! [blend]
}

/// Reads all tokens: step i starts from the state of step i - 1. Returns all states.
Term<Matrix> read_by_gru(const Trace& trace, const Term<Matrix>& x,
                         const Term<Vector>& initial, const GateWeights& weights)
{
    std::vector<Term<Matrix>> states;
    //! [loop]
    Term state = initial;
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        const Trace step = trace.scope("step", i);
        const Term previous = step.alias("previous", state);
        const Term token = step("x[d_in]", row(x, i));
        state = gru_step(step, token, previous, weights);
        states.push_back(in_front(state));
    }
    //! [loop]
    return concat(states, 0);
}

/// "Lily had a red ball . She": the state keeps the name and drops the colour at the full
/// stop.
void read_sentence(const Trace& trace)
{
    //! [sentence]
    const Matrix features{{1, 0, 0, 0, 0, 0, 0},  // a name: Lily
                          {0, 0, 0, 1, 0, 0, 0},  // a colour: red
                          {0, 0, 0, 0, 0, 1, 0},  // a full stop
                          {1, 1, 1, 1, 1, 1, 1}}; // always 1
    const Term x = trace.given("x[n, d_in]", *transpose(Term(features)));
    //! [sentence]
    const Term initial = trace.given("initial[d_hidden]", Vector{0, 0});
    // A name opens the update gate of feature 0; a colour and a full stop that of
    // feature 1.
    const Term update =
        trace.given("update_weights[d_pair, d_hidden]",
                    Matrix{{8, 0}, {0, 8}, {0, 8}, {-4, -4}, {0, 0}, {0, 0}});
    const Term reset = trace("reset_weights[d_pair, d_hidden]", -update);
    const Term candidate =
        trace.given("candidate_weights[d_pair, d_hidden]",
                    Matrix{{3, 0}, {0, 3}, {0, 0}, {0, 0}, {1, 0}, {0, 1}});
    read_by_gru(trace, x, initial, {reset, update, candidate});
}

/// The library packs the gates as PyTorch does; its update gate keeps the previous state.
void compare_conventions(Lesson& lesson, const Term<Matrix>& x,
                         const Term<Vector>& initial, const GateWeights& weights,
                         const Term<Matrix>& states)
{
    const Trace& trace = lesson.trace();
    const std::size_t d_in = x.shape(1), d_pair = d_in + initial.size();
    const Term packed =
        trace("packed[d_pair, d_gates]",
              concat(std::vector{weights.reset, -weights.update, weights.candidate}, 1));
    const Term w_input = trace("input_weights[d_in, d_gates]", slice(packed, 0, d_in));
    const Term w_recurrent =
        trace("recurrent_weights[d_hidden, d_gates]", slice(packed, d_in, d_pair));
    const RecurrentWeights both{
        {{.forward = RecurrentCellWeights{{*w_input}, {*w_recurrent}}}}};
    const auto read = [&](std::string_view name, ResetGate reset_gate) {
        const Trace scope = trace.scope(name, {{"x", "x"}});
        const Trace layer = scope.scope("layers", 0);
        layer.scope("forward", {{"input_weights", "input_weights"},
                                {"recurrent_weights", "recurrent_weights"}});
        const Term start = scope("initial_hidden[cells, d_hidden]", in_front(initial));
        return recorded(gru(*x, *start, {}, both, {reset_gate}, scope).output, "output",
                        scope);
    };
    //! [conventions]
    const Term before = read("reset_before", ResetGate::before_product);
    const Term after = read("reset_after", ResetGate::after_product);
    //! [conventions]
    lesson.expect_equal(
        "with the update gate negated, the library's GRU gives the states of part 1",
        before, states);
    const Trace scope = trace.scope("reset_after");
    const Term difference = scope("difference", max_all(abs(after - before)));
    lesson.expect("the two conventions give different states",
                  *difference > 0 || !lesson.is_example());
}

/// A cell of so many gates with random weights.
RecurrentCellWeights random_cell(RandomNumbers& numbers, std::size_t d_in,
                                 std::size_t d_hidden, std::size_t gates)
{
    Matrix input = numbers.matrix(d_in, gates * d_hidden);
    return {{std::move(input)}, {numbers.matrix(d_hidden, gates * d_hidden)}};
}

/// Weights of one head without an output map.
MultiHeadWeights random_head(RandomNumbers& numbers, std::size_t d)
{
    Matrix query = numbers.matrix(d, d), key = numbers.matrix(d, d);
    return {{std::move(query)}, {std::move(key)}, {numbers.matrix(d, d)}};
}

//! [moved]
/// How far each token's output moves between the two sequences of a batch.
Term<Vector> moved(const Trace& trace, const Tensor3& sequences)
{
    const Term output = named(sequences, "output", trace);
    return trace("moved[n]", max_along(abs(row(output, 1) - row(output, 0)), 1));
}
//! [moved]

/// Two sequences that differ in their first token, read by a GRU, by convolutions and by
/// attention.
void change_first_token(Lesson& lesson, const Term<Matrix>& x, RandomNumbers& numbers)
{
    const Trace& trace = lesson.trace();
    const std::size_t n = x.shape(0), d = x.shape(1), last = n - 1;
    const Term changed = concat(std::vector{slice(x, 0, 1) + 1, slice(x, 1, n)}, 0);
    const Term pair =
        trace("pair[b, n, d_in]", concat(std::vector{in_front(x), in_front(changed)}, 0));

    const Trace recurrence = trace.scope("recurrence", {{"x", "pair"}});
    const RecurrentWeights weights{{{.forward = random_cell(numbers, d, d, 3)}}};
    const Term by_state = moved(recurrence, gru(*pair, weights, {}, recurrence).output);

    const Trace convolutions = trace.scope("convolution");
    std::vector<Term<Vector>> arrived; // at the last token, per depth
    Tensor3 tokens = *pair;
    std::string from = "pair";
    for (std::size_t depth = 1; depth < std::max<std::size_t>(n, 2); ++depth) {
        //! [by_convolution]
        const Trace layer = convolutions.scope("layer", depth, {{"x", from}});
        tokens = convolution(tokens, {numbers.matrix(3 * d, d)}, {}, layer);
        arrived.push_back(slice(moved(layer, tokens), last, n));
        //! [by_convolution]
        from = "convolution.layer." + std::to_string(depth) + ".output";
    }

    //! [by_attention]
    const Trace attention = trace.scope("attention", {{"x", "pair"}});
    const MultiHeadWeights head = random_head(numbers, d);
    const Term at_once =
        moved(attention, multi_head_attention(*pair, head, {}, attention).output);
    //! [by_attention]

    // Between the first token and the last: states that carry the change, or layers until
    // it arrives.
    const Trace path = trace.scope("path");
    const WholeNumbers whole(path);
    const auto unchanged = [](const Term<Vector>& by) {
        return sum_all(ones(in_front(by) == 0));
    };
    const Term states = whole("recurrence", sum_all(ones(in_front(by_state) > 0)));
    const Term layers = whole("convolution", 1 + unchanged(concat(arrived, 0)));
    const Term attentions = whole("attention", 1 + unchanged(slice(at_once, last, n)));
    if (!lesson.is_example())
        return;
    lesson.expect("recurrence: the change passes through the state of every token",
                  *states == static_cast<double>(n));
    lesson.expect("convolution: the change moves on by one token per layer",
                  *layers == static_cast<double>(last));
    lesson.expect("attention: the change arrives in one layer", *attentions == 1);
}

/// Longest chain of matrix products that need each other, by the formulas of a run's
/// trace; for several lengths.
void count_waiting(const Trace& waiting, RandomNumbers& numbers)
{
    const RecurrentWeights three{{{.forward = random_cell(numbers, 2, 2, 3)}}};
    const RecurrentWeights four{{{.forward = random_cell(numbers, 2, 2, 4)}}};
    const MultiHeadWeights head = random_head(numbers, 2);
    const ConvolutionWeights kernel{numbers.matrix(6, 2)};
    const Matrix tokens = numbers.matrix(28, 2);
    const Term n = waiting.given("n[lengths]", Integers{4, 8, 16});
    const auto count = [&](std::string_view label, std::string_view expected,
                           const auto& run) {
        Integers products = *n;
        for (std::int64_t& length : products) {
            const Matrix x = *slice(Term(tokens), 0, static_cast<std::size_t>(length));
            //! [waiting]
            Recorder recorder;
            run(x, Trace(recorder));
            length = static_cast<std::int64_t>(
                formula::products_in_line(recorder.recording()));
            //! [waiting]
        }
        std::ignore = waiting(label, expected, products);
    };
    const GruOptions before{ResetGate::before_product};
    using X = const Matrix&;
    using Run = const Trace&;
    count("gru[lengths]", "n", [&](X x, Run run) { gru(x, three, {}, run); });
    count("reset_before[lengths]", "2 * n",
          [&](X x, Run run) { gru(x, three, before, run); });
    count("lstm[lengths]", "n", [&](X x, Run run) { lstm(x, four, run); });
    count("convolution[lengths]", "0 * n + 1",
          [&](X x, Run run) { convolution(x, kernel, {}, run); });
    count("attention[lengths]", "0 * n + 3",
          [&](X x, Run run) { multi_head_attention(x, head, {}, run); });
}

/// Multiplications of one layer, 64 features in and out, for several lengths.
void count_multiplications(const Trace& cost)
{
    const WholeNumbers whole(cost);
    const Term d = whole.given("d", 64);
    const Term n = whole.given("n[lengths]", Integers{16, 64, 256, 1024});
    //! [cost]
    std::ignore = whole("gru[lengths]", n * (3 * (d + d) * d + 3 * d));
    std::ignore = whole("lstm[lengths]", n * (4 * (d + d) * d + 3 * d));
    std::ignore = whole("convolution[lengths]", n * 3 * d * d);
    std::ignore =
        whole("attention[lengths]", n * 3 * d * d + 2 * square(n) * d + 2 * square(n));
    //! [cost]
}

/// A decoder that attends, before each word, to all states of an encoder that reads in
/// both directions.
void attend_to_encoder(const Trace& trace, const Matrix& x, std::size_t d_hidden,
                       RandomNumbers& numbers)
{
    const Trace encoder = trace.scope("encoder", {{"x", "x"}});
    const auto cell = [&](std::size_t d_in) {
        return random_cell(numbers, d_in, d_hidden, 3);
    };
    const RecurrentCellWeights forward = cell(x.shape(1)), backward = cell(x.shape(1)),
                               decoder = cell(2 + 2 * d_hidden);
    const Matrix query_weights = numbers.matrix(d_hidden, 3),
                 key_weights = numbers.matrix(2 * d_hidden, 3);
    const AdditiveWeights alignment{query_weights, key_weights, numbers.vector(3, 8)};

    const Matrix states =
        gru(x, RecurrentWeights{{{forward, backward}}}, {}, encoder).output;
    const Term words = trace.given("words[n, d_word]", numbers.matrix(3, 2, 4));
    Term state = trace.given("start[d_hidden]", numbers.vector(d_hidden));
    for (std::size_t i = 0; i < words.shape(0); ++i) {
        const Trace step = trace.scope("word", i);
        const Term previous = step.alias("previous_hidden", state);
        const Trace attention = step.scope(
            "attention", {{"keys", "encoder.output"}, {"values", "encoder.output"}});
        const Term query = attention("queries[n, d_q]", in_front(previous));
        //! [bahdanau]
        const Term context = recorded(
            additive_attention(*query, states, states, alignment, {}, attention).context,
            "context", attention);
        const Term joined =
            step("x[d_in]", concat(std::vector{row(words, i), row(context, 0)}, 0));
        state = recorded(gru_cell(*joined, *previous, decoder, {}, step), "hidden", step);
        //! [bahdanau]
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("21_recurrence", argc, argv, teach);
}
