// Multi-head attention, encoder layers and encoders on every case that PyTorch's modules computed, step by step.

#include "attn/formula/verify.hpp"
#include "attn/layers/encoder.hpp"
#include "attn/trace_io/recorder.hpp"

#include "golden_cases.hpp"
#include "test.hpp"

#include <algorithm>
#include <map>

using namespace attn;

namespace {

/// One case: its name, part by part, and the steps of one function, inputs among them.
class Case {
public:
    explicit Case(const std::string& name)
    {
        for (std::size_t begin = 0; begin <= name.size();) {
            const std::size_t end = std::min(name.find('.', begin), name.size());
            words_.push_back(name.substr(begin, end - begin));
            begin = end + 1;
        }
    }

    void add(const std::string& step, const Array& array) { steps_.emplace_back(step, array); }
    const Golden& steps() const { return steps_; }

    /// "multi_head", "cross", "h2", "batch", "padding"; see tests/golden/layers.py
    const std::string& word(std::size_t i) const { return words_.at(i); }
    bool is_batch() const { return word(3) == "batch"; }

    const Array* find(const std::string& step) const
    {
        const auto found = std::ranges::find(steps_, step, &Golden::value_type::first);
        return found == steps_.end() ? nullptr : &found->second;
    }
    bool has(const std::string& step) const { return find(step) != nullptr; }

    template <class T>
    T get(const std::string& step) const
    {
        if (!has(step))
            throw std::out_of_range(step);
        return from_array<T>(*find(step));
    }

    template <class T>
    std::optional<T> maybe(const std::string& step) const
    {
        return has(step) ? std::optional(get<T>(step)) : std::nullopt;
    }

private:
    std::vector<std::string> words_;
    Golden steps_;
};

constexpr std::size_t words_of_a_case = 5;

/// Where the name of the case ends and the step's begins.
std::size_t end_of_case(const std::string& path)
{
    std::size_t dot = path.find('.');
    for (std::size_t word = 1; word < words_of_a_case; ++word)
        dot = path.find('.', dot + 1);
    return dot;
}

std::map<std::string, Case> cases()
{
    std::map<std::string, Case> result;
    for (const auto& [path, array] : read_golden("layers")) {
        const std::size_t dot = end_of_case(path);
        const std::string name = path.substr(0, dot);
        result.try_emplace(name, name).first->second.add(path.substr(dot + 1), array);
    }
    return result;
}

// ------------------------------------------------------------------------------------------------------------- weights

LinearWeights linear_of(const Case& of, const std::string& role)
{
    return {of.get<Matrix>(role + "_weights"), of.maybe<Vector>(role + "_bias")};
}

MultiHeadWeights heads_of(const Case& of, const std::string& scope = "")
{
    return {linear_of(of, scope + "query"), linear_of(of, scope + "key"), linear_of(of, scope + "value"),
            linear_of(of, scope + "output")};
}

LayerNormWeights norm_of(const Case& of, const std::string& scope)
{
    return {of.get<Vector>(scope + "gain"), of.get<Vector>(scope + "bias")};
}

EncoderLayerWeights layer_of(const Case& of, const std::string& scope = "")
{
    return {heads_of(of, scope + "self_attn."),
            {linear_of(of, scope + "feed_forward.hidden"), linear_of(of, scope + "feed_forward.output")},
            norm_of(of, scope + "norm1."),
            norm_of(of, scope + "norm2.")};
}

EncoderWeights stack_of(const Case& of)
{
    EncoderWeights weights;
    for (std::size_t i = 0; of.has("layers." + std::to_string(i) + ".x"); ++i)
        weights.layers.push_back(layer_of(of, "layers." + std::to_string(i) + "."));
    if (of.has("norm.gain"))
        weights.norm = norm_of(of, "norm.");
    return weights;
}

// ------------------------------------------------------------------------------------------------------------- options

/// A mask that is an input is given; what it is joined of otherwise is made anew.
std::optional<AnyMask> mask_of(const Case& of, std::size_t n, std::size_t m, const Trace& trace)
{
    const bool is_made = of.has("causal") || of.has("lengths");
    const std::string given = is_made ? "given_mask" : "mask";
    MaskParts parts;
    if (of.has(given))
        parts.given = of.find(given)->rank() == 3 ? AnyMask(of.get<BatchMask>(given)) : AnyMask(of.get<Mask>(given));
    if (of.has("causal"))
        parts.causal = Causal::bottom_right;
    if (of.has("lengths"))
        parts.key_lengths = as_lengths(of.get<Vector>("lengths"));
    return join_masks(n, m, parts, trace);
}

std::size_t heads_in(const Case& of, const std::string& scope)
{
    std::size_t heads = 0;
    while (of.has(scope + "head." + std::to_string(heads) + ".queries"))
        ++heads;
    return heads;
}

HeadPositions positions_of(const Case& of)
{
    if (of.word(1).starts_with("rotary"))
        return HeadPositions::rotary;
    return of.word(1).starts_with("alibi") ? HeadPositions::alibi : HeadPositions::none;
}

MultiHeadOptions head_options(const Case& of, const std::string& scope, std::optional<AnyMask> mask)
{
    return {.heads = heads_in(of, scope),
            .mask = std::move(mask),
            .bias = of.maybe<Matrix>("bias"),
            .positions = positions_of(of),
            .rotary = {.layout = of.word(1).starts_with("rotary_halves") ? RotaryLayout::halves : RotaryLayout::pairs}};
}

EncoderOptions encoder_options(const Case& of, const std::string& scope, std::optional<AnyMask> mask)
{
    static const std::map<std::string, Activation> activations{
        {"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}};
    return {.attention = head_options(of, scope, std::move(mask)),
            .feed_forward = {.activation = activations.at(of.word(2))},
            .placement = of.word(1) == "pre" ? NormPlacement::pre : NormPlacement::post};
}

// ----------------------------------------------------------------------------------------------------------- functions

template <Sequence T>
void attend(const Case& of, const Trace& trace)
{
    constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens
    const T x = of.get<T>("x");
    const T memory = of.has("memory") ? of.get<T>("memory") : x;
    const MultiHeadWeights weights = heads_of(of);
    const MultiHeadOptions options = head_options(of, "", mask_of(of, x.shape(rows), memory.shape(rows), trace));
    if (of.has("value_memory"))
        multi_head_attention(x, memory, of.get<T>("value_memory"), weights, options, trace);
    else if (of.has("memory"))
        multi_head_attention(x, memory, weights, options, trace);
    else
        multi_head_attention(x, weights, options, trace);
}

template <Sequence T>
void encode(const Case& of, const Trace& trace)
{
    const T x = of.get<T>("x");
    const std::size_t n = x.shape(std::same_as<T, Matrix> ? 0 : 1);
    const std::optional<AnyMask> mask = mask_of(of, n, n, trace);
    if (of.word(0) == "encoder")
        encoder(x, stack_of(of), encoder_options(of, "layers.0.self_attn.", mask), trace);
    else
        encoder_layer(x, layer_of(of), encoder_options(of, "self_attn.", mask), trace);
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
    for (const auto& [name, of] : cases())
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
        CHECK(difference(recorder.steps(), one.steps) == "");
        CHECK(verify(recorder.steps()).passed());
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
        CHECK(difference(recorder.steps(), one.steps) == "");
        CHECK(verify(recorder.steps()).passed());
    }
}
