#pragma once

#include "attn/tensor.hpp"
#include "attn/trace.hpp"

#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

namespace attn {

/// Which query may attend to which key, true where it **may**: one mask (n, m) for all sequences of a batch, or for
/// each its own (b, n, m).
///
/// PyTorch's boolean `attn_mask` and `key_padding_mask` of nn.MultiheadAttention mean the opposite: true where a query
/// may not. Its F.scaled_dot_product_attention means the same as here.
using AnyMask = std::variant<Mask, BatchMask>;

/// Where the diagonal of a causal mask begins when there are not as many queries as keys.
enum class Causal {
    bottom_right, ///< the last query sees every key: queries are the newest of the tokens, as with a cache
    top_left      ///< the first query sees the first key only, whatever m is
};

/// A query may attend to the keys up to its own place, not to later ones.
/// @param n          queries
/// @param m          keys
/// @param alignment  what "its own place" is where n and m differ; where they are equal both are the same
/// @param trace      | step   | shape  | formula                                           |
///                   |--------|--------|---------------------------------------------------|
///                   | causal | (n, m) | arange(M) <= arange(N)[:, None] + (M - N) |
///
///                   with the numbers in place of N and M; from the top left without the last term
/// @return (n, m)
/// @see Vaswani et al. 2017, section 3.2.3; seed document 003
Mask causal_mask(std::size_t n, std::size_t m, Causal alignment = Causal::bottom_right, const Trace& trace = {});

/// Sequences of a batch end at different places; what follows is padding, which no query may attend to.
/// @param lengths  b numbers: how many of the m keys of each sequence are real
/// @param m        keys
/// @param trace    | step    | shape  | formula                       |
///                 |---------|--------|-------------------------------|
///                 | lengths | (b,)   |                               |
///                 | padding | (b, m) | arange(M) < lengths[:, None]  |
/// @return (b, m): true where there is a token
/// @throws ShapeError where a length is greater than m
/// @see seed document 001
Mask padding_mask(const std::vector<std::size_t>& lengths, std::size_t m, const Trace& trace = {});

/// Lengths of sequences as a file or a lesson gives them.
/// @throws Error where one is not a whole number from 0
std::vector<std::size_t> as_lengths(const Vector& numbers);

/// What a mask is made of. Everything that is given must allow a pair.
struct MaskParts {
    std::optional<AnyMask> given = {};         ///< (n, m) or (b, n, m)
    std::optional<Causal> causal = {};         ///< no later keys
    std::vector<std::size_t> key_lengths = {}; ///< b numbers; none where nothing is padded
};

/// Joins what is given to one mask.
/// @param trace  | step       | shape         | formula                                          | when         |
///               |------------|---------------|--------------------------------------------------|--------------|
///               | given_mask | ((b,) n, m)   |                                                  | a mask is given, and something else |
///               | causal     | (n, m)        | as causal_mask()                                 | asked for    |
///               | lengths    | (b,)          |                                                  | lengths are given |
///               | padding    | (b, m)        | as padding_mask()                                | lengths are given |
///               | mask       | ((b,) n, m)   | given_mask & causal & padding[:, None, :]        | anything is given: what of it there is |
/// @return nothing where nothing is given: every query may attend to every key
/// @throws ShapeError where the given mask is not for n queries, m keys and as many sequences as lengths
std::optional<AnyMask> join_masks(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace = {});

/// @name What a mask does to scores
/// @{

/// The scores where they are allowed, the other number elsewhere.
/// @param mask      (n, m)
/// @param scores    (n, m)
/// @param otherwise minus infinity, before softmax
/// @throws ShapeError where mask and scores disagree
Matrix apply_mask(const AnyMask& mask, const Matrix& scores, double otherwise);
/// The same for a batch of scores (b, n, m) and one mask for all, (n, m), or for each its own, (b, n, m).
Tensor3 apply_mask(const AnyMask& mask, const Tensor3& scores, double otherwise);

/// @}

} // namespace attn
