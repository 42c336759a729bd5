#include "attn/engines/fast/llama.hpp"

#include "stack.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <algorithm>
#include <string>

namespace attn::fast {
namespace {

constexpr std::string_view of_llama = "fast::llama";

void expect_fit(std::span<const std::int64_t> ids, const PackedLlama& weights, const LlamaOptions& options,
                std::size_t logits)
{
    if (options.mask)
        throw Error("fast::llama: a mask is among the options, expected none: each token attends to all before it");
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] < 0 || static_cast<std::size_t>(ids[i]) >= weights.vocabulary)
            throw ShapeError("fast::llama: ids[", i, "] is ", ids[i], ", expected 0 to ", weights.vocabulary - 1,
                             ", the rows of the embedding");
    if (logits != ids.size() * weights.vocabulary)
        throw ShapeError("fast::llama: room for ", logits,
                         " logits, expected n vocabulary = ", ids.size() * weights.vocabulary);
    fast::expect_fit(of_llama, weights.d_model, weights.norm);
    for (const PackedLlamaLayer& layer : weights.layers) {
        fast::expect_fit(of_llama, weights.d_model, weights.d_model, layer.self_attention, options.heads);
        fast::expect_fit(of_llama, weights.d_model, layer.feed_forward, default_gate_activation);
        fast::expect_fit(of_llama, weights.d_model, layer.norm1);
        fast::expect_fit(of_llama, weights.d_model, layer.norm2);
    }
}

StepOptions described(const PackedLlama& weights, const LlamaOptions& options)
{
    return in_float32({{"heads", std::to_string(options.heads)},
                       {"rotary", std::string(name_of(options.rotary.layout))},
                       {"epsilon", exact_text(options.norm.epsilon)},
                       {"layers", std::to_string(weights.layers.size())}});
}

/// The weights of the output: as they are, or the embedding's rows as columns.
LinearWeights output_map(const LlamaWeights& weights)
{
    return {weights.output ? *weights.output : Matrix(transpose(weights.embedding))};
}

/// One call: the new tokens on their way through the layers.
class LlamaCall {
public:
    LlamaCall(std::size_t n, LlamaCache& cache, const PackedLlama& weights, const LlamaOptions& options,
              Workspace& workspace, const Trace& trace)
        : sequences_{n},
          cache_(cache),
          options_(options),
          setting_{workspace, static_cast<float>(options.norm.epsilon), NormPlacement::pre},
          tokens_(view(workspace.tokens.grow(n * weights.d_model), n, weights.d_model))
    {
        if (!weights.layers.empty())
            rotation_ =
                rotation_of(options.rotary, cache.length(), n,
                            weights.layers[0].self_attention.query.d_out() / options.heads, workspace.positions, trace);
    }

    const View& tokens() const { return tokens_; }
    const Sequences& sequences() const { return sequences_; }

    void layer(std::size_t number, const PackedLlamaLayer& weights, const Trace& trace) const
    {
        Stream stream(tokens_, sequences_, 2, setting_, trace);
        Workspace& workspace = setting_.workspace;
        stream.add("self_attn", weights.norm1, [&](const View& x, const View& result, const Trace& inside) {
            attend(x, x, "x", weights.self_attention, task(number, weights.self_attention), result, workspace, inside);
        });
        stream.add("feed_forward", weights.norm2, [&](const View& x, const View& result, const Trace& inside) {
            feed_forward(x, weights.feed_forward, default_gate_activation, sequences_, result, workspace, inside);
        });
    }

private:
    AttentionTask task(std::size_t layer, const AttentionMaps& maps) const
    {
        const std::size_t columns = maps.key_value.d_out(), past = cache_.length(), all = past + sequences_.n,
                          stride = maps.key_value.panels() * LinearMaps::panel_columns;
        return {.heads = options_.heads,
                .scoring = {.causal = Causal::bottom_right},
                .rotation = &rotation_,
                .queries = sequences_,
                .keys = sequences_,
                .key_value = {cache_.rows(layer, sequences_.n, stride), all, columns, stride},
                .past = past};
    }

