// Lesson 23: well-known mistakes, right beside wrong.
//
// Wrong attention code seldom raises an error: the shapes fit, and training goes on. Here
// every well-known mistake is made once, in the step that it concerns, beside the right
// computation, with the change of the result.

#include "../lesson.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/scope.hpp"
#include "attn/mistakes/pitfalls.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/ops/random.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace attn;

namespace {

/// The inputs of all exhibits: small computations in which the mistakes are made.
struct Given {
    Term<Matrix> x, memory;
    EncoderLayerWeights weights;
};

using Show = void(const Given&, const Trace&);
Show show_sines, show_rotary, show_alibi, show_cached, show_post_norm, show_pre_norm;

struct Exhibit {
    std::string_view scope, title;
    Show* show;
};

constexpr Exhibit exhibits[] = {
    {"sines", "Sinusoidal positions", show_sines},
    {"rotary", "One head with rotary positions", show_rotary},
    {"alibi", "Two heads with ALiBi", show_alibi},
    {"cached", "Two queries, five keys, causal mask", show_cached},
    {"post", "A post-norm layer with ReLU and a causal mask", show_post_norm},
    {"pre", "A pre-norm layer with GELU", show_pre_norm},
};

/// A step, and what a mistake makes of it.
struct Wrong {
    Step right;
    Array mistaken;
    std::string formula; ///< that gives it
};

EncoderLayerWeights drawn_weights(RandomNumbers& numbers, std::size_t d_model,
                                  std::size_t d_ff);
std::optional<Wrong> made_in(const Exhibit& exhibit, const mistakes::Pitfall& pitfall,
                             const Recording& shown);
double change_by(const Exhibit& exhibit, const Given& given,
                 const mistakes::Pitfall& pitfall);
void show_mistake(Lesson& lesson, const mistakes::Pitfall& pitfall, const Wrong& wrong,
                  double change);

void teach(Lesson& lesson)
{
    lesson.heading("Given: two sequences, and the weights of one layer");
    RandomNumbers numbers(12);
    Given given;
    given.x = lesson.input("x[n, d_model]", numbers.matrix(4, 4));
    given.memory = lesson.input("memory[m, d_model]", numbers.matrix(5, 4));
    given.weights = drawn_weights(numbers, 4, 6);

    for (const Exhibit& exhibit : exhibits) {
        lesson.heading("Right: " + std::string(exhibit.title));
        exhibit.show(given, lesson.trace().scope(exhibit.scope));
    }

    const Recording shown = lesson.recording();
    std::string hidden; // the mistakes that change nothing
    for (const mistakes::Pitfall& pitfall : mistakes::pitfalls()) {
        if (!pitfall.is_exhibit)
            continue;
        std::optional<Wrong> wrong;
        const auto shows = [&](const Exhibit& exhibit) {
            return (wrong = made_in(exhibit, pitfall, shown)).has_value();
        };
        const auto exhibit = std::ranges::find_if(exhibits, shows);
        if (wrong)
            show_mistake(lesson, pitfall, *wrong, change_by(*exhibit, given, pitfall));
        else
            hidden += (hidden.empty() ? "" : ", ") + std::string(pitfall.id);
    }
    if (lesson.is_example())
        lesson.expect("every mistake shows in an exhibit" +
                          (hidden.empty() ? hidden : "; not so: " + hidden),
                      hidden.empty());
}

const MaskParts last_tokens{.causal = Causal::bottom_right};

LinearWeights drawn_map(RandomNumbers& numbers, std::size_t from, std::size_t to)
{
    Matrix weight = numbers.matrix(from, to);
    return {std::move(weight), numbers.vector(to)};
}

EncoderLayerWeights drawn_weights(RandomNumbers& numbers, std::size_t d_model,
                                  std::size_t d_ff)
{
    EncoderLayerWeights weights;
    weights.self_attention.query = drawn_map(numbers, d_model, d_model);
    weights.self_attention.key = drawn_map(numbers, d_model, d_model);
    weights.self_attention.value = drawn_map(numbers, d_model, d_model);
    weights.self_attention.output = drawn_map(numbers, d_model, d_model);
    weights.feed_forward.hidden = drawn_map(numbers, d_model, d_ff);
    weights.feed_forward.output = drawn_map(numbers, d_ff, d_model);
    for (LayerNormWeights* norm : {&weights.norm1, &weights.norm2}) {
        norm->gain = numbers.vector(d_model);
        norm->bias = numbers.vector(d_model);
    }
    return weights;
}

void show_sines(const Given&, const Trace& trace)
{
    sinusoidal_positions(5, 6, {}, trace);
}

void show_rotary(const Given& given, const Trace& trace)
{
    multi_head_attention(given.x, given.weights.self_attention,
                         {.heads = 1, .positions = HeadPositions::rotary}, trace);
}

void show_alibi(const Given& given, const Trace& trace)
{
    multi_head_attention(given.x, given.weights.self_attention,
                         {.heads = 2, .positions = HeadPositions::alibi}, trace);
}

/// Two queries, the newest tokens, attend to five keys, as with a cache.
void show_cached(const Given& given, const Trace& trace)
{
    const Term memory = trace.alias("memory", given.memory);
    //! [cached]
    const Term newest = trace("x[n, d_model]", slice(given.x, 0, 2));
    const OptionalMask mask =
        join_masks(newest.shape(0), memory.shape(0), last_tokens, trace);
    multi_head_attention(Sources(newest, memory), given.weights.self_attention,
                         {.heads = 1, .mask = mask}, trace);
    //! [cached]
}

void show_post_norm(const Given& given, const Trace& trace)
{
    const Term x = trace.alias("x", given.x);
    const OptionalMask mask = join_masks(x.shape(0), x.shape(0), last_tokens, trace);
    encoder_layer(x, given.weights, {.attention = {.heads = 2, .mask = mask}}, trace);
}

void show_pre_norm(const Given& given, const Trace& trace)
{
    encoder_layer(given.x, given.weights,
                  {.attention = {.heads = 2},
                   .feed_forward = {.activation = Activation::gelu},
                   .placement = NormPlacement::pre},
                  trace);
}

/// The last step of an exhibit, right or with a mistake in it.
Array result_of(const Exhibit& exhibit, const Given& given, mistakes::Mistaken* mistaken)
{
    Recorder recorder;
    Listeners listeners(mistaken == nullptr
                            ? std::vector<Listener*>{&recorder}
                            : std::vector<Listener*>{mistaken, &recorder});
    const Trace root(listeners);
    exhibit.show({root.given("x[n, d_model]", *given.x),
                  root.given("memory[m, d_model]", *given.memory), given.weights},
                 root.scope(exhibit.scope));
    return recorder.steps().back().value;
}

double largest_change(const Array& right, const Array& wrong)
{
    double largest = 0;
    for (std::size_t i = 0; i < right.size(); ++i)
        if (std::isfinite(right.values[i]) && std::isfinite(wrong.values[i]))
            largest = std::max(largest, std::abs(right.values[i] - wrong.values[i]));
    return largest;
}

/// The largest change of an exhibit's result by a mistake.
double change_by(const Exhibit& exhibit, const Given& given,
                 const mistakes::Pitfall& pitfall)
{
    mistakes::Mistaken mistaken(pitfall);
    return largest_change(result_of(exhibit, given, nullptr),
                          result_of(exhibit, given, &mistaken));
}

/// Makes a mistake in an exhibit; nothing where the exhibit has no such step, or where
/// the numbers stay the same.
std::optional<Wrong> made_in(const Exhibit& exhibit, const mistakes::Pitfall& pitfall,
                             const Recording& shown)
{
    const formula::StepNames names(shown);
    for (std::size_t i = 0; i < shown.steps.size(); ++i) {
        const Step& step = shown.steps[i];
        if (!step.path.starts_with(std::string(exhibit.scope) + "."))
            continue;
        const mistakes::StepOf step_of = [&](std::string_view name) {
            const std::optional<std::size_t> found = names.resolve(i, name);
            return found ? &shown.steps[*found] : nullptr;
        };
        //! [make]
        const std::optional<Array> mistaken =
            mistakes::mistaken_value(pitfall, step, step_of);
        if (mistaken && !identical(*mistaken, step.value))
            return Wrong{step, *mistaken,
                         *mistakes::mistaken_formula(pitfall, step, step_of)};
        //! [make]
    }
    return std::nullopt;
}

/// Calls a function with the trace of a scope that is written as a path:
/// "post.self_attn.head.0".
void inside(const Trace& trace, std::string_view path,
            const std::function<void(const Trace&)>& function)
{
    if (path.empty())
        return function(trace);
    const auto next = [](std::string_view& rest) {
        const std::string_view word = rest.substr(0, rest.find('.'));
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
        return word;
    };
    const std::string_view name = next(path);
    if (path.empty() || !std::isdigit(static_cast<unsigned char>(path.front())))
        return inside(trace.scope(name), path, function);
    const std::size_t index = std::stoul(std::string(next(path)));
    inside(trace.scope(name, index), path, function);
}

/// Records an array whose rank is known only now.
void record(const Trace& trace, std::string_view name, const Wrong& wrong,
            const std::string& formula)
{
    std::string label = std::string(name);
    for (const std::string& axis : wrong.right.axes)
        label += (label.size() == name.size() ? "[" : ", ") + axis;
    label += "]";
    if (wrong.right.value.type == ElementType::boolean)
        std::ignore = trace(label, formula, from_array<Mask>(wrong.mistaken));
    else if (wrong.right.value.rank() == 1)
        std::ignore = trace(label, formula, from_array<Vector>(wrong.mistaken));
    else
        std::ignore = trace(label, formula, from_array<Matrix>(wrong.mistaken));
}

/// Records right and wrong beside each other, under the step that is wrong.
void show_mistake(Lesson& lesson, const mistakes::Pitfall& pitfall, const Wrong& wrong,
                  double change)
{
    lesson.heading(std::string(pitfall.id) + ": " + std::string(pitfall.sentence));
    const std::string& path = wrong.right.path;
    const std::size_t dot = path.rfind('.');
    const std::string scope =
        path.substr(0, dot) + ".mistakes." + std::string(pitfall.id);
    inside(lesson.trace(), scope, [&](const Trace& trace) {
        trace.alias("right", path.substr(dot + 1));
        record(trace, "mistaken", wrong, wrong.formula);
    });
    std::ignore = lesson.trace().scope("changes")(pitfall.id, "", change);
    lesson.say(std::string(pitfall.why));
    lesson.say("Seen: " + std::string(pitfall.seen));
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("23_pitfalls", argc, argv, teach); }
