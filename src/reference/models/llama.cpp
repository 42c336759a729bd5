#include "attn/reference/models/llama.hpp"

#include "attn/reference/layers/residual.hpp"
#include "predict.hpp"

#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {
namespace {

StepOptions describe(const LlamaOptions& options)
{
    return {{"heads", std::to_string(options.heads)},
            {"rotary", std::string(name_of(options.rotary.layout))},
            {"epsilon", exact_text(options.norm.epsilon)}};
}

/// One layer, whose self-attention is given: from (tokens, options, scope) to the attention's output.
template <Sequence T, class Attend>
Term<T> layer(const Term<T>& tokens, const LlamaLayerWeights& weights, const LlamaOptions& options, const Trace& caller,
              const Attend& attend)
{
    const Trace trace = caller.module("llama_layer", [&] { return describe(options); });
    const Term x = trace.input("x[(b,) n, d_model]", tokens);
    const MultiHeadOptions of_heads{.heads = options.heads,
                                    .mask = share("mask[(b,) n, m]", options.mask, trace),
                                    .positions = HeadPositions::rotary,
                                    .rotary = options.rotary,
                                    .norm = options.norm};

    // Attend to the other tokens, then map each token by itself; add each result to its input.
    const Term norm1 = rms_norm(x, weights.norm1, options.norm, trace.scope("norm1"));
    const Term heads = added_to(x, "llama_layer", "self_attn", attend(norm1, of_heads, trace.scope("self_attn")));
    const Term attended = trace("residual1[(b,) n, d_model]", x + heads);
    const Term norm2 = rms_norm(attended, weights.norm2, options.norm, trace.scope("norm2"));
    const Term mapped = added_to(x, "llama_layer", "feed_forward",
                                 gated_feed_forward(norm2, weights.feed_forward, {}, trace.scope("feed_forward")));
    return trace("output[(b,) n, d_model]", attended + mapped);
}

/// @param before   how many tokens come before these
/// @param lengths  of a batch: how many ids of each sequence are real; optional
/// @param layer   one layer: from (tokens, weights, options, scope) to what comes out
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
    const Term embedding = trace.input("embedding[vocabulary, d_model]", Term(weights.embedding));

    // Look the tokens up. Their positions come with the heads.
    const Term embedded = trace("embedded[(b,) n, d_model]", "embedding[ids]", Term(T(take_rows(*embedding, ids))));

    // Pass them through the layers, where no token attends to a later one.
    LlamaOptions of_layers = options;
    of_layers.mask = join_masks(n, before + n,
                                {.given = options.mask, .causal = Causal::bottom_right, .key_lengths = lengths}, trace);
    of_layers.rotary = share_rotation(options.rotary, trace);
    const Term last = pass_through(embedded, weights.layers, trace,
                                   [&](const Term<T>& x, const LlamaLayerWeights& of_layer, const Trace& inside) {
                                       return layer(x, of_layer, of_layers, inside);
                                   });

    // Compare the result with every word.
    const Term normalized = rms_norm(last, weights.norm, options.norm, trace.scope("norm"));
    return T(predict("llama", normalized, embedding, weights.output, trace));
}

} // namespace

template <Sequence T>
T llama_layer(const T& x, const LlamaLayerWeights& weights, const LlamaOptions& options, const Trace& trace)
{
    const auto attend = [&](const auto& y, const MultiHeadOptions& of_heads, const Trace& self_attn) {
        return multi_head_attention(y, weights.self_attention, of_heads, self_attn).output;
    };
    return T(layer(Term(x), weights, options, trace, attend));
}

#define ATTN_INSTANTIATE(T) template decltype(llama_layer<T>) llama_layer<T>;
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
#undef ATTN_INSTANTIATE

Matrix llama(const Integers& ids, const LlamaWeights& weights, const LlamaOptions& options, const Trace& trace)
{
    return decode<Matrix>(ids, 0, {}, weights, options, trace, llama_layer<Term<Matrix>>);
}

Tensor3 llama(const IntegerMatrix& ids, const std::optional<Integers>& lengths, const LlamaWeights& weights,
              const LlamaOptions& options, const Trace& trace)
{
    return decode<Tensor3>(ids, 0, lengths, weights, options, trace, llama_layer<Term<Tensor3>>);
}

LlamaStep llama(const Integers& ids, const LlamaCache& past, const LlamaWeights& weights, const LlamaOptions& options,
                const Trace& trace)
{
    if (!past.layers.empty() && past.layers.size() != weights.layers.size())
        throw ShapeError("llama: a cache of " + std::to_string(past.layers.size()) + " layers is no cache of " +
                         std::to_string(weights.layers.size()));
    LlamaStep step;
    const auto cached_layer = [&](const Term<Matrix>& x, const LlamaLayerWeights& of_layer,
                                  const LlamaOptions& of_layers, const Trace& inside) {
        const auto attend = [&](const Term<Matrix>& y, const MultiHeadOptions& of_heads, const Trace& self_attn) {
            std::optional<KeyValueCache> before;
            if (!past.layers.empty())
                before = past.layers[step.cache.layers.size()];
            auto attended = cached_self_attention(y, before, of_layer.self_attention, of_heads, self_attn);
            step.cache.layers.push_back(std::move(attended.cache));
            return attended.output;
        };
        return layer(x, of_layer, of_layers, inside, attend);
    };
    step.logits = decode<Matrix>(ids, past.length(), {}, weights, options, trace, cached_layer);
    return step;
}

} // namespace attn
