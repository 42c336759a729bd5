// Lesson 26: experts.
//
// In place of one feed-forward network stand several, and a router chooses a few of them
// for each token: more is stored than is computed. A small mixture that was trained with
// a balancing term, the router's choice by hand, and a mixture that was trained without.

#include "../lesson.hpp"
#include "../mixture.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/models/language_model.hpp"

#include <tuple>

using namespace attn;

namespace {

/// What the reader can move: how many experts each token has, what the router's logits
/// are divided by, and an expert that no token can have.
struct Routing {
    std::size_t top;
    Term<Vector> temperature, off;
};

// The helpers of teach(), which stand below it in this order.
void count_published(Lesson& lesson);
Routing routing_of(Lesson& lesson, std::size_t experts);
LanguageModelWeights rerouted(LanguageModelWeights weights, const Routing& routing);
void read(Lesson& lesson, std::string_view scope, const Integers& ids,
          const LanguageModelWeights& weights, const LanguageModelDescription& model);
void mix(Lesson& lesson, const Routing& routing);
void weigh_balance(Lesson& lesson, std::string_view scope, std::size_t layer);

void teach(Lesson& lesson)
{
    lesson.heading("1. What four published models store, and what a token uses");
    count_published(lesson);

    lesson.heading("2. A small mixture reads a story");
    const MixtureModel model = mixture_model();
    const Term ids = lesson.input(
        "ids[n]", model.ids("Lily had a red ball . She took the ball to the park ."));
    const auto& mixture =
        std::get<ExpertsWeights>(model.balanced.layers.front().feed_forward);
    const Routing routing = routing_of(lesson, mixture.experts.size());
    read(lesson, "balanced", *ids, model.balanced, model.description());

    lesson.heading("3. With one expert off");
    read(lesson, "changed", *ids, rerouted(model.balanced, routing),
         model.description(routing.top));

    lesson.heading("4. The choice and the mixture by hand");
    mix(lesson, routing);

    lesson.heading("5. Trained without the balancing term");
    read(lesson, "unbalanced", *ids, model.unbalanced, model.description());
    for (const std::string_view scope : {"balanced", "unbalanced"})
        for (const std::size_t layer : {std::size_t{0}, std::size_t{1}})
            weigh_balance(lesson, scope, layer);
}

/// Numbers in the networks of four published models, and how many of them a token uses.
void count_published(Lesson& lesson)
{
    const Trace published = lesson.trace().scope("published");
    const WholeNumbers whole(published);
    // Mixtral 8x7B, Qwen3-30B-A3B, gpt-oss-120b, DeepSeek-V3 (its layers with experts)
    const Term layers = whole.given("layers[models]", {32, 48, 36, 58});
    const Term routed = whole.given("experts[models]", {8, 128, 128, 256});
    const Term top = whole.given("top[models]", {2, 8, 4, 8});
    const Term shared = whole.given("shared[models]", {0, 0, 0, 1});
    const Term d_model = whole.given("d_model[models]", {4096, 2048, 2880, 7168});
    const Term d_ff = whole.given("d_ff[models]", {14336, 768, 2880, 2048});
    const Term each = whole("each[models]", 3 * d_model * d_ff);
    const Term stored = whole("stored[models]", layers * (routed + shared) * each);
    const Term used = whole("used[models]", layers * (top + shared) * each);
    std::ignore = published("share[models]", used / stored);
}

Routing routing_of(Lesson& lesson, std::size_t experts)
{
    const Term top = lesson.input("top[one]", Integers{2});
    const Term temperature = lesson.input("temperature[one]", Vector{1});
    const Term off = lesson.input("off[one]", Integers{2});
    const auto count = static_cast<std::int64_t>(experts);
    const std::int64_t open = (*off)(0) < 0 || (*off)(0) >= count ? count : count - 1;
    if ((*top)(0) < 1 || (*top)(0) > open)
        throw Error("top counts experts of each token: expected 1 to " +
                    std::to_string(open) + ", found " + std::to_string((*top)(0)));
    if (!((*temperature)(0) > 0))
        throw Error(
            "temperature divides the router's logits: expected more than 0, found " +
            exact_text((*temperature)(0)));
    return {static_cast<std::size_t>((*top)(0)), temperature, reals(off)};
}

/// The same model with another router: its map is divided, and the choice of one expert
/// is made impossible.
LanguageModelWeights rerouted(LanguageModelWeights weights, const Routing& routing)
{
    const double off = (*routing.off)(0);
    for (BlockWeights& layer : weights.layers) {
        auto& mixture = std::get<ExpertsWeights>(layer.feed_forward);
        mixture.router.weight /= (*routing.temperature)(0);
        Vector bias = xt::zeros<double>({mixture.experts.size()});
        if (off >= 0 && off < static_cast<double>(bias.size()))
            bias(static_cast<std::size_t>(off)) = -10; // scores are at most 1
        mixture.correction_bias = bias;
    }
    return weights;
}

/// The model's probabilities of what follows each word.
void read(Lesson& lesson, std::string_view scope, const Integers& ids,
          const LanguageModelWeights& weights, const LanguageModelDescription& model)
{
    const Trace inside = lesson.trace().scope(scope, {{"ids", "ids"}});
    const Term logits =
        recorded(language_model(ids, weights, model, inside), "logits", inside);
    std::ignore = inside("chances[n, vocabulary]", softmax(logits));
}

const std::string first_mixture = "layers.0.feed_forward.";

/// The first layer's choice and mixture, from the router's logits and from what each
/// expert makes of each token.
void mix(Lesson& lesson, const Routing& routing)
{
    const std::string balanced = "balanced." + first_mixture;
    const Trace trace =
        lesson.trace().scope("hand", {{"logits", balanced + "router_logits"},
                                      {"temperature", "temperature"},
                                      {"off", "off"}});
    const Term logits(recorded<Matrix>(lesson, balanced + "router_logits"),
                      trace.known("logits"));
    const std::size_t experts = logits.shape(1);
    const Term numbers = arange(number(static_cast<double>(experts), trace));
    //! [mix]
    const Term open = trace("open[n, experts]", where(in_front(numbers) == routing.off,
                                                      number(minus_infinity, trace),
                                                      logits / routing.temperature));
    const Term scores = trace("scores[n, experts]", softmax(open));
    const Term chosen = trace("chosen[n, experts]", top_k(scores, routing.top));
    const Term kept = trace("chosen_scores[n, experts]", where(chosen, scores, 0));
    const Term weights =
        trace("weights[n, experts]", kept / each_row(sum_along(kept, 1)));
    //! [mix]

    //! [mixed]
    Term<Matrix> sum;
    for (std::size_t e = 0; e < experts; ++e) {
        const std::string expert = balanced + "expert." + std::to_string(e);
        const Term part = matrix_columns(weights, e, e + 1) *
                          recorded<Matrix>(lesson, expert + ".output");
        sum = e == 0 ? part : sum + part;
    }
    const Term mixed = trace("mixed[n, d_model]", sum);
    //! [mixed]
    lesson.expect_equal("experts() gives the same", mixed,
                        recorded<Matrix>(lesson, "changed." + first_mixture + "output"));
}

/// How evenly the tokens are divided among the experts of a run's mixtures: Fedus et al.
/// 2022, section 2.2.
void weigh_balance(Lesson& lesson, std::string_view scope, std::size_t layer)
{
    const std::string mixture =
        std::string(scope) + ".layers." + std::to_string(layer) + ".feed_forward.";
    const Term chosen = recorded<Mask>(lesson, mixture + "chosen");
    const Term scores = recorded<Matrix>(lesson, mixture + "scores");
    const Trace balance = lesson.trace().scope("balance");
    const Trace of_run = balance.scope(scope);
    const Trace trace = of_run.scope("layer", layer);
    const auto experts = static_cast<double>(scores.shape(1));
    //! [balance]
    const Term share = trace("share[experts]", mean_along(ones(chosen), 0) / 2);
    const Term score = trace("score[experts]", mean_along(scores, 0));
    const Term imbalance = trace("imbalance", experts * sum_all(share * score));
    //! [balance]
    lesson.table({"largest share of an expert", "balancing term"},
                 {{*max_all(share), *imbalance}});
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("26_experts", argc, argv, teach); }
