#pragma once

#include "attn/core/shared.hpp"
#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

namespace attn {

/// Which query can attend to which key, true where it **can**: one mask (n, m) for all sequences of a batch, one per
/// sequence, (b, n, m), or one per head of each sequence, (b, h, n, m), where b or h of size 1 serves all.
///
/// In PyTorch, the boolean `attn_mask` and `key_padding_mask` of nn.MultiheadAttention mean the opposite: true where a
/// query can not attend. In F.scaled_dot_product_attention true means the same as here.
using AnyMask = std::variant<Mask, BatchMask, HeadMask>;

/// A bias, which is added to the scores: one (n, m) for all sequences of a batch, one per sequence, (b, n, m), or one
/// per head of each sequence, (b, h, n, m), where b or h of size 1 serves all.
using AnyBias = std::variant<Matrix, Tensor3, Tensor4>;

/// A mask, or none, as options have it; copies share it.
using OptionalMask = Shared<AnyMask>;
/// A bias, or none, as options have it; copies share it.
using OptionalBias = Shared<AnyBias>;

/// Where the diagonal of a causal mask begins when there are not as many queries as keys.
enum class Causal {
    bottom_right, ///< the last query can attend to every key: queries are the newest tokens, as with a cache
    top_left,     ///< the first query can attend to the first key only, and to the keys of a past if there is one
    by_length ///< the last query can attend to the last real key of its sequence: keys are a buffer, filled to a length
};

/// Its name as a trace has it: "causal", "causal-top-left", "causal-by-length".
std::string_view name_of(Causal alignment);

/// A query can attend to the keys up to its own position, not to later ones.
/// @param n          queries
/// @param m          keys
/// @param alignment  what "its own position" is where n and m differ: bottom_right or top_left
/// @param trace      | step   | shape  | formula                                           |
///                   |--------|--------|---------------------------------------------------|
///                   | causal | (n, m) | arange(M) <= arange(N)[:, None] + (M - N) |
///
///                   with the numbers in place of N and M; from the top left the last term is the past, if any
/// @param past       from the top left: how many of the keys were there before the first query
/// @return (n, m)
/// @see Vaswani et al. 2017, section 3.2.3; document 003 of docs/sources.md
Mask causal_mask(std::size_t n, std::size_t m, Causal alignment = Causal::bottom_right, const Trace& trace = {},
                 std::size_t past = 0);

/// The queries of each sequence are the last of its real tokens, and can attend to the keys up to their own position.
///
/// The keys of each sequence are a buffer of m places, filled up to a length of its own, as in a cache that is made
/// once for the longest text. Where the length is less than n, the first queries have no key.
/// @param lengths  (b): how many of the m keys of each sequence are real
/// @param trace    | step    | shape     | formula                                                          |
///                 |---------|-----------|------------------------------------------------------------------|
///                 | lengths | (b,)      |                                                                  |
///                 | causal  | (b, n, m) | arange(M) <= arange(N)[:, None] + (lengths[:, None, None] - N)   |
/// @return (b, n, m)
/// @throws ShapeError where a length is negative or greater than m
BatchMask causal_by_length(const Integers& lengths, std::size_t n, std::size_t m, const Trace& trace = {});

/// Sequences of a batch end at different positions; what follows is padding, which no query can attend to.
/// @param lengths  (b): how many of the m keys of each sequence are real
/// @param m        keys
/// @param trace    | step    | shape  | formula                       |
///                 |---------|--------|-------------------------------|
///                 | lengths | (b,)   |                               |
///                 | padding | (b, m) | arange(M) < lengths[:, None]  |
/// @return (b, m): true where there is a token
/// @throws ShapeError where a length is negative or greater than m
/// @see document 001 of docs/sources.md
Mask padding_mask(const Integers& lengths, std::size_t m, const Trace& trace = {});

/// How far from its own position a query can attend: at most so many keys before it and after it; empty for no limit.
struct Window {
    std::optional<std::size_t> left = {}, right = {};
    /// So many first keys are in every window, however far they are (Xiao et al. 2024, section 3.2).
    std::size_t kept = 0;
    /// Where the queries stand among the keys; where there is a causal mask, too, they stand where it says.
    Causal alignment = Causal::bottom_right;

