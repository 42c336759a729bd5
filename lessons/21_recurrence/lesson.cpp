// Lesson 21: reading word by word, which attention took the place of.
//
// A recurrent network carries one state along the sequence. Gates decide what the state keeps. It needs every earlier
// state for the next one; a convolution needs neighbours only, attention everybody at once. What that costs is measured.

#include "../lesson.hpp"

#include "attn/attention/additive.hpp"
#include "attn/attention/cost.hpp"
#include "attn/formula/chain.hpp"
#include "attn/layers/convolution.hpp"
#include "attn/layers/multi_head.hpp"
#include "attn/layers/recurrent/recurrent.hpp"
#include "attn/ops/activation.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/random.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/trace_io/recorder.hpp"

#include <algorithm>

using namespace attn;

namespace {

/// A gate's weights as seed 003 has them: token and state side by side go through one matrix, (d_in + d_hidden, d_hidden).
struct Gates {
    Matrix reset, update, candidate;
};

/// A cell of so many gates with weights that are drawn.
RecurrentCellWeights drawn_cell(RandomNumbers& numbers, std::size_t d_in, std::size_t d_hidden, std::size_t gates)
{
    Matrix input = numbers.matrix(d_in, gates * d_hidden);
    return {{std::move(input)}, {numbers.matrix(d_hidden, gates * d_hidden)}};
}

RecurrentWeights one_layer(const RecurrentCellWeights& forward,
                           const std::optional<RecurrentCellWeights>& backward = {})
{
    return {{{forward, backward}}};
}

//! [gru]
/// One token: the state that there was, and the state that comes of it.
Vector read(const Trace& trace, const Vector& x, const Vector& previous, const Gates& weights)
{
    // Two gates look at token and state, and say for each feature: how much, from 0 to 1?
    const Vector joined = trace("joined[d_pair]", "concat(x, previous, axis=0)", concat(x, previous));
    const Vector reset =
        trace("reset[d_hidden]", "sigmoid(joined @ reset_weights)", sigmoid(matmul(joined, weights.reset)));
    const Vector update =
        trace("update[d_hidden]", "sigmoid(joined @ update_weights)", sigmoid(matmul(joined, weights.update)));

    // The candidate sees of the past what the reset gate selects.
    const Vector selected = trace("selected[d_hidden]", "reset * previous", Vector(reset * previous));
    const Vector candidate = trace("candidate[d_hidden]", "tanh(concat(x, selected, axis=0) @ candidate_weights)",
                                   attn::tanh(matmul(concat(x, selected), weights.candidate)));

    // The update gate forgets and writes in one: what of the past goes, comes in of the candidate.
    return trace("hidden[d_hidden]", "(1 - update) * previous + update * candidate",
                 Vector((1 - update) * previous + update * candidate));
}

/// One token after the other: none can be read before the one in front of it.
Matrix read_all(const Trace& trace, const Matrix& x, const Vector& initial, const Gates& weights)
{
    Matrix states(Matrix::shape_type{x.shape(0), initial.size()});
    Vector state = initial;
    std::string from = "initial";
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        const Trace step = trace.scope("step", i);
        const Vector token = step("x[d_in]", "x[" + std::to_string(i) + "]", Vector(xt::view(x, i, xt::all())));
        state = read(step, token, step("previous[d_hidden]", from, state), weights);
        xt::view(states, i, xt::all()) = state;
        from = "step." + std::to_string(i) + ".hidden";
    }
    return states;
}
//! [gru]

//! [conventions]
Matrix upper(const Matrix& weights, std::size_t rows) { return xt::view(weights, xt::range(0, rows), xt::all()); }
Matrix lower(const Matrix& weights, std::size_t rows)
{
    return xt::view(weights, xt::range(rows, weights.shape(0)), xt::all());
}

/// The same weights as PyTorch packs them: gates side by side, token and state apart, the update gate turned round.
RecurrentCellWeights packed(const Trace& trace, const Gates& w, std::size_t d_in)
{
    const auto gates = [](const std::string& rows) {
        return "concat(reset_weights[" + rows + "], -update_weights[" + rows + "], candidate_weights[" + rows +
               "], axis=1)";
    };
    const std::string first = "0:" + std::to_string(d_in), rest = std::to_string(d_in) + ":";
    const Matrix turned = -w.update;
    Matrix input =
        trace("input_weights[d_in, d_gates]", gates(first),
              concat_columns(std::vector{upper(w.reset, d_in), upper(turned, d_in), upper(w.candidate, d_in)}));
    return {{std::move(input)},
            {trace("recurrent_weights[d_hidden, d_gates]", gates(rest),
                   concat_columns(std::vector{lower(w.reset, d_in), lower(turned, d_in), lower(w.candidate, d_in)}))}};
}

