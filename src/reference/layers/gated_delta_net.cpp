#include "attn/reference/layers/gated_delta_net.hpp"

#include "heads.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

constexpr std::string_view of_delta_net = "gated_delta_net";

// --------------------------------------------------------------------------------------------------------------- sizes

struct DeltaNetSizes {
    std::size_t heads, key_heads, d_k, d_v, width;

    std::size_t mixed() const { return 2 * key_heads * d_k + heads * d_v; }
    HeadColumns queries(std::size_t head) const { return keys_at(0, head); }
    HeadColumns keys(std::size_t head) const { return keys_at(key_heads * d_k, head); }
    HeadColumns values(std::size_t head) const
    {
        const std::size_t begin = 2 * key_heads * d_k + head * d_v;
        return {begin, begin + d_v};
    }

private:
    HeadColumns keys_at(std::size_t first, std::size_t head) const
    {
        const std::size_t begin = first + Groups{heads, key_heads}.of(head) * d_k;
        return {begin, begin + d_k};
    }
};

template <Sequence T>
DeltaNetSizes expect_sizes(const T& x, const GatedDeltaNetWeights& weights, const GatedDeltaNetOptions& options)
{
    const auto& [query, key, value, gate, beta, decay, kernel, dt_bias, a_log, norm, output] = weights;
    if (x.shape(token_axis<T>) == 0)
        throw ShapeError(std::string(of_delta_net) + ": x " + to_string(shape_of(x)) +
                         " has no tokens, expected at least one");
    const std::size_t heads = beta.weight.shape(1), key_heads = options.key_heads.value_or(heads);
    for (const auto& [name, map] : {std::pair{"query weights", &query},
                                    {"key weights", &key},
                                    {"value weights", &value},
                                    {"gate weights", &gate},
                                    {"beta weights", &beta},
                                    {"decay weights", &decay}})
        expect_agreement(of_delta_net, "d_model", {"x", x, feature_axis<T>}, {name, map->weight, 0});
    expect_even_split(of_delta_net, "value weights", shape_of(value.weight), heads);
    if (key_heads == 0 || heads % key_heads != 0)
        throw ShapeError(std::string(of_delta_net) + ": " + std::to_string(heads) +
                         " heads can't be divided evenly among " + std::to_string(key_heads) + " heads of keys");
    expect_even_split(of_delta_net, "key weights", shape_of(key.weight), key_heads);
    if (options.chunk == std::size_t{0})
        throw Error(std::string(of_delta_net) + ": a chunk of 0 tokens, expected at least 1");
    const DeltaNetSizes sizes{heads, key_heads, key.weight.shape(1) / key_heads, value.weight.shape(1) / heads,
                              kernel.shape(2)};
    expect_agreement(of_delta_net, "g d_k", {"query weights", query.weight, 1}, {"key weights", key.weight, 1});
    expect_agreement(of_delta_net, "h d_v", {"value weights", value.weight, 1}, {"gate weights", gate.weight, 1});
    expect_agreement(of_delta_net, "h d_v", {"value weights", value.weight, 1}, {"output weights", output.weight, 0});
    expect_agreement(of_delta_net, "h", {"beta weights", beta.weight, 1}, {"decay weights", decay.weight, 1});
    expect_agreement(of_delta_net, "h", {"decay weights", decay.weight, 1}, {"dt_bias", dt_bias, 0});
    expect_agreement(of_delta_net, "h", {"decay weights", decay.weight, 1}, {"a_log", a_log, 0});
    if (norm.gain.size() != sizes.d_v)
        throw ShapeError(std::string(of_delta_net) + ": the gain " + to_string(shape_of(norm.gain)) +
                         " of the norm does not fit, expected d_v = " + std::to_string(sizes.d_v) +
                         " features, those of one head's values");
    if (shape_of(kernel) != Shape{sizes.mixed(), 1, sizes.width} || sizes.width == 0)
        throw ShapeError(std::string(of_delta_net) + ": kernel " + to_string(shape_of(kernel)) +
                         " does not fit, expected (" + std::to_string(sizes.mixed()) +
                         ", 1, width): a filter for each feature of queries, keys and values");
    return sizes;
}

/// (b) in front of a shape where there are several sequences.
template <Sequence T>
Shape with_batch(const T& x, Shape shape)
{
    if constexpr (std::same_as<T, Tensor3>)
        shape.insert(shape.begin(), x.shape(0));
    return shape;
}

