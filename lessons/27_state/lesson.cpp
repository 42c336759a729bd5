// Lesson 27: a state instead of a cache.
//
// Without softmax, attention can be summed up in one matrix that maps keys to values,
// however long the text is. What such a state keeps, how it forgets, how the delta rule
// writes into it, and how many pairs it can recall beside attention.

#include "../lesson.hpp"
#include "../numbers.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/layers/gated_delta_net.hpp"
#include "attn/reference/ops/random.hpp"

#include <tuple>

using namespace attn;

namespace {

/// The tokens of the first sections; the fourth has the key of the first again.
struct Tokens {
    Term<Matrix> queries, keys, values;
};

/// The state after a token, from the one before it.
/// @param key    (1, d_k)
/// @param value  (1, d_v)
/// @param rate   of decay, or of writing
using Write = Term<Matrix>(const Trace& token, const Term<Matrix>& key,
                           const Term<Matrix>& value, const Term<Matrix>& previous,
                           const Term<Vector>& rate);

// The helpers of teach(), which stand below it in this order.
Term<Matrix> regroup(Lesson& lesson, const Tokens& tokens);
Write add, fade, correct;
Term<Matrix> recur(Lesson& lesson, std::string_view scope, const Tokens& tokens,
                   Write* write, const Term<Vector>& rate);
void compare_with_masks(Lesson& lesson, const Term<Matrix>& scores,
                        const Term<Matrix>& values, const Term<Vector>& decay,
                        const Term<Matrix>& summed, const Term<Matrix>& faded);
void gate(Lesson& lesson);
void recall(Lesson& lesson, const Term<Vector>& decay);
void count_kept(Lesson& lesson);

void teach(Lesson& lesson)
{
    lesson.heading("1. Without softmax: the other way round");
    const Tokens tokens{
        lesson.input("queries[n, d_k]",
                     Matrix{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}, {0, 0, 1}}),
        lesson.input("keys[n, d_k]",
                     Matrix{{1, 0, 0}, {0, 1, 0}, {0.6, 0.8, 0}, {1, 0, 0}, {0, 0, 1}}),
        lesson.input("values[n, d_v]", Matrix{{1, 2}, {3, 0}, {-1, 1}, {5, -2}, {0, 4}})};
    const Term decay = lesson.input("decay[one]", Vector{0.5}),
               beta = lesson.input("beta[one]", Vector{1});
    const double kept = (*decay)(0), written = (*beta)(0);
    if (!(kept > 0) || kept > 1 || !(written >= 0) || written > 2)
        throw Error(
            "decay and beta say how much is kept and written: expected a decay above 0 "
            "and at most 1, and a beta from 0 to 2; found " +
            exact_text(kept) + " and " + exact_text(written));
    const Term scores = regroup(lesson, tokens);

    lesson.heading("2. A running sum, and one that fades");
    const Term summed = recur(lesson, "sum", tokens, add, decay);
    const Term faded = recur(lesson, "faded", tokens, fade, decay);
    compare_with_masks(lesson, scores, tokens.values, decay, summed, faded);

    lesson.heading("3. The delta rule writes only what is new");
    recur(lesson, "delta", tokens, correct, beta);

    lesson.heading("4. A gated DeltaNet, token by token and in chunks");
    gate(lesson);

    lesson.heading("5. What is recalled");
    recall(lesson, decay);

    lesson.heading("6. What is kept after n tokens");
    count_kept(lesson);
}

/// (Q K^T) V = Q (K^T V): without softmax the product can be taken the other way.
/// @return the scores
Term<Matrix> regroup(Lesson& lesson, const Tokens& tokens)
{
    const auto& [queries, keys, values] = tokens;
    const Trace plain = lesson.trace().scope(
        "plain", {{"queries", "queries"}, {"keys", "keys"}, {"values", "values"}});
    //! [regroup]
    const Term scores = plain("scores[n, m]", matmul(queries, transpose(keys)));
    const Term output = plain("output[n, d_v]", matmul(scores, values));
    const Term state = plain("state[d_k, d_v]", matmul(transpose(keys), values));
    const Term regrouped = plain("regrouped[n, d_v]", matmul(queries, state));
    //! [regroup]
    lesson.expect_equal("both ways give the same", regrouped, output);
    return scores;
}

//! [sum]
/// A sum: each pair of key and value is added.
Term<Matrix> add(const Trace& token, const Term<Matrix>& key, const Term<Matrix>& value,
                 const Term<Matrix>& previous, const Term<Vector>& /*rate*/)
{
    return token("state[d_k, d_v]", previous + matmul(transpose(key), value));
}
//! [sum]

