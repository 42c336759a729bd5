// Lesson 21: recurrence, which attention replaced.
//
// A recurrent network reads one word after the other and keeps one state; gates control
// what the state keeps. Each state depends on the previous one. A convolution depends on
// neighbours only, attention on all tokens at once. This lesson measures per layer: how
// far a change travels, how many products must wait for each other, how many
// multiplications.

#include "../lesson.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/chain.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/attention/cost.hpp"
#include "attn/reference/layers/convolution.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

/// The three matrices of the GRU that this lesson writes out, each (d_in + d_hidden,
/// d_hidden).
struct GateWeights {
    Matrix reset, update, candidate;
};

// The helpers of teach(), which stand below it in this order.
Matrix read_by_gru(const Trace& trace, const Matrix& x, const Vector& initial,
                   const GateWeights& weights);
void read_sentence(const Trace& trace);
void compare_conventions(Lesson& lesson, const Matrix& x, const Vector& initial,
                         const GateWeights& weights, const Matrix& states);
RecurrentCellWeights random_cell(RandomNumbers& numbers, std::size_t d_in,
                                 std::size_t d_hidden, std::size_t gates);
void change_first_token(Lesson& lesson, const Matrix& x, RandomNumbers& numbers);
void count_waiting(const Trace& waiting, RandomNumbers& numbers);
void count_multiplications(const Trace& cost);
void attend_to_encoder(const Trace& trace, const Matrix& x, std::size_t d_hidden,
                       RandomNumbers& numbers);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A GRU, token by token");
    const Matrix x =
        lesson.input("x[n, d_in]", Matrix{{1, 0}, {0, 1}, {1, 1}, {-1, 0.5}});
    const Vector initial = lesson.input("initial[d_hidden]", Vector{0.5, -0.5});
    const Matrix reset = lesson.input("reset_weights[d_pair, d_hidden]",
                                      Matrix{{1, 0}, {-1, 2}, {2, 0}, {0, -2}});
    const Matrix update = lesson.input("update_weights[d_pair, d_hidden]",
                                       Matrix{{0, 1}, {1, 0}, {0, -1}, {1, 0}});
    const Matrix candidate = lesson.input("candidate_weights[d_pair, d_hidden]",
                                          Matrix{{1, -1}, {0.5, 1}, {1, 1}, {-1, 1}});
    const GateWeights weights{reset, update, candidate};
    const Matrix states = read_by_gru(trace, x, initial, weights);

    lesson.heading("2. The same GRU reads a sentence, with weights chosen by hand");
    read_sentence(trace.scope("sentence"));

    lesson.heading("3. The library's GRU: reset gate before or after the product");
    compare_conventions(lesson, x, initial, weights, states);

    lesson.heading("4. An LSTM: three gates and a cell state");
    //! [lstm]
    RandomNumbers numbers(16);
    const std::size_t d_hidden = initial.size();
    const RecurrentCellWeights cell = random_cell(numbers, x.shape(1), d_hidden, 4);
    lstm(x, RecurrentWeights{{{.forward = cell}}}, trace.scope("lstm", {{"x", "x"}}));
    //! [lstm]

    lesson.heading(
        "5. The first token changes: which outputs change, after which layer?");
    change_first_token(lesson, x, numbers);

    lesson.heading("6. Matrix products that must be computed one after the other");
    count_waiting(trace.scope("waiting"), numbers);

    lesson.heading("7. Multiplications of one layer with 64 features");
    count_multiplications(trace.scope("cost"));

    lesson.heading("8. Attention over the states of a recurrent encoder (2015)");
    attend_to_encoder(trace.scope("translator"), x, d_hidden, numbers);
}

/// One step of a GRU: from a token and the previous state to the new state.
Vector gru_step(const Trace& step, const Vector& token, const Vector& previous,
                const GateWeights& weights)
{
    //! [gates]
    // Each gate is computed from the token and the state: one number from 0 to 1 per
    // feature.
    const Vector joined =
        step("joined[d_pair]", "concat(x, previous, axis=0)", concat(token, previous));
    const Vector reset = step("reset[d_hidden]", "sigmoid(joined @ reset_weights)",
                              sigmoid(matmul(joined, weights.reset)));
    const Vector update = step("update[d_hidden]", "sigmoid(joined @ update_weights)",
                               sigmoid(matmul(joined, weights.update)));
    //! [gates]

    //! [candidate]
    // The candidate is computed from the token and the state times the reset gate.
    const Vector selected =
        step("selected[d_hidden]", "reset * previous", Vector(reset * previous));
    const Vector candidate = step(
        "candidate[d_hidden]", "tanh(concat(x, selected, axis=0) @ candidate_weights)",
        attn::tanh(matmul(concat(token, selected), weights.candidate)));
    //! [candidate]

    //! [blend]
    // The new state lies between the previous state and the candidate.
    return step("hidden[d_hidden]", "(1 - update) * previous + update * candidate",
                Vector((1 - update) * previous + update * candidate));
    //! [blend]
}

