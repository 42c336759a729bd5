#include "attn/reference/layers/experts.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>

namespace attn {
namespace {

constexpr Choice<ExpertScoring> scorings[] = {
    {ExpertScoring::softmax, "softmax"}, {ExpertScoring::sigmoid, "sigmoid"}, {ExpertScoring::logits, "logits"}};
constexpr Choice<ExpertNormalization> normalizations[] = {
    {ExpertNormalization::sum, "sum"}, {ExpertNormalization::softmax, "softmax"}, {ExpertNormalization::none, "none"}};
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
        throw ShapeError("experts: router weights ", shape_of(router.weight), " choose among ", router.weight.shape(1),
                         " experts, and ", all.size(), " are given");
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
        throw ShapeError("experts: the shared expert's gate weights are ", shape_of(gate),
                         ", expected (d_model, 1) = ", Shape{router.weight.shape(0), 1});
}

/// @param experts  how many there are
void expect_choice(std::size_t experts, const ExpertsOptions& options)
{
    const std::string all = std::to_string(experts) + " experts";
    std::size_t eligible = experts;
    if (options.groups) {
        const auto [count, kept, best] = *options.groups;
        if (count == 0 || experts % count != 0)
            throw ShapeError("experts: ", all, " can't be divided evenly among ", count, " groups");
        if (kept == 0 || kept > count)
            throw ShapeError("experts: each token should have ", kept, " groups of ", count, ", expected 1 to ", count);
        const std::size_t size = experts / count;
        if (best == 0 || best > size)
            throw ShapeError("experts: a group's score should be the sum of its ", best, " best experts, and it has ",
                             size, ": expected 1 to ", size);
        eligible = kept * size;
    }
    if (options.top == 0 || options.top > eligible)
        throw ShapeError("experts: each token should have ", options.top, " of ", all,
                         (options.groups ? ", of which its groups have " + std::to_string(eligible) : std::string()),
                         ": expected 1 to ", eligible);
}

// ---------------------------------------------------------------------------------------------------------- the router

/// The experts' numbers by groups: (n, experts) as (n, groups, size).
template <Sequence T>
using Grouped = RealsOf<rank_of<T> + 1>;

/// The scores with minus infinity in place of those that are not in a token's best groups.
template <Sequence T>
Term<T> within_best_groups(const Term<T>& scores, const ExpertGroups& groups, const Trace& trace)
{
    Shape shape = shape_of(*scores);
    const std::size_t size = shape.back() / groups.count;
    shape.back() = groups.count;
    shape.push_back(size);
    const Term grouped = trace("grouped[(b,) n, groups, size]", reshape<Grouped<T>>(scores, shape));

    // Score each group by its best experts, and keep the best groups.
    const Term best = where(top_k(grouped, groups.best), grouped, 0.0);
    const Term group_scores = trace("group_scores[(b,) n, groups]", sum_along(best, -1));
    const Term kept_groups = trace("kept_groups[(b,) n, groups]", top_k(group_scores, groups.kept));

    return trace("eligible[(b,) n, experts]", where(repeat(kept_groups, size, -1), scores, minus_infinity));
}

/// How well each expert fits each token, under the name scores.
template <Sequence T>
Term<T> score(const Term<T>& logits, ExpertScoring scoring, const Trace& trace)
{
    if (scoring == ExpertScoring::logits)
        return trace.alias("scores", logits);
    return trace("scores[(b,) n, experts]", scoring == ExpertScoring::softmax ? softmax(logits) : sigmoid(logits));
}

/// Which experts each token has, under the name chosen: those of the largest scores, of those that it can have.
template <Sequence T>
Term<Truths<T>> choose(Term<T> scores, const std::optional<Vector>& correction_bias, const ExpertsOptions& options,
                       const Trace& trace)
{
    if (correction_bias)
        scores = trace("choice_scores[(b,) n, experts]",
                       scores + trace.input("correction_bias[experts]", Term(*correction_bias)));
    if (options.groups)
        scores = within_best_groups(scores, *options.groups, trace);
    return trace("chosen[(b,) n, experts]", top_k(scores, options.top));
}

/// The weights of the experts that were chosen, and zeros, under the name weights.
template <Sequence T>
Term<T> weigh(const Term<T>& scores, const Term<Truths<T>>& chosen, const ExpertsOptions& options, const Trace& trace)
{
    const bool by_softmax = options.normalization == ExpertNormalization::softmax;
    Term weights = trace("chosen_scores[(b,) n, experts]", where(chosen, scores, by_softmax ? minus_infinity : 0.0));
    if (by_softmax)
        weights = trace("normalized[(b,) n, experts]", softmax(weights));
    else if (options.normalization ==
             ExpertNormalization::sum) // what is added keeps a row of zeros, and changes no other
        weights = trace("normalized[(b,) n, experts]", weights / (sum_along(weights, -1, keepdims) + 1e-20));
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
    const Term chosen = choose(scores, correction_bias, options, trace);
    const Term weights_of_token = weigh(scores, chosen, options, trace);

    // Add up what they make of the token, each times its weight.
    const Term routed = mix(x, weights_of_token, all, options, trace);

    if (!shared_expert)
        return T(trace.alias("output", routed));
    const Term shared = share_expert(x, *shared_expert, shared_expert_gate, options, trace);
    return T(trace("output[(b,) n, d_model]", routed + shared));
}

ATTN_MAKE_FOR_SEQUENCES(experts)

} // namespace attn
