#pragma once

#include "word_model.hpp"

#include "attn/reference/models/language_model.hpp"

namespace attn {

/// The small model with a mixture of 8 experts in place of each feed-forward network, of
/// which each token has 2.
///
/// script/train-model mixture trains it with a balancing term and without;
/// lessons/mixture/report.json has what was measured.
///
///     const MixtureModel model = mixture_model();
///     const Matrix logits = language_model(model.ids(sentence()), model.balanced,
///                                          model.description(), trace);
struct MixtureModel : WordModel {
    LanguageModelWeights balanced;
    LanguageModelWeights unbalanced; ///< of a training without the balancing term

    /// What language_model() has to know besides the weights.
    /// @param top  how many experts each token has
    LanguageModelDescription description(std::size_t top = 2) const;
};

/// Reads it from lessons/mixture.
/// @throws Error where a file is missing or damaged, and names it
MixtureModel mixture_model();

} // namespace attn