/// The library's GRU with the reset gate at either place.
Matrix read_with(const Trace& trace, ResetGate reset, const Matrix& x, const Vector& initial, const Gates& gates)
{
    const Trace layer = trace.scope("layers", 0), forward = layer.scope("forward");
    const RecurrentWeights weights = one_layer(packed(forward, gates, x.shape(1)));
    const Matrix tokens = trace("x[n, d_in]", "x", x);
    const Matrix start = trace("initial_hidden[cells, d_hidden]", "initial[None, :]",
                               Matrix(xt::view(initial, xt::newaxis(), xt::all())));
    return gru(tokens, start, weights, {.cell = {reset}}, trace).output;
}

void compare_conventions(Lesson& lesson, const Matrix& x, const Vector& initial, const Gates& gates,
                         const Matrix& states)
{
    const Trace before = lesson.trace().scope("reset_before"), after = lesson.trace().scope("reset_after");
    const Matrix selected_first = read_with(before, ResetGate::before_product, x, initial, gates);
    const Matrix product_first = read_with(after, ResetGate::after_product, x, initial, gates);
    lesson.expect_equal("with the update gate turned round, the library's GRU gives the states of part 1",
                        selected_first, states);
    after("difference", "max(abs(output - reset_before.output))",
          max_all(Matrix(xt::abs(product_first - selected_first))));
}
//! [conventions]

//! [lstm]
/// Four gates' weights, drawn: the LSTM has a memory beside what it shows.
void show_lstm(Lesson& lesson, const Matrix& x, std::size_t d_hidden, RandomNumbers& numbers)
{
    const Trace trace = lesson.trace().scope("lstm");
    lstm(trace("x[n, d_in]", "x", x), one_layer(drawn_cell(numbers, x.shape(1), d_hidden, 4)), {}, trace);
}
//! [lstm]

//! [moved]
/// How far each token's output moves when the first token does: two sequences of a batch, which differ there.
Vector moved(const Trace& trace, const Tensor3& output)
{
    const Matrix distance =
        xt::abs(xt::view(output, 1, xt::all(), xt::all()) - xt::view(output, 0, xt::all(), xt::all()));
    return trace("moved[n]", "max(abs(output[1] - output[0]), axis=1)", max_along(distance, 1));
}

Vector move_recurrence(const Trace& trace, const Tensor3& pair, RandomNumbers& numbers)
{
    const RecurrentWeights weights = one_layer(drawn_cell(numbers, pair.shape(2), pair.shape(2), 3));
    return moved(trace, gru(trace("x[b, n, d_in]", "pair", pair), {}, {}, weights, {}, trace).output);
}

/// Layer upon layer of y_t = f(x_{t-1}, x_t, x_{t+1}).
std::vector<Vector> move_convolutions(const Trace& trace, const Tensor3& pair, RandomNumbers& numbers)
{
    std::vector<Vector> by_depth;
    Tensor3 tokens = pair;
    std::string from = "pair";
    for (std::size_t depth = 1; depth < std::max<std::size_t>(pair.shape(1), 2); ++depth) {
        const Trace layer = trace.scope("layer", depth);
        const ConvolutionWeights weights{numbers.matrix(3 * pair.shape(2), pair.shape(2))};
        tokens = convolution(layer("x[b, n, d_in]", from, tokens), weights, layer);
        by_depth.push_back(moved(layer, tokens));
        from = "layer." + std::to_string(depth) + ".output";
    }
    return by_depth;
}

MultiHeadWeights one_head(RandomNumbers& numbers, std::size_t d)
{
    Matrix query = numbers.matrix(d, d), key = numbers.matrix(d, d);
    return {{std::move(query)}, {std::move(key)}, {numbers.matrix(d, d)}};
}

Vector move_attention(const Trace& trace, const Tensor3& pair, RandomNumbers& numbers)
{
    const MultiHeadWeights weights = one_head(numbers, pair.shape(2));
    return moved(trace, multi_head_attention(trace("x[b, n, d_model]", "pair", pair), {}, {}, weights, {}, trace).output);
}
//! [moved]

/// Two sequences that differ in their first token.
Tensor3 with_first_changed(const Trace& trace, const Matrix& x)
{
    Tensor3 pair(Tensor3::shape_type{2, x.shape(0), x.shape(1)});
    xt::view(pair, 0, xt::all(), xt::all()) = x;
    xt::view(pair, 1, xt::all(), xt::all()) = x;
    xt::view(pair, 1, 0, xt::all()) += 1;
    return trace("pair[b, n, d_in]", "concat(x[None, ...], concat(x[0:1] + 1, x[1:], axis=0)[None, ...], axis=0)",
                 pair);
}

