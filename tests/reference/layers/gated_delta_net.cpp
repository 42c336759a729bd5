#include "attn/reference/layers/gated_delta_net.hpp"

#include "laws.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// Tokens of 6 features; one head of keys for two of values.
GatedDeltaNetWeights random_delta_net(Numbers& numbers, std::size_t key_heads = 1, std::size_t heads = 2,
                                      std::size_t d_k = 3, std::size_t d_v = 2, std::size_t width = 3)
{
    const std::size_t keys = key_heads * d_k, values = heads * d_v;
    const auto map = [&](std::size_t in, std::size_t out) { return random_linear(numbers, in, out, false); };
    return {.query = map(6, keys),
            .key = map(6, keys),
            .value = map(6, values),
            .gate = map(6, values),
            .beta = map(6, heads),
            .decay = map(6, heads),
            .kernel = numbers.tensor3(2 * keys + values, 1, width),
            .dt_bias = numbers.vector(heads),
            .a_log = numbers.vector(heads),
            .norm = {numbers.vector(d_v)},
            .output = map(values, 6)};
}

GatedDeltaNetOptions in_chunks(std::optional<std::size_t> chunk, std::size_t key_heads = 1)
{
    return {.key_heads = key_heads, .chunk = chunk};
}

Matrix some_tokens(const Matrix& x, std::size_t begin, std::size_t end)
{
    std::vector<std::size_t> order;
    for (std::size_t i = begin; i < end; ++i)
        order.push_back(i);
    return rows_by_hand(x, order);
}

double softplus_by_hand(double x) { return std::log(1 + std::exp(x)); }
double silu_by_hand(double x) { return x / (1 + std::exp(-x)); }

/// The recurrence of one head, number by number, as the paper writes it: S (I - beta k k^T), with S from keys to values.
Matrix delta_rule_by_hand(const Matrix& q, const Matrix& k, const Matrix& v, const std::vector<double>& decay,
                          const std::vector<double>& beta)
{
    const std::size_t n = k.shape(0), d_k = k.shape(1), d_v = v.shape(1);
    std::vector<std::vector<double>> state(d_v, std::vector<double>(d_k, 0));
    Matrix output(Matrix::shape_type{n, d_v}, 0.0);
    for (std::size_t t = 0; t < n; ++t) {
        auto next = state;
        for (std::size_t i = 0; i < d_v; ++i)
            for (std::size_t j = 0; j < d_k; ++j) {
                double forgotten = state[i][j];
                for (std::size_t l = 0; l < d_k; ++l)
                    forgotten -= beta[t] * state[i][l] * k(t, l) * k(t, j);
                next[i][j] = decay[t] * forgotten + beta[t] * v(t, i) * k(t, j);
            }
        state = next;
        for (std::size_t i = 0; i < d_v; ++i)
            for (std::size_t j = 0; j < d_k; ++j)
                output(t, i) += state[i][j] * q(t, j);
    }
    return output;
}

/// A whole layer of one head, number by number.
Matrix delta_net_by_hand(const Matrix& x, const GatedDeltaNetWeights& weights)
{
    const std::size_t n = x.shape(0), d_k = weights.key.weight.shape(1), width = weights.kernel.shape(2);
    const Matrix mixed = concat_columns(
        {linear_by_hand(x, weights.query), linear_by_hand(x, weights.key), linear_by_hand(x, weights.value)});
    Matrix activated = mixed;
    for (std::size_t t = 0; t < n; ++t)
        for (std::size_t j = 0; j < mixed.shape(1); ++j) {
            double sum = 0;
            for (std::size_t back = 0; back < width && back <= t; ++back)
                sum += weights.kernel(j, 0, width - 1 - back) * mixed(t - back, j);
            activated(t, j) = silu_by_hand(sum);
        }
    const auto of_length_one = [&](std::size_t first, double scale) {
        Matrix part = columns_by_hand(activated, first, first + d_k);
        for (std::size_t t = 0; t < n; ++t) {
            double squares = 1e-6;
            for (std::size_t j = 0; j < d_k; ++j)
                squares += part(t, j) * part(t, j);
            for (std::size_t j = 0; j < d_k; ++j)
                part(t, j) *= scale / std::sqrt(squares);
        }
        return part;
    };
    const Matrix logits = linear_by_hand(x, weights.beta), inputs = linear_by_hand(x, weights.decay);
    std::vector<double> decay, beta;
    for (std::size_t t = 0; t < n; ++t) {
        beta.push_back(1 / (1 + std::exp(-logits(t, 0))));
        decay.push_back(std::exp(-std::exp(weights.a_log(0)) * softplus_by_hand(inputs(t, 0) + weights.dt_bias(0))));
    }
    Matrix read = delta_rule_by_hand(of_length_one(0, 1 / std::sqrt(static_cast<double>(d_k))), of_length_one(d_k, 1),
                                     columns_by_hand(activated, 2 * d_k, activated.shape(1)), decay, beta);
    const Matrix gate = linear_by_hand(x, weights.gate);
    read = rms_norm(read, weights.norm, {.epsilon = 1e-6});
    for (std::size_t i = 0; i < read.size(); ++i)
        read.data()[i] *= silu_by_hand(gate.data()[i]);
    return linear_by_hand(read, weights.output);
}

