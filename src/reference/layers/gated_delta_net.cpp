#include "attn/reference/layers/gated_delta_net.hpp"

#include "gated_delta_net_checks.hpp"
#include "heads.hpp"

namespace attn {
namespace {

// -------------------------------------------------------------------------------------------------- before the heads

/// Each feature filtered along the tokens, those of the past among them.
template <Sequence T>
Term<T> convolve(const Term<T>& padded, const Term<Tensor3>& kernel, std::size_t n)
{
    const auto filtered = [&](std::size_t i) {
        const Term filter(Vector(xt::view(*kernel, xt::all(), 0, i)),
                          with_suffix(kernel.wording(), "[:, 0, " + std::to_string(i) + "]"));
        return rows(padded, i, i + n) * filter;
    };
    Term convolved = filtered(0);
    for (std::size_t i = 1; i < kernel.shape(2); ++i)
        convolved = convolved + filtered(i);
    return convolved;
}

/// What a head needs of all heads.
template <Sequence T>
struct SharedSteps {
    Term<T> activated, beta, log_decay;
    HeadNorms norm;
};

/// log(1 + exp(x)), without overflow.
template <Sequence T>
Term<T> softplus(const T& x)
{
    return Term(T(xt::maximum(x, 0.0) + xt::log1p(xt::exp(-xt::abs(x)))));
}

// --------------------------------------------------------------------------------------------------------- one head

/// A head's queries, keys and values.
template <Sequence T>
struct HeadTokens {
    Term<T> queries, keys, values;
};

/// Queries or keys of length 1.
template <Sequence T>
Term<T> unit(const Term<T>& raw, double epsilon)
{
    return raw / sqrt(sum_along(square(raw), -1, keepdims) + epsilon);
}

template <Sequence T>
HeadTokens<T> tokens_of_head(const Term<T>& activated, const DeltaNetSizes& sizes, std::size_t head, double epsilon,
                             const Trace& trace)
{
    const Term raw_queries = trace("raw_queries[(b,) n, d_k]", sizes.queries(head).of(activated));
    const Term unit_queries = trace("unit_queries[(b,) n, d_k]", unit(raw_queries, epsilon));
    Term queries = trace("queries[(b,) n, d_k]", unit_queries / sqrt(size_along(unit_queries, -1)));
    const Term raw_keys = trace("raw_keys[(b,) n, d_k]", sizes.keys(head).of(activated));
    Term keys = trace("keys[(b,) n, d_k]", unit(raw_keys, epsilon));
    Term values = trace("values[(b,) n, d_v]", sizes.values(head).of(activated));
    return {std::move(queries), std::move(keys), std::move(values)};
}

/// Some tokens, for one head.
struct Place {
    std::size_t head, begin, end;

