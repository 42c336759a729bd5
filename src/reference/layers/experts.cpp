#include "attn/reference/layers/experts.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"
#include "attn/reference/ops/terms.hpp"
#include "attn/reference/ops/top_k.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace attn {
namespace {

Matrix softmax_rows(const Matrix& scores) { return softmax(scores); }

/// Each score over the sum of its row. A row of zeros stays so; what is added to its sum changes no other one.
Matrix over_sum(const Matrix& scores)
{
    const Vector sums = sum_of_features(scores) + 1e-20;
    return scores / spread(sums, scores.shape(1));
}

/// A way to score experts: the formula, and what computes it; none where the logits are the scores.
struct ScoringRow {
    ExpertScoring choice;
    std::string_view name, formula;
    Matrix (*function)(const Matrix& logits);
};

constexpr ScoringRow scorings[] = {
    {ExpertScoring::softmax, "softmax", "softmax(router_logits)", softmax_rows},
    {ExpertScoring::sigmoid, "sigmoid", "sigmoid(router_logits)", sigmoid},
    {ExpertScoring::logits, "logits", "", nullptr},
};

/// A way from scores to weights: what stands in place of the scores that were not chosen, then the formula and what computes
/// it; none where the scores are the weights.
struct NormalizationRow {
    ExpertNormalization choice;
    std::string_view name;
    double of_others;
    std::string_view only_chosen, formula;
    Matrix (*function)(const Matrix& chosen_scores);
};

constexpr NormalizationRow normalizations[] = {
    {ExpertNormalization::sum, "sum", 0, "where(chosen, scores, 0)",
     "chosen_scores / (sum(chosen_scores, axis=-1, keepdims=True) + 1e-20)", over_sum},
    {ExpertNormalization::softmax, "softmax", minus_infinity, "where(chosen, scores, -inf)", "softmax(chosen_scores)",
     softmax_rows},
    {ExpertNormalization::none, "none", 0, "where(chosen, scores, 0)", "", nullptr},
};

constexpr Choice<ExpertWeighting> weightings[] = {{ExpertWeighting::output, "output"},
                                                  {ExpertWeighting::input, "input"}};

} // namespace

std::string_view name_of(ExpertScoring scoring) { return row_for<scorings>(scoring).name; }
std::string_view name_of(ExpertNormalization normalization) { return row_for<normalizations>(normalization).name; }
std::string_view name_of(ExpertWeighting weighting) { return row_for<weightings>(weighting).name; }