template <Sequence T>
bool close_delta_nets(const GatedDeltaNetOf<T>& left, const GatedDeltaNetOf<T>& right)
{
    const auto near = [](const auto& a, const auto& b) {
        return shape_of(a) == shape_of(b) && xt::amax(xt::abs(a - b))() <= 1e-12;
    };
    return near(left.output, right.output) && near(left.cache.conv_state, right.cache.conv_state) &&
           near(left.cache.recurrent_state, right.cache.recurrent_state);
}

template <class Change>
std::string delta_net_refusal(const GatedDeltaNetWeights& right, const Change& change,
                              const GatedDeltaNetOptions& options = in_chunks({}))
{
    GatedDeltaNetWeights weights = right;
    change(weights);
    Recorder recorder;
    try {
        gated_delta_net(Matrix(Matrix::shape_type{3, 6}, 1.0), weights, options, Trace(recorder));
    } catch (const Error& error) {
        return recorder.steps().empty() ? error.what() : "too late";
    }
    return "";
}

} // namespace

TEST_CASE("a gated DeltaNet is the recurrence of its paper", "[layers][gated_delta_net]")
{
    Numbers numbers(1);
    for (const std::size_t width : {1, 2, 4}) {
        CAPTURE(width);
        const Matrix x = numbers.matrix(6, 6);
        const GatedDeltaNetWeights weights = random_delta_net(numbers, 1, 1, 3, 2, width);
        CHECK(close(gated_delta_net(x, weights).output, delta_net_by_hand(x, weights)));
        CHECK(close(gated_delta_net(x, weights, in_chunks(4)).output, delta_net_by_hand(x, weights)));
    }
}

TEST_CASE("chunks of any size give what tokens one after the other do", "[layers][gated_delta_net][property]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(7, 6);
    const Tensor3 batch = numbers.tensor3(2, 7, 6);
    for (const std::size_t key_heads : {1, 2}) {
        const GatedDeltaNetWeights weights = random_delta_net(numbers, key_heads);
        const auto of_sequence = gated_delta_net(x, weights, in_chunks({}, key_heads));
        const auto of_batch = gated_delta_net(batch, weights, in_chunks({}, key_heads));
        for (const std::size_t chunk : {1, 2, 3, 7, 64}) {
            CAPTURE(key_heads, chunk);
            CHECK(close_delta_nets(gated_delta_net(x, weights, in_chunks(chunk, key_heads)), of_sequence));
            CHECK(close_delta_nets(gated_delta_net(batch, weights, in_chunks(chunk, key_heads)), of_batch));
        }
    }
}

TEST_CASE("a long chunk whose decay goes below the smallest number is what its tokens are one after the other",
          "[layers][gated_delta_net][property]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(64, 6);
    GatedDeltaNetWeights weights = random_delta_net(numbers);
    weights.a_log = Vector{5, -9}; // one head forgets within a token, the other nothing
    CHECK(close_delta_nets(gated_delta_net(x, weights, in_chunks(64)), gated_delta_net(x, weights, in_chunks({}))));
}