/// The same, and what was there before fades.
Term<Matrix> fade(const Trace& token, const Term<Matrix>& key, const Term<Matrix>& value,
                  const Term<Matrix>& previous, const Term<Vector>& decay)
{
    return token("state[d_k, d_v]", decay * previous + matmul(transpose(key), value));
}

//! [delta]
/// The delta rule: what the state has for the key is looked up, and the difference is
/// written.
Term<Matrix> correct(const Trace& token, const Term<Matrix>& key,
                     const Term<Matrix>& value, const Term<Matrix>& previous,
                     const Term<Vector>& beta)
{
    const Term recalled = token("recalled[one, d_v]", matmul(key, previous));
    const Term delta = token("delta[one, d_v]", beta * (value - recalled));
    return token("state[d_k, d_v]", previous + matmul(transpose(key), delta));
}
//! [delta]

/// One token after the other writes into the state, and reads it.
Term<Matrix> recur(Lesson& lesson, std::string_view scope, const Tokens& tokens,
                   Write* write, const Term<Vector>& rate)
{
    const auto& [queries, keys, values] = tokens;
    const Trace inside = lesson.trace().scope(scope, {{"queries", "queries"},
                                                      {"keys", "keys"},
                                                      {"values", "values"},
                                                      {"decay", "decay"},
                                                      {"beta", "beta"}});
    Term state = inside("empty[d_k, d_v]", 0 * matmul(transpose(keys), values));
    std::vector<Term<Matrix>> outputs;
    for (std::size_t t = 0; t < keys.shape(0); ++t) {
        const Trace token = inside.scope("token", t);
        const Term previous = token.alias("previous", state);
        const Term query = token("query[one, d_k]", slice(queries, t, t + 1));
        const Term key = token("key[one, d_k]", slice(keys, t, t + 1));
        const Term value = token("value[one, d_v]", slice(values, t, t + 1));
        state = write(token, key, value, previous, rate);
        outputs.push_back(token("output[one, d_v]", matmul(query, state)));
    }
    return inside("output[n, d_v]", concat(outputs, 0));
}

/// The sum and the fading sum as attention without softmax, by a mask.
void compare_with_masks(Lesson& lesson, const Term<Matrix>& scores,
                        const Term<Matrix>& values, const Term<Vector>& decay,
                        const Term<Matrix>& summed, const Term<Matrix>& faded)
{
    const Trace masked = lesson.trace().scope(
        "masked", {{"scores", "plain.scores"}, {"values", "values"}, {"decay", "decay"}});
    const Term compared(scores, masked.known("scores"));
    const Term place = arange(number(static_cast<double>(scores.shape(0)), masked));
    //! [masked]
    const Term age = each_row(place) - place;
    const Term causal = masked("causal[n, m]", where(age >= 0, compared, 0));
    const Term output = masked("output[n, d_v]", matmul(causal, values));
    const Term kept =
        masked("kept[n, m]", where(age >= 0, power(decay, maximum(age, 0)), 0));
    const Term fading = masked("fading[n, d_v]", matmul(compared * kept, values));
    //! [masked]
    lesson.expect_equal("a sum is attention without softmax", summed, output);
    lesson.expect_equal("a fading sum is that with weights by age", faded, fading);
}

/// A gated DeltaNet of one head, token by token and in chunks of two.
void gate(Lesson& lesson)
{
    constexpr std::size_t n = 5, d_model = 4, d_k = 3, d_v = 2, width = 2;
    RandomNumbers numbers(27);
    const Term x = lesson.input("x[t, d_model]", numbers.matrix(n, d_model));
    GatedDeltaNetWeights weights;
    weights.query.weight = numbers.matrix(d_model, d_k);
    weights.key.weight = numbers.matrix(d_model, d_k);
    weights.value.weight = numbers.matrix(d_model, d_v);
    weights.gate.weight = numbers.matrix(d_model, d_v);
    weights.beta.weight = numbers.matrix(d_model, 1);
    weights.decay.weight = numbers.matrix(d_model, 1);
    const Term kernel(numbers.matrix(2 * d_k + d_v, width));
    weights.kernel = *reshape<Tensor3>(kernel, {2 * d_k + d_v, 1, width});
    weights.dt_bias = numbers.vector(1);
    weights.a_log = numbers.vector(1);
    weights.norm.gain = 1.0 + numbers.vector(d_v, 0.25);
    weights.output.weight = numbers.matrix(d_v, d_model);
    const Trace by_tokens = lesson.trace().scope("tokens", {{"x", "x"}});
    const Trace by_chunks = lesson.trace().scope("chunks", {{"x", "x"}});
    //! [gated]
    const Term one_by_one = gated_delta_net(x, weights, {}, by_tokens).output;
    const Term in_chunks = gated_delta_net(x, weights, {.chunk = 2}, by_chunks).output;
    //! [gated]
    lesson.expect_equal("chunks of two tokens give the same", in_chunks, one_by_one);
}