template <Traceable T>
T zeros(const Shape& shape)
{
    typename T::shape_type sizes;
    std::ranges::copy(shape, sizes.begin());
    return T(sizes, 0.0);
}

/// The cache that there is, or one of zeros.
template <Sequence T>
GatedDeltaNetCacheOf<T> expect_past(const T& x, const PastOfDeltaNet<T>& past, const DeltaNetSizes& sizes)
{
    const Shape conv = with_batch(x, {sizes.width - 1, sizes.mixed()});
    const Shape recurrent = with_batch(x, {sizes.heads, sizes.d_k, sizes.d_v});
    if (!past)
        return {zeros<T>(conv), zeros<HeadStates<T>>(recurrent)};
    const auto expect = [](const char* name, const Shape& found, const Shape& expected) {
        if (found != expected)
            throw ShapeError(std::string(of_delta_net) + ": " + name + " " + to_string(found) +
                             " does not fit, expected " + to_string(expected));
    };
    expect("past_conv_state", shape_of(past->conv_state), conv);
    expect("past_recurrent_state", shape_of(past->recurrent_state), recurrent);
    return *past;
}

StepOptions describe(const DeltaNetSizes& sizes, const GatedDeltaNetOptions& options)
{
    const auto& [key_heads, chunk, epsilon, norm] = options;
    StepOptions described{{"heads", std::to_string(sizes.heads)}, {"key_heads", std::to_string(sizes.key_heads)}};
    if (chunk)
        described.emplace_back("chunk", std::to_string(*chunk));
    described.emplace_back("epsilon", exact_text(epsilon));
    return described;
}

// ------------------------------------------------------------------------------------------------------- pieces of tensors

/// Places from begin up to, not including, end: "0:2".
std::string range(std::size_t begin, std::size_t end) { return std::to_string(begin) + ":" + std::to_string(end); }

Matrix rows_between(const Matrix& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::range(begin, end), xt::all());
}
Tensor3 rows_between(const Tensor3& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::all(), xt::range(begin, end), xt::all());
}

Matrix state_of(const Tensor3& states, std::size_t head) { return xt::view(states, head, xt::all(), xt::all()); }
Tensor3 state_of(const Tensor4& states, std::size_t head)
{
    return xt::view(states, xt::all(), head, xt::all(), xt::all());
}
void put_state(Tensor3& states, std::size_t head, const Matrix& state)
{
    xt::view(states, head, xt::all(), xt::all()) = state;
}
void put_state(Tensor4& states, std::size_t head, const Tensor3& state)
{
    xt::view(states, xt::all(), head, xt::all(), xt::all()) = state;
}

template <Sequence T>
T gates_of(const T& logits)
{
    return token_by_token(logits, [](const Matrix& tokens) { return sigmoid(tokens); });
}

/// "concat(step.0.output, step.1.output, axis=-2)"
std::string concat_of(std::string_view scope, std::size_t count, std::string_view name, std::string_view axis)
{
    std::string parts;
    for (std::size_t i = 0; i < count; ++i)
        parts += std::string(scope) + "." + std::to_string(i) + "." + std::string(name) + ", ";
    return "concat(" + parts + "axis=" + std::string(axis) + ")";
}

// -------------------------------------------------------------------------------------------------- before the heads

/// Each feature filtered along the tokens, those of the past among them.
template <Sequence T>
T convolve(const T& padded, const Tensor3& weights, std::size_t n, const Trace& trace)
{
    const Tensor3& kernel = trace.input("kernel[d_mixed, one, width]", weights);
    std::string formula;
    T convolved = xt::zeros_like(rows_between(padded, 0, n));
    for (std::size_t i = 0; i < kernel.shape(2); ++i) {
        const Vector filter = xt::view(kernel, xt::all(), 0, i);
        convolved += rows_between(padded, i, i + n) * filter;
        formula += (i == 0 ? "" : " + ") + ("padded[..., " + range(i, i + n)) + ", :] * kernel[:, 0, " +
                   std::to_string(i) + "]";
    }
    return trace("convolved[(b,) n, d_mixed]", formula, std::move(convolved));
}

/// What a head needs of all heads, as the trace has it.
template <Sequence T>
struct SharedSteps {
    T activated, beta, log_decay;
    RmsNormWeights norm;
};

