#pragma once

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "mistakes.hpp"
#include "step_trace.hpp"

#include "attn/core/recorder.hpp"
#include "attn/engines/train/gpt_trainer.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/reference/models/sampling.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// Training the small model of the lessons, as lessons/small_model/train.py does with
/// PyTorch.
namespace attn {

inline constexpr std::size_t stories_per_step = 48;

/// So many digits after the point.
inline std::string rounded_text(double number, int digits = 4)
{
    char text[64];
    const int length = std::snprintf(text, sizeof text, "%.*f", digits, number);
    return {text, static_cast<std::size_t>(length)};
}

inline std::size_t threads_of(const Lesson& lesson)
{
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    return std::max<std::size_t>(
        1, lesson.flag<std::optional<std::size_t>>("--threads").value_or(cores));
}

/// The learning rate by --rate and --warm-up.
/// @throws Error where the rate is not above 0
inline train::WarmUpCosine rate_of(const Lesson& lesson, std::size_t steps)
{
    const double rate = lesson.flag<double>("--rate");
    if (!(rate > 0) || !std::isfinite(rate))
        throw Error("--rate: expected a number above 0, found " + exact_text(rate));
    return {rate, lesson.flag<std::optional<std::size_t>>("--warm-up").value_or(100),
            std::max<std::size_t>(steps, 1)};
}

/// @throws Error where --label-smoothing is no share
inline double smoothing_of(const Lesson& lesson)
{
    const double share = lesson.flag<double>("--label-smoothing");
    if (!(share >= 0 && share < 1))
        throw Error("--label-smoothing: expected 0, or a share below 1, found " +
                    exact_text(share));
    return share;
}

/// The mistake that the flag --mistake names.
/// @throws Error where it is none of the small model's
inline const TrainingMistake& small_mistake_of(const Lesson& lesson)
{
    const auto& name = lesson.flag<std::string>("--mistake");
    std::string all;
    for (const TrainingMistake& mistake : training_mistakes) {
        if (name == mistake.name)
            return mistake;
        all += (all.empty() ? "" : ", ") + std::string(mistake.name);
    }
    throw Error("--mistake: there is no " + name +
                " of the small model, expected one of " + all +
                "; with --data sorted-labels and dropout-in-tests");
}

// ------------------------------------------------------------------------- heads by name

/// The keys that a head of some name attends to from each query of a story:
/// lessons/small_model/measure.py has the same roles.
using Links = std::vector<std::pair<std::size_t, std::size_t>>; // query, key

struct Role {
    const char* name;
    Links (*links)(const std::vector<std::string>& words);
};

inline std::size_t first_stop(const std::vector<std::string>& words)
{
    return static_cast<std::size_t>(std::ranges::find(words, ".") - words.begin());
}

inline Links to_previous_word(const std::vector<std::string>& words)
{
    Links links;
    for (std::size_t i = 1; i < words.size(); ++i)
        links.emplace_back(i, i - 1);
    return links;
}

inline Links thing_to_colour(const std::vector<std::string>& words)
{
    Links links; // "a red ball and a blue kite ."
    for (std::size_t i = 1; i < first_stop(words); ++i)
        if (words[i + 1] == "and" || words[i + 1] == ".")
            links.emplace_back(i, i - 1);
    return links;
}

inline Links stop_to_name(const std::vector<std::string>& words)
{
    Links links; // ". She"; the name is the first word
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
        if (words[i] == "." && (words[i + 1] == "She" || words[i + 1] == "He"))
            links.emplace_back(i, 0);
    return links;
}

inline Links was_to_colour(const std::vector<std::string>& words)
{
    Links links; // "The ball was red": the colour that came before
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        const auto colour = std::ranges::find(words, words[i + 1]) - words.begin();
        if (words[i] == "was" && static_cast<std::size_t>(colour) < i)
            links.emplace_back(i, static_cast<std::size_t>(colour));
    }
    return links;
}

inline constexpr Role roles[] = {
    {"each word to the word before it", to_previous_word},
    {"a thing to its colour before it", thing_to_colour},
    {"the full stop before She or He to the name", stop_to_name},
    {"was to the colour of the thing", was_to_colour}};