    template <Sequence T>
    Term<T> of(const Term<T>& all) const
    {
        return part(all, begin, end, head);
    }
    template <Sequence T>
    Term<T> rows_of(const Term<T>& tokens) const
    {
        return rows(tokens, begin, end);
    }
};

template <Sequence T>
using Read = DeltaNetChunk<Term<T>>;

/// One token: it changes the state by the delta rule, then reads it.
template <Sequence T>
Read<T> recurrent_step(const Term<T>& previous_state, const HeadTokens<T>& head, const SharedSteps<T>& shared,
                       const Place& place, const Trace& trace)
{
    const Term query = trace("query[(b,) one, d_k]", place.rows_of(head.queries));
    const Term key = trace("key[(b,) one, d_k]", place.rows_of(head.keys));
    const Term value = trace("value[(b,) one, d_v]", place.rows_of(head.values));

    // Let the state decay.
    const Term decayed = trace("decayed[(b,) d_k, d_v]", exp(place.of(shared.log_decay)) * previous_state);

    // Write the difference between the value and what the state has for the key.
    const Term recalled = trace("recalled[(b,) one, d_v]", matmul(key, decayed));
    const Term delta = trace("delta[(b,) one, d_v]", place.of(shared.beta) * (value - recalled));
    const Term state = trace("state[(b,) d_k, d_v]", decayed + matmul(transpose(key), delta));

    // Read.
    return {trace("output[(b,) one, d_v]", matmul(query, state)), state};
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

/// (I + overlaps)^-1 of a matrix with zeros on and above its diagonal: each row by the rows above it. Its formulas have
/// no name for a row of the identity, so that they stand beside the computation.
template <Sequence T>
Term<T> invert(const Term<T>& overlaps, std::size_t c, const Trace& trace)
{
    const std::string arange = "arange(" + std::to_string(c) + ")";
    const auto row_is = [&](std::size_t i) {
        Matrix is(Matrix::shape_type{c, 1}, 0.0);
        is(i, 0) = 1;
        return is;
    };
    const Trace first = trace.scope("row", 0);
    const Matrix identity = xt::eye<double>(c);
    Term inverse = first(
        "inverse[(b,) c, c]", [&] { return "where(" + arange + "[:, None] == " + arange + ", 1, 0 * overlaps)"; },
        Term(T(xt::zeros_like(*overlaps) + identity)));
    for (std::size_t i = 1; i < c; ++i) {
        const Trace row = trace.scope("row", i);
        const Term above = row.input("above[(b,) c, c]", inverse);
        const Term change = matmul(rows(overlaps, i, i + 1), above);
        inverse = row(
            "inverse[(b,) c, c]",
            [&] {
                return "above - where(" + arange + "[:, None] == " + std::to_string(i) + ", " +
                       row.say(change.wording()) + ", 0)";
            },
            Term(T(*above - row_is(i) * *change)));
    }
    return trace.alias("inverse", inverse);
}

/// Several tokens at once. Sums along the tokens and their triangles are computed otherwise than they are said: without overflow.
template <Sequence T>
Read<T> chunk_of_tokens(const Term<T>& previous_state, const HeadTokens<T>& head, const SharedSteps<T>& shared,
                        const Place& place, const Trace& trace)
{
    const std::size_t c = place.end - place.begin;
    const std::string arange = "arange(" + std::to_string(c) + ")", each = arange + "[:, None]";
    const Term queries = trace("queries[(b,) c, d_k]", place.rows_of(head.queries));
    const Term keys = trace("keys[(b,) c, d_k]", place.rows_of(head.keys));
    const Term values = trace("values[(b,) c, d_v]", place.rows_of(head.values));
    const Term betas = trace("betas[(b,) c, one]", place.of(shared.beta));

    // How much of what token j has written is left at token i.
    const Term log_decays = place.of(shared.log_decay);
    const Term sums = trace(
        "sums[(b,) c, one]", [&] { return "(" + each + " >= " + arange + ") @ " + trace.say(log_decays.wording()); },
        Term(sums_of(*log_decays)));
    const T between = *sums - transpose(*sums);
    const Term decays = trace(
        "decays[(b,) c, c]", [&] { return "exp(where(" + each + " >= " + arange + ", sums - sums.T, -inf))"; },
        Term(T(lower_triangle(c, true) * xt::exp(xt::minimum(between, 0.0)))));

    // How much of what token j writes token i finds under its key, and what each writes without the state before the chunk.
    const Term overlaps = trace(
        "overlaps[(b,) c, c]",
        [&] { return "where(" + each + " > " + arange + ", betas * (keys @ keys.T) * decays, 0)"; },
        Term(T(lower_triangle(c, false) * *betas * matmul(*keys, transpose(*keys)) * *decays)));
    const Term inverse = invert(overlaps, c, trace);
    const Term write_values = trace("write_values[(b,) c, d_v]", matmul(inverse, betas * values));
    const Term write_keys = trace("write_keys[(b,) c, d_k]", matmul(inverse, betas * exp(sums) * keys));
    const Term scores = trace("scores[(b,) c, c]", matmul(queries, transpose(keys)));
    const Term decayed_scores = trace("decayed_scores[(b,) c, c]", scores * decays);

    // Write and read, with the state before the chunk.
    const Term deltas = trace("deltas[(b,) c, d_v]", write_values - matmul(write_keys, previous_state));
    const Term output =
        trace("output[(b,) c, d_v]", matmul(exp(sums) * queries, previous_state) + matmul(decayed_scores, deltas));
    const Term last = rows(sums, c - 1, c);
    const Term kept = trace("kept[(b,) d_k, d_v]", exp(last) * previous_state);
    const Term state = trace("state[(b,) d_k, d_v]", kept + matmul(transpose(exp(last - sums) * keys), deltas));
    return {output, state};
}

/// One head, from its columns to the norm of what it reads, and its state after the last token.
/// @param state  before the first token
template <Sequence T>
Read<T> read_with_head(std::size_t i, const SharedSteps<T>& shared, const DeltaNetSizes& sizes,
                       const GatedDeltaNetOptions& options, Term<T> state, const Trace& trace)
{
    const HeadTokens head = tokens_of_head(shared.activated, sizes, i, options.epsilon, trace);
    const std::size_t n = head.keys.shape(token_axis<T>), at_a_time = options.chunk.value_or(1);
    std::vector<Term<T>> outputs;
    for (std::size_t begin = 0; begin < n; begin += at_a_time) {
        const Trace inside = trace.scope(options.chunk ? "chunk" : "step", outputs.size());
        const Term previous_state = inside.input("previous_state[(b,) d_k, d_v]", state);
        const Place place{i, begin, std::min(begin + at_a_time, n)};
        const Read<T> read = options.chunk ? chunk_of_tokens(previous_state, head, shared, place, inside)
                                           : recurrent_step(previous_state, head, shared, place, inside);
        outputs.push_back(read.output);
        state = read.state;
    }
    const Term context = trace("context[(b,) n, d_v]", concat(outputs, -2));
    return {shared.norm.of(context, i, trace), state};
}

// --------------------------------------------------------------------------------------------------- states of heads

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

} // namespace

template <Sequence T>
GatedDeltaNetOf<T> gated_delta_net(const T& tokens, const PastOfDeltaNet<Value<T>>& given_past,
                                   const GatedDeltaNetWeights& weights, const GatedDeltaNetOptions& options,
                                   const Trace& caller)
{
    using V = Value<T>;
    const DeltaNetSizes sizes = expect_sizes(tokens, weights, options);
    const GatedDeltaNetCacheOf<V> past = expect_past(tokens, given_past, sizes);
    const std::size_t n = tokens.shape(token_axis<T>);
    const Trace trace = caller.module(of_delta_net, [&] { return describe(sizes, options); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Make queries, keys and values, and mix each of their features with those of the last tokens.
    const Term query = linear(x, weights.query, {"x", "query", "d_model", "g_d_k"}, trace);
    const Term key = linear(x, weights.key, {"x", "key", "d_model", "g_d_k"}, trace);
    const Term value = linear(x, weights.value, {"x", "value", "d_model", "h_d_v"}, trace);
    const Term mixed = trace("mixed[(b,) n, d_mixed]", concat<V>({query, key, value}, -1));
    const Term before = trace.input("past_conv_state[(b,) past, d_mixed]", Term(past.conv_state));
    const Term padded = trace("padded[(b,) n_padded, d_mixed]", concat<V>({before, mixed}, -2));
    const Term kernel = trace.input("kernel[d_mixed, one, width]", Term(weights.kernel));
    const Term convolved = trace("convolved[(b,) n, d_mixed]", convolve(padded, kernel, n));
    const Term activated = trace("activated[(b,) n, d_mixed]", convolved * sigmoid(convolved));
    const Term conv_state = trace("conv_state[(b,) past, d_mixed]", rows(padded, n, n + sizes.width - 1));

    // Say how much each token writes, and how much of the state it keeps.
    const Term beta_logits = linear(x, weights.beta, {"x", "beta_logits", "d_model", "h"}, trace);
    const Term beta = trace("beta[(b,) n, h]", sigmoid(beta_logits));
    const Term decay_inputs = linear(x, weights.decay, {"x", "decay_inputs", "d_model", "h"}, trace);
    const Term dt_bias = trace.input("dt_bias[h]", Term(weights.dt_bias));
    const Term time_steps =
        trace("time_steps[(b,) n, h]", "log(1 + exp(decay_inputs + dt_bias))", softplus<V>(*(decay_inputs + dt_bias)));
    const Term a_log = trace.input("a_log[h]", Term(weights.a_log));
    const Term log_decay = trace("log_decay[(b,) n, h]", -exp(a_log) * time_steps);
    const HeadNorms norm = share_norms("norm", "d_v", {{weights.norm.gain}}, described(options.norm), trace);
    const SharedSteps<V> shared{activated, beta, log_decay, norm};

    // Follow the state of each head.
    const Term past_states = trace.input("past_recurrent_state[(b,) h, d_k, d_v]", Term(past.recurrent_state));
    HeadStates<V> states = *past_states;
    std::vector<Term<V>> contexts;
    std::vector<Wording> of_states;
    for (std::size_t i = 0; i < sizes.heads; ++i) {
        Term<V> first(state_of(states, i),
                      with_suffix(past_states.wording(), "[..., " + std::to_string(i) + ", :, :]"));
        const auto [output, state] = read_with_head(i, shared, sizes, options, first, trace.scope("head", i));
        contexts.push_back(output);
        of_states.push_back(with_suffix(state.wording(), "[..., None, :, :]"));
        put_state(states, i, *state);
    }

    // Gate what the heads have read, and mix it by the output map.
    const Term merged = trace("merged[(b,) n, h_d_v]", concat(contexts, -1));
    const Term gate = linear(x, weights.gate, {"x", "gate", "d_model", "h_d_v"}, trace);
    const Term gated = trace("gated[(b,) n, h_d_v]", merged * gate * sigmoid(gate));
    Term output = linear(gated, weights.output, {"gated", "output", "h_d_v", "d_model"}, trace);

    // Keep the states for later tokens.
    const Term kept =
        trace("recurrent_state[(b,) h, d_k, d_v]", Term(std::move(states), call_of("concat", of_states, "axis=-3")));
    return {T(std::move(output)), {*conv_state, *kept}};
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template GatedDeltaNetOf<T> gated_delta_net(const T&, const PastOfDeltaNet<Value<T>>&,                             \
                                                const GatedDeltaNetWeights&, const GatedDeltaNetOptions&,              \
                                                const Trace&);
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
#undef ATTN_INSTANTIATE

} // namespace attn
