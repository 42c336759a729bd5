// Step names are API: those of recurrent layers and convolutions are pinned here.

#include "reference/layers/examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/reference/layers/convolution.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const Matrix x = Numbers(1).matrix(2, 3);

Lines within(const std::string& scope, Lines lines)
{
    for (std::string& line : lines)
        line.insert(0, scope);
    return lines;
}

RecurrentWeights weights_of(std::size_t gates, std::size_t layers = 1, bool is_both = false, bool is_biased = true)
{
    Numbers numbers(2);
    return random_recurrent(numbers, 3, 2, gates, layers, is_both, is_biased);
}

Lines named_weights(const std::string& module)
{
    return {
        "input_weights | d_in, d_gates |  | " + module,
        "input_bias | d_gates |  | " + module,
        "recurrent_weights | d_hidden, d_gates |  | " + module,
        "recurrent_bias | d_gates |  | " + module,
    };
}

const Lines gru_steps{
    "input_part | d_gates | x @ input_weights + input_bias | gru_cell",
    "recurrent_part | d_gates | previous_hidden @ recurrent_weights + recurrent_bias | gru_cell",
    "reset | d_hidden | sigmoid(input_part[..., 0:2] + recurrent_part[..., 0:2]) | gru_cell",
    "update | d_hidden | sigmoid(input_part[..., 2:4] + recurrent_part[..., 2:4]) | gru_cell",
    "candidate | d_hidden | tanh(input_part[..., 4:6] + reset * recurrent_part[..., 4:6]) | gru_cell",
    "hidden | d_hidden | (1 - update) * candidate + update * previous_hidden | gru_cell",
};

const Lines lstm_steps{
    "input_part | d_gates | x @ input_weights + input_bias | lstm_cell",
    "recurrent_part | d_gates | previous_hidden @ recurrent_weights + recurrent_bias | lstm_cell",
    "input_gate | d_hidden | sigmoid(input_part[..., 0:2] + recurrent_part[..., 0:2]) | lstm_cell",
    "forget_gate | d_hidden | sigmoid(input_part[..., 2:4] + recurrent_part[..., 2:4]) | lstm_cell",
    "candidate | d_hidden | tanh(input_part[..., 4:6] + recurrent_part[..., 4:6]) | lstm_cell",
    "output_gate | d_hidden | sigmoid(input_part[..., 6:8] + recurrent_part[..., 6:8]) | lstm_cell",
    "cell | d_hidden | forget_gate * previous_cell + input_gate * candidate | lstm_cell",
    "hidden | d_hidden | output_gate * tanh(cell) | lstm_cell",
};

/// What a token is given. Only the state before the first one is a step of its own.
Lines first_token(std::size_t i, const std::string& previous, const std::string& module)
{
    return {
        "x | d_in | x[..., " + std::to_string(i) + ", :] | " + module,
        "previous_hidden | d_hidden | " + previous + " | " + module,
    };
}

Lines token(std::size_t i, const std::string& module)
{
    return {"x | d_in | x[..., " + std::to_string(i) + ", :] | " + module};
}

/// "path -> target", a line per alias.
Lines aliases(const Recorder& recorder)
{
    Lines result;
    for (const Alias& alias : recorder.recording().aliases)
        result.push_back(alias.path + " -> " + alias.target);
    return result;
}

const std::string joined_tokens = "concat(step.0.hidden[..., None, :], step.1.hidden[..., None, :], axis=-2)";

} // namespace

TEST_CASE("the steps of a GRU's cell", "[steps][layers][recurrent]")
{
    const RecurrentCellWeights cell = *weights_of(3).layers[0].forward;
    const Vector token_x{1, 2, 3}, hidden{4, 5};
    const Lines inputs =
        Lines{"x | d_in |  | gru_cell", "previous_hidden | d_hidden |  | gru_cell"} + named_weights("gru_cell");
    const auto lines_with = [&](const GruOptions& options) {
        return lines(recorded([&](const Trace& trace) { gru_cell(token_x, hidden, cell, options, trace); }));
    };
    CHECK(different_rows(inputs + gru_steps, lines_with({})) == "");
    const Lines before_product{
        gru_steps[0],
        "recurrent_part | d_gates | previous_hidden @ recurrent_weights[:, 0:4] + recurrent_bias[0:4] | gru_cell",
        gru_steps[2],
        gru_steps[3],
        "selected | d_hidden | reset * previous_hidden | gru_cell",
        "candidate_part | d_hidden | selected @ recurrent_weights[:, 4:6] + recurrent_bias[4:6] | gru_cell",
        "candidate | d_hidden | tanh(input_part[..., 4:6] + candidate_part) | gru_cell",
        gru_steps[5],
    };
    CHECK(different_rows(inputs + before_product, lines_with({ResetGate::before_product})) == "");
}

