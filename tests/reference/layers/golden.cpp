// Multi-head attention, encoder layers and encoders on every case that PyTorch's modules computed, step by step.

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/encoder.hpp"

#include "reference/layers/case.hpp"
#include "masked.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

HeadPositions positions_of(const Case& of)
{
    if (of.word(1).starts_with("rotary"))
        return HeadPositions::rotary;
    return of.word(1).starts_with("alibi") ? HeadPositions::alibi : HeadPositions::none;
}

MultiHeadOptions head_options(const Case& of, const std::string& scope)
{
    return {.heads = heads_in(of, scope),
            .positions = positions_of(of),
            .rotary = {.layout = of.word(1).starts_with("rotary_halves") ? RotaryLayout::halves : RotaryLayout::pairs}};
}

EncoderOptions encoder_options(const Case& of, const std::string& scope)
{
    static const std::map<std::string, Activation> activations{
        {"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}};
    return {.attention = head_options(of, scope),
            .feed_forward = {.activation = activations.at(of.word(2))},
            .placement = of.word(1) == "pre" ? NormPlacement::pre : NormPlacement::post};
}

// ----------------------------------------------------------------------------------------------------------- functions

template <Sequence T>
void attend(const Case& of, const Trace& trace)
{
    const T x = of.get<T>("x");
    const T memory = of.has("memory") ? of.get<T>("memory") : x;
    const MultiHeadWeights weights = heads_of(of);
    const MultiHeadOptions options = head_options(of, "");
    const MultiHeadOptions plain{.heads = options.heads};
    const auto mask = mask_of(of, x.shape(token_axis<T>), memory.shape(token_axis<T>), trace);
    const OptionalBias bias = of.maybe<Matrix>("bias");
    const bool is_plain = options.positions == HeadPositions::none;
    if (of.has("value_memory"))
        multi_head_attention(Sources(x, memory, of.get<T>("value_memory")), weights, masked(plain, mask, bias), trace);
    else if (of.has("memory"))
        is_plain ? multi_head_attention(Sources(x, memory), weights, masked(plain, mask, bias), trace)
                 : multi_head_attention(Sources(x, memory), weights, masked(options, mask, bias), trace);
    else
        is_plain ? multi_head_attention(x, weights, masked(plain, mask, bias), trace)
                 : multi_head_attention(x, weights, masked(options, mask, bias), trace);
}

template <Sequence T>
void encode(const Case& of, const Trace& trace)
{
    const T x = of.get<T>("x");
    const std::size_t n = x.shape(token_axis<T>);
    const OptionalMask mask = mask_of(of, n, n, trace);
    if (of.word(0) == "encoder")
        encoder(x, stack_of(of), masked(encoder_options(of, "layers.0.self_attn."), mask), trace);
    else
        encoder_layer(x, layer_of(of), masked(encoder_options(of, "self_attn."), mask), trace);
}

void compute(const Case& of, const Trace& trace)
{
    if (of.word(0) == "multi_head")
        of.is_batch() ? attend<Tensor3>(of, trace) : attend<Matrix>(of, trace);
    else
        of.is_batch() ? encode<Tensor3>(of, trace) : encode<Matrix>(of, trace);
}

} // namespace

std::vector<GoldenCase> layer_cases()
{
    std::vector<GoldenCase> result;
    for (const auto& [name, of] : cases_of("layers"))
        result.push_back({name, of.steps(), [of = of](const Trace& trace) { compute(of, trace); }});
    return result;
}

std::vector<GoldenCase> position_cases()
{
    GoldenCase even{"sinusoidal_positions.even", {}, [](const Trace& trace) { sinusoidal_positions(4, 4, {}, trace); }};
    GoldenCase odd{
        "sinusoidal_positions.odd", {}, [](const Trace& trace) { sinusoidal_positions(4, 5, {.base = 100}, trace); }};
    GoldenCase halves{"sinusoidal_positions.halves", {}, [](const Trace& trace) {
                          sinusoidal_positions(4, 4, {.layout = SineLayout::halves}, trace);
                      }};
    const Golden lesson = read_golden("08_positions");
    for (const std::string step : {"frequencies", "angles", "positions"})
        for (const auto& [path, array] : lesson) {
            if (path == step)
                even.steps.emplace_back(step, array);
            if (path == "odd." + step)
                odd.steps.emplace_back(step, array);
            if (path == "halves." + step)
                halves.steps.emplace_back(step, array);
        }
    return {even, odd, halves};
}

TEST_CASE("every step of sinusoidal positions is NumPy's", "[layers][golden]")
{
    for (const GoldenCase& one : position_cases()) {
        CAPTURE(one.name);
        Recorder recorder;
        one.run(Trace(recorder));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
    }
}

TEST_CASE("every step of multi-head attention, encoder layers and encoders is PyTorch's", "[layers][golden]")
{
    const std::vector<GoldenCase> all = layer_cases();
    CHECK(all.size() == 48); // 32 of heads, 14 of layers, 2 of encoders
    for (const GoldenCase& one : all) {
        CAPTURE(one.name);
        Recorder recorder;
        one.run(Trace(recorder));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
    }
}
