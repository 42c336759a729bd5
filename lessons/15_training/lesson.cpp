// Lesson 15: training.
//
// A loss, its gradient, dropout and one step of Adam by hand, on the untrained small
// model. Then the small model is trained on the stories of its grammar, and one of its
// steps is written as a trace and verified. With --data the lesson trains a classifier of
// film reviews instead.

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "reviews.hpp"
#include "small_training.hpp"

#include "attn/engines/train/adam.hpp"
#include "attn/engines/train/loss.hpp"
#include "attn/formula/gradient.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

constexpr double rate = 5e-3, beta1 = 0.9, beta2 = 0.98, epsilon = 1e-8;

Matrix untrained_tokens(const SmallModel& model, const Integers& ids);
Matrix one_hot(const Integers& targets, std::size_t classes);
Term<Matrix> step_of_adam(const Trace& trace, const Term<Matrix>& table,
                          const Term<Matrix>& grad);
void step_by_hand(Lesson& lesson);

void teach(Lesson& lesson)
{
    if (!lesson.flag<std::filesystem::path>("--data").empty())
        return experiment_on_reviews(lesson);
    expect_no_review_flags(lesson);
    step_by_hand(lesson);
    if (!lesson.is_altered() && lesson.is_example())
        train_small_model(lesson);
}

/// A loss on the sentence, its gradient, and a step that makes it smaller.
void step_by_hand(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const SmallModel model = small_model(Training::before);
    const Integers ids = model.ids(sentence());

    lesson.heading("1. What the untrained model expects after each word, and what comes");
    const Term tokens = lesson.input("tokens[n, d_model]", untrained_tokens(model, ids));
    const Term table =
        lesson.input("table[vocabulary, d_model]", model.weights.token_embedding);
    //! [targets]
    const Term targets =
        lesson.input("targets[n]", Integers(xt::view(ids, xt::range(1, ids.size()))));
    const Term logits = trace("logits[n, vocabulary]", matmul(tokens, transpose(table)));
    //! [targets]

    lesson.heading(
        "2. Cross-entropy: minus the logarithm of each next word's probability");
    const Trace of_loss =
        trace.scope("cross_entropy", {{"logits", "logits"}, {"targets", "targets"}});
    const double loss = train::cross_entropy(*logits, *targets, {}, of_loss);
    const double even = std::log(static_cast<double>(table.shape(0)));
    lesson.say("the loss is " + rounded_text(loss) +
               "; that of equal probabilities would be log " +
               std::to_string(table.shape(0)) + " = " + rounded_text(even));

    lesson.heading("3. Its gradient: softmax less the target, over the number of words");
    //! [gradient]
    const Term probabilities = trace("probabilities[n, vocabulary]", softmax(logits));
    const Term target_p =
        trace("target_p[n, vocabulary]",
              "where(targets[:, None] == arange(table.shape[0]), 1.0, 0.0)",
              Term(one_hot(*targets, table.shape(0))));
    const Term difference = trace("difference[n, vocabulary]", probabilities - target_p);
    const Term grad_logits =
        trace("grad_logits[n, vocabulary]", "difference / targets.shape[0]",
              difference / static_cast<double>(targets.size()));
    const Term grad_table =
        trace("grad_table[vocabulary, d_model]", matmul(transpose(grad_logits), tokens));
    //! [gradient]
    if (!lesson.is_altered()) {
        const Recording back =
            formula::gradients(lesson.recording(), {.of = "cross_entropy.loss"});
        lesson.expect_equal("the gradients of the formulas are the same",
                            from_array<Matrix>(back.at("grad.table").value), grad_table);
    }

    lesson.heading("4. One step of Adam on the table of words");
    const Term after = step_of_adam(trace, table, grad_table);
    const Trace again = trace.scope("again");
    const Term new_logits =
        again("logits[n, vocabulary]", matmul(tokens, transpose(after)));
    const Trace of_new_loss =
        again.scope("cross_entropy", {{"logits", "logits"}, {"targets", "targets"}});
    const double new_loss = train::cross_entropy(*new_logits, *targets, {}, of_new_loss);
    lesson.table({"loss before the step", "after it"}, {{loss, new_loss}});
    if (lesson.is_example())
        lesson.expect("the loss is smaller after the step", new_loss < loss);

    lesson.heading("5. Dropout: half of the features, twice as large");
    //! [dropout]
    const Term mask =
        trace.given("dropout_mask[n, d_model]",
                    train::dropout_mask(tokens.shape(0), tokens.shape(1), 0.5, 1, 0));
    const Term dropped = trace("dropped[n, d_model]", tokens * mask);
    //! [dropout]
    lesson.say(rounded_text(*sum_all(mask) / 2, 0) + " of " +
               std::to_string(mask.size()) +
               " features are kept; the sum of their sizes was " +
               rounded_text(*sum_all(abs(tokens)), 1) + " and is " +
               rounded_text(*sum_all(abs(dropped)), 1));
}

