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
/// One token of each in every call, each sequence so many calls after the one before it: requests that join, and leave.
Schedule joined_later(const std::vector<std::size_t>& lengths, std::size_t wait);

/// One of them as programs call it: "at-once", "packed", "steps:4", "chunks:5", "joined:3".
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
/// @return for each sequence, (n, vocabulary), the logits of the tokens that it was given, or (n, d_model)
/// @throws Error  where a segment begins after what the cache has of its sequence, or ends after it; where a ring is narrower than a
///                window, or a layer has none; where a cache of fewer bits would be of latents or states, or a ring is shorter
///                than its groups of tokens; and as language_model() and quantize()
std::vector<Matrix> run_schedule(const std::vector<Integers>& sequences, const Schedule& schedule,
                                 const LanguageModelWeights& weights, const LanguageModelDescription& description,
                                 const Trace& trace = {});

} // namespace attn
