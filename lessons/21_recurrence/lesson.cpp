// Lesson 21: recurrence, which attention replaced.
//
// A recurrent network reads word by word and carries one state along. Gates decide what the state keeps. Each state needs
// the one before it; a convolution needs neighbours only, attention needs all tokens at once. This lesson measures what
// each way costs: how far a change travels, what has to wait for what, and how many multiplications there are.

#include "../lesson.hpp"

#include "attn/attention/additive.hpp"
#include "attn/attention/cost.hpp"
#include "attn/formula/chain.hpp"
#include "attn/layers/convolution.hpp"
#include "attn/layers/multi_head.hpp"
#include "attn/layers/recurrent/gru.hpp"
#include "attn/layers/recurrent/lstm.hpp"
#include "attn/ops/activation.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/random.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/trace_io/recorder.hpp"

#include <algorithm>

using namespace attn;

namespace {

// The helpers of teach(), which stand below it in this order.
RecurrentCellWeights random_cell(RandomNumbers& numbers, std::size_t d_in,
                                 std::size_t d_hidden, std::size_t gates);
void change_first_token(Lesson& lesson, const Matrix& x, RandomNumbers& numbers);
void count_waiting(Lesson& lesson, RandomNumbers& numbers);
void count_multiplications(Lesson& lesson);
void look_back(Lesson& lesson, const Matrix& x, std::size_t d_hidden,
               RandomNumbers& numbers);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A GRU, token by token");
    const Matrix x =
        lesson.input("x[n, d_in]", Matrix{{1, 0}, {0, 1}, {1, 1}, {-1, 0.5}});
    const Vector initial = lesson.input("initial[d_hidden]", Vector{0.5, -0.5});
    const Matrix w_reset = lesson.input("reset_weights[d_pair, d_hidden]",
                                        Matrix{{1, 0}, {-1, 2}, {2, 0}, {0, -2}});
    const Matrix w_update = lesson.input("update_weights[d_pair, d_hidden]",
                                         Matrix{{0, 1}, {1, 0}, {0, -1}, {1, 0}});
    const Matrix w_candidate = lesson.input("candidate_weights[d_pair, d_hidden]",
                                            Matrix{{1, -1}, {0.5, 1}, {1, 1}, {-1, 1}});
    const std::size_t n = x.shape(0), d_in = x.shape(1), d_hidden = initial.size();

    //! [gru]
    Matrix states = xt::zeros<double>({n, d_hidden});
    Vector state = initial;
    std::string from = "initial";
    for (std::size_t i = 0; i < n; ++i) {
        const std::string place = std::to_string(i);
        const Trace step = trace.scope("step", i, {{"previous", from}});
        const Vector token = step("x[d_in]", "x[" + place + "]",
                                  Vector(xt::row(x, static_cast<std::ptrdiff_t>(i))));

        // Two gates see the token and the state, and give each feature a number from 0 to 1.
        const Vector joined =
            step("joined[d_pair]", "concat(x, previous, axis=0)", concat(token, state));
        const Vector reset = step("reset[d_hidden]", "sigmoid(joined @ reset_weights)",
                                  sigmoid(matmul(joined, w_reset)));
        const Vector update = step("update[d_hidden]", "sigmoid(joined @ update_weights)",
                                   sigmoid(matmul(joined, w_update)));

        // The candidate sees the part of the past that the reset gate selects.
        const Vector selected =
            step("selected[d_hidden]", "reset * previous", Vector(reset * state));
        const Vector candidate =
            step("candidate[d_hidden]",
                 "tanh(concat(x, selected, axis=0) @ candidate_weights)",
                 attn::tanh(matmul(concat(token, selected), w_candidate)));

        // The update gate says how much of the past the candidate replaces.
        state = step("hidden[d_hidden]", "(1 - update) * previous + update * candidate",
                     Vector((1 - update) * state + update * candidate));
        xt::view(states, i, xt::all()) = state;
        from = "step." + place + ".hidden";
    }
    //! [gru]