namespace {

StepOptions describe(const ExpertsOptions& options)
{
    const auto& [top, scoring, normalization, scaling_factor, groups, weighting, expert] =
        options; // which says its own
    StepOptions described{{"top", std::to_string(top)},
                          {"scoring", std::string(name_of(scoring))},
                          {"normalization", std::string(name_of(normalization))}};
    if (scaling_factor != 1)
        described.emplace_back("scaling_factor", exact_text(scaling_factor));
    if (groups)
        described.emplace_back("groups", std::to_string(groups->kept) + " of " + std::to_string(groups->count) +
                                             ", by their best " + std::to_string(groups->best));
    if (weighting != ExpertWeighting::output)
        described.emplace_back("weighting", std::string(name_of(weighting)));
    return described;
}

// ------------------------------------------------------------------------------------------------------- what must fit

/// @param expert  "expert 0", or "shared expert"
template <Sequence T>
void expect_expert(const T& x, const std::string& expert, const GatedFeedForwardWeights& weights)
{
    expect_agreement("experts", "d_model", {"x", x, feature_axis<T>},
                     {expert + "'s gate weights", weights.gate.weight, 0});
    expect_agreement("experts", "d_model", {"x", x, feature_axis<T>},
                     {expert + "'s down weights", weights.down.weight, 1});
}

template <Sequence T>
void expect_weights(const T& x, const ExpertsWeights& weights)
{
    const auto& [router, correction_bias, all, shared_expert, shared_expert_gate] = weights;
    const auto of_router = [&](std::size_t axis) { return AxisOf("router weights", weights.router.weight, axis); };
    expect_agreement("experts", "d_model", {"x", x, feature_axis<T>}, of_router(0));
    if (router.weight.shape(1) != all.size())
        throw ShapeError("experts: router weights " + to_string(shape_of(router.weight)) + " choose among " +
                         std::to_string(router.weight.shape(1)) + " experts, and " + std::to_string(all.size()) +
                         " are given");
    if (correction_bias)
        expect_agreement("experts", "experts", of_router(1), {"correction bias", *correction_bias, 0});
    for (std::size_t i = 0; i < all.size(); ++i)
        expect_expert(x, "expert " + std::to_string(i), all[i]);
    if (shared_expert)
        expect_expert(x, "the shared expert", *shared_expert);
    if (!shared_expert_gate)
        return;
    if (!shared_expert)
        throw Error("experts: there is a gate of the shared expert, and no shared expert");
    const Matrix& gate = shared_expert_gate->weight;
    if (gate.shape(0) != router.weight.shape(0) || gate.shape(1) != 1)
        throw ShapeError("experts: the shared expert's gate weights are " + to_string(shape_of(gate)) +
                         ", expected (d_model, 1) = " + to_string(Shape{router.weight.shape(0), 1}));
}

/// @param experts  how many there are
void expect_choice(std::size_t experts, const ExpertsOptions& options)
{
    const std::string all = std::to_string(experts) + " experts";
    std::size_t eligible = experts;
    if (options.groups) {
        const auto [count, kept, best] = *options.groups;
        if (count == 0 || experts % count != 0)
            throw ShapeError("experts: " + all + " can't be divided evenly among " + std::to_string(count) + " groups");
        if (kept == 0 || kept > count)
            throw ShapeError("experts: each token should have " + std::to_string(kept) + " groups of " +
                             std::to_string(count) + ", expected 1 to " + std::to_string(count));
        const std::size_t size = experts / count;
        if (best == 0 || best > size)
            throw ShapeError("experts: a group's score should be the sum of its " + std::to_string(best) +
                             " best experts, and it has " + std::to_string(size) + ": expected 1 to " +
                             std::to_string(size));
        eligible = kept * size;
    }
    if (options.top == 0 || options.top > eligible)
        throw ShapeError("experts: each token should have " + std::to_string(options.top) + " of " + all +
                         (options.groups ? ", of which its groups have " + std::to_string(eligible) : std::string()) +
                         ": expected 1 to " + std::to_string(eligible));
}

// ---------------------------------------------------------------------------------------------------------- the router

/// Booleans that belong to numbers of T.
template <Sequence T>
using MaskOf = std::conditional_t<std::same_as<T, Matrix>, Mask, BatchMask>;

/// The experts' numbers by groups: (n, experts) as (n, groups, size).
template <Sequence T>
using Grouped = std::conditional_t<std::same_as<T, Matrix>, Tensor3, Tensor4>;

template <Sequence T>
Grouped<T> by_groups(const T& scores, std::size_t groups)
{
    typename Grouped<T>::shape_type shape;
    std::ranges::copy(scores.shape(), shape.begin());
    shape[shape.size() - 2] = groups;
    shape[shape.size() - 1] = scores.shape(feature_axis<T>) / groups;
    Grouped<T> grouped(shape);
    std::ranges::copy(scores.storage(), grouped.storage().begin());
    return grouped;
}

/// A group's boolean for each of its experts.
template <class M>
M for_each_expert(const M& groups, std::size_t size)
{
    typename M::shape_type shape = groups.shape();
    shape.back() *= size;
    M experts(shape);
    for (std::size_t i = 0; i < experts.size(); ++i)
        experts.storage()[i] = groups.storage()[i / size];
    return experts;
}

std::string reshaped(std::string_view name, const Shape& shape)
{
    std::string text = "reshape(" + std::string(name);
    for (const std::size_t size : shape)
        text += ", " + std::to_string(size);
    return text + ")";
}

/// The scores with minus infinity in place of those that are not in a token's best groups.
template <Sequence T>
Term<T> within_best_groups(const Term<T>& scores, const ExpertGroups& groups, const Trace& trace)
{
    const auto [count, kept, best] = groups;
    const std::size_t size = scores.shape(feature_axis<T>) / count;
    const auto name = [&] { return trace.say(scores.wording()); };
    const Grouped<T> by_group = by_groups(*scores, count);
    const Grouped<T> grouped = trace(
        "grouped[(b,) n, groups, size]", [&] { return reshaped(name(), shape_of(by_group)); }, by_group);

    // Score each group by its best experts, and keep the best groups.
    const T group_scores = trace(
        "group_scores[(b,) n, groups]",
        [top = best] { return "sum(where(top_k(grouped, " + std::to_string(top) + "), grouped, 0), axis=-1)"; },
        sum_of_features(apply_mask(top_k(grouped, best), grouped, 0.0)));
    const MaskOf<T> kept_groups = trace(
        "kept_groups[(b,) n, groups]", [top = kept] { return "top_k(group_scores, " + std::to_string(top) + ")"; },
        top_k(group_scores, kept));

    return trace(
        "eligible[(b,) n, experts]",
        [&] { return "where(repeat(kept_groups, " + std::to_string(size) + ", axis=-1), " + name() + ", -inf)"; },
        Term(apply_mask(for_each_expert(kept_groups, size), *scores, minus_infinity)));
}

/// How well each expert fits each token, under the name scores.
template <Sequence T>
Term<T> score(const Term<T>& logits, ExpertScoring scoring, const Trace& trace)
{
    const ScoringRow& row = row_for<scorings>(scoring);
    if (row.function == nullptr)
        return trace.alias("scores", logits);
    return trace("scores[(b,) n, experts]", row.formula, Term(token_by_token(*logits, row.function)));
}

/// Which experts each token has, under the name chosen: those of the largest scores, of those that it can have.
template <Sequence T>
MaskOf<T> choose(Term<T> scores, const std::optional<Vector>& correction_bias, const ExpertsOptions& options,
                 const Trace& trace)
{
    if (correction_bias)
        scores = trace("choice_scores[(b,) n, experts]",
                       scores + trace.input("correction_bias[experts]", Term(*correction_bias)));
    if (options.groups)
        scores = within_best_groups(scores, *options.groups, trace);
    return trace(
        "chosen[(b,) n, experts]",
        [&] { return "top_k(" + trace.say(scores.wording()) + ", " + std::to_string(options.top) + ")"; },
        top_k(*scores, options.top));
}

/// The weights of the experts that were chosen, and zeros, under the name weights.
template <Sequence T>
Term<T> weigh(const Term<T>& scores, const MaskOf<T>& chosen, const ExpertsOptions& options, const Trace& trace)
{
    const NormalizationRow& row = row_for<normalizations>(options.normalization);
    Term weights =
        trace("chosen_scores[(b,) n, experts]", row.only_chosen, Term(apply_mask(chosen, *scores, row.of_others)));
    if (row.function != nullptr)
        weights = trace("normalized[(b,) n, experts]", row.formula, Term(token_by_token(*weights, row.function)));
    return options.scaling_factor == 1 ? trace.alias("weights", weights)
                                       : trace("weights[(b,) n, experts]", weights * options.scaling_factor);
}

// --------------------------------------------------------------------------------------------------------- the experts

/// What one expert adds to the mixture.
/// @param weight  of the expert for each token, ((b,) n, 1)
/// @param trace   the expert's scope
/// @return under the name weighted, or output where the input is weighted
template <Sequence T>
Term<T> weighted_expert(const Term<T>& x, const Term<T>& weight, const GatedFeedForwardWeights& weights,
                        const ExpertsOptions& options, const Trace& trace)
{
    if (options.weighting == ExpertWeighting::input)
        return gated_feed_forward(trace("x[(b,) n, d_model]", weight * x), weights, options.expert, trace);
    return trace("weighted[(b,) n, d_model]", weight * gated_feed_forward(x, weights, options.expert, trace));
}

/// The sum of what all experts add, under the name routed.
template <Sequence T>
Term<T> mix(const Term<T>& x, const Term<T>& weights, const std::vector<GatedFeedForwardWeights>& all,
            const ExpertsOptions& options, const Trace& trace)
{
    Term<T> mixture;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Trace expert = trace.scope("expert", i);
        const Term part = weighted_expert(x, columns(weights, i, i + 1), all[i], options, expert);
        mixture = i == 0 ? expert.alias("mixture", part) : expert("mixture[(b,) n, d_model]", mixture + part);
    }
    return trace.alias("routed", mixture);
}