/// What the last norm of the untrained model makes of the sentence: it predicts each next
/// word from such a row. The last word predicts none.
Matrix untrained_tokens(const SmallModel& model, const Integers& ids)
{
    Recorder recorder;
    (void)gpt(ids, model.weights, model.options, Trace(recorder));
    const auto found = std::ranges::find(recorder.steps(), "norm.output", &Step::path);
    const Matrix tokens = from_array<Matrix>(found->value);
    return xt::view(tokens, xt::range(std::size_t{0}, ids.size() - 1), xt::all());
}

/// 1 for the class that each row should be, else 0.
Matrix one_hot(const Integers& targets, std::size_t classes)
{
    Matrix hot = xt::zeros<double>({targets.size(), classes});
    for (std::size_t i = 0; i < targets.size(); ++i)
        hot(i, static_cast<std::size_t>(targets(i))) = 1;
    return hot;
}

/// Adam's first step on the table of words.
Term<Matrix> step_of_adam(const Trace& trace, const Term<Matrix>& table,
                          const Term<Matrix>& grad)
{
    const Trace adam = trace.scope("adam");
    const Term b1 = number(beta1, adam), b2 = number(beta2, adam);
    //! [adam]
    const Term mean = adam("mean[vocabulary, d_model]", b1 * 0 + (1 - b1) * grad);
    // Multiplied from left to right, as the trainer does.
    const Term square =
        adam("square[vocabulary, d_model]", "0.98 * 0 + (1 - 0.98) * grad_table ** 2",
             (1 - b2) * grad * grad);
    const Term mean_hat =
        adam("mean_hat[vocabulary, d_model]", mean / (1 - power(b1, 1)));
    const Term square_hat =
        adam("square_hat[vocabulary, d_model]", square / (1 - power(b2, 1)));
    const Term step =
        adam("step[vocabulary, d_model]", rate * mean_hat / (sqrt(square_hat) + epsilon));
    return adam("table[vocabulary, d_model]", table - step);
    //! [adam]
}

} // namespace

int main(int argc, char** argv)
{
    using Path = std::filesystem::path;
    using Count = std::optional<std::size_t>;
    return Lesson::run(
        "15_training", argc, argv, teach,
        {{"--steps", "N", "how many steps the small model is trained; 2000", Count()},
         {"--rate", "R", "the largest learning rate of the small model", rate},
         {"--warm-up", "N", "so many steps it grows; 0 begins with it; 100", Count()},
         {"--label-smoothing", "E",
          "this share of each target is spread over all words, 0 to 1", 0.0},
         {"--threads", "N", "how many threads train; as many as there are cores",
          Count()},
         {"--history", "FILE.npz",
          "write losses and maps of heads of each step to this file", Path()},
         {"--data", "FOLDER",
          "train a classifier on the film reviews in this folder instead", Path()},
         {"--prepare", "FOLDER",
          "first make the folder of --data from this one, the unpacked aclImdb archive",
          Path()},
         {"--positions", "", "with --data: add sinusoidal positions to the words", false},
         {"--epochs", "N", "with --data: how often all reviews are seen; 5", Count()},
         {"--seed", "N", "with --data: of weights, order and dropout; 1", Count()},
         {"--checkpoint", "FILE.npz",
          "with --data: save here after each epoch, and at Ctrl-C", Path()},
         {"--resume", "FILE.npz",
          "with --data: go on from this checkpoint, and save there", Path()},
         {"--mistake", "NAME", "train with a mistake: softmax-twice and others",
          std::string()},
         {"--save", "FILE.safetensors", "write the trained weights to this file", Path()},
         {"--trace-step", "K",
          "write this step, counted from 1, as a trace to the file after --step-trace",
          Count()},
         {"--step-trace", "FILE.npz", "where the step of --trace-step goes", Path()}});
}
