#pragma once

#include "attn/reference/layers/embedding.hpp"
#include "attn/reference/models/transformer.hpp"

namespace attn {

/// The learned parameters of a Transformer and of one table, which embeds source and target and gives the logits.
struct TranslatorWeights {
    Matrix table; ///< (vocabulary, d_model)
    TransformerWeights transformer;
};

/// Logits of the next token at each position of the target, in one pass: the right tokens before each are given
/// (teacher forcing).
///
/// @param source       (m): ids
/// @param target       (n): ids of the wanted sequence, shifted right after a start token
/// @param weights      table and Transformer
/// @param options      as of transformer(); the target is causal in any case
/// @param trace        in the scopes source_embedding and target_embedding the steps of embed(), in generator those of
///                 unembed(), those of transformer() as they are, and
///
///                 | step                 | shape                 | formula                 |
///                 |----------------------|-----------------------|-------------------------|
///                 | table                | (vocabulary, d_model) |                         |
///                 | source_ids           | (m,)                  |                         |
///                 | target_ids           | (n,)                  |                         |
///                 | source_embedding.ids | (n,)                  | = source_ids              |
///                 | target_embedding.ids | (n,)                  | = target_ids              |
///                 | source               | (m, d_model)          | = source_embedding.output |
///                 | target               | (n, d_model)          | = target_embedding.output |
///                 | causal               | (n, m)                | arange(N) <= arange(N)[:, None] |
///                 | target_mask          | (n, m)                | = causal                  |
///                 | generator.x          | (n, d_model)          | = output                  |
///                 | logits               | (n, vocabulary)       | = generator.logits        |
///
///                 with the number in place of N
/// @return (n, vocabulary)
/// @throws ShapeError where an id is not in the table, or anything disagrees
/// @see Vaswani et al. 2017, section 3; document 003 of docs/sources.md
Matrix predict_next(const Integers& source, const Integers& target, const TranslatorWeights& weights,
                    const TransformerOptions& options = {}, const Trace& trace = {});

/// Whether keys and values of earlier tokens are kept for the next.
enum class Caching {
    none,           ///< not at all: the whole decoder runs on all tokens so far
    keys_and_values ///< their keys and values are kept, see decoder_step()
};

/// Options of greedy_decode().
struct GreedyOptions {
    TransformerOptions transformer = {};
    std::int64_t start = 0;      ///< the id that everything begins with
    std::int64_t end = 1;        ///< the id that ends it
    std::size_t max_tokens = 16; ///< after which it ends in any case
    Caching caching = Caching::keys_and_values;
};

/// The results of greedy_decode().
struct Translation {
    Integers ids;  ///< (n), without the start, with the end where there is one
    Matrix logits; ///< (n, vocabulary): those that each was chosen by
};

/// Writes a target token by token, each time the most likely token: the decoder runs on the tokens so far, and the last
/// row of the logits gives the next.
///
/// @param source       (m): ids
/// @param weights      table and Transformer
/// @param options      start, end, length, cache, mask of the source; the target is causal in any case, and takes no other mask
/// @param trace        in the scopes source_embedding and encoder the steps of embed() and encoder(), in cache those of
///                 start_decoder_cache(), and for each token a scope steps.0, steps.1, …, with those of embed() in
///                 embedding, of decoder_step() in decoder, of unembed() in generator, and
///
///                 | step                 | shape         | formula                                        |
///                 |----------------------|---------------|------------------------------------------------|
///                 | table                | (vocabulary, d_model) |                                        |
///                 | source_ids           | (m,)          |                                                |
///                 | source_embedding.ids | (n,)          | = source_ids                                   |
///                 | encoder.x            | (n, d_model)  | = source_embedding.output                      |
///                 | cache.memory         | (m, d_memory) | = encoder.output                               |
///                 | steps.0.embedding.ids | (n,)         |                                                |
///                 | steps.0.decoder.x    | (n, d_model)  | = embedding.output                             |
///                 | steps.0.decoder.layers.0.cross_attn.key | (m, h_d_k) | = cache.layers.0.cross_attn.key |
///                 | steps.0.decoder.layers.0.cross_attn.value | (m, h_d_v) | = cache.layers.0.cross_attn.value |
///                 | steps.0.generator.x  | (n, d_model)  | = decoder.output                               |
///                 | steps.0.next_id      | ()            | min(where(generator.logits[-1] == max(generator.logits[-1]), arange(generator.logits.shape[1]), inf)) |
///
///                 where = names a step again. From the second token on `embedding.ids` is `reshape(steps.0.next_id, 1)`,
///                 and `past_keys` and `past_values` are `cache_keys` and `cache_values` of the token before. Without a
///                 cache `embedding.ids` is `concat(steps.0.embedding.ids, reshape(steps.0.next_id, 1), axis=0)`, and the
///                 steps in decoder are those of decoder() on all tokens so far.
///
///                 Each token's steps include the weights, so this is for small models.
/// @throws ShapeError where an id is not in the table, or anything disagrees
/// @throws Error      where there is a mask or a bias of the target or of the memory, whose number of tokens grows
Translation greedy_decode(const Integers& source, const TranslatorWeights& weights, const GreedyOptions& options = {},
                          const Trace& trace = {});

} // namespace attn
