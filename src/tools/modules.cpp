#include "attn/tools/modules.hpp"

#include "attn/attention/bilinear.hpp"
#include "attn/shape.hpp"
#include "attn/tools/state_dict.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace attn {
namespace {

constexpr ModuleInput token_input{"x", "((b,) n, d_model)", true};
constexpr ModuleInput lengths{"lengths", "(b,)", false};
constexpr ModuleInput bias{"bias", "(n, m)", false};

constexpr std::array attention_inputs{ModuleInput{"queries", "((b,) n, d_k)", true},
                                      ModuleInput{"keys", "((b,) m, d_k)", true},
                                      ModuleInput{"values", "((b,) m, d_v)", true},
                                      ModuleInput{"mask", "((b,) n, m)", false},
                                      lengths,
                                      bias};
constexpr std::array multi_head_inputs{token_input,
                                       ModuleInput{"memory", "((b,) m, d_memory)", false},
                                       ModuleInput{"value_memory", "((b,) m, d_value)", false},
                                       ModuleInput{"mask", "((b,) n, m)", false},
                                       lengths,
                                       bias};
constexpr std::array token_inputs{token_input};
constexpr std::array encoder_inputs{token_input, ModuleInput{"mask", "((b,) n, n)", false}, lengths};

constexpr std::array entries{
    ModuleEntry{Module::attention, "attention", "queries compared with keys, values mixed in proportion",
                attention_inputs},
    ModuleEntry{Module::multi_head_attention, "multi-head-attention", "nn.MultiheadAttention", multi_head_inputs},
    ModuleEntry{Module::feed_forward, "feed-forward", "linear1, activation, linear2, for each token by itself",
                token_inputs},
    ModuleEntry{Module::layer_norm, "layer-norm", "nn.LayerNorm over the features of each token", token_inputs},
    ModuleEntry{Module::encoder_layer, "encoder-layer", "nn.TransformerEncoderLayer", encoder_inputs},
    ModuleEntry{Module::encoder, "encoder", "nn.TransformerEncoder", encoder_inputs},
};

/// Every name that some module takes, or will: an array of that name is meant.
constexpr std::array known_names{"queries",     "keys",    "values",         "x",   "memory", "value_memory", "mask",
                                 "memory_mask", "lengths", "memory_lengths", "bias"};

/// The inputs of one run: looked up by name, checked, and handed out as containers.
class Inputs {
public:
    Inputs(const NamedArrays& arrays, std::span<const ModuleInput> accepted) : arrays_(arrays)
    {
        std::string complaints;
        for (const ModuleInput& input : accepted)
            if (input.is_required && !has(input.name))
                complaints += "\n  " + std::string(input.name) + " is missing";
        for (const std::string_view name : known_names)
            if (has(name) && std::ranges::find(accepted, name, &ModuleInput::name) == accepted.end())
                complaints += "\n  " + std::string(name) + " is not taken by this module";
        if (!complaints.empty())
            throw Error("these inputs do not fit:" + complaints + "\n  expected " + listed(accepted));
    }

    bool has(std::string_view name) const { return arrays_.contains(name); }

    /// True where the tokens of that name are a batch.
    bool is_batch(std::string_view name) const
    {
        const std::size_t rank = find(name).rank();
        if (rank != 2 && rank != 3)
            throw Error(std::string(name) + " has the shape " + to_string(find(name).shape) +
                        ", expected a sequence (n, d) or a batch of sequences (b, n, d)");
        return rank == 3;
    }

    template <Traceable T>
    T get(std::string_view name) const
    {
        const Array& array = find(name);
        expect_usable(name, array);
        try {
            return from_array<T>(array);
        } catch (const Error& error) {
            throw Error(std::string(name) + ": " + error.what());
        }
    }

    std::optional<AnyMask> mask() const
    {
        if (!has("mask"))
            return std::nullopt;
        return find("mask").rank() == 3 ? AnyMask(get<BatchMask>("mask")) : AnyMask(get<Mask>("mask"));
    }

    /// How many of the keys of each sequence are real.
    std::vector<std::size_t> lengths(std::size_t sequences, bool is_batch) const
    {
        if (!has("lengths"))
            return {};
        const Array& array = find("lengths");
        if (!is_batch || array.shape != Shape{sequences})
            throw Error("lengths has the shape " + to_string(array.shape) +
                        ", expected a number for each sequence of a batch" +
                        (is_batch ? ", " + to_string(Shape{sequences}) : "; there is only one sequence here"));
        return as_lengths(get<Vector>("lengths"));
    }

private:
    static std::string listed(std::span<const ModuleInput> inputs)
    {
        std::string text;
        for (const auto& [name, shape, is_required] : inputs)
            text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::string(shape) +
                    (is_required ? "" : " if you like");
        return text;
    }

