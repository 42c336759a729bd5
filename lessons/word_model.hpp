#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// What the trained models of the lessons share: a token is a word, and a folder has config.json beside the weights.
struct WordModel {
    std::string folder; ///< in lessons: "small_model"
    std::size_t heads = 0;
    std::vector<std::string> vocabulary; ///< a token's id is its place

    /// The ids of words that stand between spaces: "Lily had a red ball ."
    /// @throws Error where the vocabulary does not have a word
    Integers ids(std::string_view text) const;

    /// The words of ids, with a space between two of them.
    /// @throws Error where an id is no place of the vocabulary
    std::string words(const Integers& ids) const;
};

/// Reads heads and vocabulary from a folder's config.json.
/// @throws Error where the file is missing or damaged, and names it
WordModel read_word_model(std::string_view folder);

/// Reads the weights of a model from a .safetensors file of its folder.
/// @throws Error where the file is missing, damaged, or not of that model, and names it
template <class Weights>
Weights read_weights_of(const WordModel& model, std::string_view file);

/// The words of a text, which stand between spaces: labels of rows and columns.
std::vector<std::string> words_of(std::string_view text);

} // namespace attn
