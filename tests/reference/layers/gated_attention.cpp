// Gated attention: a gate for each feature of the heads; see tests/golden/gated_attention.py.

#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/talking_heads.hpp"

#include "examples.hpp"
#include "golden.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/formula/gradient.hpp"

#include <map>

using namespace attn;
using namespace attn::test;

namespace {

/// The steps of one case, the weights that are among them, and its gradients.
struct GatedCase {
    Golden steps = {};
    std::map<std::string, Array> gradients = {}; ///< and `seed`

    bool has(const std::string& step) const
    {
        return std::ranges::find(steps, step, &Golden::value_type::first) != steps.end();
    }
    template <class T>
    T get(const std::string& step) const
    {
        return from_array<T>(std::ranges::find(steps, step, &Golden::value_type::first)->second);
    }
    LinearWeights map(const std::string& name) const
    {
        LinearWeights weights{get<Matrix>(name + "_weights")};
        if (has(name + "_bias"))
            weights.bias = get<Vector>(name + "_bias");
        return weights;
    }
    MultiHeadWeights weights() const
    {
        return {.query = map("query"),
                .key = map("key"),
                .value = map("value"),
                .output = map("output"),
                .query_norm = RmsNormWeights{get<Vector>("query_norm.gain")},
                .key_norm = RmsNormWeights{get<Vector>("key_norm.gain")},
                .gate = map("gate")};
    }

    template <Sequence T>
    void compute(const Trace& trace) const
    {
        const MultiHeadOptions options{.heads = 4,
                                       .causal = Causal::bottom_right,
                                       .positions = HeadPositions::rotary,
                                       .rotary = {.base = 100, .layout = RotaryLayout::halves, .features = 2},
                                       .norm = {.epsilon = 1e-6, .adds_one = true}};
        if (has("past_keys"))
            cached_self_attention(get<T>("x"), KeyValueCacheOf<T>{get<T>("past_keys"), get<T>("past_values")},
                                  weights(), options, trace);
        else
            multi_head_attention(get<T>("x"), weights(), options, trace);
    }
    void run(const Trace& trace) const
    {
        const bool is_batch = std::ranges::find(steps, "x", &Golden::value_type::first)->second.rank() == 3;
        is_batch ? compute<Tensor3>(trace) : compute<Matrix>(trace);
    }
};

std::map<std::string, GatedCase> gated_cases()
{
    std::map<std::string, GatedCase> result;
    for (const auto& [path, array] : read_golden("gated_attention")) {
        const std::size_t dot = path.find('.');
        GatedCase& of = result[path.substr(0, dot)];
        const std::string step = path.substr(dot + 1);
        if (step == "seed" || step.starts_with("grad."))
            of.gradients[step] = array;
        else
            of.steps.emplace_back(step, array);
    }
    return result;
}

MultiHeadWeights gated_heads(Numbers& numbers)
{
    MultiHeadWeights weights = random_heads(numbers); // 6 features, heads together as wide
    weights.gate = random_linear(numbers, weights.query.weight.shape(0), weights.value.weight.shape(1));
    return weights;
}

} // namespace

std::vector<GoldenCase> gated_attention_cases()
{
    std::vector<GoldenCase> result;
    for (const auto& [name, of] : gated_cases())
        result.push_back({name, of.steps, [of = of](const Trace& trace) { of.run(trace); }});
    return result;
}

TEST_CASE("every step of gated attention is that of Qwen3-Next, all at once and with a cache",
          "[layers][gated_attention][golden]")
{
    const auto all = gated_cases();
    CHECK(all.size() == 4);
    for (const auto& [name, of] : all) {
        CAPTURE(name);
        Recorder recorder;
        of.run(Trace(recorder));
        CHECK(difference(recorder.recording(), of.steps) == "");
        CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    }
}

TEST_CASE("the gradients of gated attention are PyTorch's", "[layers][gated_attention][golden][gradient]")
{
    for (const auto& [name, of] : gated_cases()) {
        CAPTURE(name);
        Recorder recorder;
        of.run(Trace(recorder));
        const Recording result =
            formula::gradients(recorder.recording(), {.of = "output", .seed = of.gradients.at("seed")});
        CHECK(formula::verify(result).passed());
        const formula::StepNames names(result);
        for (const auto& [step, expected] : of.gradients) {
            if (step == "seed")
                continue;
            CAPTURE(step);
            const Array& found = result.steps.at(*names.find(step)).value;
            REQUIRE(found.shape == expected.shape);
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(found.values[i] == Approx(expected.values[i]).epsilon(1e-10).margin(1e-11));
        }
    }
}

