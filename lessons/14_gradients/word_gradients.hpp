#pragma once

// The gradient that reaches each word of a text through the small model.

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "depth.hpp"

#include "attn/reference/models/gpt.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace attn {

/// A word that the model is asked for, and where.
struct Asked {
    std::string scope, text;
    std::size_t after; ///< the place of the word that it should follow
    std::string word;
};

/// The cross-entropy of a word, and its gradient with respect to every word of the text.
inline void blame(Lesson& lesson, const SmallModel& model, const Asked& asked)
{
    const Integers ids = model.ids(asked.text);
    const std::int64_t wanted = model.ids(asked.word)(0);
    Recorder recorder;
    const Trace unrecorded(recorder);
    const Matrix all_logits = gpt(ids, model.weights, model.options, unrecorded);

    const Trace words = lesson.trace().scope("words"), trace = words.scope(asked.scope);
    const Trace back = lesson.trace().scope("grad"), back_words = back.scope("words"),
                grad = back_words.scope(asked.scope);
    const std::string word = std::to_string(wanted);
    //! [loss]
    const Vector logits =
        trace("logits[vocabulary]", "", Vector(xt::row(all_logits, asked.after)));
    const Vector probabilities =
        trace("probabilities[vocabulary]", "softmax(logits)", softmax(logits));
    const double loss = trace("loss", "-log(probabilities[" + word + "])",
                              -std::log(probabilities(wanted)));
    Vector error = probabilities;
    error(wanted) -= 1;
    error =
        grad("logits[vocabulary]",
             "probabilities - (arange(probabilities.shape[0]) == " + word + ")", error);
    //! [loss]

    //! [words]
    Matrix seed = xt::zeros<double>(all_logits.shape());
    xt::row(seed, asked.after) = error;
    const Recording sent = formula::gradients(recorder.recording(),
                                              {.of = "logits", .seed = to_array(seed)});
    const Matrix of_words = grad("tokens[n, d_model]", "", gradient_in(sent, "tokens"));
    const Vector norms =
        trace("norms[n]", "sqrt(sum(grad.words." + asked.scope + ".tokens ** 2, axis=1))",
              norms_of_rows(of_words));
    //! [words]

    lesson.say("the loss of " + asked.word +
               ", and the norm of its gradient at each word:");
    std::vector<std::string> columns = words_of(asked.text);
    std::vector<double> row(norms.begin(), norms.end());
    columns.insert(columns.begin(), "loss");
    row.insert(row.begin(), loss);
    lesson.table(columns, {row});
}

} // namespace attn
