#pragma once

#include "../lesson.hpp"
#include "reviews/data.hpp"
#include "reviews/trainer.hpp"
#include "reviews/weights.hpp"
#include "small_training.hpp"
#include "step_trace.hpp"

#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/checkpoint.hpp"
#include "attn/files/file.hpp"
#include "attn/files/weights/state_dict.hpp"

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

/// The experiment on the Large Movie Review Dataset (Maas et al. 2011): one layer of
/// attention says whether a review is favourable, with and without positions.
namespace attn {

inline constexpr std::size_t reviews_per_step = 32, review_features = 128,
                             review_heads = 8;

/// What an epoch gave: training loss and accuracy, loss and accuracy on the test reviews.
struct EpochResult {
    double loss, accuracy, test_loss, test_accuracy;
};

/// As published with the experiment, epoch by epoch.
inline constexpr EpochResult published_without[] = {{0.4090, 0.8126, 0.3541, 0.8430},
                                                    {0.2528, 0.8976, 0.3962, 0.8284},
                                                    {0.1731, 0.9335, 0.5172, 0.8137},
                                                    {0.1172, 0.9568, 0.6185, 0.8009},
                                                    {0.0750, 0.9730, 0.9310, 0.7925}};
inline constexpr EpochResult published_with[] = {{0.5179, 0.7183, 0.3540, 0.8413},
                                                 {0.2880, 0.8786, 0.3464, 0.8447},
                                                 {0.1584, 0.9404, 0.4398, 0.8313},
                                                 {0.0588, 0.9803, 0.5836, 0.8243},
                                                 {0.0182, 0.9947, 0.8095, 0.8178}};

/// The flags of the experiment.
struct ReviewFlags {
    explicit ReviewFlags(const Lesson& lesson)
        : data(lesson.flag<std::filesystem::path>("--data")),
          checkpoint(lesson.flag<std::filesystem::path>("--checkpoint")),
          resumed(lesson.flag<std::filesystem::path>("--resume")),
          has_positions(lesson.flag<bool>("--positions")),
          epochs(lesson.flag<std::optional<std::size_t>>("--epochs").value_or(5)),
          seed(lesson.flag<std::optional<std::size_t>>("--seed").value_or(1)),
          mistake(lesson.flag<std::string>("--mistake"))
    {
        if (!mistake.empty() && mistake != "sorted-labels" &&
            mistake != "dropout-in-tests")
            throw Error("--mistake: there is no " + mistake +
                        " of the classifier, expected sorted-labels or dropout-in-tests");
        if (!resumed.empty() && !checkpoint.empty())
            throw Error(
                "--resume goes on with a checkpoint and saves there; --checkpoint "
                "begins one: give one of them");
    }

    /// What a checkpoint must have been begun with.
    std::string recipe() const
    {
        return "seed " + std::to_string(seed) + ", " +
               (has_positions ? "with" : "without") + " positions, batches of " +
               std::to_string(reviews_per_step) + (mistake.empty() ? "" : ", " + mistake);
    }

    /// Where an interrupted training is saved.
    std::filesystem::path file() const
    {
        return !resumed.empty()      ? resumed
               : !checkpoint.empty() ? checkpoint
                                     : "lesson_15_training.checkpoint.npz";
    }