TEST_CASE("an open gate leaves attention as it is, a closed one gives nothing, one between a share",
          "[layers][gated_attention][property]")
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(3, 6);
    MultiHeadWeights weights = gated_heads(numbers);
    weights.output->bias.reset();
    MultiHeadWeights plain = weights;
    plain.gate.reset();
    const Matrix expected = multi_head_attention(Sources(x, memory), plain, {.heads = 2}).output;
    const auto with_logit = [&](double logit) {
        MultiHeadWeights gated = weights;
        gated.gate->weight.fill(0);
        gated.gate->bias = Vector(Vector::shape_type{gated.gate->weight.shape(1)}, logit);
        return multi_head_attention(Sources(x, memory), gated, {.heads = 2}).output;
    };
    CHECK(close(with_logit(50), expected));
    CHECK(close(with_logit(0), Matrix(expected / 2)));
    CHECK(close(with_logit(-800), Matrix(expected * 0)));
    CHECK_FALSE(close(multi_head_attention(Sources(x, memory), weights, {.heads = 2}).output, expected));
}

TEST_CASE("the gate is made of the tokens that attend, also where keys and values are in a cache",
          "[layers][gated_attention][cache]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const MultiHeadWeights weights = gated_heads(numbers);
    const KeyValueCache of_memory{linear_by_hand(memory, weights.key), linear_by_hand(memory, weights.value)};
    CHECK(close(cached_cross_attention(x, of_memory, weights, {.heads = 2}).output,
                multi_head_attention(Sources(x, memory), weights, {.heads = 2}).output));
}

TEST_CASE("a gate is made after the heads, and the output map takes what it leaves", "[layers][gated_attention][steps]")
{
    Numbers numbers(3);
    MultiHeadWeights weights = gated_heads(numbers);
    weights.gate->bias.reset();
    const Matrix x = numbers.matrix(2, 6);
    const Recorder recorder =
        recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 2}, trace); });
    const Lines listed{"gate_weights | (d_model, h_d_v) | ", "gate | (n, h_d_v) | x @ gate_weights",
                       "gated | (n, h_d_v) | merged * sigmoid(gate)",
                       "output | (n, d_model) | gated @ output_weights + output_bias"};
    CHECK(different_among(listed, recorder) == "");

    weights.output.reset();
    const Recorder side_by_side = recorded([&](const Trace& trace) {
        CHECK(same_bits(multi_head_attention(x, weights, {.heads = 2}, trace).output,
                        multi_head_attention(x, weights, {.heads = 2}).output));
    });
    CHECK(row_of("output | (n, d_model) | = gated", side_by_side) == "output | (n, d_model) | = gated");
}

TEST_CASE("a gate of another size is refused, and one where none is computed", "[layers][gated_attention]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(2, 6);
    MultiHeadWeights weights = gated_heads(numbers);
    CHECK_THROWS_WITH(talking_heads_attention(x, {weights, numbers.matrix(2, 2), numbers.matrix(2, 2)}),
                      ContainsSubstring("and without a gate"));
    weights.gate = random_linear(numbers, 6, 5);
    Recorder recorder;
    CHECK_THROWS_WITH(
        multi_head_attention(x, weights, {.heads = 2}, Trace(recorder)),
        ContainsSubstring("multi_head_attention: gate weights (6, 5) do not fit, expected a column for each "
                          "of the ") &&
            ContainsSubstring(" features of 2 heads"));
    CHECK(recorder.steps().empty());
    weights.gate = random_linear(numbers, 5, weights.value.weight.shape(1));
    CHECK_THROWS_WITH(multi_head_attention(x, weights, {.heads = 2}), ContainsSubstring("and gate weights (5, "));
    const KeyValueCache memory{numbers.matrix(2, weights.key.weight.shape(1)),
                               numbers.matrix(2, weights.value.weight.shape(1))};
    CHECK_THROWS_WITH(cached_cross_attention(x, memory, weights, {.heads = 2}),
                      ContainsSubstring("x (2, 6) and gate weights (5, "));
}