TEST_CASE("the steps of cells without biases", "[steps][layers][recurrent]")
{
    const RecurrentCellWeights three = *weights_of(3, 1, false, false).layers[0].forward;
    const auto formulas = [](const Recorder& recorder) {
        Lines result;
        for (const Step& step : recorder.steps())
            if (step.path.ends_with("_part") || step.path.ends_with("_bias"))
                result.push_back(step.formula);
        return result;
    };
    const Vector token_x{1, 2, 3}, hidden{4, 5};
    CHECK(formulas(recorded([&](const Trace& trace) { gru_cell(token_x, hidden, three, {}, trace); })) ==
          Lines{"x @ input_weights", "previous_hidden @ recurrent_weights"});
    CHECK(formulas(recorded([&](const Trace& trace) {
              gru_cell(token_x, hidden, three, {ResetGate::before_product}, trace);
          })) == Lines{"x @ input_weights", "previous_hidden @ recurrent_weights[:, 0:4]",
                       "selected @ recurrent_weights[:, 4:6]"});
}

TEST_CASE("the steps of an LSTM's cell", "[steps][layers][recurrent]")
{
    const RecurrentCellWeights cell = *weights_of(4).layers[0].forward;
    const LstmStateOf<Vector> previous{Vector{4, 5}, Vector{6, 7}};
    const Recorder run = recorded([&](const Trace& trace) { lstm_cell(Vector{1, 2, 3}, previous, cell, trace); });
    const Lines inputs{"x | d_in |  | lstm_cell", "previous_hidden | d_hidden |  | lstm_cell",
                       "previous_cell | d_hidden |  | lstm_cell"};
    CHECK(different_rows(inputs + named_weights("lstm_cell") + lstm_steps, lines(run)) == "");
}

TEST_CASE("the steps of a GRU of one layer", "[steps][layers][recurrent]")
{
    const Recorder run = recorded([&](const Trace& trace) { gru(x, weights_of(3), {}, trace); });
    const Lines expected =
        Lines{"x | n, d_in |  | gru", "initial_hidden | cells, d_hidden |  | gru"} +
        within("layers.0.forward.", named_weights("gru") +
                                        within("step.0.", first_token(0, "initial_hidden[0]", "gru") + gru_steps) +
                                        within("step.1.", token(1, "gru") + gru_steps) +
                                        Lines{"output | n, d_hidden | " + joined_tokens + " | gru"}) +
        Lines{"final_hidden | cells, d_hidden | concat(layers.0.forward.step.1.hidden[None, ...], axis=0) | gru"};
    CHECK(different_rows(expected, lines(run)) == "");
    CHECK(aliases(run) == Lines{"layers.0.x -> x",
                                "layers.0.forward.step.1.previous_hidden -> layers.0.forward.step.0.hidden",
                                "layers.0.output -> layers.0.forward.output", "output -> layers.0.forward.output"});
}

TEST_CASE("the steps of an LSTM that reads both ways", "[steps][layers][recurrent]")
{
    const auto way = [&](const std::string& first, const std::string& second, std::size_t which) {
        const std::string initial = "[" + std::to_string(which) + "]";
        const std::size_t begin = first == "0" ? 0 : 1;
        return named_weights("lstm") +
               within("step." + first + ".",
                      first_token(begin, "initial_hidden" + initial, "lstm") +
                          Lines{"previous_cell | d_hidden | initial_cell" + initial + " | lstm"} + lstm_steps) +
               within("step." + second + ".", token(1 - begin, "lstm") + lstm_steps) +
               Lines{"output | n, d_hidden | " + joined_tokens + " | lstm"};
    };
    const Recorder run = recorded([&](const Trace& trace) { lstm(x, weights_of(4, 1, true), trace); });
    const Lines expected = Lines{"x | n, d_in |  | lstm", "initial_hidden | cells, d_hidden |  | lstm",
                                 "initial_cell | cells, d_hidden |  | lstm"} +
                           within("layers.0.forward.", way("0", "1", 0)) +
                           within("layers.0.backward.", way("1", "0", 1)) +
                           Lines{"layers.0.output | n, d_out | concat(forward.output, backward.output, axis=-1) | lstm",
                                 "final_hidden | cells, d_hidden | concat(layers.0.forward.step.1.hidden[None, ...], "
                                 "layers.0.backward.step.0.hidden[None, ...], axis=0) | lstm",
                                 "final_cell | cells, d_hidden | concat(layers.0.forward.step.1.cell[None, ...], "
                                 "layers.0.backward.step.0.cell[None, ...], axis=0) | lstm"};
    CHECK(different_rows(expected, lines(run)) == "");
    CHECK(aliases(run) == Lines{"layers.0.x -> x",
                                "layers.0.forward.step.1.previous_hidden -> layers.0.forward.step.0.hidden",
                                "layers.0.forward.step.1.previous_cell -> layers.0.forward.step.0.cell",
                                "layers.0.backward.step.0.previous_hidden -> layers.0.backward.step.1.hidden",
                                "layers.0.backward.step.0.previous_cell -> layers.0.backward.step.1.cell",
                                "output -> layers.0.output"});
}

