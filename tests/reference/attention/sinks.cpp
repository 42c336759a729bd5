// Attention sinks: in one head, in heads, in multi-head attention; see tests/golden/sinks.py.

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/talking_heads.hpp"

#include "golden.hpp"
#include "reference/layers/examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/heads.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <map>

using namespace attn;
using namespace attn::test;

namespace {

/// What a case has to give, its gradients apart.
struct SinksCase {
    Golden steps = {};
    std::map<std::string, Array> gradients = {}; ///< and `seed`

    const Array& array(std::string_view name) const
    {
        return std::ranges::find(steps, name, &Golden::value_type::first)->second;
    }

    template <Attending T>
    void compute_as(const Trace& trace) const
    {
        AttentionOptions options{.sinks = from_array<Vector>(array("sinks"))};
        if (std::ranges::find(steps, "mask", &Golden::value_type::first) != steps.end())
            options.mask = array("mask").rank() == 2 ? AnyMask(from_array<Mask>(array("mask")))
                                                     : AnyMask(from_array<BatchMask>(array("mask")));
        scaled_dot_product_attention(from_array<T>(array("queries")), from_array<T>(array("keys")),
                                     from_array<T>(array("values")), options, trace);
    }
    void compute(const Trace& trace) const
    {
        const std::size_t rank = array("queries").rank();
        rank == 2 ? compute_as<Matrix>(trace) : rank == 3 ? compute_as<Tensor3>(trace) : compute_as<Tensor4>(trace);
    }
    Recording run() const
    {
        Recorder recorder;
        compute(Trace(recorder));
        return recorder.recording();
    }
};

std::map<std::string, SinksCase> cases()
{
    std::map<std::string, SinksCase> result;
    for (const auto& [path, array] : read_golden("sinks")) {
        const std::size_t dot = path.find('.');
        SinksCase& of = result[path.substr(0, dot)];
        const std::string step = path.substr(dot + 1);
        if (step == "seed" || step.starts_with("grad."))
            of.gradients[step] = array;
        else
            of.steps.emplace_back(step, array);
    }
    return result;
}

const Array& value_of(const Recording& recording, const std::string& path)
{
    return recording.steps.at(*formula::StepNames(recording).find(path)).value;
}

/// The weights of softmax with one more score, by hand.
Matrix weights_by_hand(const Matrix& scores, double sink)
{
    Matrix weights = xt::exp(scores);
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        double total = std::exp(sink);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            total += weights(i, j);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            weights(i, j) /= total;
    }
    return weights;
}

MultiHeadWeights heads_with_sinks(Numbers& numbers, std::size_t heads)
{
    MultiHeadWeights weights = random_heads(numbers);
    weights.sinks = numbers.vector(heads);
    return weights;
}

} // namespace

std::vector<GoldenCase> sinks_cases()
{
    std::vector<GoldenCase> result;
    for (const auto& [name, of] : cases())
        result.push_back({name, of.steps, [of = of](const Trace& trace) { of.compute(trace); }});
    return result;
}

TEST_CASE("every step of attention with sinks is PyTorch's", "[attention][sinks][golden]")
{
    const auto all = cases();
    CHECK(all.size() == 5);
    for (const auto& [name, of] : all) {
        CAPTURE(name);
        const Recording recording = of.run();
        CHECK(difference(recording, of.steps) == "");
        CHECK(formula::verify(recording).passed());
    }
}

TEST_CASE("the gradients of sinks, queries, keys and values are PyTorch's", "[attention][sinks][golden][gradient]")
{
    for (const auto& [name, of] : cases()) {
        CAPTURE(name);
        const Recording result = formula::gradients(of.run(), {.of = "context", .seed = of.gradients.at("seed")});
        CHECK(formula::verify(result).passed());
        for (const auto& [step, expected] : of.gradients) {
            if (step == "seed")
                continue;
            CAPTURE(step);
            const Array& found = value_of(result, step);
            REQUIRE(found.shape == expected.shape);
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(found.values[i] == Approx(expected.values[i]).epsilon(1e-11).margin(1e-12));
        }
    }
}

TEST_CASE("the steps with a sink are the ones that WeighingOptions lists", "[attention][sinks][steps][source]")
{
    Numbers numbers(1);
    const Mask mask = numbers.mask(2, 3);
    const Recorder recorder = recorded([&](const Trace& trace) {
        scaled_dot_product_attention(numbers.matrix(2, 4), numbers.matrix(3, 4), numbers.matrix(3, 2),
                                     {.mask = mask, .sinks = Vector{0.5}}, trace);
    });
    const Lines listed =
        with_numbers(promised("reference/attention/weigh.hpp", "struct WeighingOptions"), {{"N", "2"}, {"M", "3"}});
    REQUIRE(listed.size() == 5);
    const Lines found = kept(recorder);
    REQUIRE(found.size() == 13);
    CHECK(different_rows(listed, Lines(found.begin() + 7, found.begin() + 12)) == "");
    CHECK(recorder.steps().back().options ==
          StepOptions{{"mask", "given"}, {"bias", "none"}, {"scale", "1/sqrt(d_k)"}, {"sinks", "given"}});
}