    bool is_limited() const { return left || right; }
};

/// Where tokens stand that are given side by side, in any order: of which sequence each is, and at which position in it.
struct Places {
    Integers sequences; ///< (n)
    Integers positions; ///< (n), from 0
};

/// The places of queries, and of the keys that they can attend to.
struct PlacesOfPairs {
    Places queries, keys;
};

/// The parts of a mask. A query can attend to a key if every given part allows it.
struct MaskParts {
    OptionalMask given = {};                  ///< (n, m), (b, n, m) or (b, h, n, m)
    std::optional<Causal> causal = {};        ///< no later keys
    std::optional<Integers> key_lengths = {}; ///< (b): how many keys of each sequence are real
    Window window = {};                       ///< no keys outside of it
    std::size_t past = 0;                     ///< how many of the keys were there before the first query
    bool has_heads = false;                   ///< the mask is for scores (b, h, n, m)
    std::optional<std::size_t> chunk =
        {};                           ///< keys of the query's own chunk only, of so many positions from the first on
    std::optional<Mask> padding = {}; ///< (b, m): in place of lengths, true where a key is real
    /// Queries attend to keys of their own sequence, and positions say what is later, in the window and in the chunk.
    std::optional<PlacesOfPairs> places = {};
};

/// The parts of a mask joined to one mask.
/// @param label  of the result: "mask[(b,) n, m]"
/// @param trace  | step       | shape         | formula                                          | when         |
///               |------------|---------------|--------------------------------------------------|--------------|
///               | given_mask | ((b,) n, m)   |                                                  | a mask is given, and something else |
///               | causal     | (n, m)        | as causal_mask()                                 | asked for    |
///               | lengths    | (b,)          |                                                  | lengths are given |
///               | padding    | (b, m)        | as padding_mask(), or an input                   | lengths are given, or padding is |
///               | window     | (n, m)        | (arange(M) >= arange(N)[:, None] + (M - N - LEFT)) & (arange(M) <= arange(N)[:, None] + (M - N + RIGHT)) | there is a limit: what of it there is |
///               | chunk      | (n, m)        | floor(arange(M) / C) == floor((arange(N)[:, None] + (M - N)) / C) | there are chunks |
///               | mask       | ((b,) n, m)   | given_mask & causal & padding[:, None, :] & window & chunk | anything is given: what of it there is |
///
///               With places, `positions`, `key_positions`, `sequences` and `key_sequences` are inputs, unless a scope around has
///               named them; `same_sequence` is `key_sequences == sequences[:, None]`, and in the other formulas `positions[:, None]`
///               stands in place of `arange(N)[:, None] + (M - N)`, and `key_positions` in place of `arange(M)`.
///               Where first keys are kept, `mask` takes a key that is in the window or among the first ones.
///               A mask that is given alone is the input `mask`, unless a scope around has named one; of a causal mask
///               alone, `mask` is another name. By length, `causal` is that of causal_by_length(), which leaves no padding
///               to hide. With heads, parts (b, n, m) are `[:, None]`, and padding is `padding[:, None, None, :]`.
/// @return nothing where nothing is given: every query can attend to every key
/// @throws ShapeError where the given mask is not for n queries, m keys and as many sequences as lengths or padding, or
///                    padding is not for m keys
/// @throws Error      where it is causal by length, or a window is aligned so, and there are no lengths; where there are
///                    lengths and padding; where there are places, and lengths, padding or a batch, or the causal mask
///                    is another one than Causal::bottom_right
OptionalMask join_masks(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace = {},
                        std::string_view label = "mask[(b,) n, m]");

/// The parts as a trace records them: "none", "given", "causal", "causal-top-left", "given, causal".
std::string describe(const OptionalMask& given, const std::optional<Causal>& causal);

/// Names a mask or a bias once for all scopes inside, unless a scope around has named it; see Trace::shared_input().
/// @return the one to go on with
template <class Variant>
Shared<Variant> share(std::string_view label, const Shared<Variant>& given, const Trace& trace)
{
    if (!given || !trace.has_listener())
        return given;
    return std::visit([&](const auto& any) -> Variant { return trace.shared_input(label, any); }, *given);
}

/// @name What masks and biases do to scores, ((b,) n, m) or (b, h, n, m)
/// Scores that are moved in are changed where they are.
/// @{

/// The scores where they are allowed, the other number elsewhere.
/// @param otherwise  minus infinity, before softmax
/// @throws ShapeError where mask and scores disagree
template <Attending T>
T apply_mask(const AnyMask& mask, T scores, double otherwise);

/// The scores plus a bias.
/// @throws ShapeError where bias and scores disagree
template <Attending T>
T add_bias(const AnyBias& bias, T scores);

/// The same of terms: where(mask, scores, -inf) and scores + bias.
/// @param trace  a scope that has names for the mask or the bias
template <Attending T>
Term<T> where_allowed(const AnyMask& mask, Term<T> scores, double otherwise, const Trace& trace);
template <Attending T>
Term<T> plus_bias(Term<T> scores, const AnyBias& bias, const Trace& trace);

/// @}

} // namespace attn