TEST_CASE("the steps that lengths add, whole numbers themselves", "[steps][layers][recurrent][batch]")
{
    Numbers numbers(3);
    const Tensor3 batch = numbers.tensor3(2, 2, 3);
    const Recorder run = recorded([&](const Trace& trace) { lstm(batch, {}, Integers{1, 2}, weights_of(4), trace); });
    const Lines all = lines(run);
    const auto has = [&](const std::string& line) { return std::ranges::find(all, line) != all.end(); };
    CHECK(all[1] == "lengths | b |  | lstm");
    CHECK(run.steps()[1].value.type == ElementType::integer);
    const std::string step = "layers.0.forward.step.0.";
    CHECK(has(step + "kept_hidden | b, d_hidden | where(lengths[:, None] > 0, hidden, previous_hidden) | lstm"));
    CHECK(has(step + "kept_cell | b, d_hidden | where(lengths[:, None] > 0, cell, previous_cell) | lstm"));
    CHECK(aliases(run)[2] == "layers.0.forward.step.1.previous_cell -> layers.0.forward.step.0.kept_cell");
    CHECK(has("layers.0.forward.output | b, n, d_hidden | where((arange(2) < lengths[:, None])[:, :, None], " +
              joined_tokens + ", 0) | lstm"));
    CHECK(has("final_hidden | cells, b, d_hidden | concat(layers.0.forward.step.1.kept_hidden[None, ...], axis=0) | "
              "lstm"));
}

TEST_CASE("steps of recurrent layers say what they ran with", "[steps][layers][recurrent]")
{
    const Recorder gru_run =
        recorded([&](const Trace& trace) { gru(x, weights_of(3, 2, true), {ResetGate::before_product}, trace); });
    CHECK(gru_run.steps().front().options == StepOptions{{"layers", "2"}, {"directions", "both"}, {"reset", "before"}});
    const Recorder lstm_run = recorded([&](const Trace& trace) { lstm(x, weights_of(4), trace); });
    CHECK(lstm_run.steps().front().options == StepOptions{{"layers", "1"}, {"directions", "forward"}});
}

TEST_CASE("the doc comments of recurrent layers and convolutions list their steps",
          "[steps][layers][recurrent][source]")
{
    const RecurrentCellWeights three = *weights_of(3).layers[0].forward, four = *weights_of(4).layers[0].forward;
    const Vector token_x{1, 2, 3}, hidden{4, 5};
    const auto differs = [](const Lines& table, const auto& run) { return different_rows(table, recorded(run)); };
    CHECK(differs(promised("reference/layers/recurrent/gru.hpp", "gru_cell"),
                  [&](const Trace& trace) { gru_cell(token_x, hidden, three, {}, trace); }) == "");
    CHECK(differs(promised("reference/layers/recurrent/lstm.hpp", "lstm_cell"), [&](const Trace& trace) {
              lstm_cell(token_x, {hidden, hidden}, four, trace);
          }) == "");
    const Recorder whole = recorded([&](const Trace& trace) { gru(x, weights_of(3), {}, trace); });
    CHECK(different_rows(promised("reference/layers/recurrent/gru.hpp", "gru"), whole, "gru") == "");
    Numbers numbers(4);
    const ConvolutionWeights kernel{numbers.matrix(9, 2), numbers.vector(2)};
    const Matrix four_tokens = numbers.matrix(4, 3);
    CHECK(differs(promised("reference/layers/convolution.hpp", "convolution"),
                  [&](const Trace& trace) { convolution(four_tokens, kernel, {}, trace); }) == "");
}
