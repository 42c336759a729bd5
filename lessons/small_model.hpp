#pragma once

#include "word_model.hpp"

#include "attn/reference/models/gpt.hpp"
#include "attn/reference/models/language_model.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// The decoder that the lessons share: 2 layers, 4 heads, d_model 32; a token is a word.
///
/// script/train-model trains it on stories of a grammar; lessons/small_model/report.json
/// has what was measured.
///
///     const SmallModel model = small_model();
///     const Integers ids = model.ids(sentence());
///     const Matrix logits = gpt(ids, model.weights, model.options, trace);
struct SmallModel : WordModel {
    GptWeights weights;
    GptOptions options; ///< to be given to gpt() with the weights
};

/// Which weights: as they were drawn, or as training left them.
enum class Training { before, after };

/// Reads the small model from lessons/small_model.
/// @throws Error where a file is missing or damaged, and names it
SmallModel small_model(Training training = Training::after);

/// Its draft: one layer and half as many features, with the same words, trained on the same
/// stories by lessons/small_model/draft.py.
/// @throws Error as small_model()
SmallModel small_draft();

/// The small model's weights for language_model(), which has caches and windows.
LanguageModelWeights as_language_model(const GptWeights& gpt);

/// The stories of lessons/small_model/train.py, as ids with the end of each.
struct SmallStories {
    std::vector<std::vector<std::int64_t>> training; ///< 20,000, in the order of training
    std::vector<std::vector<std::int64_t>>
        held_out; ///< 1,000 with combinations that no training story has
};

/// Reads them from lessons/small_model/stories.npz.
/// @throws Error where the file is missing or damaged, and names it
SmallStories small_stories();

/// The sentence that the lessons share: "Lily had a red ball . She".
std::string sentence();

} // namespace attn