TEST_CASE("a value that is written again under its key replaces the old one", "[layers][gated_delta_net][property]")
{
    // Nothing decays, every token is written whole, and all tokens are alike.
    Numbers numbers(4);
    GatedDeltaNetWeights weights = random_delta_net(numbers, 1, 1, 3, 2, 1);
    weights.beta.bias = Vector{800};
    weights.decay.bias = Vector{-800};
    const Matrix token = numbers.matrix(1, 6);
    Matrix x = token;
    for (int i = 0; i < 3; ++i)
        x = concat_rows(x, token);
    const auto once = gated_delta_net(token, weights), often = gated_delta_net(x, weights);
    for (std::size_t i = 0; i < once.cache.recurrent_state.size(); ++i)
        CHECK(often.cache.recurrent_state.data()[i] ==
              Approx(once.cache.recurrent_state.data()[i]).epsilon(1e-4).margin(1e-6)); // epsilon: keys a little short
}

TEST_CASE("with a cache, tokens one by one or some at a time give what all at once do",
          "[layers][gated_delta_net][cache]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(5, 6);
    for (const std::size_t width : {1, 3, 8})
        for (const std::size_t at_a_time : {1, 2, 5})
            for (const std::optional<std::size_t> chunk : {std::optional<std::size_t>{}, {2}}) {
                CAPTURE(width, at_a_time, chunk.has_value());
                const GatedDeltaNetWeights weights = random_delta_net(numbers, 1, 2, 3, 2, width);
                Matrix output(Matrix::shape_type{0, 6});
                PastOfDeltaNet<Matrix> past;
                for (std::size_t begin = 0; begin < 5; begin += at_a_time) {
                    const Matrix added = some_tokens(x, begin, std::min<std::size_t>(begin + at_a_time, 5));
                    auto next = gated_delta_net(added, past, weights, in_chunks(chunk));
                    output = concat_rows(output, next.output);
                    past = next.cache;
                }
                const auto whole = gated_delta_net(x, weights, in_chunks({}));
                CHECK(close_delta_nets({output, *past}, whole));
                CHECK(shape_of(past->conv_state) == Shape{width - 1, 10});
                CHECK(shape_of(past->recurrent_state) == Shape{2, 3, 2});
            }
}

TEST_CASE("a batch gives what each of its sequences gives, and later tokens change no earlier output",
          "[layers][gated_delta_net][batch][property]")
{
    Numbers numbers(6);
    const Tensor3 x = numbers.tensor3(2, 5, 6);
    const GatedDeltaNetWeights weights = random_delta_net(numbers);
    for (const std::optional<std::size_t> chunk : {std::optional<std::size_t>{}, {2}}) {
        const auto all = gated_delta_net(x, weights, in_chunks(chunk));
        for (std::size_t b = 0; b < 2; ++b) {
            const Matrix own = sequence_by_hand(x, b);
            const auto alone = gated_delta_net(own, weights, in_chunks(chunk));
            CHECK(close(sequence_by_hand(all.output, b), alone.output));
            CHECK(close(sequence_by_hand(all.cache.conv_state, b), alone.cache.conv_state));
            const auto shorter = gated_delta_net(some_tokens(own, 0, 3), weights, in_chunks(chunk));
            CHECK(close(some_tokens(alone.output, 0, 3), shorter.output));
        }
    }
}

TEST_CASE("a traced gated DeltaNet gives the same bits, and every formula holds", "[layers][gated_delta_net][trace]")
{
    Numbers numbers(7);
    const Tensor3 x = numbers.tensor3(2, 3, 6), before = numbers.tensor3(2, 2, 6);
    const GatedDeltaNetWeights weights = random_delta_net(numbers);
    const auto past = gated_delta_net(before, weights, in_chunks({})).cache;
    for (const std::optional<std::size_t> chunk : {std::optional<std::size_t>{}, {1}, {2}, {9}}) {
        traced([&](const Trace& trace) { return gated_delta_net(x, past, weights, in_chunks(chunk), trace).output; });
    }
}