/// How much of a value is written, and the logarithm of how much of the state stays.
template <Sequence T>
void make_rates(const T& x, const GatedDeltaNetWeights& weights, SharedSteps<T>& steps, const Trace& trace)
{
    const T beta_logits = linear(x, weights.beta, {"x", "beta_logits", "d_model", "h"}, trace);
    steps.beta = trace("beta[(b,) n, h]", "sigmoid(beta_logits)", gates_of(beta_logits));

    const T decay_inputs = linear(x, weights.decay, {"x", "decay_inputs", "d_model", "h"}, trace);
    const Vector& dt_bias = trace.input("dt_bias[h]", weights.dt_bias);
    const T shifted = decay_inputs + dt_bias;
    const T time_steps = trace("time_steps[(b,) n, h]", "log(1 + exp(decay_inputs + dt_bias))",
                               T(xt::maximum(shifted, 0.0) + xt::log1p(xt::exp(-xt::abs(shifted))))); // no overflow
    const Vector& a_log = trace.input("a_log[h]", weights.a_log);
    steps.log_decay = trace("log_decay[(b,) n, h]", "-exp(a_log) * time_steps", T(-xt::exp(a_log) * time_steps));
}

// --------------------------------------------------------------------------------------------------------- one head

/// A head's queries, keys and values.
template <Sequence T>
struct HeadTokens {
    T queries, keys, values;
};

/// Queries or keys of length 1.
/// @param raw  "raw_keys"
template <Sequence T>
T unit(const std::string& step, const std::string& raw, const T& packed, const HeadColumns& of, double epsilon,
       const Trace& trace)
{
    const T given = trace(
        raw + "[(b,) n, d_k]", [&] { return of.of("activated"); }, columns(packed, of.begin, of.end));
    const PerToken<T> length = xt::sqrt(sum_of_features(T(given * given)) + epsilon);
    return trace(
        step + "[(b,) n, d_k]",
        [&] { return raw + " / sqrt(sum(" + raw + " ** 2, axis=-1, keepdims=True) + " + exact_text(epsilon) + ")"; },
        T(given / spread(length, given.shape(feature_axis<T>))));
}

template <Sequence T>
HeadTokens<T> tokens_of_head(const T& activated, const DeltaNetSizes& sizes, std::size_t head, double epsilon,
                             const Trace& trace)
{
    const T units = unit("unit_queries", "raw_queries", activated, sizes.queries(head), epsilon, trace);
    T queries = trace("queries[(b,) n, d_k]", "unit_queries / sqrt(unit_queries.shape[-1])",
                      T(units / std::sqrt(static_cast<double>(sizes.d_k))));
    T keys = unit("keys", "raw_keys", activated, sizes.keys(head), epsilon, trace);
    const HeadColumns of_values = sizes.values(head);
    T values = trace(
        "values[(b,) n, d_v]", [&] { return of_values.of("activated"); },
        columns(activated, of_values.begin, of_values.end));
    return {std::move(queries), std::move(keys), std::move(values)};
}

/// The numbers of some tokens, for one head: "beta[..., 0:2, 1:2]".
struct Place {
    std::size_t head, begin, end;

    std::string of(const std::string& name) const
    {
        return name + "[..., " + range(begin, end) + ", " + range(head, head + 1) + "]";
    }
    template <Sequence T>
    T of(const T& all) const
    {
        return rows_between(columns(all, head, head + 1), begin, end);
    }
};

/// Rows of a head's tensor, as a step.
/// @param label  "key[(b,) one, d_k]"
/// @param name   of the tensor: "keys"
template <Sequence T>
T take(const std::string& label, const std::string& name, const T& tensor, const Place& place, const Trace& trace)
{
    return trace(
        label, [&] { return name + "[..., " + range(place.begin, place.end) + ", :]"; },
        rows_between(tensor, place.begin, place.end));
}

