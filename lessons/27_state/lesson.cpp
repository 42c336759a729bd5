// Lesson 27: a state instead of a cache.
//
// Without softmax, attention can be summed up in one matrix that maps keys to values,
// however long the text is. What such a state keeps, how it forgets, how the delta rule
// writes into it, and how many pairs it can recall beside attention.

#include "../lesson.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/layers/gated_delta_net.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <tuple>

using namespace attn;

namespace {

/// The tokens of the first sections; the fourth has the key of the first again.
struct Tokens {
    Matrix queries, keys, values;

    std::size_t count() const { return keys.shape(0); }
};

std::string row_of(std::string_view step, std::size_t token)
{
    return std::string(step) + "[" + std::to_string(token) + ":" +
           std::to_string(token + 1) + "]";
}

Matrix row(const Matrix& matrix, std::size_t token)
{
    return xt::view(matrix, xt::range(token, token + 1), xt::all());
}

/// (Q K^T) V = Q (K^T V): without softmax the product can be taken the other way.
/// @return the scores
Matrix regroup(Lesson& lesson, const Tokens& tokens)
{
    const auto& [queries, keys, values] = tokens;
    const Trace plain = lesson.trace().scope(
        "plain", {{"queries", "queries"}, {"keys", "keys"}, {"values", "values"}});
    //! [regroup]
    const Matrix scores =
        plain("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const Matrix output =
        plain("output[n, d_v]", "scores @ values", matmul(scores, values));
    const Matrix state =
        plain("state[d_k, d_v]", "keys.T @ values", matmul(transpose(keys), values));
    const Matrix regrouped =
        plain("regrouped[n, d_v]", "queries @ state", matmul(queries, state));
    //! [regroup]
    lesson.expect_equal("both ways give the same", regrouped, output);
    return scores;
}

/// The state after a token, from the one before it.
/// @param key    (1, d_k)
/// @param value  (1, d_v)
/// @param rate   of decay, or of writing
using Write = Matrix (*)(const Trace& token, const Matrix& key, const Matrix& value,
                         const Matrix& previous, double rate);

//! [sum]
/// A sum: each pair of key and value is added.
Matrix add(const Trace& token, const Matrix& key, const Matrix& value,
           const Matrix& previous, double /*rate*/)
{
    return token("state[d_k, d_v]", "previous + key.T @ value",
                 Matrix(previous + matmul(transpose(key), value)));
}
//! [sum]

/// The same, and what was there before fades.
Matrix fade(const Trace& token, const Matrix& key, const Matrix& value,
            const Matrix& previous, double decay)
{
    return token("state[d_k, d_v]", "decay * previous + key.T @ value",
                 Matrix(decay * previous + matmul(transpose(key), value)));
}

//! [delta]
/// The delta rule: what the state has for the key is looked up, and the difference is
/// written.
Matrix correct(const Trace& token, const Matrix& key, const Matrix& value,
               const Matrix& previous, double beta)
{
    const Matrix recalled =
        token("recalled[one, d_v]", "key @ previous", matmul(key, previous));
    const Matrix delta = token("delta[one, d_v]", "beta * (value - recalled)",
                               Matrix(beta * (value - recalled)));
    return token("state[d_k, d_v]", "previous + key.T @ delta",
                 Matrix(previous + matmul(transpose(key), delta)));
}
//! [delta]

/// One token after the other writes into the state, and reads it.
Matrix recur(Lesson& lesson, std::string_view scope, const Tokens& tokens, Write write,
             double rate)
{
    const Trace inside = lesson.trace().scope(scope, {{"queries", "queries"},
                                                      {"keys", "keys"},
                                                      {"values", "values"},
                                                      {"decay", "decay"},
                                                      {"beta", "beta"}});
    Matrix state =
        inside("empty[d_k, d_v]", "0 * keys.T @ values",
               Matrix(xt::zeros<double>({tokens.keys.shape(1), tokens.values.shape(1)})));
    Matrix outputs(Matrix::shape_type{0, tokens.values.shape(1)});
    std::string formula, before = "empty";
    for (std::size_t t = 0; t < tokens.count(); ++t) {
        const Trace token = inside.scope("token", t, {{"previous", before}});
        const Matrix query =
            token("query[one, d_k]", row_of("queries", t), row(tokens.queries, t));
        const Matrix key = token("key[one, d_k]", row_of("keys", t), row(tokens.keys, t));
        const Matrix value =
            token("value[one, d_v]", row_of("values", t), row(tokens.values, t));
        state = write(token, key, value, state, rate);
        const Matrix output =
            token("output[one, d_v]", "query @ state", matmul(query, state));
        outputs = concat_rows(outputs, output);
        before = "token." + std::to_string(t) + ".state";
        formula += "token." + std::to_string(t) + ".output, ";
    }
    return inside("output[n, d_v]", "concat(" + formula + "axis=0)", outputs);
}

/// The sum and the fading sum as attention without softmax, by a mask.
void compare_with_masks(Lesson& lesson, const Matrix& scores, const Matrix& values,
                        double decay, const Matrix& summed, const Matrix& faded)
{
    const std::string n = std::to_string(scores.shape(0)),
                      later = "arange(" + n + ")[:, None] - arange(" + n + ")";
    const Trace masked = lesson.trace().scope(
        "masked", {{"scores", "plain.scores"}, {"values", "values"}, {"decay", "decay"}});
    Matrix ages = xt::zeros_like(scores), ones = ages;
    for (std::size_t i = 0; i < ages.shape(0); ++i)
        for (std::size_t j = 0; j <= i; ++j) {
            ages(i, j) = std::pow(decay, static_cast<double>(i - j));
            ones(i, j) = 1;
        }
    //! [masked]
    const Matrix causal = masked("causal[n, m]", "where(" + later + " >= 0, scores, 0)",
                                 Matrix(scores * ones));
    const Matrix output =
        masked("output[n, d_v]", "causal @ values", matmul(causal, values));
    const Matrix kept =
        masked("kept[n, m]",
               "where(" + later + " >= 0, decay ** maximum(" + later + ", 0), 0)", ages);
    const Matrix fading = masked("fading[n, d_v]", "(scores * kept) @ values",
                                 matmul(Matrix(scores * kept), values));
    //! [masked]
    lesson.expect_equal("a sum is attention without softmax", summed, output);
    lesson.expect_equal("a fading sum is that with weights by age", faded, fading);
}

/// A gated DeltaNet of one head, token by token and in chunks of two.
void gate(Lesson& lesson)
{
    constexpr std::size_t n = 5, d_model = 4, d_k = 3, d_v = 2, width = 2;
    RandomNumbers numbers(27);
    const Matrix x = lesson.input("x[t, d_model]", numbers.matrix(n, d_model));
    GatedDeltaNetWeights weights;
    weights.query.weight = numbers.matrix(d_model, d_k);
    weights.key.weight = numbers.matrix(d_model, d_k);
    weights.value.weight = numbers.matrix(d_model, d_v);
    weights.gate.weight = numbers.matrix(d_model, d_v);
    weights.beta.weight = numbers.matrix(d_model, 1);
    weights.decay.weight = numbers.matrix(d_model, 1);
    const Matrix kernel = numbers.matrix(2 * d_k + d_v, width);
    weights.kernel = xt::view(kernel, xt::all(), xt::newaxis(), xt::all());
    weights.dt_bias = numbers.vector(1);
    weights.a_log = numbers.vector(1);
    weights.norm.gain = 1.0 + numbers.vector(d_v, 0.25);
    weights.output.weight = numbers.matrix(d_v, d_model);
    const Trace by_tokens = lesson.trace().scope("tokens", {{"x", "x"}});
    const Trace by_chunks = lesson.trace().scope("chunks", {{"x", "x"}});
    //! [gated]
    const Matrix one_by_one = gated_delta_net(x, weights, {}, by_tokens).output;
    const Matrix in_chunks = gated_delta_net(x, weights, {.chunk = 2}, by_chunks).output;
    //! [gated]
    lesson.expect_equal("chunks of two tokens give the same", in_chunks, one_by_one);
}

/// Rows of length 1.
Matrix unit_rows(const Matrix& rows)
{
    const Vector lengths = xt::sqrt(sum_along(Matrix(rows * rows), 1));
    return rows / xt::view(lengths, xt::all(), xt::newaxis());
}

/// How many rows that came back are nearest to their own value.
double judge(const Trace& trace, const std::string& rule, const Matrix& recalled,
             const Matrix& values)
{
    const Trace inside = trace.scope(rule);
    const Matrix similar = inside("similar[pairs, pairs]", "recalled @ values.T",
                                  matmul(recalled, transpose(values)));
    const std::string numbers = "arange(" + std::to_string(similar.shape(0)) + ")";
    double right = 0;
    for (std::size_t i = 0; i < similar.shape(0); ++i)
        right += similar(i, i) >= max_all(Vector(xt::row(similar, i))) ? 1 : 0;
    return inside("right",
                  "mean(1 * (max(similar, axis=1) <= sum(where(" + numbers +
                      "[:, None] == " + numbers + ", similar, 0), axis=1)))",
                  right / static_cast<double>(similar.shape(0)));
}

/// Pairs of keys and values are written, and every key is asked for its value.
void recall(Lesson& lesson, double decay)
{
    constexpr std::size_t pairs = 12, d = 8;
    RandomNumbers numbers(72);
    const Matrix drawn_keys =
        lesson.input("pair_keys[pairs, d_pair]", numbers.matrix(pairs, d));
    const Matrix drawn_values =
        lesson.input("pair_values[pairs, d_pair]", numbers.matrix(pairs, d));
    const Trace trace = lesson.trace().scope("recall", {{"decay", "decay"}});
    const auto unit = [&](const char* step, const std::string& of, const Matrix& rows) {
        return trace(step, of + " / sqrt(sum(" + of + " ** 2, axis=1, keepdims=True))",
                     unit_rows(rows));
    };
    const Matrix keys = unit("keys[pairs, d_k]", "pair_keys", drawn_keys),
                 values = unit("values[pairs, d_v]", "pair_values", drawn_values);
    const std::size_t many = keys.shape(0);
    const std::string count = std::to_string(many);

    const Trace attention = trace.scope("attention"), sum = trace.scope("sum"),
                faded = trace.scope("faded"), delta = trace.scope("delta");
    //! [recall]
    const Matrix weights =
        attention("weights[pairs, pairs]", "softmax(16 * keys @ keys.T)",
                  softmax(Matrix(16.0 * matmul(keys, transpose(keys)))));
    const Matrix attended =
        attention("recalled[pairs, d_v]", "weights @ values", matmul(weights, values));
    const Matrix added =
        sum("state[d_k, d_v]", "keys.T @ values", matmul(transpose(keys), values));
    const Matrix summed =
        sum("recalled[pairs, d_v]", "keys @ state", matmul(keys, added));
    //! [recall]
    Matrix aged = keys;
    for (std::size_t i = 0; i < many; ++i)
        xt::row(aged, i) *= std::pow(decay, static_cast<double>(many - 1 - i));
    aged = faded("aged[pairs, d_k]",
                 "decay ** (" + count + " - 1 - arange(" + count + "))[:, None] * keys",
                 aged);
    const Matrix fading =
        faded("state[d_k, d_v]", "aged.T @ values", matmul(transpose(aged), values));
    const Matrix from_fading =
        faded("recalled[pairs, d_v]", "keys @ state", matmul(keys, fading));

    Matrix state = delta("empty[d_k, d_v]", "0 * keys.T @ values", Matrix(0.0 * added));
    std::string before = "empty";
    for (std::size_t t = 0; t < many; ++t) {
        const Trace write = delta.scope("write", t, {{"previous", before}});
        const std::string of_t =
            "[" + std::to_string(t) + ":" + std::to_string(t + 1) + "]";
        const Matrix difference = row(values, t) - matmul(row(keys, t), state);
        state += matmul(transpose(row(keys, t)), difference);
        state = write("state[d_k, d_v]",
                      "previous + keys" + of_t + ".T @ (values" + of_t + " - keys" +
                          of_t + " @ previous)",
                      state);
        before = "write." + std::to_string(t) + ".state";
    }
    const Matrix corrected =
        delta("recalled[pairs, d_v]", "keys @ " + before, matmul(keys, state));
    lesson.table(
        {"share of " + count + " pairs recalled: attention", "a sum", "with decay",
         "the delta rule"},
        {{judge(trace, "attention", attended, values),
          judge(trace, "sum", summed, values), judge(trace, "faded", from_fading, values),
          judge(trace, "delta", corrected, values)}});
}

/// Numbers that Qwen3-Next-80B-A3B keeps after n tokens: as it is, with 12 layers of
/// attention and 36 with a state, and if all 48 had a cache, or a state.
void count_kept(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const Integers n = cost("n[lengths]", "", Integers{512, 8192, 65536, 262144});
    const auto given = [&](std::string_view step, std::int64_t number) {
        return cost(step, "", number);
    };
    const std::int64_t groups = given("groups", 2), d_head = given("d_head", 256),
                       h = given("h", 32), d_k = given("d_k", 128),
                       d_v = given("d_v", 128), queries = given("queries", 16);
    const Integers cache = cost("cache[lengths]", "2 * groups * d_head * n",
                                Integers(2 * groups * d_head * n));
    const std::int64_t state = cost("state", "h * d_k * d_v", h * d_k * d_v);
    const Integers every = cost("every[lengths]", "48 * cache", Integers(48 * cache));
    const Integers mixed = cost("mixed[lengths]", "12 * cache + 36 * state",
                                Integers(12 * cache + 36 * state));
    std::ignore = cost("by_attention[lengths]", "2 * queries * d_head * n",
                       Integers(2 * queries * d_head * n));
    std::ignore = cost("by_state", "3 * state", 3 * state);
    std::ignore = cost("share[lengths]", "mixed / every", Vector(1.0 * mixed / every));
}

void teach(Lesson& lesson)
{
    lesson.heading("1. Without softmax: the other way round");
    const Tokens tokens{
        lesson.input("queries[n, d_k]",
                     Matrix{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}, {0, 0, 1}}),
        lesson.input("keys[n, d_k]",
                     Matrix{{1, 0, 0}, {0, 1, 0}, {0.6, 0.8, 0}, {1, 0, 0}, {0, 0, 1}}),
        lesson.input("values[n, d_v]", Matrix{{1, 2}, {3, 0}, {-1, 1}, {5, -2}, {0, 4}})};
    const Vector decay = lesson.input("decay[one]", Vector{0.5}),
                 beta = lesson.input("beta[one]", Vector{1});
    if (!(decay(0) > 0) || decay(0) > 1 || !(beta(0) >= 0) || beta(0) > 2)
        throw Error(
            "decay and beta say how much is kept and written: expected a decay above 0 "
            "and at most 1, and a beta from 0 to 2; found " +
            exact_text(decay(0)) + " and " + exact_text(beta(0)));
    const Matrix scores = regroup(lesson, tokens);

    lesson.heading("2. A running sum, and one that fades");
    const Matrix summed = recur(lesson, "sum", tokens, add, 1);
    const Matrix faded = recur(lesson, "faded", tokens, fade, decay(0));
    compare_with_masks(lesson, scores, tokens.values, decay(0), summed, faded);

    lesson.heading("3. The delta rule writes only what is new");
    recur(lesson, "delta", tokens, correct, beta(0));

    lesson.heading("4. A gated DeltaNet, token by token and in chunks");
    gate(lesson);

    lesson.heading("5. What is recalled");
    recall(lesson, decay(0));

    lesson.heading("6. What is kept after n tokens");
    count_kept(lesson);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("27_state", argc, argv, teach); }