/// The attention weights of each head of each layer on a text, (n, n).
inline std::vector<Matrix> maps_of(const GptWeights& weights, const GptOptions& options,
                                   const Integers& ids)
{
    Recorder recorder;
    (void)gpt(ids, weights, options, Trace(recorder));
    std::vector<Matrix> maps;
    for (const Step& step : recorder.steps())
        if (step.path.ends_with(".weights") &&
            step.path.find(".head.") != std::string::npos)
            maps.push_back(from_array<Matrix>(step.value));
    return maps;
}

inline Integers integers_of(const train::Text& text)
{
    Integers ids(Integers::shape_type{text.size()});
    std::ranges::copy(text, ids.begin());
    return ids;
}

/// The average weight of each head on the links of each role: (roles, layers * heads).
inline Matrix role_weights(const SmallModel& model, const GptWeights& weights,
                           std::span<const train::Text> stories)
{
    const std::size_t heads = weights.layers.size() * model.options.heads;
    Matrix sums = xt::zeros<double>({std::size(roles), heads});
    std::vector<double> counts(std::size(roles));
    for (const train::Text& story : stories) {
        const Integers ids = integers_of(story);
        const std::vector<std::string> words = words_of(model.words(ids));
        const std::vector<Matrix> maps = maps_of(weights, model.options, ids);
        for (std::size_t role = 0; role < std::size(roles); ++role)
            for (const auto& [query, key] : roles[role].links(words)) {
                ++counts[role];
                for (std::size_t head = 0; head < heads; ++head)
                    sums(role, head) += maps[head](query, key);
            }
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
        sums.data()[i] /= counts[i / heads];
    return sums;
}

/// How sure a model is of its likeliest word, on average over all words of some stories,
/// and how often that word is the next.
struct Sureness {
    double probability, right;
};

inline Sureness sureness_of(const GptWeights& weights, const GptOptions& options,
                            std::span<const train::Text> stories)
{
    Sureness sums{};
    double count = 0;
    for (const train::Text& story : stories) {
        const Matrix logits = gpt(integers_of(story), weights, options);
        for (std::size_t i = 0; i + 1 < story.size(); ++i, ++count) {
            const Vector chances = softmax(Vector(xt::row(logits, i)));
            const std::size_t word = argmax(chances);
            sums.probability += chances(word);
            sums.right += static_cast<std::int64_t>(word) == story[i + 1];
        }
    }
    return {sums.probability / count, sums.right / count};
}

// ------------------------------------------------------------------------------ training

/// What is written down while the model is trained, the file of --history: losses, and each
/// twentieth step's loss on stories that were not trained on.
class History {
public:
    void add(const std::string& path, std::vector<std::string> axes, Array value)
    {
        recording_.steps.push_back({path, "", std::move(axes), "", {}, std::move(value)});
    }

    void add_maps(const SmallModel& model, const GptWeights& weights, std::size_t step)
    {
        const std::vector<Matrix> maps =
            maps_of(weights, model.options, model.ids(sentence()));
        for (std::size_t head = 0; head < maps.size(); ++head)
            add("maps." + std::to_string(step) + ".head." + std::to_string(head),
                {"n", "m"}, to_array(maps[head]));
    }

    void write(const std::filesystem::path& path) const
    {
        if (!path.empty())
            files::write_trace(path, recording_);
    }

private:
    Recording recording_;
};

/// The numbers that PyTorch measured on its own training: lessons/small_model/report.json.
inline double reported(const Lesson& lesson, const char* what)
{
    return files::read_json_object(lesson.file("../small_model/report.json"), "a report")
        .at(what)
        .get<double>();
}

inline void print_roles(Lesson& lesson, const Matrix& before, const Matrix& after)
{
    for (std::size_t role = 0; role < std::size(roles); ++role) {
        std::size_t best = 0;
        for (std::size_t head = 1; head < after.shape(1); ++head)
            best = after(role, head) > after(role, best) ? head : best;
        lesson.say(std::string(roles[role].name) + ": head " + std::to_string(best % 4) +
                   " of layer " + std::to_string(best / 4) + " " +
                   rounded_text(before(role, best), 2) + " before, " +
                   rounded_text(after(role, best), 2) + " after");
    }
}

/// Trains it, and says how far it came.
inline void train_small_model(Lesson& lesson)
{
    const SmallModel model = small_model(Training::before);
    const SmallStories stories = small_stories();
    const std::size_t steps =
        lesson.flag<std::optional<std::size_t>>("--steps").value_or(2000);
    const train::WarmUpCosine schedule = rate_of(lesson, steps);
    const TrainingMistake& mistake = small_mistake_of(lesson);
    const train::GptTrainingOptions options{.model = model.options,
                                            .label_smoothing = smoothing_of(lesson),
                                            .rate = schedule,
                                            .threads = threads_of(lesson)};
    StepTrace step_trace(lesson);
    const std::span<const train::Text> some(stories.held_out.data(), 100);
    const auto& history_file = lesson.flag<std::filesystem::path>("--history");
    const bool is_kept = !history_file.empty();
    History history;

    lesson.heading("6. The small model learns the stories of its grammar, " +
                   std::to_string(stories_per_step) + " in each step");
    train::GptTrainer trainer(model.weights, mistake.in(options));
    std::vector<double> losses, curve;
    const auto keep_curve = [&](std::size_t steps_done) {
        if (is_kept && steps_done > 0 && steps_done % 20 == 0)
            curve.push_back(trainer.evaluate(some));
    };
    const auto watch = [&](std::size_t step, std::span<const train::Text> batch) {
        keep_curve(step);
        if (step % (step < 400 ? 20 : 100) == 0) // heads form early
            history.add_maps(model, trainer.weights(), step);
        if (step_trace.is_at(step + 1))
            step_trace.write(trainer, model, batch, options);
    };
    //! [train]
    for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t first = step * stories_per_step % stories.training.size();
        const std::span batch =
            std::span(stories.training)
                .subspan(first,
                         std::min(stories_per_step, stories.training.size() - first));
        watch(step, batch);
        losses.push_back(mistake.step(trainer, batch));
    }
    //! [train]
    keep_curve(steps);
    step_trace.expect_written(steps);
    for (const std::size_t step : {0, 20, 100, 250, 500, 1000, 1500})
        if (step < steps)
            lesson.say("step " + std::to_string(step) + ": loss " +
                       rounded_text(losses[step]));

    const double loss = trainer.evaluate(stories.held_out);
    lesson.say(
        "after " + std::to_string(steps) +
        " steps, on 1000 stories with combinations that were not trained on: loss " +
        rounded_text(loss));
    lesson.say("the model that PyTorch trained for 2000 steps has " +
               rounded_text(reported(lesson, "held_out_loss")) +
               "; the grammar leaves open " +
               rounded_text(reported(lesson, "grammar_loss_of_the_same_words")));

    lesson.heading("7. What its heads have come to attend to: the average weight");
    const GptWeights learned = trainer.weights();
    const Matrix before = role_weights(model, model.weights, some),
                 after = role_weights(model, learned, some);
    print_roles(lesson, before, after);

    if (is_kept) {
        const Sureness sureness = sureness_of(learned, model.options, some);
        history.add("likeliest_probability", {}, {{}, {sureness.probability}});
        history.add("likeliest_right", {}, {{}, {sureness.right}});
    }
    history.add_maps(model, learned, steps);
    history.add("losses", {"step"}, {{losses.size()}, losses});
    history.add("curve", {"twenty_steps"}, {{curve.size()}, curve});
    history.add("held_out_loss", {}, {{}, {loss}});
    history.add("pytorch_loss", {}, {{}, {reported(lesson, "held_out_loss")}});
    history.add("grammar_loss", {},
                {{}, {reported(lesson, "grammar_loss_of_the_same_words")}});
    history.add("roles_before", {"role", "head"}, to_array(before));
    history.add("roles_after", {"role", "head"}, to_array(after));
    history.write(history_file);
    if (const auto& path = lesson.flag<std::filesystem::path>("--save"); !path.empty())
        files::write_weights(path, files::state_dict(learned));

    lesson.heading("8. One step as a trace: forward, loss, gradients, Adam");
    audit_one_step(lesson, model, some.first(2));
}

} // namespace attn