/// One token: it changes the state by the delta rule, then reads it.
/// @param state  before the token, and then after it
/// @return what it reads, ((b,) 1, d_v)
template <Sequence T>
T recurrent_step(T& state, const HeadTokens<T>& head, const SharedSteps<T>& shared, const Place& place,
                 const Trace& trace)
{
    const T query = take("query[(b,) one, d_k]", "queries", head.queries, place, trace);
    const T key = take("key[(b,) one, d_k]", "keys", head.keys, place, trace);
    const T value = take("value[(b,) one, d_v]", "values", head.values, place, trace);

    // Let the state decay.
    const T decayed = trace(
        "decayed[(b,) d_k, d_v]", [&] { return "exp(" + place.of("log_decay") + ") * previous_state"; },
        T(xt::exp(place.of(shared.log_decay)) * state));

    // Write the difference between the value and what the state has for the key.
    const T recalled = trace("recalled[(b,) one, d_v]", "key @ decayed", matmul(key, decayed));
    const T delta = trace(
        "delta[(b,) one, d_v]", [&] { return place.of("beta") + " * (value - recalled)"; },
        T(place.of(shared.beta) * (value - recalled)));
    state = trace("state[(b,) d_k, d_v]", "decayed + key.T @ delta", T(decayed + matmul(transpose(key), delta)));

    // Read.
    return trace("output[(b,) one, d_v]", "query @ state", matmul(query, state));
}

/// Of each token, the sum of its numbers and of those before it.
template <Sequence T>
T sums_of(const T& tokens)
{
    T sums = tokens;
    const std::size_t c = tokens.shape(token_axis<T>), features = tokens.shape(feature_axis<T>);
    for (std::size_t i = features; i < sums.size(); ++i)
        if (i / features % c != 0)
            sums.data()[i] += sums.data()[i - features];
    return sums;
}

/// Whether a token comes before another one, or is it: (c, c).
Matrix lower_triangle(std::size_t c, bool has_diagonal)
{
    Matrix lower(Matrix::shape_type{c, c}, 0.0);
    for (std::size_t i = 0; i < c; ++i)
        for (std::size_t j = 0; j < i + (has_diagonal ? 1 : 0); ++j)
            lower(i, j) = 1;
    return lower;
}

/// (I + overlaps)^-1 of a matrix with zeros on and above its diagonal: each row by the rows above it.
template <Sequence T>
T invert(const T& overlaps, std::size_t c, const Trace& trace)
{
    const std::string arange = "arange(" + std::to_string(c) + ")";
    const auto row_is = [&](std::size_t i) {
        Matrix is(Matrix::shape_type{c, 1}, 0.0);
        is(i, 0) = 1;
        return is;
    };
    const Trace first = trace.scope("row", 0);
    const Matrix identity = xt::eye<double>(c);
    T inverse = first(
        "inverse[(b,) c, c]", [&] { return "where(" + arange + "[:, None] == " + arange + ", 1, 0 * overlaps)"; },
        T(xt::zeros_like(overlaps) + identity));
    for (std::size_t i = 1; i < c; ++i) {
        const Trace row = trace.scope("row", i, {{"above", "row." + std::to_string(i - 1) + ".inverse"}});
        const T change = matmul(rows_between(overlaps, i, i + 1), inverse);
        inverse = row(
            "inverse[(b,) c, c]",
            [&] {
                return "above - where(" + arange + "[:, None] == " + std::to_string(i) + ", overlaps[..., " +
                       range(i, i + 1) + ", :] @ above, 0)";
            },
            T(inverse - row_is(i) * change));
    }
    trace.alias("inverse", "row." + std::to_string(c - 1) + ".inverse");
    return inverse;
}

/// The last row of the sums, as it stands there: decay from the beginning of the chunk to its end.
std::string last_sum(std::size_t c) { return "sums[..., " + range(c - 1, c) + ", :]"; }

