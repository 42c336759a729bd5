#pragma once

#include "word_model.hpp"

#include "attn/reference/models/greedy_decode.hpp"

namespace attn {

/// A Transformer that translates sentences such as "Lily had a red ball ." into French:
/// 2 encoder and 2 decoder layers, 2 heads, d_model 16, and one table of words.
///
/// script/train-model translator trains it on the sentences of a grammar;
/// lessons/translator/report.json has what was measured.
///
///     const Translator model = translator();
///     const Translation french = greedy_decode(model.ids("Lily had a red ball ."),
///                                              model.weights, model.options());
///     model.words(french.ids) // "Lily avait une balle rouge . <end>"
struct Translator : WordModel {
    TranslatorWeights weights;

    /// Start, end and heads. The longest translation has 13 words.
    GreedyOptions options() const;
};

/// Reads it from lessons/translator.
/// @throws Error where a file is missing or damaged, and names it
Translator translator();

} // namespace attn
