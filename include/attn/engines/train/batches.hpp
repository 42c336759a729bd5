#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attn::train {

/// A text as ids. A model of texts is trained to predict each id but the first from those before it.
using Text = std::vector<std::int64_t>;

/// A text as a model of texts is trained on it.
struct TextExample {
    Text ids;
    Text targets; ///< of each id: the one that the model is to predict there
};

/// Each id but the last is to predict the next one.
TextExample example_of(const Text& text);
std::vector<TextExample> examples_of(std::span<const Text> texts);

/// Texts as gpt() and cross_entropy() take them.
struct TextBatch {
    IntegerMatrix ids;     ///< (b, n): shorter texts are padded at their end
    IntegerMatrix targets; ///< (b, n): the next id, or ignored_target
};

/// @param padding  the id that pads; no target asks what follows it
TextBatch batch_of(std::span<const Text> texts, std::int64_t padding = 0);

/// What pseudorandom numbers of a training are for. Each purpose has numbers of its own in each epoch or step, so that
/// training can go on at any step without having drawn all earlier ones.
enum class Purpose : std::uint64_t { initial_weights, order, dropout };

/// The seed of RandomNumbers for a purpose.
/// @param seed   of the training
/// @param index  epoch or step
std::uint64_t seed_of(std::uint64_t seed, Purpose purpose, std::uint64_t index = 0);

/// The numbers 0, 1, …, n - 1 in an order that follows from the seed and the epoch (Fisher and Yates).
std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed, std::uint64_t epoch);

/// A mask of dropout: each number is 0 with probability `rate`, else 1 / (1 - rate).
/// @param step  of the training, which together with the seed says which mask it is
/// @return (b, d)
/// @throws Error where the rate is not from 0 to below 1
Matrix dropout_mask(std::size_t b, std::size_t d, double rate, std::uint64_t seed, std::uint64_t step);

} // namespace attn::train