    Sequences sequences_;
    LlamaCache& cache_;
    const LlamaOptions& options_;
    Setting setting_;
    View tokens_;
    Rotation rotation_ = {};
};

/// Looks the tokens up.
void embed(std::span<const std::int64_t> ids, const std::vector<float>& embedding, const View& tokens,
           const Trace& trace)
{
    for (std::size_t i = 0; i < ids.size(); ++i)
        std::copy_n(embedding.data() + static_cast<std::size_t>(ids[i]) * tokens.columns, tokens.columns,
                    tokens.row(i));
    record(trace, "embedded[n, d_model]", "embedding[ids]", {ids.size()}, tokens);
}

/// Compares the tokens with every word.
void predict(const LlamaCall& call, const PackedLlama& weights, std::span<float> logits, Workspace& workspace,
             const Trace& trace)
{
    if (!weights.is_tied)
        record_input(trace, weights.output, {{"output", "d_model", "vocabulary"}});
    const View all = matrix_in(workspace.hidden, call.tokens().rows, weights.output.d_out());
    multiply(call.tokens(), weights.output, all);
    record(trace, "logits[n, vocabulary]",
           weights.is_tied ? "norm.output @ embedding.T" : "norm.output @ output_weights", call.sequences(), all);
    for (std::size_t i = 0; i < all.rows; ++i)
        std::copy_n(all.row(i), all.columns, logits.data() + i * all.columns);
}

void record_inputs(const Trace& trace, std::span<const std::int64_t> ids, const PackedLlama& weights)
{
    if (!trace.has_listener())
        return;
    Integers numbers(Integers::shape_type{ids.size()});
    std::ranges::copy(ids, numbers.begin());
    static_cast<void>(trace.input("ids[n]", numbers));
    record_input(trace, "embedding[vocabulary, d_model]", {weights.vocabulary},
                 view(weights.embedding.data(), weights.vocabulary, weights.d_model));
}

} // namespace

PackedLlamaLayer::PackedLlamaLayer(const LlamaLayerWeights& weights)
    : self_attention(weights.self_attention, "self_attn"),
      feed_forward(weights.feed_forward),
      norm1(weights.norm1),
      norm2(weights.norm2)
{
}

PackedLlama::PackedLlama(const LlamaWeights& weights)
    : vocabulary(weights.embedding.shape(0)),
      d_model(weights.embedding.shape(1)),
      is_tied(!weights.output),
      embedding(weights.embedding.begin(), weights.embedding.end()),
      layers(weights.layers.begin(), weights.layers.end()),
      norm(weights.norm),
      output(output_map(weights))
{
}

float* LlamaCache::rows(std::size_t layer, std::size_t added, std::size_t columns)
{
    if (layers_.size() <= layer)
        layers_.resize(layer + 1);
    const std::size_t wanted = (length_ + added) * columns;
    if (layers_[layer].size() < wanted)
        layers_[layer].resize(std::max({wanted, 2 * layers_[layer].size(), expected_ * columns}));
    return layers_[layer].data();
}

void llama(std::span<const std::int64_t> ids, LlamaCache& cache, const PackedLlama& weights,
           const LlamaOptions& options, std::span<float> logits, Workspace& workspace, const Trace& caller)
{
    expect_fit(ids, weights, options, logits.size());
    const Trace trace = caller.observing().module(of_llama, [&] { return described(weights, options); });
    record_inputs(trace, ids, weights);

    // Look the tokens up. Their positions come with the heads.
    const LlamaCall call(ids.size(), cache, weights, options, workspace, trace);
    embed(ids, weights.embedding, call.tokens(), trace);

    // Pass them through the layers, where no token attends to a later one.
    std::string name = "embedded";
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i, {{"x", name}});
        call.layer(i, weights.layers[i], inside);
        name = "layers." + std::to_string(i) + ".output";
    }
    cache.add(ids.size());

    // Compare the result with every word.
    const Trace norm = trace.scope("norm", {{"x", name}});
    normalize(call.tokens(), weights.norm, static_cast<float>(options.norm.epsilon), call.tokens(), call.sequences(),
              norm);
    predict(call, weights, logits, workspace, trace);
}

} // namespace attn::fast
