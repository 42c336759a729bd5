#pragma once

#include "attn/reference/models/greedy_decode.hpp"

/// Writes a target token by token, each time the most likely next one, by predict_next().
/// @param source      ids
/// @param weights     embedding table and Transformer
/// @param options     heads
/// @param start       the id that the input of the decoder begins with
/// @param end         the id that ends the target
/// @param max_tokens  the largest number of ids to write
/// @return the ids that were written: without start; with end, where it was written
attn::Integers my_translation(const attn::Integers& source,
                              const attn::TranslatorWeights& weights,
                              const attn::TransformerOptions& options, std::int64_t start,
                              std::int64_t end, std::size_t max_tokens);
