#pragma once

// The gradient that reaches each word of a text through the small model.

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "depth.hpp"

#include "attn/reference/models/gpt.hpp"

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
    const auto wanted = static_cast<std::size_t>(model.ids(asked.word)(0));
    Recorder recorder;
    const Trace unrecorded(recorder);
    const Matrix all_logits = gpt(ids, model.weights, model.options, unrecorded);

    const Trace words = lesson.trace().scope("words"), trace = words.scope(asked.scope);
    const Trace back = lesson.trace().scope("grad"), back_words = back.scope("words"),
                grad = back_words.scope(asked.scope);
    const std::string word = std::to_string(wanted);
    //! [loss]
    const Term logits =
        trace.given("logits[vocabulary]", Vector(xt::row(all_logits, asked.after)));
    const Term probabilities = trace("probabilities[vocabulary]", softmax(logits));
    const Term loss = trace("loss", -log(row(probabilities, wanted)));
    Vector error = *probabilities;
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
    const Term of_words = grad.given("tokens[n, d_model]", gradient_in(sent, "tokens"));
    const Term norms = trace("norms[n]", sqrt(sum_along(square(of_words), 1)));
    //! [words]

    lesson.say("the loss of " + asked.word +
               ", and the norm of its gradient at each word:");
    std::vector<std::string> columns = words_of(asked.text);
    std::vector<double> numbers(norms->begin(), norms->end());
    columns.insert(columns.begin(), "loss");
    numbers.insert(numbers.begin(), *loss);
    lesson.table(columns, {numbers});
}

} // namespace attn
