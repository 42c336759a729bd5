#pragma once

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "reviews/trainer.hpp"
#include "reviews/weights.hpp"

#include "attn/engines/train/audit.hpp"
#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/gpt_trainer.hpp"
#include "attn/engines/train/loss.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/formula/verify.hpp"

#include <map>
#include <string>

/// One step of training as a trace, which attn verify recomputes.
namespace attn {

/// A step of the small model on some stories, from where its training is.
inline Recording trace_of_step(const train::AdamState& state, const SmallModel& model,
                               std::span<const train::Text> stories,
                               const train::GptTrainingOptions& options)
{
    const train::TextBatch batch = train::batch_of(stories);
    const auto run = [&](const GptWeights& weights, const Trace& trace) {
        const Tensor3 logits = gpt(batch.ids, {}, weights, model.options, trace);
        (void)train::cross_entropy(logits, batch.targets, {}, trace);
    };
    const std::uint64_t t = state.steps + 1;
    return train::audit_step(train::unpacked(state.weights, model.weights),
                             train::unpacked(state.first, model.weights),
                             train::unpacked(state.second, model.weights), run,
                             options.adam,
                             train::adam_factors(options.adam, options.rate(t), t));
}

/// Takes a step in float32 on two stories, and says how it compares with its trace.
inline void audit_one_step(Lesson& lesson, const SmallModel& model,
                           std::span<const train::Text> stories)
{
    const train::GptTrainingOptions options{.model = model.options};
    train::GptTrainer trainer(model.weights, options);
    const Recording audited = trace_of_step(trainer.state(), model, stories, options);
    const double loss = trainer.step(stories);
    const double in_trace = audited.at("loss").value.values[0];
    lesson.expect("all " + std::to_string(audited.steps.size()) +
                      " steps of it follow from their formulas",
                  formula::verify(audited).passed());
    lesson.expect("the loss of the step in float32 is that of the trace to 1e-5",
                  std::abs(loss - in_trace) < 1e-5);
}

/// The trace that --trace-step and --step-trace ask for.
class StepTrace {
public:
    explicit StepTrace(const Lesson& lesson)
        : step_(lesson.flag<std::optional<std::size_t>>("--trace-step")),
          path_(lesson.flag<std::filesystem::path>("--step-trace"))
    {
        if (step_.has_value() == path_.empty())
            throw Error("--trace-step K and --step-trace FILE.npz need each other");
    }

    /// @param step  counted from 1
    bool is_at(std::size_t step)
    {
        is_reached_ = is_reached_ || step_ == step;
        return step_ == step;
    }

    /// @param steps  how many there were
    /// @throws Error where the step was none of those that were taken
    void expect_written(std::size_t steps) const
    {
        if (step_ && !is_reached_)
            throw Error("--trace-step " + std::to_string(*step_) +
                        ": the training has taken other steps only, up to " +
                        std::to_string(steps));
    }

    void write(const train::GptTrainer& trainer, const SmallModel& model,
               std::span<const train::Text> stories,
               const train::GptTrainingOptions& options) const
    {
        files::write_trace(path_,
                           trace_of_step(trainer.state(), model, stories, options));
    }

    /// A step of the classifier. Of the embedding only the rows are traced that the batch
    /// uses, in the order of their words' numbers: no other row has a gradient.
    void write(train::ReviewTrainer& trainer, const ReviewClassifierWeights& shapes,
               const train::Reviews& reviews, std::span<const std::size_t> rows,
               const train::ReviewTrainingOptions& options) const
    {
        const train::AdamState& state = trainer.state();
        std::map<std::int64_t, std::size_t> used;
        for (const std::size_t row : rows)
            for (std::size_t i = 0; i < reviews.ids.shape(1); ++i)
                used.try_emplace(reviews.ids(row, i), 0);
        std::vector<std::size_t> words;
        for (auto& [id, place] : used) {
            place = words.size();
            words.push_back(static_cast<std::size_t>(id));
        }
        train::Reviews batch{
            IntegerMatrix(IntegerMatrix::shape_type{rows.size(), reviews.ids.shape(1)}),
            Integers(Integers::shape_type{rows.size()})};
        for (std::size_t b = 0; b < rows.size(); ++b) {
            batch.labels(b) = reviews.labels(rows[b]);
            for (std::size_t i = 0; i < batch.ids.shape(1); ++i)
                batch.ids(b, i) =
                    static_cast<std::int64_t>(used.at(reviews.ids(rows[b], i)));
        }
        const auto of_words = [&](const std::vector<float>& numbers) {
            ReviewClassifierWeights some = train::unpacked(numbers, shapes);
            Matrix table(Matrix::shape_type{words.size(), some.embedding.table.shape(1)});
            for (std::size_t i = 0; i < words.size(); ++i)
                xt::row(table, i) = xt::row(some.embedding.table, words[i]);
            some.embedding.table = table;
            return some;
        };
        const Matrix mask =
            train::dropout_mask(rows.size(), shapes.attention.value.shape(1),
                                options.dropout, options.seed, state.steps);
        const auto run = [&](const ReviewClassifierWeights& weights, const Trace& trace) {
            const Vector logits =
                review_classifier(batch.ids, mask, weights, options.model, trace);
            (void)train::binary_cross_entropy(logits, batch.labels, trace);
        };
        const train::AdamFactors factors =
            train::adam_factors(options.adam, options.rate, state.steps + 1);
        files::write_trace(
            path_, train::audit_step(of_words(state.weights), of_words(state.first),
                                     of_words(state.second), run, options.adam, factors));
    }

private:
    std::optional<std::size_t> step_;
    std::filesystem::path path_;
    bool is_reached_ = false;
};

} // namespace attn