/// How many of these numbers are (or are not) zero, for a step that counts them.
double count_zeros(const std::vector<double>& numbers, bool are_zero = true)
{
    return static_cast<double>(
        std::ranges::count_if(numbers, [&](double number) { return (number == 0) == are_zero; }));
}

//! [path]
/// Between the first token and the last: states that carry the change, or layers until it arrives.
void measure_paths(Lesson& lesson, const Vector& by_state, const std::vector<Vector>& by_window, const Vector& at_once)
{
    const std::size_t last = by_state.size() - 1;
    const Trace path = lesson.trace().scope("path");
    const double states = path("recurrence", "sum(where(recurrence.moved > 0, 1, 0))",
                               count_zeros({by_state.begin(), by_state.end()}, false));
    std::string parts;
    std::vector<double> arrived;
    for (const Vector& moved : by_window) {
        arrived.push_back(moved(last));
        parts += "convolution.layer." + std::to_string(arrived.size()) + ".moved[-1:], ";
    }
    const double layers =
        path("convolution", "1 + sum(where(concat(" + parts + "axis=0) == 0, 1, 0))", 1 + count_zeros(arrived));
    const double attentions =
        path("attention", "1 + sum(where(attention.moved[-1:] == 0, 1, 0))", 1 + count_zeros({at_once(last)}));
    if (!lesson.is_example())
        return;
    lesson.expect("recurrence: the change passes through the state of every token",
                  states == static_cast<double>(last + 1));
    lesson.expect("convolution: it moves on by one token a layer", layers == static_cast<double>(last));
    lesson.expect("attention: it is there at once", attentions == 1);
}
//! [path]

//! [waiting]
/// How many products of a run have to wait for each other, by its trace.
template <class Run>
double in_line(const Run& run)
{
    Recorder recorder;
    run(Trace(recorder));
    return static_cast<double>(products_in_line(recorder.recording()));
}

/// Sequences of several lengths: the formulas say what the counts should be, and `attn verify` holds them to it.
void count_waiting(Lesson& lesson, RandomNumbers& numbers)
{
    const RecurrentWeights three = one_layer(drawn_cell(numbers, 2, 2, 3)),
                           four = one_layer(drawn_cell(numbers, 2, 2, 4));
    const MultiHeadWeights heads = one_head(numbers, 2);
    const ConvolutionWeights kernel{numbers.matrix(6, 2)};
    const Trace waiting = lesson.trace().scope("waiting");
    std::vector<std::vector<double>> rows;
    for (const std::size_t n : {4, 8, 16}) {
        const Matrix x = numbers.matrix(n, 2);
        const Trace t = waiting.scope("tokens", n);
        rows.push_back(
            {t("n", "", static_cast<double>(n)),
             t("gru", "n", in_line([&](const Trace& run) { gru(x, three, {}, run); })),
             t("reset_before", "2 * n",
               in_line([&](const Trace& run) { gru(x, three, {{ResetGate::before_product}}, run); })),
             t("lstm", "n", in_line([&](const Trace& run) { lstm(x, four, {}, run); })),
             t("convolution", "1", in_line([&](const Trace& run) { convolution(x, kernel, run); })),
             t("attention", "3", in_line([&](const Trace& run) { multi_head_attention(x, {}, {}, heads, {}, run); }))});
    }
    lesson.table({"tokens", "GRU", "reset before", "LSTM", "convolution", "attention"}, rows);
}
//! [waiting]

//! [cost]
/// Multiplications of one layer, 64 features in and out.
void count_multiplications(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const double d = cost("d", "", 64.0);
    std::vector<std::vector<double>> rows;
    for (const std::size_t n : {16, 64, 256, 1024}) {
        const Trace t = cost.scope("tokens", n);
        const EncodingSizes sizes{n, static_cast<std::size_t>(d), static_cast<std::size_t>(d)};
        const auto number = [](const EncodingCost& of) { return static_cast<double>(of.multiplications); };
        rows.push_back(
            {t("n", "", static_cast<double>(n)), t("gru", "n * (3 * (d + d) * d + 3 * d)", number(gru_cost(sizes))),
             t("lstm", "n * (4 * (d + d) * d + 3 * d)", number(lstm_cost(sizes))),
             t("convolution", "n * 3 * d * d", number(convolution_cost(sizes, 3))),
             t("attention", "convolution + 2 * n ** 2 * d + 2 * n ** 2", number(self_attention_cost(sizes)))});
    }
    lesson.table({"tokens", "GRU", "LSTM", "convolution of width 3", "self-attention"}, rows);
}
//! [cost]

