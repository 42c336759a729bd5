// Weights of a decoder as Llama has them, under each of the names that files have for them.

#include "attn/weights/state_dict.hpp"

#include "reader.hpp"
#include "writer.hpp"

#include <algorithm>
#include <array>

namespace attn {
namespace {

/// What a family of files calls the tensors.
struct Names {
    std::string_view family;
    RotaryLayout layout; ///< which features of a head its weights turn together
    std::string_view embedding, layer, norm, output;
    std::string_view query, key, value, merged, norm1, gate, up, down, norm2; ///< behind a layer's prefix
};

constexpr std::array families{
    Names{"Hugging Face's", RotaryLayout::halves, "model.embed_tokens.weight", "model.layers.", "model.norm.weight",
          "lm_head.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
          "self_attn.o_proj.weight", "input_layernorm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight",
          "mlp.down_proj.weight", "post_attention_layernorm.weight"},
    Names{"llama.cpp's", RotaryLayout::pairs, "token_embd.weight", "blk.", "output_norm.weight", "output.weight",
          "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight", "attn_norm.weight",
          "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "ffn_norm.weight"},
    Names{"llama2.c's", RotaryLayout::pairs, "tok_embeddings.weight", "layers.", "norm.weight", "output.weight",
          "attention.wq.weight", "attention.wk.weight", "attention.wv.weight", "attention.wo.weight",
          "attention_norm.weight", "feed_forward.w1.weight", "feed_forward.w3.weight", "feed_forward.w2.weight",
          "ffn_norm.weight"},
};

constexpr const Names& hugging_face = families.front();

const Names& names_in(const NamedArrays& arrays)
{
    for (const Names& names : families)
        if (arrays.contains(std::string(names.embedding)))
            return names;
    std::string expected;
    for (const Names& names : families)
        expected += "\n  expected " + std::string(names.embedding) + " (" + std::string(names.family) + " names)";
    throw WeightsError("this is no decoder as Llama has them, for there is no embedding:" + expected);
}

std::string prefix_of(const Names& names, std::size_t layer)
{
    return std::string(names.layer) + std::to_string(layer) + ".";
}

std::size_t layers_of(const StateDictReader& reader, const Names& names)
{
    std::size_t layers = 0;
    while (reader.has_any(prefix_of(names, layers)))
        ++layers;
    return layers;
}

LlamaLayerWeights take_layer(StateDictReader& reader, const Names& names, const std::string& prefix)
{
    const auto map = [&](std::string_view name, const std::string& out, const std::string& in) {
        return LinearWeights{reader.weight(prefix + std::string(name), {1, out}, {1, in})};
    };
    LlamaLayerWeights weights;
    weights.norm1 = {reader.vector(prefix + std::string(names.norm1), {1, "d_model"})};
    weights.self_attention.query = map(names.query, "h_d_k", "d_model");
    weights.self_attention.key = map(names.key, "g_d_k", "d_model");
    weights.self_attention.value = map(names.value, "g_d_v", "d_model");
    weights.self_attention.output = map(names.merged, "d_model", "h_d_v");
    weights.norm2 = {reader.vector(prefix + std::string(names.norm2), {1, "d_model"})};
    weights.feed_forward.gate = map(names.gate, "d_ff", "d_model");
    weights.feed_forward.up = map(names.up, "d_ff", "d_model");
    weights.feed_forward.down = map(names.down, "d_model", "d_ff");
    return weights;
}

/// Older files keep the frequencies of rotary positions, which follow from their base.
NamedArrays without_frequencies(const NamedArrays& arrays)
{
    NamedArrays learned = arrays;
    std::erase_if(learned, [](const auto& entry) { return entry.first.ends_with("rotary_emb.inv_freq"); });
    return learned;
}

bool is_transposed(const Matrix& output, const Matrix& embedding)
{
    if (output.shape(0) != embedding.shape(1) || output.shape(1) != embedding.shape(0))
        return false;
    for (std::size_t token = 0; token < embedding.shape(0); ++token)
        for (std::size_t feature = 0; feature < embedding.shape(1); ++feature)
            if (output(feature, token) != embedding(token, feature))
                return false;
    return true;
}

} // namespace

LlamaCheckpoint llama_weights(const NamedArrays& arrays)
{
    const Names& names = names_in(arrays);
    const NamedArrays learned = without_frequencies(arrays);
    StateDictReader reader(learned, "a decoder with " + std::string(names.family) + " names", {});

    LlamaWeights weights;
    weights.embedding = reader.matrix(std::string(names.embedding), {1, "vocabulary"}, {1, "d_model"});
    const std::size_t layers = std::max<std::size_t>(layers_of(reader, names), 1);
    for (std::size_t i = 0; i < layers; ++i) {
        reader.begin_part(prefix_of(names, i));
        weights.layers.push_back(take_layer(reader, names, prefix_of(names, i)));
    }
    weights.norm = {reader.vector(std::string(names.norm), {1, "d_model"})};
    if (reader.has(std::string(names.output)))
        weights.output = reader.weight(std::string(names.output), {1, "vocabulary"}, {1, "d_model"});
    reader.finish();
    if (weights.output && is_transposed(*weights.output, weights.embedding))
        weights.output.reset(); // tied: the file has the same numbers twice
    return {std::move(weights), names.layout};
}

NamedArrays state_dict(const LlamaWeights& weights)
{
    const Names& names = hugging_face;
    NamedArrays arrays;
    const auto put = [&](const std::string& name, const Matrix& weight) { put_weight(arrays, name, weight); };
    arrays[std::string(names.embedding)] = to_array(weights.embedding);
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const LlamaLayerWeights& layer = weights.layers[i];
        const auto named = [&](std::string_view name) { return prefix_of(names, i) + std::string(name); };
        if (!layer.self_attention.output)
            throw Error("a decoder as Llama has them has an output map in each attention");
        arrays[named(names.norm1)] = to_array(layer.norm1.gain);
        put(named(names.query), layer.self_attention.query.weight);
        put(named(names.key), layer.self_attention.key.weight);
        put(named(names.value), layer.self_attention.value.weight);
        put(named(names.merged), layer.self_attention.output->weight);
        arrays[named(names.norm2)] = to_array(layer.norm2.gain);
        put(named(names.gate), layer.feed_forward.gate.weight);
        put(named(names.up), layer.feed_forward.up.weight);
        put(named(names.down), layer.feed_forward.down.weight);
    }
    arrays[std::string(names.norm)] = to_array(weights.norm.gain);
    if (weights.output)
        put(std::string(names.output), *weights.output);
    return arrays;
}

} // namespace attn