/// What the expert that all tokens share adds.
template <Sequence T>
Term<T> share_expert(const Term<T>& x, const GatedFeedForwardWeights& weights,
                     const std::optional<LinearWeights>& gate_weights, const ExpertsOptions& options,
                     const Trace& trace)
{
    const Term shared = gated_feed_forward(x, weights, options.expert, trace.scope("shared_expert"));
    if (!gate_weights)
        return shared;
    const LinearSteps steps{"x", "shared_expert_gate", "d_model", "one", "n", "shared_expert_gate_logits"};
    const Term logits = linear(x, *gate_weights, steps, trace);
    const Term gate = trace("shared_expert_gate[(b,) n, one]", sigmoid(logits));
    return trace("gated_shared_expert[(b,) n, d_model]", gate * shared);
}

} // namespace

template <Sequence T>
T experts(const T& tokens, const ExpertsWeights& weights, const ExpertsOptions& options, const Trace& caller)
{
    expect_weights(tokens, weights);
    expect_choice(weights.experts.size(), options);
    const auto& [router, correction_bias, all, shared_expert, shared_expert_gate] = weights;
    const Trace trace = caller.module("experts", [&] { return describe(options); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Choose experts for each token, and weigh them.
    const Term logits = linear(x, router, {"x", "router", "d_model", "experts", "n", "router_logits"}, trace);
    const Term scores = score(logits, options.scoring, trace);
    const MaskOf<Value<T>> chosen = choose(scores, correction_bias, options, trace);
    const Term weights_of_token = weigh(scores, chosen, options, trace);

    // Add up what they make of the token, each times its weight.
    const Term routed = mix(x, weights_of_token, all, options, trace);

    if (!shared_expert)
        return T(trace.alias("output", routed));
    const Term shared = share_expert(x, *shared_expert, shared_expert_gate, options, trace);
    return T(trace("output[(b,) n, d_model]", routed + shared));
}

#define ATTN_INSTANTIATE(T) template decltype(experts<T>) experts<T>;
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
#undef ATTN_INSTANTIATE

} // namespace attn
