#pragma once

#include "attn/layers/embedding.hpp"
#include "attn/models/transformer.hpp"

namespace attn {

/// The learned parameters of a Transformer with what surrounds it: one table embeds source and target and makes logits.
struct TranslatorWeights {
    Matrix table; ///< (vocabulary, d_model)
    TransformerWeights transformer;
};

/// For each target token, the logits of the one after it (teacher forcing): all of them at once, from what should have been
/// said so far.
///
/// @param source   (m): ids
/// @param target   (n): ids of what is known, behind a start token: the wanted sequence shifted right
/// @param weights  table and Transformer
/// @param options  as for transformer(); the target's mask is causal and can't be given
/// @param trace    in the scopes source_embedding and target_embedding the steps of embed(), in generator those of
///                 unembed(), those of transformer() as they are, and
///
///                 | step                 | shape                 | formula                 |
///                 |----------------------|-----------------------|-------------------------|
///                 | table                | (vocabulary, d_model) |                         |
///                 | source_ids           | (m,)                  |                         |
///                 | target_ids           | (n,)                  |                         |
///                 | source_embedding.ids | (n,)                  | source_ids              |
///                 | target_embedding.ids | (n,)                  | target_ids              |
///                 | source               | (m, d_model)          | source_embedding.output |
///                 | target               | (n, d_model)          | target_embedding.output |
///                 | causal               | (n, m)                | arange(N) <= arange(N)[:, None] |
///                 | target_mask          | (n, m)                | causal                  |
///                 | generator.x          | (n, d_model)          | output                  |
///                 | logits               | (n, vocabulary)       | generator.logits        |
///
///                 with the number in place of N
/// @return (n, vocabulary)
/// @throws ShapeError where an id is not in the table, or anything disagrees
/// @throws Error      where a target mask is given
/// @see Vaswani et al. 2017, section 3; seed document 003
Matrix predict_next(const Vector& source, const Vector& target, const TranslatorWeights& weights,
                    const TransformerOptions& options = {}, const Trace& trace = {});

/// How what was computed for earlier tokens is used for the next.
enum class Caching {
    none,           ///< not at all: the whole decoder runs on all tokens so far
    keys_and_values ///< their keys and values are kept, see decoder_step()
};

/// What greedy_decode() may be told.
struct GreedyOptions {
    TransformerOptions transformer = {};
    std::size_t start = 0; ///< the id that everything begins with
    std::size_t end = 1;   ///< the id that ends it
    std::size_t most = 16; ///< tokens, after which it ends in any case
    Caching caching = Caching::keys_and_values;
};

/// What was said, and why.
struct Translation {
    Vector ids;    ///< (n), without the start, with the end where there is one
    Matrix logits; ///< (n, vocabulary): what each was chosen by
};

/// Writes a target token by token, each time the likeliest: what has been said so far goes in, and the last row of what
/// comes out says what is next.
///
/// @param source   (m): ids
/// @param weights  table and Transformer
/// @param options  start, end, length, cache; the target's mask is causal, and no mask of the memory changes with its length:
///                 neither can be given
/// @param trace    in the scopes source_embedding and encoder the steps of embed() and encoder(), in cache those of
///                 start_decoder_cache(), and for each token a scope steps.0, steps.1, …, with those of embed() in
///                 embedding, of decoder_step() in decoder, of unembed() in generator, and
///
///                 | step                 | shape         | formula                                        |
///                 |----------------------|---------------|------------------------------------------------|
///                 | table                | (vocabulary, d_model) |                                        |
///                 | source_ids           | (m,)          |                                                |
///                 | source_embedding.ids | (n,)          | source_ids                                     |
///                 | encoder.x            | (n, d_model)  | source_embedding.output                        |
///                 | cache.memory         | (m, d_memory) | encoder.output                                 |
///                 | steps.0.embedding.ids | (n,)         |                                                |
///                 | steps.0.decoder.x    | (n, d_model)  | embedding.output                               |
///                 | steps.0.decoder.layers.0.cross_attn.key | (m, h_d_k) | cache.layers.0.cross_attn.key  |
///                 | steps.0.decoder.layers.0.cross_attn.value | (m, h_d_v) | cache.layers.0.cross_attn.value |
///                 | steps.0.generator.x  | (n, d_model)  | decoder.output                                 |
///                 | steps.0.next_id      | ()            | min(where(generator.logits[-1] == max(generator.logits[-1]), arange(generator.logits.shape[1]), inf)) |
///
///                 From the second token on `embedding.ids` is `reshape(steps.0.next_id, 1)`, and cached keys and values
///                 are those of the token before: `steps.0.decoder.layers.0.self_attn.key`. Without a cache there is none,
///                 `embedding.ids` is `concat(steps.0.embedding.ids, reshape(steps.0.next_id, 1), axis=0)`, and the steps
///                 in decoder are those of decoder() on all tokens so far, under `causal`.
///
///                 Each token's steps have the weights among them: meant for small models.
/// @throws ShapeError where an id is not in the table, or anything disagrees
/// @throws Error      where a mask of the target or the memory is given
Translation greedy_decode(const Vector& source, const TranslatorWeights& weights,
                               const GreedyOptions& options = {}, const Trace& trace = {});

} // namespace attn
