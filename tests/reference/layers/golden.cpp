// The goldens' cases that attn run has no module for; golden_cases.cpp has all others.

#include "attn/core/recorder.hpp"
#include "attn/files/weights/attention_variants.hpp"
#include "attn/files/weights/llama.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/layers/convolution.hpp"
#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"

#include "golden_cases.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::formula;

namespace {

template <class T>
std::optional<T> maybe(const files::NamedArrays& arrays, const std::string& name)
{
    return arrays.contains(name) ? std::optional(from_array<T>(arrays.at(name))) : std::nullopt;
}

bool is_batch(const GoldenCase& one) { return one.input.at("x").rank() == 3; }

void convolve(const GoldenCase& one, const Trace& trace)
{
    const ConvolutionWeights weights{from_array<Matrix>(one.weights.at("kernel")), maybe<Vector>(one.weights, "bias")};
    if (is_batch(one))
        convolution(from_array<Tensor3>(one.input.at("x")), weights, {}, trace);
    else
        convolution(from_array<Matrix>(one.input.at("x")), weights, {}, trace);
}

/// A layer that reads backward only.
template <Sequence T>
void read_backward(const GoldenCase& one, const Trace& trace)
{
    const auto map = [&](const std::string& role) {
        return LinearWeights{from_array<Matrix>(one.weights.at(role + "_weights")),
                             maybe<Vector>(one.weights, role + "_bias")};
    };
    const RecurrentWeights weights{{{std::nullopt, RecurrentCellWeights{map("input"), map("recurrent")}}}};
    const T x = from_array<T>(one.input.at("x"));
    const std::optional<T> hidden = maybe<T>(one.input, "initial_hidden"), cell = maybe<T>(one.input, "initial_cell");
    if (one.name.starts_with("gru"))
        gru(x, hidden, std::nullopt, weights, {}, trace);
    else
        lstm(x, hidden ? std::optional(LstmStateOf<T>{*hidden, *cell}) : std::nullopt, std::nullopt, weights, trace);
}

/// The contexts side by side.
void talk_without_output_map(const GoldenCase& one, const Trace& trace)
{
    const Matrix x = from_array<Matrix>(one.input.at("x"));
    const auto weights =
        files::load_weights<TalkingHeadsWeights>(one.weights, {{"d_model", x.shape(1)}}, {.has_output_map = false});
    talking_heads_attention(x, weights, {}, trace);
}

void decode_after_cache(const GoldenCase& one, const Trace& trace)
{
    const files::LlamaCheckpoint checkpoint = files::llama_weights(one.weights);
    LlamaCache past;
    for (std::size_t i = 0; i < checkpoint.weights.layers.size(); ++i) {
        const std::string layer = std::to_string(i) + ".";
        past.layers.push_back(
            {from_array<Matrix>(one.input.at(layer + "keys")), from_array<Matrix>(one.input.at(layer + "values"))});
    }
    const RotaryLayout layout =
        one.name.find("halves") == std::string::npos ? RotaryLayout::pairs : RotaryLayout::halves;
    llama(from_array<Integers>(one.input.at("ids")), past, checkpoint.weights,
          {.heads = static_cast<std::size_t>(one.input.at("heads").values.at(0)), .rotary = {.layout = layout}}, trace);
}

} // namespace

TEST_CASE("every step that attn run has no module for is PyTorch's or NumPy's, too", "[layers][golden]")
{
    using Compute = void (*)(const GoldenCase&, const Trace&);
    const auto [golden, compute, count] = GENERATE(table<std::string, Compute, std::size_t>({
        {"convolution", convolve, 6},
        {"recurrent",
         [](const GoldenCase& one, const Trace& trace) {
             is_batch(one) ? read_backward<Tensor3>(one, trace) : read_backward<Matrix>(one, trace);
         },
         4},
        {"restricted", talk_without_output_map, 1},
        {"llama", decode_after_cache, 2},
    }));
    std::size_t computed = 0;
    for (const GoldenCase& one : golden_cases(golden)) {
        if (!one.command.empty())
            continue;
        CAPTURE(golden, one.name);
        Recorder recorder;
        compute(one, Trace(recorder));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
        ++computed;
    }
    CHECK(computed == count);
}