    std::filesystem::path data, checkpoint, resumed;
    bool has_positions;
    std::size_t epochs, seed;
    std::string mistake;
};

/// The training of the classifier, which can be interrupted after each step.
class ReviewTraining {
public:
    ReviewTraining(Lesson& lesson, const ReviewFlags& flags)
        : lesson_(lesson),
          flags_(flags),
          train_(train::read_reviews(flags.data, "train")),
          test_(train::read_reviews(flags.data, "test")),
          options_{.model = {review_heads, flags.has_positions},
                   .seed = flags.seed,
                   .threads = threads_of(lesson)},
          initial_(train::initial_review_classifier(train::review_vocabulary,
                                                    review_features, flags.seed)),
          trainer_(initial_, options_),
          step_trace_(lesson)
    {
        if (flags.resumed.empty())
            return;
        train::Checkpoint saved = train::read_checkpoint(flags.resumed, flags.recipe());
        step_ = saved.state.steps;
        expect_progress(saved.progress);
        trainer_.restore(std::move(saved.state));
        loss_ = saved.progress[0];
        right_ = saved.progress[1];
        for (std::size_t i = 2; i < saved.progress.size(); i += 4)
            results_.push_back({saved.progress[i], saved.progress[i + 1],
                                saved.progress[i + 2], saved.progress[i + 3]});
        lesson.say("goes on after step " + std::to_string(step_));
    }

    /// Trains to the end, or to an interruption.
    void run()
    {
        const train::Interruption interruption;
        started_ = std::chrono::steady_clock::now();
        first_step_ = step_;
        while (step_ < flags_.epochs * steps_per_epoch()) {
            take_step();
            if (train::Interruption::is_asked_for())
                return save_interrupted();
        }
    }

    /// @throws Error where a step was to be traced that was not taken
    void expect_trace_written() const { step_trace_.expect_written(step_); }

    void save(const std::filesystem::path& path)
    {
        std::vector<double> progress{loss_, right_};
        for (const EpochResult& result : results_)
            progress.insert(progress.end(), {result.loss, result.accuracy,
                                             result.test_loss, result.test_accuracy});
        train::write_checkpoint(path, {trainer_.state(), progress}, flags_.recipe());
    }

    const std::vector<EpochResult>& results() const { return results_; }
    ReviewClassifierWeights weights() { return trainer_.weights(); }
    const train::Reviews& test() const { return test_; }

private:
    /// Says what became of it before the signal ends the program.
    void save_interrupted()
    {
        const std::string file = flags_.file().string();
        try {
            save(file);
            lesson_.say("interrupted after step " + std::to_string(step_) +
                        ", which is saved: the same flags with --resume " + file +
                        " go on");
        } catch (const Error& error) {
            lesson_.say("interrupted, and not saved: " + std::string(error.what()));
        }
        lesson_.progress("");
    }

    /// Checks what a checkpoint says of the epochs so far: sums of this one, results of
    /// the ones before.
    void expect_progress(const std::vector<double>& progress) const
    {
        const auto expect = [&](bool is_so, const std::string& what) {
            if (!is_so)
                throw files::FileError(flags_.resumed,
                                       "progress is not that of this training "
                                       "after " +
                                           std::to_string(step_) + " steps: " + what);
        };
        const std::size_t epochs = step_ / steps_per_epoch(),
                          seen = step_ % steps_per_epoch() * reviews_per_step;
        expect(progress.size() == 2 + 4 * epochs,
               "expected 2 numbers and 4 per epoch, found " +
                   std::to_string(progress.size()));
        const auto is_from_0_to = [](double most, double number) {
            return number >= 0 && number <= most;
        };
        const double reviews = static_cast<double>(seen),
                     largest_loss = std::numeric_limits<float>::max();
        expect(is_from_0_to(largest_loss * reviews, progress[0]),
               "the sum of the losses is " + exact_text(progress[0]));
        expect(is_from_0_to(reviews, progress[1]) &&
                   progress[1] == std::floor(progress[1]),
               exact_text(progress[1]) + " reviews are right of " + std::to_string(seen));
        for (std::size_t i = 2; i < progress.size(); ++i) {
            const bool is_loss = i % 2 == 0;
            expect(is_from_0_to(is_loss ? largest_loss : 1, progress[i]),
                   std::string(is_loss ? "a loss" : "an accuracy") + " is " +
                       exact_text(progress[i]));
        }
    }

    std::size_t steps_per_epoch() const
    {
        return (train_.labels.size() + reviews_per_step - 1) / reviews_per_step;
    }