    //! [conventions]
    lesson.heading(
        "2. The library's, with the reset gate before the product and after it");
    // PyTorch packs the gates side by side, the token's part and the state's apart; its update gate keeps the past.
    const Matrix packed =
        trace("packed[d_pair, d_gates]",
              "concat(reset_weights, -update_weights, candidate_weights, axis=1)",
              concat_columns(std::vector{w_reset, Matrix(-w_update), w_candidate}));
    const std::string cut = std::to_string(d_in);
    const Matrix w_input = trace("input_weights[d_in, d_gates]", "packed[:" + cut + "]",
                                 Matrix(xt::view(packed, xt::range(0, d_in), xt::all())));
    const Matrix w_recurrent =
        trace("recurrent_weights[d_hidden, d_gates]", "packed[" + cut + ":]",
              Matrix(xt::view(packed, xt::range(d_in, d_in + d_hidden), xt::all())));
    const RecurrentWeights weights{
        {{.forward = RecurrentCellWeights{{w_input}, {w_recurrent}}}}};
    const auto read = [&](std::string_view name, ResetGate reset) {
        const Trace scope = trace.scope(name, {{"x", "x"}}),
                    layer = scope.scope("layers", 0);
        layer.scope("forward", {{"input_weights", "input_weights"},
                                {"recurrent_weights", "recurrent_weights"}});
        const Matrix start = scope("initial_hidden[cells, d_hidden]", "initial[None, :]",
                                   Matrix(xt::view(initial, xt::newaxis(), xt::all())));
        return gru(x, start, {}, weights, {reset}, scope).output;
    };
    const Matrix before = read("reset_before", ResetGate::before_product);
    const Matrix after = read("reset_after", ResetGate::after_product);
    lesson.expect_equal(
        "with the update gate negated, the library's GRU gives the states of part 1",
        before, states);
    const double difference =
        trace.scope("reset_after")("difference", "max(abs(output - reset_before.output))",
                                   max_all(Matrix(xt::abs(after - before))));
    lesson.expect("the two conventions give different states",
                  difference > 0 || !lesson.is_example());
    //! [conventions]

    //! [lstm]
    lesson.heading("3. An LSTM: three gates and a memory");
    RandomNumbers numbers(16);
    const RecurrentWeights four_gates{
        {{.forward = random_cell(numbers, d_in, d_hidden, 4)}}};
    lstm(x, four_gates, trace.scope("lstm", {{"x", "x"}}));
    //! [lstm]

    lesson.heading(
        "4. The first token changes: which outputs change, and after how many layers?");
    change_first_token(lesson, x, numbers);

    lesson.heading("5. Matrix products that have to wait for each other, by the trace");
    count_waiting(lesson, numbers);

    lesson.heading("6. Multiplications of one layer with 64 features");
    count_multiplications(lesson);

    lesson.heading("7. Attention over a recurrent encoder's states, as before 2017");
    look_back(lesson, x, d_hidden, numbers);
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
    const Matrix first = xt::view(output, 0, xt::all(), xt::all()),
                 second = xt::view(output, 1, xt::all(), xt::all());
    return trace("moved[n]", "max(abs(output[1] - output[0]), axis=1)",
                 max_along(Matrix(xt::abs(second - first)), 1));
}

/// Two sequences that differ in their first token, read by recurrence, by convolutions and by attention.
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
    std::vector<double> arrived; // at the last token, by depth
    Tensor3 tokens = pair;
    std::string from = "pair", parts;
    for (std::size_t depth = 1; depth < std::max<std::size_t>(x.shape(0), 2); ++depth) {
        const Trace layer = convolutions.scope("layer", depth, {{"x", from}});
        tokens = convolution(tokens, {numbers.matrix(3 * d, d)}, layer);
        arrived.push_back(moved(layer, tokens)(last));
        from = "convolution.layer." + std::to_string(depth) + ".output";
        parts += "convolution.layer." + std::to_string(depth) + ".moved[-1:], ";
    }

    const Trace attention = trace.scope("attention", {{"x", "pair"}});
    const Vector at_once =
        moved(attention,
              multi_head_attention(pair, {}, {}, random_head(numbers, d), {}, attention)
                  .output);
    //! [moved]

    //! [path]
    // Between the first token and the last: states that carry the change, or layers until it arrives.
    const Trace path = trace.scope("path");
    const std::int64_t states =
        path("recurrence", "sum(where(recurrence.moved > 0, 1, 0))",
             std::ranges::count_if(by_state, [](double by) { return by > 0; }));
    const std::int64_t layers =
        path("convolution", "1 + sum(where(concat(" + parts + "axis=0) == 0, 1, 0))",
             1 + std::ranges::count(arrived, 0.0));
    const std::int64_t attentions =
        path("attention", "1 + sum(where(attention.moved[-1:] == 0, 1, 0))",
             std::int64_t{at_once(last) == 0 ? 2 : 1});
    if (!lesson.is_example())
        return;
    lesson.expect("recurrence: the change passes through the state of every token",
                  std::cmp_equal(states, last + 1));
    lesson.expect("convolution: it moves on by one token per layer",
                  std::cmp_equal(layers, last));
    lesson.expect("attention: it arrives in one layer", attentions == 1);
    //! [path]
}

/// Shows counts side by side, a row per length.
void show_counts(Lesson& lesson, const std::vector<std::string>& names,
                 const std::vector<Integers>& columns)
{
    std::vector<std::vector<double>> rows(columns.front().size());
    for (const Integers& column : columns)
        for (std::size_t i = 0; i < rows.size(); ++i)
            rows[i].push_back(static_cast<double>(column(i)));
    lesson.table(names, rows);
}

