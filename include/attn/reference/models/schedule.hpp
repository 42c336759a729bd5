#pragma once

#include "attn/reference/models/language_model.hpp"
#include "attn/reference/ops/quantize.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace attn {

/// Some tokens of a sequence that are given in one call: from `begin` up to, not including, `end`.
struct Segment {
    std::size_t sequence, begin, end;
    /// The sequence whose earlier tokens these follow: another one where a sequence goes on in two ways, or beams are swapped.
    std::optional<std::size_t> after = {};
};

/// A pool of blocks for the keys and values of all sequences, see Pages.
struct PagePool {
    std::size_t size = 16;                  ///< tokens of a block
    std::optional<std::size_t> blocks = {}; ///< as many as all sequences need unless given
};

/// How a cache keeps keys and values. Channels share a scale over groups of consecutive tokens of a sequence: a group is rounded
/// when all of it is in the cache, and until then its tokens are kept as they are.
struct CacheFormat {
    StoredFormat keys = {}, values = {};
};

/// A format as programs call it: that of keys, and after a comma that of values where it is another; "int8:token", or
/// "uint2:channel32,uint2:token" for that of KIVI.
/// @throws Error as stored_format_called(), and of a scale for a whole tensor, which later tokens would change
CacheFormat cache_format_called(std::string_view text);

/// How the tokens of one or more sequences are given over several calls.
///
/// A call has segments, side by side. What the cache has of a sequence from the begin of its segment on is taken back: a
/// segment that begins at 0 begins anew, one that begins before the end takes back what was only guessed.
struct Schedule {
    std::vector<std::vector<Segment>> calls = {};
    /// The cache is a ring: after each call it keeps so many of the last tokens of each sequence, as many as the widest window.
    std::optional<std::size_t> ring = {};
    /// Beside a ring: so many first tokens of each sequence stay as well, at their positions (Xiao et al. 2024, "StreamingLLM", section
    /// 3.2, which counts positions within the cache instead: then what a token is added to, or rotated by, changes with every call).
    std::size_t kept = 0;
    /// The cache is in blocks of a pool. Sequences that go on from others have these' blocks in common until they write into one; what no
    /// later call goes on from is given back.
    std::optional<PagePool> pages = {};
    /// After each call its keys and values are rounded to fewer bits. The tokens of a call attend to each other's as they are.
    std::optional<CacheFormat> cache = {};
};

/// @name Schedules of sequences of given lengths
/// @{

/// Each sequence whole, in a call of its own: what the others are compared with.
Schedule at_once(const std::vector<std::size_t>& lengths);
/// All sequences whole, packed into one call.
Schedule packed(const std::vector<std::size_t>& lengths);
/// The first tokens of each in one call, and then one token of each in every call.
/// @param prefill  how many tokens the first call has of each; 1 or more
Schedule step_by_step(const std::vector<std::size_t>& lengths, std::size_t prefill);
/// So many tokens of each in every call, the rest in the last.
Schedule in_chunks(const std::vector<std::size_t>& lengths, std::size_t size);
/// One token of each in every call, in a ring of so many of the last tokens.
Schedule in_ring(const std::vector<std::size_t>& lengths, std::size_t ring);
/// One token of each in every call, each sequence so many calls after the one before it: requests that join, and leave.
Schedule joined_later(const std::vector<std::size_t>& lengths, std::size_t wait);
/// As many tokens of each as a page has in the first call, and then one of each in every call, with keys and values in pages.
Schedule paged(const std::vector<std::size_t>& lengths, std::size_t size);

/// One of them as programs call it: "at-once", "packed", "steps:4", "chunks:5", "ring:8", "joined:3", "pages:4".
/// @throws Error where there is no schedule of that name, with those that there are
Schedule schedule_called(std::string_view name, const std::vector<std::size_t>& lengths);
/// @}

/// Runs a decoder by a schedule.
///
/// **The law**: each token of each sequence gets the same logits in every schedule; with a cache of fewer bits up to what
/// rounding changes, and the same in schedules in which it attends to the same tokens in earlier calls.
///
/// @param sequences  the ids of each
/// @param trace      in the scopes calls.0, calls.1, … the steps of language_model() with places; of a model with states, whose
///                   sequences are given one by one, in calls.0.sequence.0, …; then, for each sequence,
///
///                   | step               | shape           | formula                                                      |
///                   |--------------------|-----------------|--------------------------------------------------------------|
///                   | sequences.0.logits | (n, vocabulary) | concat(calls.0.logits[0:3], calls.1.logits[0:1], axis=0)     |
///
///                   or `output` of a decoder without logits; a sequence that was given no token has none.
///
///                   With a cache of fewer bits, in calls.0.cache.layers.0.keys and .values the steps of quantize(), of the
///                   rows `tokens` of `cache_keys` and `cache_values`; of groups of tokens in .keys.0, .keys.1, …
///
///                   With pages there are in each call, of sequences and layers,
///
///                   | step                          | shape              | formula                                                |
///                   |-------------------------------|--------------------|--------------------------------------------------------|
///                   | pages.sequence.0.table        | (blocks,)          |                                                        |
///                   | pages.sequence.0.slots        | (m,)               | 4 * table[arange(9) // 4] + arange(9) % 4              |
///                   | pages.slots                   | (past,)            | concat(sequence.0.slots, axis=0)                       |
///                   | pages.layers.0.past_keys      | (past, features)   | calls.0.pages.layers.0.cache_keys[slots]               |
///                   | layers.0.self_attn.past_keys  | (past, features)   | = pages.layers.0.past_keys                             |
///                   | pages.written                 | (slots,)           |                                                        |
///                   | pages.layers.0.cache_keys     | (slots, features)  | concat(calls.0.pages.layers.0.cache_keys, layers.0.self_attn.cache_keys, axis=0)[written] |
///
///                   before the first call `pages.layers.0.empty.cache_keys`; and values likewise, or latents and shared keys
/// @return for each sequence, (n, vocabulary), the logits of the tokens that it was given, or (n, d_model)
/// @throws Error  where a segment begins after what the cache has of its sequence, or ends after it; where a ring is narrower than a
///                window, or a layer has none; where fewer first tokens are kept than a layer's window has, or any beside no
///                ring; where the pool of pages is full; where a cache of fewer bits would be of latents or states, in pages, or in a ring
///                shorter than its groups of tokens; and as language_model() and quantize()
std::vector<Matrix> run_schedule(const std::vector<Integers>& sequences, const Schedule& schedule,
                                 const LanguageModelWeights& weights, const LanguageModelDescription& description,
                                 const Trace& trace = {});

} // namespace attn
