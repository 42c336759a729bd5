#include "attn/reference/layers/norm.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/error.hpp"

namespace attn {
namespace {

constexpr Choice<NormKind> kinds[] = {{NormKind::layer, "layer"}, {NormKind::rms, "rms"}};

} // namespace

std::string_view name_of(NormKind kind) { return row_for<kinds>(kind).name; }

template <Sequence T>
T norm(const T& x, const LayerNormWeights& weights, const NormDescription& description, const Trace& trace)
{
    const auto& [kind, epsilon, adds_one] = description;
    if (kind == NormKind::rms && weights.bias)
        throw Error("norm: an RMS norm has no bias, and one is given");
    if (kind == NormKind::layer && adds_one)
        throw Error("norm: only an RMS norm can add one to its gain");
    return kind == NormKind::layer ? layer_norm(x, weights, {.epsilon = epsilon}, trace)
                                   : rms_norm(x, {weights.gain}, {.epsilon = epsilon, .adds_one = adds_one}, trace);
}

ATTN_MAKE_FOR_SEQUENCES(norm)

} // namespace attn