/// Reads all tokens: step i starts from the state of step i - 1. Returns all states.
Matrix read_by_gru(const Trace& trace, const Matrix& x, const Vector& initial,
                   const GateWeights& weights)
{
    Matrix states = xt::zeros<double>({x.shape(0), initial.size()});
    Vector state = initial;
    std::string from = "initial";
    //! [loop]
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        const Trace step = trace.scope("step", i, {{"previous", from}});
        const Vector token = step("x[d_in]", "x[" + std::to_string(i) + "]",
                                  Vector(xt::view(x, i, xt::all())));
        state = gru_step(step, token, state, weights);
        xt::view(states, i, xt::all()) = state;
        from = "step." + std::to_string(i) + ".hidden";
    }
    //! [loop]
    return states;
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
    const Matrix x = trace("x[n, d_in]", "", transpose(features));
    //! [sentence]
    const Vector initial = trace("initial[d_hidden]", "", Vector{0, 0});
    // A name opens the update gate of feature 0; a colour and a full stop that of
    // feature 1.
    const Matrix update = trace("update_weights[d_pair, d_hidden]", "",
                                Matrix{{8, 0}, {0, 8}, {0, 8}, {-4, -4}, {0, 0}, {0, 0}});
    const Matrix reset =
        trace("reset_weights[d_pair, d_hidden]", "-update_weights", Matrix(-update));
    const Matrix candidate =
        trace("candidate_weights[d_pair, d_hidden]", "",
              Matrix{{3, 0}, {0, 3}, {0, 0}, {0, 0}, {1, 0}, {0, 1}});
    read_by_gru(trace, x, initial, {reset, update, candidate});
}

