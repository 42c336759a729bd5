#include "attn/reference/models/llama.hpp"

#include "attn/reference/layers/residual.hpp"
#include "predict.hpp"

#include "attn/reference/ops/concat.hpp"

namespace attn {
namespace {

StepOptions describe(const LlamaOptions& options)
{
    return {{"heads", std::to_string(options.heads)},
            {"rotary", options.rotary.layout == RotaryLayout::halves ? "halves" : "pairs"},
            {"epsilon", exact_text(options.norm.epsilon)}};
}

auto normalize(const RmsNormWeights& weights, const RmsNormOptions& options)
{
    return [&weights, &options](const auto& tokens, const Trace& trace) {
        return rms_norm(tokens, weights, options, trace);
    };
}

/// One layer, whose self-attention is given: from (tokens, options, scope) to the attention's output.
template <Sequence T, class Attend>
T layer(const T& tokens, const std::optional<AnyMask>& given, const LlamaLayerWeights& weights,
        const LlamaOptions& options, const Trace& caller, const Attend& attend)
{
    const Trace trace = caller.module("llama_layer", [&] { return describe(options); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    const std::optional<AnyMask> mask = share("mask[(b,) n, m]", given, trace);
    const GroupedQueryOptions of_heads{
        .heads = options.heads, .positions = HeadPositions::rotary, .rotary = options.rotary, .norm = options.norm};

    // Attend to the other tokens, then map each token by itself; add each result to its input.
    ResidualStream<T> stream("llama_layer", x, true, 2, trace);
    stream.add("self_attn", normalize(weights.norm1, options.norm),
               [&](const T& normalized, const Trace& inside) { return attend(normalized, mask, of_heads, inside); });
    stream.add("feed_forward", normalize(weights.norm2, options.norm), [&](const T& normalized, const Trace& inside) {
        return gated_feed_forward(normalized, weights.feed_forward, {}, inside);
    });
    return stream.output();
}

/// @param before   how many tokens come before these
/// @param lengths  of a batch: how many ids of each sequence are real; optional
/// @param layer   one layer: from (tokens, mask, weights, scope) to what comes out
template <Sequence T, class Ids, class Layer>
T decode(const Ids& given_ids, std::size_t before, const std::optional<Integers>& lengths, const LlamaWeights& weights,
         const LlamaOptions& options, const Trace& caller, const Layer& layer)
{
    const Trace trace = caller.module("llama", [&] {
        StepOptions described = describe(options);
        described.emplace_back("layers", std::to_string(weights.layers.size()));
        return described;
    });
    const Ids& ids = trace.input("ids[(b,) n]", given_ids);
    const std::size_t n = ids.shape().back();
    const Matrix& embedding = trace.input("embedding[vocabulary, d_model]", weights.embedding);

    // Look the tokens up. Their positions come with the heads.
    T tokens = trace("embedded[(b,) n, d_model]", "embedding[ids]", take_rows(embedding, ids));

    // Pass them through the layers, where no token attends to a later one.
    const auto mask = join_masks(n, before + n, {.causal = Causal::bottom_right, .key_lengths = lengths}, trace);
    const std::string name = pass_through(tokens, "embedded", weights.layers, trace,
                                          [&](const T& x, const LlamaLayerWeights& of_layer, const Trace& inside) {
                                              return layer(x, mask, of_layer, inside);
                                          });

    // Compare the result with every word.
    const Trace norm = trace.scope("norm", {{"x", name}});
    tokens = rms_norm(tokens, weights.norm, options.norm, norm);
    return predict("llama", tokens, "embedding", embedding, weights.output, trace);
}

} // namespace

template <Sequence T>
T llama_layer(const T& x, const std::optional<AnyMask>& given, const LlamaLayerWeights& weights,
              const LlamaOptions& options, const Trace& trace)
{
    return layer(x, given, weights, options, trace,
                 [&](const T& tokens, const std::optional<AnyMask>& mask, const GroupedQueryOptions& of_heads,
                     const Trace& inside) {
                     return grouped_query_attention(tokens, mask, {}, weights.self_attention, of_heads, inside).output;
                 });
}

template decltype(llama_layer<Matrix>) llama_layer<Matrix>;
template decltype(llama_layer<Tensor3>) llama_layer<Tensor3>;

Matrix llama(const Integers& ids, const LlamaWeights& weights, const LlamaOptions& options, const Trace& trace)
{
    return decode<Matrix>(ids, 0, {}, weights, options, trace,
                          [&](const Matrix& x, const std::optional<AnyMask>& mask, const LlamaLayerWeights& of_layer,
                              const Trace& inside) { return llama_layer(x, mask, of_layer, options, inside); });
}

Tensor3 llama(const IntegerMatrix& ids, const std::optional<Integers>& lengths, const LlamaWeights& weights,
              const LlamaOptions& options, const Trace& trace)
{
    return decode<Tensor3>(ids, 0, lengths, weights, options, trace,
                           [&](const Tensor3& x, const std::optional<AnyMask>& mask, const LlamaLayerWeights& of_layer,
                               const Trace& inside) { return llama_layer(x, mask, of_layer, options, inside); });
}

LlamaStep llama(const Integers& ids, const LlamaCache& past, const LlamaWeights& weights, const LlamaOptions& options,
                const Trace& trace)
{
    if (!past.layers.empty() && past.layers.size() != weights.layers.size())
        throw ShapeError("llama: a cache of " + std::to_string(past.layers.size()) + " layers is no cache of " +
                         std::to_string(weights.layers.size()));
    LlamaStep step;
    const auto attend = [&](const Matrix& tokens, const std::optional<AnyMask>& mask,
                            const MultiHeadWeights& weights_of, const GroupedQueryOptions& of_heads,
                            const Trace& inside) {
        std::optional<KeyValueCache> before;
        if (!past.layers.empty())
            before = past.layers[step.cache.layers.size()];
        CachedMultiHead attended = cached_self_attention(tokens, before, mask, {}, weights_of, of_heads, inside);
        step.cache.layers.push_back(std::move(attended.cache));
        return std::move(attended.output);
    };
    step.logits =
        decode<Matrix>(ids, past.length(), {}, weights, options, trace,
                       [&](const Matrix& x, const std::optional<AnyMask>& mask, const LlamaLayerWeights& of_layer,
                           const Trace& inside) {
                           return layer(x, mask, of_layer, options, inside,
                                        [&](const Matrix& tokens, const std::optional<AnyMask>& joined,
                                            const GroupedQueryOptions& of_heads, const Trace& self_attn) {
                                            return attend(tokens, joined, of_layer.self_attention, of_heads, self_attn);
                                        });
                       });
    return step;
}

} // namespace attn
