#include "attn/reference/layers/linear.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>

namespace attn {
namespace {

/// The names of one map's steps, and their axes.
struct Names {
    std::string weight, bias, output;
    std::string weight_label, bias_label, output_label;
};

Names names_of(const LinearSteps& steps)
{
    const std::string name(steps.name), d_in(steps.d_in), d_out(steps.d_out);
    Names names{"weight", "bias", "output", {}, {}, {}};
    if (!name.empty())
        names = {name + "_weights", name + "_bias", name, {}, {}, {}};
    if (!steps.output.empty())
        names.output = steps.output;
    names.weight_label = names.weight + "[" + d_in + ", " + d_out + "]";
    names.bias_label = names.bias + "[" + d_out + "]";
    names.output_label = names.output + "[(b,) " + std::string(steps.tokens) + ", " + d_out + "]";
    return names;
}

} // namespace

template <Sequence T>
T linear(const T& tokens, const LinearWeights& weights, const LinearSteps& steps, const Trace& trace)
{
    expect_agreement("linear", "d_in", {steps.input, tokens, feature_axis<T>}, {"weight", weights.weight, 0});
    if (weights.bias)
        expect_agreement("linear", "d_out", {"weight", weights.weight, 1}, {"bias", *weights.bias, 0});
    const Names names = trace.has_listener() ? names_of(steps) : Names{};
    const Term x = named(tokens, steps.input, trace);

    const Term weight = trace.input(names.weight_label, Term(weights.weight));
    if (!weights.bias)
        return T(trace(names.output_label, matmul(x, weight)));
    const Term bias = trace.input(names.bias_label, Term(*weights.bias));
    return T(trace(names.output_label, matmul(x, weight) + bias));
}

ATTN_MAKE_FOR_SEQUENCES(linear)

} // namespace attn