//! [waiting]
/// How many matrix products of a run have to wait for each other, by the formulas of its trace; for several lengths.
void count_waiting(Lesson& lesson, RandomNumbers& numbers)
{
    const RecurrentWeights three{{{.forward = random_cell(numbers, 2, 2, 3)}}};
    const RecurrentWeights four{{{.forward = random_cell(numbers, 2, 2, 4)}}};
    const MultiHeadWeights head = random_head(numbers, 2);
    const ConvolutionWeights kernel{numbers.matrix(6, 2)};
    const Matrix tokens[] = {numbers.matrix(4, 2), numbers.matrix(8, 2),
                             numbers.matrix(16, 2)};
    const Trace waiting = lesson.trace().scope("waiting");
    const Integers n = waiting("n[lengths]", "", Integers{4, 8, 16});
    const auto count = [&](std::string_view label, std::string_view expected,
                           const auto& run) {
        Integers products = n;
        for (std::size_t i = 0; i < n.size(); ++i) {
            Recorder recorder;
            run(tokens[i], Trace(recorder));
            products(i) =
                static_cast<std::int64_t>(products_in_line(recorder.recording()));
        }
        return waiting(label, expected, products);
    };
    show_counts(
        lesson, {"tokens", "GRU", "reset before", "LSTM", "convolution", "attention"},
        {n,
         count("gru[lengths]", "n",
               [&](const Matrix& x, const Trace& run) { gru(x, three, {}, run); }),
         count("reset_before[lengths]", "2 * n",
               [&](const Matrix& x, const Trace& run) {
                   gru(x, three, {ResetGate::before_product}, run);
               }),
         count("lstm[lengths]", "n",
               [&](const Matrix& x, const Trace& run) { lstm(x, four, run); }),
         count("convolution[lengths]", "0 * n + 1",
               [&](const Matrix& x, const Trace& run) { convolution(x, kernel, run); }),
         count("attention[lengths]", "0 * n + 3", [&](const Matrix& x, const Trace& run) {
             multi_head_attention(x, {}, {}, head, {}, run);
         })});
}
//! [waiting]

//! [cost]
/// Multiplications of one layer, 64 features in and out.
void count_multiplications(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const std::int64_t d = cost("d", "", std::int64_t{64});
    const Integers n = cost("n[lengths]", "", Integers{16, 64, 256, 1024});
    const auto count = [&](std::string_view label, std::string_view formula,
                           const auto& cost_of) {
        Integers products = n;
        for (std::int64_t& product : products) {
            const auto tokens = static_cast<std::size_t>(product),
                       width = static_cast<std::size_t>(d);
            product = static_cast<std::int64_t>(
                cost_of(EncodingSizes{tokens, width, width}).multiplications);
        }
        return cost(label, formula, products);
    };
    show_counts(
        lesson, {"tokens", "GRU", "LSTM", "convolution of width 3", "self-attention"},
        {n, count("gru[lengths]", "n * (3 * (d + d) * d + 3 * d)", gru_cost),
         count("lstm[lengths]", "n * (4 * (d + d) * d + 3 * d)", lstm_cost),
         count("convolution[lengths]", "n * 3 * d * d",
               [](const EncodingSizes& sizes) { return convolution_cost(sizes, 3); }),
         count("attention[lengths]", "n * 3 * d * d + 2 * n ** 2 * d + 2 * n ** 2",
               self_attention_cost)});
}
//! [cost]

//! [bahdanau]
/// A decoder that attends, before each word, to all states of an encoder that reads both ways.
void look_back(Lesson& lesson, const Matrix& x, std::size_t d_hidden,
               RandomNumbers& numbers)
{
    const Trace translator = lesson.trace().scope("translator"),
                encoder = translator.scope("encoder", {{"x", "x"}});
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
    const Matrix words = translator(
        "words[n, d_word]", "", numbers.matrix(3, 2, 4)); // what it has written so far
    Vector state = translator("start[d_hidden]", "", numbers.vector(d_hidden));
    std::string from = "start";
    for (std::size_t word = 0; word < 3; ++word) {
        const Trace step = translator.scope("word", word, {{"previous_hidden", from}});
        const Trace attention = step.scope(
            "attention", {{"keys", "encoder.output"}, {"values", "encoder.output"}});
        const Matrix query = attention("queries[n, d_q]", "previous_hidden[None, :]",
                                       Matrix(xt::view(state, xt::newaxis(), xt::all())));
        const Matrix context =
            additive_attention(query, states, states, {}, alignment, {}, attention)
                .context;
        const Vector seen = step("x[d_in]",
                                 "concat(words[" + std::to_string(word) +
                                     "], attention.context[0], axis=0)",
                                 concat(Vector(xt::view(words, word, xt::all())),
                                        Vector(xt::view(context, 0, xt::all()))));
        state = gru_cell(seen, state, decoder, {}, step);
        from = "word." + std::to_string(word) + ".hidden";
    }
}
//! [bahdanau]

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("21_recurrence", argc, argv, teach);
}