    void take_step()
    {
        const std::size_t epoch = step_ / steps_per_epoch(),
                          at = step_ % steps_per_epoch();
        if (order_.empty() || at == 0)
            order_ = train::shuffled(train_.labels.size(), flags_.seed, epoch);
        if (flags_.mistake == "sorted-labels")
            std::iota(order_.begin(), order_.end(), std::size_t{0});
        const std::size_t first = at * reviews_per_step;
        const auto rows = std::span<const std::size_t>(order_).subspan(
            first, std::min(reviews_per_step, order_.size() - first));
        if (step_trace_.is_at(step_ + 1))
            step_trace_.write(trainer_, initial_, train_, rows, options_);
        const train::ReviewResult found = trainer_.step(train_, rows);
        ++step_;
        loss_ += found.loss * static_cast<double>(rows.size());
        right_ += static_cast<double>(found.right);
        if (step_ % 50 == 0)
            lesson_.progress(progress(epoch, first + rows.size()));
        if (at + 1 == steps_per_epoch())
            end_epoch();
    }

    std::string progress(std::size_t epoch, std::size_t seen) const
    {
        const std::chrono::duration<double> spent =
            std::chrono::steady_clock::now() - started_;
        const double left =
            spent.count() / static_cast<double>(step_ - first_step_) *
            static_cast<double>(flags_.epochs * steps_per_epoch() - step_);
        return "epoch " + std::to_string(epoch + 1) + ", " + std::to_string(seen) +
               " reviews, loss " + rounded_text(loss_ / static_cast<double>(seen)) +
               ", " + std::to_string(static_cast<int>(left + 0.5)) + " s left";
    }

    void end_epoch()
    {
        const auto share = [](double part, const train::Reviews& of) {
            return part / static_cast<double>(of.labels.size());
        };
        const train::ReviewResult tested =
            trainer_.evaluate(test_, flags_.mistake == "dropout-in-tests");
        results_.push_back({share(loss_, train_), share(right_, train_), tested.loss,
                            share(static_cast<double>(tested.right), test_)});
        loss_ = right_ = 0;
        lesson_.progress("");
        const EpochResult& last = results_.back();
        lesson_.say("epoch " + std::to_string(results_.size()) + ": loss " +
                    rounded_text(last.loss) + ", accuracy " +
                    rounded_text(last.accuracy) + "; on the test reviews " +
                    rounded_text(last.test_loss) + ", " +
                    rounded_text(last.test_accuracy));
        if (const bool is_wanted = !flags_.checkpoint.empty() || !flags_.resumed.empty();
            is_wanted)
            save(flags_.file());
    }

