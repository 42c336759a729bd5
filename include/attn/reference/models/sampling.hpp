#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/random.hpp"

#include <cstddef>
#include <optional>

namespace attn {

/// The most likely token: the index of the largest logit, the first of equally large ones.
/// @param logits  (vocabulary), at least one
/// @throws Error where a logit is NaN
std::size_t argmax(const Vector& logits);

/// A random token, with the probabilities softmax(logits / temperature).
/// @param logits       (vocabulary), at least one
/// @param temperature  0 always gives the most likely token, 1 the model's own probabilities, more makes them more equal
/// @param numbers      the same seed draws the same tokens on every machine
/// @throws Error where a logit is NaN, or the temperature is below 0 or not finite
std::size_t sample(const Vector& logits, double temperature, RandomNumbers& numbers);

/// The token in whose share of [0, 1) a number falls: shares lie side by side, in the order of the tokens.
/// @param probabilities  (vocabulary), which sum to 1 but for rounding
/// @param number         from 0, below 1: evenly distributed, it draws each token with its probability
/// @throws Error where a probability is negative or NaN, none is above 0, or the number is elsewhere
std::size_t draw(const Vector& probabilities, double number);

/// Options of token_probabilities(): which tokens can come next.
struct SamplingOptions {
    double temperature = 1;                ///< divides the logits; at 0 the most likely token has the probability 1
    std::optional<std::size_t> top_k = {}; ///< so many of the most likely tokens can come
    double top_p =
        1; ///< as few of the most likely tokens as have this much probability together: the nucleus; 1 cuts none
    double min_p = 0; ///< tokens with this share of the most likely token's probability, or more; 0 cuts none
};

/// The probabilities with which next tokens are drawn: of the tokens that no option cuts, in proportion.
///
/// The options act in the order of the members, as in Hugging Face's transformers: temperature comes first, and the nucleus is that of
/// the probabilities that top_k left. Of equal tokens the first counts as more likely. Sources: Fan et al. 2018, section 5.4 (top-k);
/// Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1 (top-p); Nguyen et al. 2025, "Turning Up the
/// Heat", section 3 (min-p).
///
/// @param logits   (n, vocabulary): each row by itself
/// @param options  temperature and cuts
/// @param trace    | step          | shape           | formula                                                                    |
///                 |---------------|-----------------|----------------------------------------------------------------------------|
///                 | logits        | (n, vocabulary) |                                                                            |
///                 | scaled        | (n, vocabulary) | logits / temperature; at 0: where(top_k(logits, 1), 0, -inf)               |
///                 | among_k       | (n, vocabulary) | top_k(scaled, k)                                                           |
///                 | left          | (n, vocabulary) | where(among_k, scaled, -inf)                                               |
///                 | chances       | (n, vocabulary) | softmax(left)                                                              |
///                 | before        | (n, vocabulary) | the sum of the chances of all tokens that are more likely                  |
///                 | in_nucleus    | (n, vocabulary) | before < top_p                                                             |
///                 | likely        | (n, vocabulary) | chances >= min_p * max(chances, axis=-1, keepdims=True)                    |
///                 | kept          | (n, vocabulary) | where(in_nucleus & likely, chances, 0)                                     |
///                 | probabilities | (n, vocabulary) | kept / sum(kept, axis=-1, keepdims=True)                                   |
///
///                 of options that cut none there are no steps; without top_p and min_p `probabilities` is the softmax
/// @throws Error where a logit is NaN or infinite upwards, no token of a row can come, or an option is out of its range: a temperature
///               from 0, a top_k from 1 to the vocabulary, a top_p above 0 and at most 1, a min_p from 0 to 1
Matrix token_probabilities(const Matrix& logits, const SamplingOptions& options = {}, const Trace& trace = {});

/// What a target model makes of drafted tokens.
struct Speculation {
    std::size_t accepted; ///< so many of the drafted tokens stand, from the first on; those after them are taken back
    Vector next;          ///< (vocabulary): the probabilities with which the token after them is drawn
};

/// Speculative sampling: accepts or rejects the tokens that a draft model has drawn, so that what stands is distributed exactly as if
/// the target model had drawn each token by itself.
///
/// A drafted token stands with the probability min(1, p / q). In place of the first that does not, a token is drawn in proportion to
/// what the target gives more than the draft; after the last, one more token of the target. Sources: Leviathan et al. 2023, "Fast
/// Inference from Transformers via Speculative Decoding", algorithm 1; Chen et al. 2023, algorithm 2.
///
/// @param drafted  (guesses): tokens, each drawn with its row of `draft`
/// @param draft    (guesses, vocabulary): the probabilities with which they were drawn, after every cut
/// @param target   (guesses + 1, vocabulary): the target's probabilities of the same tokens and of the one after them
/// @param uniform  (guesses): a number from 0, below 1, for each, evenly distributed
/// @param trace    | step       | shape                   | formula                                                               |
///                 |------------|-------------------------|-----------------------------------------------------------------------|
///                 | drafted    | (guesses,)              |                                                                       |
///                 | draft      | (guesses, vocabulary)   |                                                                       |
///                 | target     | (guesses + 1, vocabulary) |                                                                     |
///                 | uniform    | (guesses,)              |                                                                       |
///                 | is_drafted | (guesses, vocabulary)   | where(arange(V) == drafted[:, None], 1.0, 0.0)                        |
///                 | q          | (guesses,)              | sum(is_drafted * draft, axis=1)                                       |
///                 | p          | (guesses,)              | sum(is_drafted * target[0:K], axis=1)                                 |
///                 | acceptance | (guesses,)              | minimum(p / q, 1)                                                     |
///                 | accepted   | ()                      | min(where(uniform < acceptance, K, arange(K)))                        |
///                 | excess     | (vocabulary,)           | relu(target[accepted] - draft[accepted])                              |
///                 | next       | (vocabulary,)           | excess / sum(excess)                                                  |
///
///                 with numbers in place of V, K and accepted; where all are accepted `next` is `target[K]`, without `excess`
/// @throws ShapeError where the shapes don't fit together
/// @throws Error where a token is no row's, the draft gives a drafted token no probability, a probability is negative or not finite, or
///               a number is not from 0 and below 1
Speculation speculate(const Integers& drafted, const Matrix& draft, const Matrix& target, const Vector& uniform,
                      const Trace& trace = {});

} // namespace attn