    const Array& find(std::string_view name) const { return arrays_.find(name)->second; }

    static void expect_usable(std::string_view name, const Array& array)
    {
        if (array.size() == 0)
            throw Error(std::string(name) + " has the shape " + to_string(array.shape) +
                        " and no numbers, expected at least one on every axis");
        const bool is_mask = name == "mask";
        if (!is_mask && array.type == ElementType::boolean)
            throw Error(std::string(name) + " holds booleans, expected numbers");
        for (std::size_t i = 0; i < array.size(); ++i)
            if (const bool may_forbid = name == "bias" && array.values[i] == -INFINITY;
                !std::isfinite(array.values[i]) && !may_forbid)
                throw Error(std::string(name) + " at " + to_string(index_at(i, array.shape)) + " is " +
                            exact_text(array.values[i]) + ", expected finite numbers");
    }

    const NamedArrays& arrays_;
};

template <Sequence T>
constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

/// The mask of a run: what the file gives, what the flags add.
template <Sequence T>
std::optional<AnyMask> mask_for(const T& asking, const T& answering, const Inputs& inputs, const ModuleOptions& options,
                                const Trace& trace)
{
    constexpr bool is_batch = std::same_as<T, Tensor3>;
    const MaskParts parts{
        .given = inputs.mask(), .causal = options.causal, .key_lengths = inputs.lengths(answering.shape(0), is_batch)};
    return join_masks(asking.shape(rows<T>), answering.shape(rows<T>), parts, trace);
}

std::optional<Matrix> bias_of(const Inputs& inputs, const Trace& trace)
{
    if (!inputs.has("bias"))
        return std::nullopt;
    return trace("bias[n, m]", "", inputs.get<Matrix>("bias"));
}

// ----------------------------------------------------------------------------------------------------------- attention

/// Scores that only know single sequences.
Attention attend_by_learned_score(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                  const NamedArrays& weights, Score score, const WeighingOptions& options,
                                  const Trace& trace)
{
    const std::size_t d_q = queries.shape(1), d_k = keys.shape(1);
    switch (score) {
    case Score::additive:
        return additive_attention(queries, keys, values, additive_weights(weights, d_q, d_k), options, trace);
    case Score::concatenated:
        return concatenated_attention(queries, keys, values, concatenated_weights(weights, d_q + d_k), options, trace);
    default:
        return bilinear_attention(queries, keys, values, bilinear_weights(weights, d_q, d_k), options, trace);
    }
}

template <Sequence T>
T attend(const Inputs& inputs, const NamedArrays& weights, const ModuleOptions& options, const Trace& trace)
{
    const T queries = trace("queries[(b,) n, d_q]", "", inputs.get<T>("queries"));
    const T keys = trace("keys[(b,) m, d_k]", "", inputs.get<T>("keys"));
    const T values = trace("values[(b,) m, d_v]", "", inputs.get<T>("values"));
    const std::optional<AnyMask> mask = mask_for(queries, keys, inputs, options, trace);
    const WeighingOptions weighing{.mask = mask, .normalization = options.normalization};
    const bool is_scaled = options.score == Score::scaled;
    if (is_scaled && options.normalization == Normalization::none)
        throw Error(
            "scaled scores are always normalised; without softmax the score is dot, and its scale is in the queries");
    if (!is_scaled && (options.scale || inputs.has("bias")))
        throw Error("only the scaled score takes a scale or a bias");

    if (is_scaled)
        return scaled_dot_product_attention(
                   queries, keys, values, {.mask = mask, .bias = bias_of(inputs, trace), .scale = options.scale}, trace)
            .context;
    if (options.score == Score::dot)
        return dot_product_attention(queries, keys, values, weighing, trace).context;
    if constexpr (std::same_as<T, Matrix>)
        return attend_by_learned_score(queries, keys, values, weights, options.score, weighing, trace).context;
    else
        throw Error("a learned score compares one sequence's queries and keys, expected queries (n, d_q), not a batch");
}

// ---------------------------------------------------------------------------------------------------------- the others

MultiHeadOptions multi_head_options(const ModuleOptions& options)
{
    return {.heads = options.heads, .scale = options.scale, .positions = options.positions, .rotary = options.rotary};
}

/// Weights are looked for by d_model, which the tokens decide.
template <Sequence T>
std::size_t features(const T& tokens)
{
    return tokens.shape(rows<T> + 1);
}

template <Sequence T>
void attend_by_heads(const Inputs& inputs, const NamedArrays& weights, const ModuleOptions& options, const Trace& trace)
{
    const T x = trace("x[(b,) n, d_model]", "", inputs.get<T>("x"));
    const std::string_view values_name = inputs.has("value_memory") ? "value_memory" : "memory";
    MultiHeadOptions of_heads = multi_head_options(options);
    if (!inputs.has("memory")) {
        if (inputs.has("value_memory"))
            throw Error(
                "there is an array value_memory but no memory: keys are made of memory, values of value_memory");
        of_heads.mask = mask_for(x, x, inputs, options, trace);
        of_heads.bias = bias_of(inputs, trace);
        const AttentionSizes sizes{.d_model = features(x)};
        multi_head_attention(x, multi_head_weights(weights, sizes, options.has_output_map), of_heads, trace);
        return;
    }
    const T memory = trace("memory[(b,) m, d_memory]", "", inputs.get<T>("memory"));
    const T value_memory = inputs.get<T>(values_name);
    of_heads.mask = mask_for(x, memory, inputs, options, trace);
    of_heads.bias = bias_of(inputs, trace);
    const AttentionSizes sizes{.d_model = features(x), .d_memory = features(memory), .d_value = features(value_memory)};
    const MultiHeadWeights learned = multi_head_weights(weights, sizes, options.has_output_map);
    if (values_name == "memory")
        multi_head_attention(x, memory, learned, of_heads, trace);
    else
        multi_head_attention(x, memory, value_memory, learned, of_heads, trace);
}

template <Sequence T>
EncoderOptions encoder_options(const T& x, const Inputs& inputs, const ModuleOptions& options, const Trace& trace)
{
    EncoderOptions of_encoder{.attention = multi_head_options(options),
                              .feed_forward = {.activation = options.activation},
                              .norm = {.epsilon = options.epsilon},
                              .placement = options.placement};
    if (options.final_epsilon)
        of_encoder.final_norm = {.epsilon = *options.final_epsilon};
    of_encoder.attention.mask = mask_for(x, x, inputs, options, trace);
    return of_encoder;
}

template <Sequence T>
void run_as(Module module, const Inputs& inputs, const NamedArrays& weights, const ModuleOptions& options,
            const Trace& trace)
{
    if (module == Module::attention) {
        trace("output[(b,) n, d_v]", "context", attend<T>(inputs, weights, options, trace));
        return;
    }
    if (module == Module::multi_head_attention) {
        attend_by_heads<T>(inputs, weights, options, trace);
        return;
    }
    const T x = trace("x[(b,) n, d_model]", "", inputs.get<T>("x"));
    switch (module) {
    case Module::feed_forward:
        feed_forward(x, feed_forward_weights(weights, features(x)), {.activation = options.activation}, trace);
        break;
    case Module::layer_norm:
        layer_norm(x, layer_norm_weights(weights, features(x)), {.epsilon = options.epsilon}, trace);
        break;
    case Module::encoder_layer: {
        const EncoderOptions of_encoder = encoder_options(x, inputs, options, trace);
        encoder_layer(x, encoder_layer_weights(weights, features(x)), of_encoder, trace);
        break;
    }
    default: {
        const EncoderOptions of_encoder = encoder_options(x, inputs, options, trace);
        encoder(x, encoder_weights(weights, features(x), options.layers), of_encoder, trace);
    }
    }
}

} // namespace

std::span<const ModuleEntry> modules() { return entries; }

void run_module(Module module, const NamedArrays& arrays, const NamedArrays& weights, const ModuleOptions& options,
                const Trace& trace)
{
    if (!std::isfinite(options.scale.value_or(1)) ||
        !std::isfinite(options.rotary.base + options.epsilon + options.final_epsilon.value_or(0)))
        throw Error("scale, rotary base and epsilon have to be finite numbers");
    const Inputs inputs(arrays, entries[static_cast<std::size_t>(module)].inputs);
    if (inputs.is_batch(module == Module::attention ? "queries" : "x"))
        run_as<Tensor3>(module, inputs, weights, options, trace);
    else
        run_as<Matrix>(module, inputs, weights, options, trace);
}

} // namespace attn