//! [bahdanau]
/// A decoder that looks back: before each word it asks all states of an encoder that reads both ways.
void look_back(Lesson& lesson, const Matrix& x, std::size_t d_hidden, RandomNumbers& numbers)
{
    const Trace translator = lesson.trace().scope("translator"), encoder = translator.scope("encoder");
    const auto cell = [&](std::size_t d_in) { return drawn_cell(numbers, d_in, d_hidden, 3); };
    const RecurrentCellWeights there = cell(x.shape(1)), back = cell(x.shape(1)), decoder = cell(2 + 2 * d_hidden);
    const Matrix query_weights = numbers.matrix(d_hidden, 3), key_weights = numbers.matrix(2 * d_hidden, 3);
    const AdditiveWeights alignment{query_weights, key_weights, numbers.vector(3, 8)};

    const Matrix states = gru(encoder("x[n, d_in]", "x", x), one_layer(there, back), {}, encoder).output;
    const Matrix words = translator("words[n, d_word]", "", numbers.matrix(3, 2, 4)); // what it has written so far
    Vector state = translator("start[d_hidden]", "", numbers.vector(d_hidden));
    std::string from = "start";
    for (std::size_t word = 0; word < 3; ++word) {
        const Trace step = translator.scope("word", word), ask = step.scope("attention");
        state = step("previous_hidden[d_hidden]", from, state);
        const Matrix query =
            ask("queries[n, d_q]", "previous_hidden[None, :]", Matrix(xt::view(state, xt::newaxis(), xt::all())));
        const Matrix keys = ask("keys[m, d_k]", "encoder.output", states);
        const Matrix values = ask("values[m, d_v]", "encoder.output", states);
        const Matrix context = additive_attention(query, keys, values, {}, alignment, {}, ask).context;
        const Vector found =
            step("x[d_in]", "concat(words[" + std::to_string(word) + "], attention.context[0], axis=0)",
                 concat(xt::view(words, word, xt::all()), xt::view(context, 0, xt::all())));
        state = gru_cell(found, state, decoder, {}, step);
        from = "word." + std::to_string(word) + ".hidden";
    }
}
//! [bahdanau]

void teach(Lesson& lesson)
{
    lesson.heading("1. A GRU, token by token");
    const Matrix x = lesson.input("x[n, d_in]", Matrix{{1, 0}, {0, 1}, {1, 1}, {-1, 0.5}});
    const Vector initial = lesson.input("initial[d_hidden]", Vector{0.5, -0.5});
    const Matrix reset = lesson.input("reset_weights[d_pair, d_hidden]", Matrix{{1, 0}, {-1, 2}, {2, 0}, {0, -2}});
    const Matrix update = lesson.input("update_weights[d_pair, d_hidden]", Matrix{{0, 1}, {1, 0}, {0, -1}, {1, 0}});
    const Matrix candidate =
        lesson.input("candidate_weights[d_pair, d_hidden]", Matrix{{1, -1}, {0.5, 1}, {1, 1}, {-1, 1}});
    const Gates gates{reset, update, candidate};
    const Matrix states = read_all(lesson.trace(), x, initial, gates);

    lesson.heading("2. The library's, with the reset gate before the product and after it");
    compare_conventions(lesson, x, initial, gates, states);

    RandomNumbers numbers(16);
    lesson.heading("3. An LSTM: three gates around a memory");
    show_lstm(lesson, x, initial.size(), numbers);

    lesson.heading("4. The first token changes: who notices, and after how much?");
    const Tensor3 pair = with_first_changed(lesson.trace(), x);
    const Trace recurrence = lesson.trace().scope("recurrence"), windows = lesson.trace().scope("convolution"),
                attention = lesson.trace().scope("attention");
    const Vector by_state = move_recurrence(recurrence, pair, numbers);
    const std::vector<Vector> by_window = move_convolutions(windows, pair, numbers);
    measure_paths(lesson, by_state, by_window, move_attention(attention, pair, numbers));

    lesson.heading("5. Matrix products that have to wait for each other, by the trace");
    count_waiting(lesson, numbers);

    lesson.heading("6. Multiplications of one layer with 64 features");
    count_multiplications(lesson);

    lesson.heading("7. Attention over a recurrent encoder's states, as before 2017");
    look_back(lesson, x, initial.size(), numbers);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("21_recurrence", argc, argv, teach); }
