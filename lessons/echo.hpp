#pragma once

#include "word_model.hpp"

#include "attn/reference/models/gpt.hpp"

namespace attn {

/// A decoder of one layer and one head that has something to look for at two signs only:
/// after `!` and `?` comes the letter before the sign.
///
/// script/train-model echo trains it; lessons/echo/report.json has what was measured.
struct EchoModel : WordModel {
    GptWeights weights;
    GptWeights with_sink; ///< of the same model trained with a learned sink
};

/// Reads it from lessons/echo.
/// @throws Error where a file is missing or damaged, and names it
EchoModel echo_model();

} // namespace attn