template <Sequence T>
DeltaNetChunk<T> chunk_of_tokens(const T& previous_state, const HeadTokens<T>& head, const SharedSteps<T>& shared,
                                 const Place& place, const Trace& trace)
{
    const std::size_t c = place.end - place.begin;
    const std::string arange = "arange(" + std::to_string(c) + ")", rows = arange + "[:, None]";
    const T queries = take("queries[(b,) c, d_k]", "queries", head.queries, place, trace);
    const T keys = take("keys[(b,) c, d_k]", "keys", head.keys, place, trace);
    const T values = take("values[(b,) c, d_v]", "values", head.values, place, trace);
    const T betas = trace(
        "betas[(b,) c, one]", [&] { return place.of("beta"); }, place.of(shared.beta));

    // How much of what token j has written is left at token i.
    const Matrix until = lower_triangle(c, true);
    const T sums = trace(
        "sums[(b,) c, one]", [&] { return "(" + rows + " >= " + arange + ") @ " + place.of("log_decay"); },
        sums_of(place.of(shared.log_decay)));
    const T between = sums - transpose(sums);
    const T decays = trace(
        "decays[(b,) c, c]", [&] { return "exp(where(" + rows + " >= " + arange + ", sums - sums.T, -inf))"; },
        T(until * xt::exp(xt::minimum(between, 0.0)))); // above the diagonal it could overflow

    // How much of what token j writes token i finds under its key, and what each writes without the state before the chunk.
    const T overlaps = trace(
        "overlaps[(b,) c, c]",
        [&] { return "where(" + rows + " > " + arange + ", betas * (keys @ keys.T) * decays, 0)"; },
        T(lower_triangle(c, false) * betas * matmul(keys, transpose(keys)) * decays));
    const T inverse = invert(overlaps, c, trace);
    const T grown = xt::exp(sums);
    const T write_values =
        trace("write_values[(b,) c, d_v]", "inverse @ (betas * values)", matmul(inverse, T(betas * values)));
    const T write_keys = trace("write_keys[(b,) c, d_k]", "inverse @ (betas * exp(sums) * keys)",
                               matmul(inverse, T(betas * grown * keys)));
    const T scores = trace("scores[(b,) c, c]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const T decayed_scores = trace("decayed_scores[(b,) c, c]", "scores * decays", T(scores * decays));

    // Write and read, with the state before the chunk.
    const T deltas = trace("deltas[(b,) c, d_v]", "write_values - write_keys @ previous_state",
                           T(write_values - matmul(write_keys, previous_state)));
    T output = trace("output[(b,) c, d_v]", "(exp(sums) * queries) @ previous_state + decayed_scores @ deltas",
                     T(matmul(T(grown * queries), previous_state) + matmul(decayed_scores, deltas)));
    const T last = rows_between(sums, c - 1, c);
    const T kept = trace(
        "kept[(b,) d_k, d_v]", [&] { return "exp(" + last_sum(c) + ") * previous_state"; },
        T(xt::exp(last) * previous_state));
    T state = trace(
        "state[(b,) d_k, d_v]", [&] { return "kept + (exp(" + last_sum(c) + " - sums) * keys).T @ deltas"; },
        T(kept + matmul(transpose(T(xt::exp(last - sums) * keys)), deltas)));
    return {std::move(output), std::move(state)};
}

/// What a head reads for all tokens, and its state after the last.
/// @param part  the scopes of the parts of the sequence: "step" or "chunk"
template <Sequence T, class Next>
T follow(std::string_view part, std::size_t tokens, std::size_t at_a_time, std::size_t head, T& state,
         const Trace& trace, const Next& next)
{
    std::vector<T> outputs;
    for (std::size_t begin = 0, i = 0; begin < tokens; begin += at_a_time, ++i) {
        const Trace inside = trace.scope(part, i);
        if (i == 0)
            state = inside(
                "previous_state[(b,) d_k, d_v]",
                [&] { return "past_recurrent_state[..., " + std::to_string(head) + ", :, :]"; }, std::move(state));
        else
            inside.alias("previous_state", std::string(part) + "." + std::to_string(i - 1) + ".state");
        outputs.push_back(next(state, Place{head, begin, std::min(begin + at_a_time, tokens)}, inside));
    }
    T context = outputs.front();
    for (std::size_t i = 1; i < outputs.size(); ++i)
        context = concat_rows(context, outputs[i]);
    return trace(
        "context[(b,) n, d_v]", [&] { return concat_of(part, outputs.size(), "output", "-2"); }, std::move(context));
}

/// One head, from its columns to the norm of what it reads.
template <Sequence T>
T read_with_head(std::size_t i, const SharedSteps<T>& shared, const DeltaNetSizes& sizes,
                 const GatedDeltaNetOptions& options, T& state, const Trace& trace)
{
    const HeadTokens<T> head = tokens_of_head(shared.activated, sizes, i, options.epsilon, trace);
    const std::size_t n = head.keys.shape(token_axis<T>);
    const T context =
        options.chunk ? follow("chunk", n, *options.chunk, i, state, trace,
                               [&](T& current, const Place& place, const Trace& inside) {
                                   auto [output, next] = chunk_of_tokens(current, head, shared, place, inside);
                                   current = std::move(next);
                                   return output;
                               })
                      : follow("step", n, 1, i, state, trace, [&](T& current, const Place& place, const Trace& inside) {
                            return recurrent_step(current, head, shared, place, inside);
                        });
    const Trace inside = trace.scope("norm", {{"x", "context"}, {"gain", "norm.gain"}});
    return rms_norm(context, shared.norm, options.norm, inside);
}

} // namespace

