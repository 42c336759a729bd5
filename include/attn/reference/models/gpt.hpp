#pragma once

#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/layers/position.hpp"

#include <optional>
#include <vector>

namespace attn {

/// The learned parameters of a decoder like GPT-2: pre-norm layers of self-attention and a feed-forward network, and
/// learned positions. Such a layer is an encoder layer with a causal mask.
///
/// In a file they have the names that PyTorch gives a module with these members: `token_embedding` and
/// `position_embedding` (nn.Embedding), `layers` (an nn.ModuleList of nn.TransformerEncoderLayer), `norm` (nn.LayerNorm),
/// and `lm_head` (nn.Linear) where the output is not tied.
struct GptWeights {
    Matrix token_embedding;    ///< (vocabulary, d_model): a row per token
    Matrix position_embedding; ///< (n_max, d_model): a row per position
    std::vector<EncoderLayerWeights> layers = {};
    LayerNormWeights norm = {};        ///< after the last layer
    std::optional<Matrix> output = {}; ///< (d_model, vocabulary); tied unless given: the embedding, transposed
};

/// Options of gpt().
struct GptOptions {
    std::size_t heads = 1;
    FeedForwardOptions feed_forward = {};
    LayerNormOptions norm = {};
    OptionalMask mask = {}; ///< (n, n), true where a token can attend; joined with the causal mask
};

/// A decoder like GPT-2: for every token, the logits of the one after it.
///
/// @param ids      (n): rows of the token embedding, the first token at position 0
/// @param weights  of both embeddings, each layer, the last norm and the output
/// @param options  heads, activation, epsilon, mask; the same for each layer
/// @param trace    in the scopes layers.0, layers.1, … the steps of encoder_layer() with the norms before the blocks, in
///                 norm those of layer_norm(), and
///
///                 | step            | shape                 | formula                                 |
///                 |-----------------|-----------------------|-----------------------------------------|
///                 | ids             | (n,)                  |                                         |
///                 | token_embedding | (vocabulary, d_model) |                                         |
///                 | tokens          | (n, d_model)          | token_embedding[ids]                    |
///                 | position_embedding.table | (n_max, d)   |                                         |
///                 | position_embedding.positions | (n, d)   | table[0:N]                              |
///                 | embedded        | (n, d_model)          | tokens + position_embedding.positions   |
///                 | causal          | (n, m)                | arange(N) <= arange(N)[:, None]         |
///                 | mask            | (n, m)                | = causal                                |
///                 | layers.0.x      | (n, d_model)          | = embedded                              |
///                 | layers.1.x      | (n, d_model)          | = layers.0.output                       |
///                 | norm.x          | (n, d_model)          | = layers.1.output                       |
///                 | logits          | (n, vocabulary)       | norm.output @ token_embedding.T         |
///
///                 with the number in place of N; with a mask, `given_mask` comes before `causal`, and `mask` is
///                 `given_mask & causal`; with an output map of its own, `output_weights` (d_model, vocabulary) comes before
///                 `logits`, which is `norm.output @ output_weights`
/// @return the logits, (n, vocabulary): row i scores what can follow token i
/// @throws ShapeError where an id is no row of the embedding, there are more ids than positions, or weights disagree
/// @see Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3
Matrix gpt(const Integers& ids, const GptWeights& weights, const GptOptions& options = {}, const Trace& trace = {});

/// The same for a batch, (b, n): each step has the axis b in front.
/// @param lengths  (b): how many ids of each sequence are real, what follows is padding; optional
/// @return the logits, (b, n, vocabulary)
Tensor3 gpt(const IntegerMatrix& ids, const std::optional<Integers>& lengths, const GptWeights& weights,
            const GptOptions& options = {}, const Trace& trace = {});

/// Options of continue_greedily().
struct GptGreedyOptions {
    GptOptions gpt = {};
    std::optional<std::int64_t> end = {}; ///< the id that ends it
    std::size_t max_tokens = 16;          ///< after which it ends in any case
};

/// Continues a text token by token, each time with the most likely token: the model runs on the tokens so far, and the
/// last row of the logits gives the next. It ends after the end's id, after max_tokens, or where the positions end.
///
/// @param prompt   (n): ids, at least one
/// @param weights  as of gpt()
/// @param options  those of gpt(), end, length
/// @param trace    for each new token a scope steps.0, steps.1, … with the steps of gpt(), and
///
///                 | step            | shape | formula                                                       |
///                 |-----------------|-------|---------------------------------------------------------------|
///                 | steps.0.next_id | ()    | min(where(logits[-1] == max(logits[-1]), arange(logits.shape[1]), inf)) |
///                 | steps.1.ids     | (n,)  | concat(steps.0.ids, reshape(steps.0.next_id, 1), axis=0)      |
///
///                 Each token's steps include the weights, so this is for small models.
/// @return the new ids, without the prompt, with the end where there is one
/// @throws ShapeError as gpt(), or where the prompt is empty
Integers continue_greedily(const Integers& prompt, const GptWeights& weights, const GptGreedyOptions& options = {},
                           const Trace& trace = {});

} // namespace attn
