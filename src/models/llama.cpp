#include "attn/models/llama.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

/// What the layers of one run share.
struct Run {
    const LlamaOptions& options;
    const AnyMask& mask;
    bool keeps_cache;
};

StepOptions describe(const LlamaOptions& options)
{
    return {{"heads", std::to_string(options.heads)},
            {"rotary", options.rotary.layout == RotaryLayout::halves ? "halves" : "pairs"},
            {"epsilon", exact_text(options.norm.epsilon)}};
}

Matrix normalize(const Trace& caller, std::string_view scope, std::string_view from, const Matrix& x,
                 const RmsNormWeights& weights, const RmsNormOptions& options)
{
    const Trace trace = caller.scope(scope);
    return rms_norm(trace("x[n, d_model]", from, x), weights, options, trace);
}

/// Attention on normalised tokens; what it keeps for later goes into the cache, where one is kept.
Matrix attend(const Trace& layer, const Matrix& normalized, const LlamaLayerWeights& weights,
              std::optional<KeyValueCache>& cache, const Run& run)
{
    const Trace trace = layer.scope("self_attn");
    const Matrix x = trace("x[n, d_model]", "norm1.output", normalized);
    const MultiHeadOptions options{.heads = run.options.heads,
                                   .key_value_heads = key_value_heads(weights.self_attention, run.options.heads),
                                   .mask = run.mask,
                                   .positions = HeadPositions::rotary,
                                   .rotary = run.options.rotary};
    if (!run.keeps_cache)
        return multi_head_attention(x, weights.self_attention, options, trace).output;
    CachedMultiHead attended = cached_self_attention(x, cache, weights.self_attention, options, trace);
    cache = std::move(attended.cache);
    return std::move(attended.output);
}

Matrix layer(const Matrix& x, const LlamaLayerWeights& weights, std::optional<KeyValueCache>& cache, const Run& run,
             const Trace& caller)
{
    const Trace trace = caller.module("llama_layer", [&] { return describe(run.options); });
    trace.input("x[n, d_model]", x);
    std::visit([&](const auto& mask) { trace.shared_input("mask[(b,) n, m]", mask); }, run.mask);

    // Let tokens look back, and add what they found.
    const Matrix first = normalize(trace, "norm1", "x", x, weights.norm1, run.options.norm);
    const Matrix attended = attend(trace, first, weights, cache, run);
    expect_agreement("llama_layer", "d_model", {"x", x, 1}, {"self_attn.output", attended, 1});
    const Matrix residual1 = trace("residual1[n, d_model]", "x + self_attn.output", Matrix(x + attended));

    // Let each token think by itself, and add that.
    const Matrix second = normalize(trace, "norm2", "residual1", residual1, weights.norm2, run.options.norm);
    const Trace feeding = trace.scope("feed_forward");
    const Matrix fed =
        gated_feed_forward(feeding("x[n, d_model]", "norm2.output", second), weights.feed_forward, feeding);
    expect_agreement("llama_layer", "d_model", {"residual1", residual1, 1}, {"feed_forward.output", fed, 1});
    return trace("output[n, d_model]", "residual1 + feed_forward.output", Matrix(residual1 + fed));
}

/// How likely each token is to come next, before softmax.
Matrix predict(const Matrix& tokens, const LlamaWeights& weights, const Trace& trace)
{
    if (!weights.output) {
        expect_agreement("llama", "d_model", {"norm.output", tokens, 1}, {"embedding", weights.embedding, 1});
        return trace("logits[n, vocabulary]", "norm.output @ embedding.T",
                     matmul(tokens, transpose(weights.embedding)));
    }
    expect_agreement("llama", "d_model", {"norm.output", tokens, 1}, {"output weights", *weights.output, 0});
    trace.input("output_weights[d_model, vocabulary]", *weights.output);
    return trace("logits[n, vocabulary]", "norm.output @ output_weights", matmul(tokens, *weights.output));
}

/// @param past  nothing where no cache is kept
LlamaStep decode(const Vector& ids, const LlamaCache* past, const LlamaWeights& weights, const LlamaOptions& options,
                 const Trace& caller)
{
    if (past != nullptr && !past->layers.empty() && past->layers.size() != weights.layers.size())
        throw ShapeError("llama: a cache of " + std::to_string(past->layers.size()) + " layers is no cache of " +
                         std::to_string(weights.layers.size()));
    const Trace trace = caller.module("llama", [&] {
        StepOptions described = describe(options);
        described.emplace_back("layers", std::to_string(weights.layers.size()));
        return described;
    });
    trace.input("ids[n]", ids);

    // A token is a row of the table. Where it stands, the heads will say.
    trace.input("embedding[vocabulary, d_model]", weights.embedding);
    Matrix tokens = trace("embedded[n, d_model]", "embedding[ids]", take_rows(weights.embedding, ids));

    // No token may look at a later one.
    const std::size_t n = ids.size(), m = n + (past == nullptr ? 0 : past->length());
    const AnyMask mask = *join_masks(n, m, {.causal = Causal::bottom_right}, trace);
    const Run run{options, mask, past != nullptr};

    LlamaStep step;
    std::string from = "embedded";
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i);
        std::optional<KeyValueCache> cache;
        if (past != nullptr && !past->layers.empty())
            cache = past->layers[i];
        tokens = layer(inside("x[n, d_model]", from, tokens), weights.layers[i], cache, run, inside);
        if (cache)
            step.cache.layers.push_back(std::move(*cache));
        from = "layers." + std::to_string(i) + ".output";
    }
    step.logits = predict(normalize(trace, "norm", from, tokens, weights.norm, options.norm), weights, trace);
    return step;
}

} // namespace

std::size_t key_value_heads(const MultiHeadWeights& weights, std::size_t heads)
{
    const Matrix& query = weights.query.weight;
    const Matrix& key = weights.key.weight;
    const std::size_t d_k = heads == 0 ? 0 : query.shape(1) / heads;
    if (d_k == 0 || query.shape(1) % heads != 0 || key.shape(1) == 0 || key.shape(1) % d_k != 0)
        throw ShapeError("llama: query weights " + to_string(shape_of(query)) + " of " + std::to_string(heads) +
                         " heads and key weights " + to_string(shape_of(key)) +
                         " do not make heads of one size: expected columns that are a multiple of a head's");
    return key.shape(1) / d_k;
}

Matrix llama_layer(const Matrix& x, const LlamaLayerWeights& weights, const LlamaOptions& options, const AnyMask& mask,
                   const Trace& trace)
{
    std::optional<KeyValueCache> none;
    return layer(x, weights, none, {options, mask, false}, trace);
}

Matrix llama(const Vector& ids, const LlamaWeights& weights, const LlamaOptions& options, const Trace& trace)
{
    return decode(ids, nullptr, weights, options, trace).logits;
}

LlamaStep llama(const Vector& ids, const LlamaCache& past, const LlamaWeights& weights, const LlamaOptions& options,
                const Trace& trace)
{
    return decode(ids, &past, weights, options, trace);
}

} // namespace attn