template <Sequence T>
GatedDeltaNetOf<T> gated_delta_net(const T& tokens, const PastOfDeltaNet<T>& given_past,
                                   const GatedDeltaNetWeights& weights, const GatedDeltaNetOptions& options,
                                   const Trace& caller)
{
    const DeltaNetSizes sizes = expect_sizes(tokens, weights, options);
    const GatedDeltaNetCacheOf<T> past = expect_past(tokens, given_past, sizes);
    const std::size_t n = tokens.shape(token_axis<T>);
    const Trace trace = caller.module(of_delta_net, [&] { return describe(sizes, options); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);

    // Make queries, keys and values, and mix each of their features with those of the last tokens.
    const T query = linear(x, weights.query, {"x", "query", "d_model", "g_d_k"}, trace);
    const T key = linear(x, weights.key, {"x", "key", "d_model", "g_d_k"}, trace);
    const T value = linear(x, weights.value, {"x", "value", "d_model", "h_d_v"}, trace);
    const T mixed =
        trace("mixed[(b,) n, d_mixed]", "concat(query, key, value, axis=-1)", concat_columns({query, key, value}));
    const T& before = trace.input("past_conv_state[(b,) past, d_mixed]", past.conv_state);
    const T padded =
        trace("padded[(b,) n_padded, d_mixed]", "concat(past_conv_state, mixed, axis=-2)", concat_rows(before, mixed));
    const T convolved = convolve(padded, weights.kernel, n, trace);
    SharedSteps<T> shared;
    shared.activated =
        trace("activated[(b,) n, d_mixed]", "convolved * sigmoid(convolved)", T(convolved * gates_of(convolved)));
    T conv_state = trace(
        "conv_state[(b,) past, d_mixed]", [&] { return "padded[..., " + range(n, n + sizes.width - 1) + ", :]"; },
        rows_between(padded, n, n + sizes.width - 1));

    // Say how much each token writes, and how much of the state it keeps.
    make_rates(x, weights, shared, trace);
    {
        const Trace norm = trace.scope("norm");
        shared.norm.gain = norm.input("gain[d_v]", weights.norm.gain);
    }

    // Follow the state of each head.
    HeadStates<T> states = trace.input("past_recurrent_state[(b,) h, d_k, d_v]", past.recurrent_state);
    std::vector<T> contexts;
    for (std::size_t i = 0; i < sizes.heads; ++i) {
        const Trace head = trace.scope("head", i);
        T state = state_of(states, i);
        contexts.push_back(read_with_head(i, shared, sizes, options, state, head));
        put_state(states, i, state);
    }

    // Gate what the heads have read, and mix it by the output map.
    const T merged = trace(
        "merged[(b,) n, h_d_v]", [&] { return concat_of("head", sizes.heads, "norm.output", "-1"); },
        concat_columns(contexts));
    const T gate = linear(x, weights.gate, {"x", "gate", "d_model", "h_d_v"}, trace);
    const T gated = trace("gated[(b,) n, h_d_v]", "merged * gate * sigmoid(gate)", T(merged * gate * gates_of(gate)));
    T output = linear(gated, weights.output, {"gated", "output", "h_d_v", "d_model"}, trace);

    // Keep the states for later tokens.
    const std::size_t parts = options.chunk ? (n + *options.chunk - 1) / *options.chunk : n;
    const std::string last = (options.chunk ? "chunk." : "step.") + std::to_string(parts - 1);
    states = trace(
        "recurrent_state[(b,) h, d_k, d_v]",
        [&] { return concat_of("head", sizes.heads, last + ".state[..., None, :, :]", "-3"); }, std::move(states));
    return {std::move(output), {std::move(conv_state), std::move(states)}};
}

template GatedDeltaNetOf<Matrix> gated_delta_net(const Matrix&, const PastOfDeltaNet<Matrix>&,
                                                 const GatedDeltaNetWeights&, const GatedDeltaNetOptions&,
                                                 const Trace&);
template GatedDeltaNetOf<Tensor3> gated_delta_net(const Tensor3&, const PastOfDeltaNet<Tensor3>&,
                                                  const GatedDeltaNetWeights&, const GatedDeltaNetOptions&,
                                                  const Trace&);

} // namespace attn