TEST_CASE("a sink takes a share of each row, in every kind of attention that has a softmax", "[attention][sinks]")
{
    Numbers numbers(2);
    const Matrix queries = numbers.matrix(4, 3), keys = numbers.matrix(5, 3), values = numbers.matrix(5, 2);
    const Attention found = dot_product_attention(queries, keys, values, {.sinks = Vector{0.75}});
    CHECK(close(found.weights, weights_by_hand(matmul(queries, transpose(keys)), 0.75)));
    CHECK(close(found.context, matmul(found.weights, values)));
    const AdditiveWeights additive{numbers.matrix(3, 6), numbers.matrix(3, 6), numbers.vector(6)};
    const Matrix plain = additive_attention(queries, keys, values, additive).weights,
                 shared = additive_attention(queries, keys, values, additive, {.sinks = Vector{0.0}}).weights;
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 1; j < 5; ++j) // what is left is divided as before
            CHECK(shared(i, j) / shared(i, 0) == Approx(plain(i, j) / plain(i, 0)).epsilon(1e-12));
}

TEST_CASE("a query that can attend to nothing has weights and context 0 with a sink, too", "[attention][sinks][mask]")
{
    Numbers numbers(3);
    const Mask mask{{false, false}, {true, false}};
    const Attention found = scaled_dot_product_attention(numbers.matrix(2, 3), numbers.matrix(2, 3), Matrix{{1}, {2}},
                                                         {.mask = mask, .sinks = Vector{-800.0}});
    CHECK(same_bits(found.weights, Matrix{{0, 0}, {1, 0}})); // and a sink far below the scores has no share
    CHECK(same_bits(found.context, Matrix{{0}, {1}}));
}

TEST_CASE("each head has its own sink: multi-head attention is its heads, with a cache, too",
          "[layers][multi_head][sinks]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(5, 6);
    MultiHeadWeights weights = heads_with_sinks(numbers, 2);
    weights.output.reset();
    const MultiHeadOptions options{.heads = 2, .causal = Causal::bottom_right};
    const MultiHead all = multi_head_attention(x, weights, options);
    const Matrix query = linear_by_hand(x, weights.query), key = linear_by_hand(x, weights.key),
                 value = linear_by_hand(x, weights.value);
    for (std::size_t i = 0; i < 2; ++i) {
        const auto head = [&](const Matrix& packed) {
            const std::size_t width = packed.shape(1) / 2;
            return columns_by_hand(packed, i * width, (i + 1) * width);
        };
        const Attention alone =
            scaled_dot_product_attention(head(query), head(key), head(value),
                                         {.causal = Causal::bottom_right, .sinks = Vector{(*weights.sinks)(i)}});
        CHECK(close(all.weights[i], alone.weights));
        CHECK(close(head(all.output), alone.context));
    }

    const auto first = cached_self_attention(Matrix(xt::view(x, xt::range(0, 3), xt::all())), {}, weights, options);
    const auto then =
        cached_self_attention(Matrix(xt::view(x, xt::range(3, 5), xt::all())), first.cache, weights, options);
    CHECK(close(then.output, Matrix(xt::view(all.output, xt::range(3, 5), xt::all()))));
    const Tensor3 batch = batch_of(x, 1, 5);
    CHECK(close(multi_head_attention(batch, weights, options).output, batch_of(all.output, 1, 5)));
}

TEST_CASE("the sinks of all heads are one step with one gradient", "[layers][multi_head][sinks][gradient]")
{
    Numbers numbers(5);
    const MultiHeadWeights weights = heads_with_sinks(numbers, 2);
    const Tensor3 x = numbers.tensor3(2, 3, 6);
    const Recorder recorder =
        recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 2}, trace); });
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    const Lines steps = kept(recorder);
    for (const char* line :
         {"sinks | (h,) | ", "head.1.sinks | (one,) | sinks[1:2]",
          "head.1.sink_scores | (b, n, one) | repeat(repeat(sinks[None, None], 2, axis=0), 3, axis=1)"})
        CHECK(std::ranges::count(steps, line) == 1);
    const Recording result = formula::gradients(recorder.recording());
    CHECK(std::ranges::count(result.steps, "grad.sinks", &Step::path) == 1);
    for (const formula::GradientCheck& check : formula::check_gradients(result)) {
        CAPTURE(check.input, check.by_gradient, check.by_differences, check.error);
        CHECK(check.agrees());
    }
}

TEST_CASE("sinks that do not fit, and sinks that would have no effect, are refused", "[attention][sinks]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(3, 6);
    CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, {.sinks = Vector{1.0, 2.0}}),
                      "attention: sinks (2,) are for 2 heads, but there is 1");
    const Tensor4 heads = as_heads(numbers.tensor3(6, 2, 2), 2, 3);
    CHECK_THROWS_WITH(scaled_dot_product_attention(heads, heads, heads, {.sinks = Vector{1.0}}),
                      "attention: sinks (1,) are for 1 heads, but there are 3");
    CHECK_THROWS_WITH(
        dot_product_attention(x, x, x, {.normalization = Normalization::none, .sinks = Vector{1.0}}),
        "attention: sinks take a share of softmax, and the scores are not normalised: leave the sinks out");
    MultiHeadWeights weights = heads_with_sinks(numbers, 3);
    CHECK_THROWS_WITH(multi_head_attention(x, weights, {.heads = 2}),
                      "attention: sinks (3,) are for 3 heads, but there are 2");
    CHECK_FALSE(is_plain(weights, HeadPositions::none));
    CHECK_THROWS_WITH(talking_heads_attention(x, {weights, numbers.matrix(2, 2), numbers.matrix(2, 2)}),
                      ContainsSubstring("without norms of queries and keys or sinks"));
}
