#pragma once

#include "attn/models/greedy_decode.hpp"

/// Writes a target token by token, each time the likeliest next one, by the library's predict_next().
/// @param source   ids
/// @param weights  table and Transformer
/// @param options  heads
/// @param start    the id that everything begins with
/// @param end      the id after which nothing follows
/// @param max_tokens  after which it ends in any case
/// @return the ids that were said, without the start, with the end where there is one
attn::Integers my_translation(const attn::Integers& source,
                              const attn::TranslatorWeights& weights,
                              const attn::TransformerOptions& options, std::int64_t start,
                              std::int64_t end, std::size_t max_tokens);