/// The library packs the gates as PyTorch does; its update gate keeps the previous state.
void compare_conventions(Lesson& lesson, const Matrix& x, const Vector& initial,
                         const GateWeights& weights, const Matrix& states)
{
    const Trace& trace = lesson.trace();
    const std::size_t d_in = x.shape(1), d_pair = d_in + initial.size();
    const Matrix packed =
        trace("packed[d_pair, d_gates]",
              "concat(reset_weights, -update_weights, candidate_weights, axis=1)",
              concat_columns(std::vector{weights.reset, Matrix(-weights.update),
                                         weights.candidate}));
    const Matrix w_input = trace("input_weights[d_in, d_gates]", "packed[:x.shape[1]]",
                                 Matrix(xt::view(packed, xt::range(0, d_in), xt::all())));
    const Matrix w_recurrent =
        trace("recurrent_weights[d_hidden, d_gates]", "packed[x.shape[1]:]",
              Matrix(xt::view(packed, xt::range(d_in, d_pair), xt::all())));
    const RecurrentWeights both{
        {{.forward = RecurrentCellWeights{{w_input}, {w_recurrent}}}}};
    const auto read = [&](std::string_view name, ResetGate reset_gate) {
        const Trace scope = trace.scope(name, {{"x", "x"}});
        const Trace layer = scope.scope("layers", 0);
        layer.scope("forward", {{"input_weights", "input_weights"},
                                {"recurrent_weights", "recurrent_weights"}});
        const Matrix start = scope("initial_hidden[cells, d_hidden]", "initial[None, :]",
                                   Matrix(xt::view(initial, xt::newaxis(), xt::all())));
        return gru(x, start, {}, both, {reset_gate}, scope).output;
    };
    //! [conventions]
    const Matrix before = read("reset_before", ResetGate::before_product);
    const Matrix after = read("reset_after", ResetGate::after_product);
    //! [conventions]
    lesson.expect_equal(
        "with the update gate negated, the library's GRU gives the states of part 1",
        before, states);
    const double difference =
        trace.scope("reset_after")("difference", "max(abs(output - reset_before.output))",
                                   max_all(Matrix(xt::abs(after - before))));
    lesson.expect("the two conventions give different states",
                  difference > 0 || !lesson.is_example());
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
Vector moved(const Trace& trace, const Tensor3& output)
{
    const Matrix change = xt::view(output, 1, xt::all(), xt::all()) -
                          xt::view(output, 0, xt::all(), xt::all());
    return trace("moved[n]", "max(abs(output[1] - output[0]), axis=1)",
                 max_along(Matrix(xt::abs(change)), 1));
}
//! [moved]

/// Two sequences that differ in their first token, read by a GRU, by convolutions and by
/// attention.
void change_first_token(Lesson& lesson, const Matrix& x, RandomNumbers& numbers)
{
    const Trace& trace = lesson.trace();
    const std::size_t d = x.shape(1), last = x.shape(0) - 1;
    Tensor3 both = xt::zeros<double>({2ul, x.shape(0), d});
    both += x;
    xt::view(both, 1, 0, xt::all()) += 1;
    const Tensor3 pair = trace(
        "pair[b, n, d_in]",
        "concat(x[None, ...], concat(x[0:1] + 1, x[1:], axis=0)[None, ...], axis=0)",
        both);

    const Trace recurrence = trace.scope("recurrence", {{"x", "pair"}});
    const RecurrentWeights weights{{{.forward = random_cell(numbers, d, d, 3)}}};
    const Vector by_state = moved(recurrence, gru(pair, weights, {}, recurrence).output);

    const Trace convolutions = trace.scope("convolution");
    std::vector<double> arrived; // at the last token, per depth
    Tensor3 tokens = pair;
    std::string from = "pair", parts;
    for (std::size_t depth = 1; depth < std::max<std::size_t>(x.shape(0), 2); ++depth) {
        const std::string path = "convolution.layer." + std::to_string(depth);
        //! [by_convolution]
        const Trace layer = convolutions.scope("layer", depth, {{"x", from}});
        tokens = convolution(tokens, {numbers.matrix(3 * d, d)}, {}, layer);
        arrived.push_back(moved(layer, tokens)(last));
        //! [by_convolution]
        from = path + ".output";
        parts += path + ".moved[-1:], ";
    }

    //! [by_attention]
    const Trace attention = trace.scope("attention", {{"x", "pair"}});
    const MultiHeadWeights head = random_head(numbers, d);
    const Vector at_once =
        moved(attention, multi_head_attention(pair, head, {}, attention).output);
    //! [by_attention]

    // Between the first token and the last: states that carry the change, or layers until
    // it arrives.
    const Trace path = trace.scope("path");
    const std::int64_t states = path(
        "recurrence", "sum(where(recurrence.moved > 0, 1, 0))",
        std::int64_t{std::ranges::count_if(by_state, [](double by) { return by > 0; })});
    const std::int64_t layers =
        path("convolution", "1 + sum(where(concat(" + parts + "axis=0) == 0, 1, 0))",
             std::int64_t{1 + std::ranges::count(arrived, 0.0)});
    const std::int64_t attentions =
        path("attention", "1 + sum(where(attention.moved[-1:] == 0, 1, 0))",
             std::int64_t{at_once(last) == 0 ? 2 : 1});
    if (!lesson.is_example())
        return;
    lesson.expect("recurrence: the change passes through the state of every token",
                  std::cmp_equal(states, last + 1));
    lesson.expect("convolution: the change moves on by one token per layer",
                  std::cmp_equal(layers, last));
    lesson.expect("attention: the change arrives in one layer", attentions == 1);
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
    const Integers n = waiting("n[lengths]", "", Integers{4, 8, 16});
    const auto count = [&](std::string_view label, std::string_view expected,
                           const auto& run) {
        Integers products = n;
        for (std::int64_t& length : products) {
            const Matrix x = xt::view(tokens, xt::range(0, length), xt::all());
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

/// Multiplications of one layer, 64 features in and out, as the library counts them; for
/// several lengths.
void count_multiplications(const Trace& cost)
{
    const std::int64_t d = cost("d", "", std::int64_t{64});
    const Integers n = cost("n[lengths]", "", Integers{16, 64, 256, 1024});
    const auto count = [&](std::string_view label, std::string_view formula,
                           const auto& cost_of) {
        Integers products = n;
        for (std::int64_t& length : products) {
            const auto tokens = static_cast<std::size_t>(length),
                       width = static_cast<std::size_t>(d);
            length = static_cast<std::int64_t>(
                cost_of(EncodingSizes{tokens, width, width}).multiplications);
        }
        std::ignore = cost(label, formula, products);
    };
    const auto width_3_cost = [](const EncodingSizes& sizes) {
        return convolution_cost(sizes, 3);
    };
    //! [cost]
    count("gru[lengths]", "n * (3 * (d + d) * d + 3 * d)", gru_cost);
    count("lstm[lengths]", "n * (4 * (d + d) * d + 3 * d)", lstm_cost);
    count("convolution[lengths]", "n * 3 * d * d", width_3_cost);
    count("attention[lengths]", "n * 3 * d * d + 2 * n ** 2 * d + 2 * n ** 2",
          self_attention_cost);
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
    const Matrix words = trace("words[n, d_word]", "", numbers.matrix(3, 2, 4));
    Vector state = trace("start[d_hidden]", "", numbers.vector(d_hidden));
    std::string from = "start";
    for (std::size_t i = 0; i < words.shape(0); ++i) {
        const Trace step = trace.scope("word", i, {{"previous_hidden", from}});
        const Trace attention = step.scope(
            "attention", {{"keys", "encoder.output"}, {"values", "encoder.output"}});
        const Matrix query = attention("queries[n, d_q]", "previous_hidden[None, :]",
                                       Matrix(xt::view(state, xt::newaxis(), xt::all())));
        //! [bahdanau]
        const Matrix context =
            additive_attention(query, states, states, alignment, {}, attention).context;
        const Vector joined =
            step("x[d_in]",
                 "concat(words[" + std::to_string(i) + "], attention.context[0], axis=0)",
                 concat(Vector(xt::row(words, i)), Vector(xt::row(context, 0))));
        state = gru_cell(joined, state, decoder, {}, step);
        //! [bahdanau]
        from = "word." + std::to_string(i) + ".hidden";
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("21_recurrence", argc, argv, teach);
}
