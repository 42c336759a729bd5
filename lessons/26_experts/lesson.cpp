// Lesson 26: experts.
//
// In place of one feed-forward network stand several, and a router chooses a few of them
// for each token: more is stored than is computed. A small mixture that was trained with
// a balancing term, the router's choice by hand, and a mixture that was trained without.

#include "../lesson.hpp"
#include "../mixture.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/layers/experts.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"
#include "attn/reference/ops/top_k.hpp"

#include <tuple>

using namespace attn;

namespace {

/// Numbers in the networks of four published models, and how many of them a token uses.
void count_published(Lesson& lesson)
{
    const Trace published = lesson.trace().scope("published");
    const auto given = [&](std::string_view step, const Integers& numbers) {
        return published(step, "", numbers);
    };
    // Mixtral 8x7B, Qwen3-30B-A3B, gpt-oss-120b, DeepSeek-V3 (its layers with experts)
    const Integers layers = given("layers[models]", {32, 48, 36, 58}),
                   routed = given("experts[models]", {8, 128, 128, 256}),
                   top = given("top[models]", {2, 8, 4, 8}),
                   shared = given("shared[models]", {0, 0, 0, 1}),
                   d_model = given("d_model[models]", {4096, 2048, 2880, 7168}),
                   d_ff = given("d_ff[models]", {14336, 768, 2880, 2048});
    const Integers each =
        published("each[models]", "3 * d_model * d_ff", Integers(3 * d_model * d_ff));
    const Integers stored =
        published("stored[models]", "layers * (experts + shared) * each",
                  Integers(layers * (routed + shared) * each));
    const Integers used = published("used[models]", "layers * (top + shared) * each",
                                    Integers(layers * (top + shared) * each));
    std::ignore =
        published("share[models]", "used / stored", Vector(1.0 * used / stored));
}

/// What the reader can move: how many experts each token has, what the router's logits
/// are divided by, and an expert that no token can have.
struct Routing {
    Integers top;
    Vector temperature;
    Integers off;
};

Routing routing_of(Lesson& lesson, std::size_t experts)
{
    const Routing routing{lesson.input("top[one]", Integers{2}),
                          lesson.input("temperature[one]", Vector{1}),
                          lesson.input("off[one]", Integers{2})};
    const auto count = static_cast<std::int64_t>(experts);
    const std::int64_t open =
        routing.off(0) < 0 || routing.off(0) >= count ? count : count - 1;
    if (routing.top(0) < 1 || routing.top(0) > open)
        throw Error("top counts experts of each token: expected 1 to " +
                    std::to_string(open) + ", found " + std::to_string(routing.top(0)));
    if (!(routing.temperature(0) > 0))
        throw Error(
            "temperature divides the router's logits: expected more than 0, found " +
            exact_text(routing.temperature(0)));
    return routing;
}

/// The same model with another router: its map is divided, and the choice of one expert
/// is made impossible.
LanguageModelWeights rerouted(LanguageModelWeights weights, const Routing& routing)
{
    for (BlockWeights& layer : weights.layers) {
        auto& mixture = std::get<ExpertsWeights>(layer.feed_forward);
        mixture.router.weight /= routing.temperature(0);
        Vector bias = xt::zeros<double>({mixture.experts.size()});
        if (routing.off(0) >= 0 &&
            routing.off(0) < static_cast<std::int64_t>(bias.size()))
            bias(static_cast<std::size_t>(routing.off(0))) = -10; // scores are at most 1
        mixture.correction_bias = bias;
    }
    return weights;
}

/// The model's probabilities of what follows each word.
Matrix read(Lesson& lesson, std::string_view scope, const Integers& ids,
            const LanguageModelWeights& weights, const LanguageModelDescription& model)
{
    const Trace inside = lesson.trace().scope(scope, {{"ids", "ids"}});
    const Matrix logits = language_model(ids, weights, model, inside);
    return inside("chances[n, vocabulary]", "softmax(logits)", softmax(logits));
}

const std::string first_mixture = "layers.0.feed_forward.";

/// The first layer's choice and mixture, from the router's logits and from what each
/// expert makes of each token.
void mix(Lesson& lesson, const Routing& routing)
{
    const auto step = [&](const std::string& name) {
        return from_array<Matrix>(
            lesson.recording().at("balanced." + first_mixture + name).value);
    };
    const Matrix logits = step("router_logits");
    const std::size_t experts = logits.shape(1),
                      k = static_cast<std::size_t>(routing.top(0));
    const std::string numbers = "arange(" + std::to_string(experts) + ")";
    const Integers number =
        xt::arange<std::int64_t>(0, static_cast<std::int64_t>(experts));
    const Trace trace = lesson.trace().scope(
        "hand", {{"logits", "balanced." + first_mixture + "router_logits"},
                 {"temperature", "temperature"},
                 {"off", "off"}});
    //! [mix]
    const Matrix open = trace(
        "open[n, experts]", "where(" + numbers + " == off, -inf, logits / temperature)",
        Matrix(xt::where(xt::equal(number, routing.off(0)), minus_infinity,
                         logits / routing.temperature(0))));
    const Matrix scores = trace("scores[n, experts]", "softmax(open)", softmax(open));
    const Mask chosen =
        trace("chosen[n, experts]", "top_k(scores, " + std::to_string(k) + ")",
              top_k(scores, k));
    const Matrix kept = trace("chosen_scores[n, experts]", "where(chosen, scores, 0)",
                              Matrix(xt::where(chosen, scores, 0.0)));
    const Vector sums = sum_along(kept, 1);
    const Matrix weights = trace("weights[n, experts]",
                                 "chosen_scores / sum(chosen_scores, axis=1)[:, None]",
                                 Matrix(kept / xt::view(sums, xt::all(), xt::newaxis())));
    //! [mix]

    Matrix mixed = xt::zeros<double>({logits.shape(0), step("x").shape(1)});
    std::string formula;
    for (std::size_t e = 0; e < experts; ++e) {
        const std::string output = "expert." + std::to_string(e) + ".output";
        formula += (e == 0 ? "" : " + ") +
                   ("weights[:, " + std::to_string(e) + ":" + std::to_string(e + 1) +
                    "] * balanced.") +
                   first_mixture + output;
        //! [mixed]
        mixed += xt::view(weights, xt::all(), xt::range(e, e + 1)) * step(output);
        //! [mixed]
    }
    mixed = trace("mixed[n, d_model]", formula, mixed);
    lesson.expect_equal(
        "experts() gives the same", mixed,
        from_array<Matrix>(
            lesson.recording().at("changed." + first_mixture + "output").value));
}

/// How evenly the tokens are divided among the experts of a run's mixtures: Fedus et al.
/// 2022, section 2.2.
void weigh_balance(Lesson& lesson, std::string_view scope, std::size_t layer)
{
    const std::string mixture =
        std::string(scope) + ".layers." + std::to_string(layer) + ".feed_forward.";
    const Matrix chosen =
                     from_array<Matrix>(lesson.recording().at(mixture + "chosen").value),
                 scores =
                     from_array<Matrix>(lesson.recording().at(mixture + "scores").value);
    const Trace balance = lesson.trace().scope("balance");
    const Trace of_run = balance.scope(scope);
    const Trace trace = of_run.scope("layer", layer);
    const std::size_t experts = scores.shape(1);
    //! [balance]
    const Vector share =
        trace("share[experts]", "mean(1 * " + mixture + "chosen, axis=0) / 2",
              Vector(mean_along(chosen, 0) / 2.0));
    const Vector score = trace("score[experts]", "mean(" + mixture + "scores, axis=0)",
                               mean_along(scores, 0));
    const double imbalance =
        trace("imbalance", std::to_string(experts) + " * sum(share * score)",
              static_cast<double>(experts) * sum_all(Vector(share * score)));
    //! [balance]
    lesson.table({"largest share of an expert", "balancing term"},
                 {{max_all(share), imbalance}});
}

void teach(Lesson& lesson)
{
    lesson.heading("1. What four published models store, and what a token uses");
    count_published(lesson);

    lesson.heading("2. A small mixture reads a story");
    const MixtureModel model = mixture_model();
    const Integers ids = lesson.input(
        "ids[n]", model.ids("Lily had a red ball . She took the ball to the park ."));
    const auto& mixture =
        std::get<ExpertsWeights>(model.balanced.layers.front().feed_forward);
    const Routing routing = routing_of(lesson, mixture.experts.size());
    read(lesson, "balanced", ids, model.balanced, model.description());

    lesson.heading("3. With one expert off");
    read(lesson, "changed", ids, rerouted(model.balanced, routing),
         model.description(static_cast<std::size_t>(routing.top(0))));

    lesson.heading("4. The choice and the mixture by hand");
    mix(lesson, routing);

    lesson.heading("5. Trained without the balancing term");
    read(lesson, "unbalanced", ids, model.unbalanced, model.description());
    for (const std::string_view scope : {"balanced", "unbalanced"})
        for (const std::size_t layer : {std::size_t{0}, std::size_t{1}})
            weigh_balance(lesson, scope, layer);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("26_experts", argc, argv, teach); }