    Lesson& lesson_;
    ReviewFlags flags_;
    train::Reviews train_, test_;
    train::ReviewTrainingOptions options_;
    ReviewClassifierWeights initial_;
    train::ReviewTrainer trainer_;
    StepTrace step_trace_;
    std::size_t step_ = 0, first_step_ = 0;
    double loss_ = 0, right_ = 0; ///< sums of the epoch so far
    std::vector<EpochResult> results_;
    std::vector<std::size_t> order_;
    std::chrono::steady_clock::time_point started_;
};

/// The words that the classifier's verdict on a review rests on: those with the largest
/// mean weight of all heads and queries.
inline void show_attended_words(Lesson& lesson, const ReviewFlags& flags,
                                const ReviewClassifierWeights& weights,
                                const train::Reviews& reviews)
{
    const std::vector<std::string> vocabulary = train::read_review_words(flags.data);
    if (vocabulary.empty())
        return;
    for (const std::size_t row : {std::size_t{0}, reviews.labels.size() - 1}) {
        const std::size_t n = reviews.ids.shape(1);
        const IntegerMatrix ids =
            xt::view(reviews.ids, xt::range(row, row + 1), xt::all());
        Recorder recorder;
        const Vector logits = review_classifier(
            ids, {}, weights, {review_heads, flags.has_positions}, Trace(recorder));
        std::vector<std::pair<double, std::string>> words(n);
        for (std::size_t i = 0; i < n; ++i) {
            const std::int64_t id = ids(0, i);
            words[i].second = id < 4 ? "" : vocabulary[static_cast<std::size_t>(id) - 4];
        }
        for (const Step& step : recorder.steps())
            if (step.path.starts_with("attention.head.") &&
                step.path.ends_with(".weights"))
                for (std::size_t i = 0; i < step.value.size(); ++i)
                    words[i % n].first +=
                        step.value.values[i] / static_cast<double>(n * review_heads);
        std::erase_if(words, [](const auto& word) { return word.second.empty(); });
        std::ranges::sort(words, std::ranges::greater());
        std::string text;
        for (std::size_t i = 0; i < std::min<std::size_t>(8, words.size()); ++i)
            text += (i == 0 ? "" : ", ") + words[i].second + " " +
                    rounded_text(words[i].first, 3);
        lesson.say("test review " + std::to_string(row) + ", " +
                   (reviews.labels(row) == 1 ? "favourable" : "not favourable") +
                   ", probability " + rounded_text(1 / (1 + std::exp(-logits(0)))) +
                   ": most weight on " + text);
    }
}

/// --data has flags of its own; without it they would have no effect.
inline void expect_no_review_flags(const Lesson& lesson)
{
    std::string given;
    for (const char* name : {"--prepare", "--checkpoint", "--resume"})
        if (!lesson.flag<std::filesystem::path>(name).empty())
            given = name;
    for (const char* name : {"--epochs", "--seed"})
        if (lesson.flag<std::optional<std::size_t>>(name))
            given = name;
    if (lesson.flag<bool>("--positions"))
        given = "--positions";
    if (!given.empty())
        throw Error(given + " is about the film reviews: give --data FOLDER, too");
}

/// Trains the classifier and prints what was published beside what it gave.
inline void experiment_on_reviews(Lesson& lesson)
{
    const ReviewFlags flags(lesson);
    if (lesson.flag<std::optional<std::size_t>>("--steps") ||
        !lesson.flag<std::filesystem::path>("--history").empty())
        throw Error("--steps and --history are about the small model: leave out --data");
    if (lesson.flag<std::optional<std::size_t>>("--warm-up") ||
        lesson.flag<double>("--rate") != train::WarmUpCosine().rate ||
        lesson.flag<double>("--label-smoothing") != 0)
        throw Error("--rate, --warm-up and --label-smoothing are about the small model: "
                    "leave out --data");
    if (const auto& archive = lesson.flag<std::filesystem::path>("--prepare");
        !archive.empty()) {
        const auto [train, test] = train::prepare_reviews(archive, flags.data);
        lesson.say("prepared " + std::to_string(train) + " reviews for training and " +
                   std::to_string(test) + " for testing");
    }

    lesson.heading("A classifier of film reviews: " + flags.recipe());
    ReviewTraining training(lesson, flags);
    training.run();
    training.expect_trace_written();

    lesson.heading("What was published with the experiment, and what this run gave");
    const EpochResult* published =
        flags.has_positions ? published_with : published_without;
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < training.results().size(); ++i) {
        const EpochResult& found = training.results()[i];
        const EpochResult& then = published[std::min(i, std::size(published_with) - 1)];
        if (i < std::size(published_with))
            rows.push_back({static_cast<double>(i + 1), then.loss, found.loss,
                            then.test_loss, found.test_loss, then.test_accuracy,
                            found.test_accuracy});
    }
    if (!rows.empty())
        lesson.table({"epoch", "loss: published", "here", "test loss: published", "here",
                      "test accuracy: published", "here"},
                     rows);
    const ReviewClassifierWeights weights = training.weights();
    show_attended_words(lesson, flags, weights, training.test());
    if (const auto& path = lesson.flag<std::filesystem::path>("--save"); !path.empty())
        files::write_weights(path, files::state_dict(weights));
}

} // namespace attn