/// Rows of length 1.
Term<Matrix> unit_rows(const Term<Matrix>& x)
{
    return x / sqrt(sum_along(square(x), 1, keepdims));
}

/// How many rows that came back are nearest to their own value.
double judge(const Trace& trace, const Term<Matrix>& recalled, const Term<Matrix>& values)
{
    const Term similar =
        trace("similar[pairs, pairs]", matmul(recalled, transpose(values)));
    const Term place = arange(number(static_cast<double>(similar.shape(0)), trace));
    const Term own = where(each_row(place) == place, similar, 0);
    return *trace("right", mean_all(ones(max_along(similar, 1, keepdims) <=
                                         sum_along(own, 1, keepdims))));
}

/// Pairs of keys and values are written, and every key is asked for its value.
void recall(Lesson& lesson, const Term<Vector>& decay)
{
    constexpr std::size_t pairs = 12, d = 8;
    RandomNumbers numbers(72);
    const Term drawn_keys =
        lesson.input("pair_keys[pairs, d_pair]", numbers.matrix(pairs, d));
    const Term drawn_values =
        lesson.input("pair_values[pairs, d_pair]", numbers.matrix(pairs, d));
    const Trace trace = lesson.trace().scope("recall", {{"decay", "decay"}});
    const Term keys = trace("keys[pairs, d_k]", unit_rows(drawn_keys)),
               values = trace("values[pairs, d_v]", unit_rows(drawn_values));
    const std::size_t many = keys.shape(0);
    const Term count = number(static_cast<double>(many), trace);

    const Trace attention = trace.scope("attention"), sum = trace.scope("sum"),
                faded = trace.scope("faded"), delta = trace.scope("delta");
    //! [recall]
    const Term weights =
        attention("weights[pairs, pairs]", softmax(16 * matmul(keys, transpose(keys))));
    const Term attended = attention("recalled[pairs, d_v]", matmul(weights, values));
    const Term added = sum("state[d_k, d_v]", matmul(transpose(keys), values));
    const Term summed = sum("recalled[pairs, d_v]", matmul(keys, added));
    //! [recall]
    const Term age = each_row(count - 1 - arange(count));
    const Term aged = faded("aged[pairs, d_k]", power(decay, age) * keys);
    const Term fading = faded("state[d_k, d_v]", matmul(transpose(aged), values));
    const Term from_fading = faded("recalled[pairs, d_v]", matmul(keys, fading));

    Term state = delta("empty[d_k, d_v]", 0 * added);
    for (std::size_t t = 0; t < many; ++t) {
        const Trace write = delta.scope("write", t);
        const Term previous = write.alias("previous", state);
        const Term key = slice(keys, t, t + 1);
        const Term difference = slice(values, t, t + 1) - matmul(key, previous);
        state = write("state[d_k, d_v]", previous + matmul(transpose(key), difference));
    }
    const Term corrected = delta("recalled[pairs, d_v]", matmul(keys, state));
    lesson.table({"share of " + std::to_string(many) + " pairs recalled: attention",
                  "a sum", "with decay", "the delta rule"},
                 {{judge(attention, attended, values), judge(sum, summed, values),
                   judge(faded, from_fading, values), judge(delta, corrected, values)}});
}

/// Numbers that Qwen3-Next-80B-A3B keeps after n tokens: as it is, with 12 layers of
/// attention and 36 with a state, and if all 48 had a cache, or a state.
void count_kept(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const WholeNumbers whole(cost);
    const Term n = whole.given("n[lengths]", Integers{512, 8192, 65536, 262144});
    const Term groups = whole.given("groups", 2), d_head = whole.given("d_head", 256),
               h = whole.given("h", 32), d_k = whole.given("d_k", 128),
               d_v = whole.given("d_v", 128), queries = whole.given("queries", 16);
    const Term cache = whole("cache[lengths]", 2 * groups * d_head * n);
    const Term state = whole("state", h * d_k * d_v);
    const Term every = whole("every[lengths]", 48 * cache);
    const Term mixed = whole("mixed[lengths]", 12 * cache + 36 * state);
    std::ignore = whole("by_attention[lengths]", 2 * queries * d_head * n);
    std::ignore = whole("by_state", 3 * state);
    std::ignore = cost("share[lengths]", mixed / every);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("27_state", argc, argv, teach); }