TEST_CASE("the doc comments of the gated DeltaNet list its steps", "[layers][gated_delta_net][steps][source]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(2, 6);
    const GatedDeltaNetWeights weights = random_delta_net(numbers, 1, 1, 3, 2, 2);
    const std::string header = "reference/layers/gated_delta_net.hpp";

    const Recorder steps = recorded([&](const Trace& trace) { gated_delta_net(x, weights, {}, trace); });
    const Lines of_steps = promised(header, "gated_delta_net");
    REQUIRE(of_steps.size() == 50);
    CHECK(different_among(of_steps, steps) == "");
    CHECK(steps.steps().back().options == StepOptions{{"heads", "1"}, {"key_heads", "1"}, {"epsilon", "1e-06"}});

    const Recorder chunks = recorded([&](const Trace& trace) { gated_delta_net(x, weights, in_chunks(2), trace); });
    Lines of_chunk = promised(header, "struct DeltaNetChunk");
    REQUIRE(of_chunk.size() == 20);
    for (std::string& row : of_chunk)
        row = "head.0.chunk.0." + row;
    CHECK(different_among(of_chunk, chunks) == "");
}

TEST_CASE("a gated DeltaNet refuses tokens, weights and caches that disagree", "[layers][gated_delta_net]")
{
    Numbers numbers(9);
    const GatedDeltaNetWeights right = random_delta_net(numbers);
    CHECK(delta_net_refusal(right, [](auto&) {}) == "");
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.beta = {numbers.matrix(5, 2)}; }),
               ContainsSubstring("gated_delta_net: x (3, 6) and beta weights (5, 2) must agree in d_model"));
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.query = {numbers.matrix(6, 4)}; }),
               ContainsSubstring("query weights (6, 4) and key weights (6, 3) must agree in g d_k"));
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.gate = {numbers.matrix(6, 3)}; }),
               ContainsSubstring("value weights (6, 4) and gate weights (6, 3) must agree in h d_v"));
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.output = {numbers.matrix(3, 6)}; }),
               ContainsSubstring("value weights (6, 4) and output weights (3, 6) must agree in h d_v"));
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.decay = {numbers.matrix(6, 1)}; }),
               ContainsSubstring("beta weights (6, 2) and decay weights (6, 1) must agree in h"));
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.dt_bias = numbers.vector(3); }),
               ContainsSubstring("decay weights (6, 2) and dt_bias (3,) must agree in h"));
    CHECK_THAT(delta_net_refusal(right, [&](auto& w) { w.a_log = numbers.vector(1); }),
               ContainsSubstring("decay weights (6, 2) and a_log (1,) must agree in h"));
    CHECK(delta_net_refusal(right, [&](auto& w) { w.norm.gain = numbers.vector(4); }) ==
          "gated_delta_net: the gain (4,) of the norm does not fit, expected d_v = 2 features, those of one head's "
          "values");
    CHECK(delta_net_refusal(right, [&](auto& w) { w.kernel = numbers.tensor3(9, 1, 3); }) ==
          "gated_delta_net: kernel (9, 1, 3) does not fit, expected (10, 1, width): a filter for each feature of "
          "queries, keys and values");
    const auto nothing = [](GatedDeltaNetWeights&) {};
    CHECK(delta_net_refusal(right, nothing, in_chunks({}, 3)) ==
          "gated_delta_net: 2 heads can't be divided evenly among 3 heads of keys");
    CHECK(delta_net_refusal(right, nothing, in_chunks({}, 2)) ==
          "gated_delta_net: key weights (6, 3) can't be divided evenly among 2 heads");
    CHECK(delta_net_refusal(right, nothing, in_chunks(0)) ==
          "gated_delta_net: a chunk of 0 tokens, expected at least 1");
    CHECK_THROWS_WITH(gated_delta_net(Matrix(Matrix::shape_type{0, 6}), right, in_chunks({})),
                      ContainsSubstring("has no tokens, expected at least one"));
    const auto with_past = [&](const Matrix& conv, const Tensor3& recurrent) {
        return gated_delta_net(numbers.matrix(3, 6), GatedDeltaNetCache{conv, recurrent}, right, in_chunks({}));
    };
    CHECK_THROWS_WITH(with_past(numbers.matrix(3, 10), numbers.tensor3(2, 3, 2)),
                      ContainsSubstring("past_conv_state (3, 10) does not fit, expected (2, 10)"));
    CHECK_THROWS_WITH(with_past(numbers.matrix(2, 10), numbers.tensor3(2, 2, 3)),
                      ContainsSubstring("past_recurrent_state (2, 2, 3) does not fit, expected (2, 3, 2)"));
}
