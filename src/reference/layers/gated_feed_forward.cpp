#include "attn/reference/layers/gated_feed_forward.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

StepOptions describe(const GatedFeedForwardOptions& options)
{
    const auto& [activation, limit, up_shift] = options;
    StepOptions described{{"activation", std::string(name_of(activation))}};
    if (limit)
        described.emplace_back("limit", exact_text(*limit));
    if (up_shift != 0)
        described.emplace_back("up_shift", exact_text(up_shift));
    return described;
}

/// Numbers that are larger than the limit become the limit; NaN stays.
template <Sequence T>
Term<T> limited_gate(Term<T> gate, double limit, const Trace& trace)
{
    T limited = std::move(gate).take();
    std::ranges::transform(limited.storage(), limited.storage().begin(),
                           [&](double x) { return x > limit ? limit : x; });
    const auto formula = [&] {
        const std::string most = exact_text(limit);
        return "where(gate > " + most + ", " + most + ", gate)";
    };
    return trace("limited_gate[(b,) n, d_ff]", formula, Term(std::move(limited)));
}

/// The same on both sides of zero.
template <Sequence T>
Term<T> limited_up(Term<T> up, double limit, const Trace& trace)
{
    T limited = std::move(up).take();
    std::ranges::transform(limited.storage(), limited.storage().begin(), [&](double x) {
        return x > limit ? limit : x < -limit ? -limit : x;
    });
    const auto formula = [&] {
        const std::string most = exact_text(limit);
        return "where(up > " + most + ", " + most + ", where(up < -" + most + ", -" + most + ", up))";
    };
    return trace("limited_up[(b,) n, d_ff]", formula, Term(std::move(limited)));
}

} // namespace

template <Sequence T>
T gated_feed_forward(const T& tokens, const GatedFeedForwardWeights& weights, const GatedFeedForwardOptions& options,
                     const Trace& caller)
{
    const auto& [activation, limit, up_shift] = options;
    expect_agreement("gated_feed_forward", "d_ff", {"gate weights", weights.gate.weight, 1},
                     {"up weights", weights.up.weight, 1});
    if (limit && !(*limit > 0))
        throw Error("gated_feed_forward: the limit is ", exact_text(*limit), ", expected a number above 0");
    const Trace trace = caller.module("gated_feed_forward", [&] { return describe(options); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Compute the gate of each hidden unit.
    Term gate = linear(x, weights.gate, {"x", "gate", "d_model", "d_ff"}, trace);
    if (limit)
        gate = limited_gate(std::move(gate), *limit, trace);
    const Term activated = activate("activated[(b,) n, d_ff]", gate, activation, trace);

    // Multiply each hidden unit by its gate.
    Term up = linear(x, weights.up, {"x", "up", "d_model", "d_ff"}, trace);
    if (limit)
        up = limited_up(std::move(up), *limit, trace);
    const Term gated = trace("gated[(b,) n, d_ff]", activated * (up_shift == 0 ? up : up + up_shift));

    return T(linear(gated, weights.down, {"gated", "down", "d_ff", "d_model", "n", "output"}, trace));
}

ATTN_MAKE_FOR_SEQUENCES(gated_feed_forward)

} // namespace attn
