#pragma once

#include "attn/engines/fast/tokens.hpp"
#include "attn/engines/fast/weights.hpp"
#include "attn/reference/models/llama.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace attn::fast {

/// The weights of one layer of a decoder like Llama's in float32.
struct PackedLlamaLayer {
    /// @throws Error where attention has no output map, or norms of queries or keys
    explicit PackedLlamaLayer(const LlamaLayerWeights& weights);

    AttentionMaps self_attention;
    FeedForwardMaps feed_forward;
    Norm norm1, norm2;
};

/// The weights of a decoder like Llama's in float32, in the order in which the kernels read them. They are made once.
struct PackedLlama {
    /// @throws Error where attention has no output map, or norms of queries or keys
    explicit PackedLlama(const LlamaWeights& weights);

    std::size_t vocabulary, d_model;
    bool is_tied;                 ///< the output is the embedding, transposed
    std::vector<float> embedding; ///< (vocabulary, d_model)
    std::vector<PackedLlamaLayer> layers;
    Norm norm;
    LinearMaps output; ///< (d_model, vocabulary)
};

/// The keys and values of the tokens so far, per layer. It grows with them; cleared, it keeps its memory.
class LlamaCache {
public:
    /// @param tokens  for which room is made at once
    explicit LlamaCache(std::size_t tokens = 0) : expected_(tokens) {}

    std::size_t length() const { return length_; }
    void clear() { length_ = 0; }

    /// The rows of one layer, with so many new ones after those of the tokens so far.
    float* rows(std::size_t layer, std::size_t added, std::size_t columns);
    void add(std::size_t tokens) { length_ += tokens; }

private:
    std::size_t expected_, length_ = 0;
    std::vector<std::vector<float>> layers_;
};

/// llama() with a cache in float32, for speed: for every new token, the logits of the one after it.
///
/// For one token the products are as fast as memory is, and threads share their columns.
///
/// @param ids        (n): the new tokens
/// @param cache      of the tokens before them, empty at the beginning; the new ones are added
/// @param weights    of the embedding, each layer, the last norm and the output
/// @param options    heads, rotary positions, epsilon; the same for each layer
/// @param logits     (n, vocabulary), is written: row i scores what can follow token i
/// @param workspace  reused from call to call
/// @param trace      the steps of llama(), with those of encoder_layer()'s blocks in the layers; keys and values of the
///                   cache are `past_keys` and `past_values`. The numbers are those of the kernels, in float32, and their
///                   module says so.
/// @throws ShapeError where an id is no row of the embedding, or weights and logits disagree
void llama(std::span<const std::int64_t> ids, LlamaCache& cache, const PackedLlama& weights,
           const LlamaOptions& options, std::span<float> logits, Workspace& workspace, const Trace& trace = {});

} // namespace attn::fast
