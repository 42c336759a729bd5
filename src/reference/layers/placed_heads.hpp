#pragma once

#include "attn/reference/layers/grouped_query.hpp"

#include "heads.hpp"

/// Heads that share keys and values, and have positions.
namespace attn {

/// Which key/value head serves a query head.
struct Groups {
    std::size_t heads, groups;

    std::size_t of(std::size_t head) const { return head / (heads / groups); }
    bool is_grouped() const { return groups != heads; }
};

/// Checks everything that the weights of grouped heads have to agree in.
/// @return the heads, and the groups that share keys and values
Groups expect_groups(std::string_view function, const MultiHeadWeights& weights, const std::optional<AnyBias>& bias,
                     const GroupedQueryOptions& options);

StepOptions describe(const Groups& groups, const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                     const GroupedQueryOptions& options);

/// The names of the steps of one head's queries or keys, and of the packed tensor that they are part of.
struct PlacedSteps {
    std::string_view packed; ///< "query"
    std::string_view norm;   ///< the scope of its norm: "query_norm"
    std::string_view rotary; ///< the scope of its rotation: "rotary_query"
    std::string_view label;  ///< of the head's tensor: "queries[(b,) n, d_k]"
};

inline PlacedSteps of_query(std::string_view label) { return {"query", "query_norm", "rotary_query", label}; }
inline PlacedSteps of_key(std::string_view label) { return {"key", "key_norm", "rotary_key", label}; }

/// Rotated after their norm.
template <Sequence T>
T turned(const T& normalized, const PlacedSteps& steps, const RotaryOptions& options, const Trace& trace)
{
    const std::string output = std::string(steps.norm) + ".output";
    const Trace turning = trace.scope(steps.rotary, {{"x", output}});
    return rotary(normalized, options, turning);
}

/// The norm of all heads' queries or keys. Its gain is one weight, which the heads share: a step beside theirs.
/// @param trace  the scope of the attention
inline std::optional<RmsNormWeights> shared_norm(std::string_view scope, const std::optional<RmsNormWeights>& norm,
                                                 const Trace& trace)
{
    if (!norm)
        return std::nullopt;
    const Trace inside = trace.scope(scope);
    return RmsNormWeights{inside.input("gain[d_k]", norm->gain)};
}

/// One head's queries or keys: normalised where the weights have such a norm, then rotated by their positions where the
/// options say so.
/// @param norm   as shared_norm() gives it
/// @param trace  the head's scope
template <Sequence T>
T placed_head(const PlacedSteps& steps, const T& packed, std::size_t head, std::size_t heads,
              const std::optional<RmsNormWeights>& norm, const GroupedQueryOptions& options, const Trace& trace)
{
    const bool is_rotary = options.positions == HeadPositions::rotary;
    if (!norm && !is_rotary)
        return split_head(steps.label, steps.packed, packed, head, heads, trace);

    const Trace first = trace.scope(norm ? steps.norm : steps.rotary);
    T placed = split_head(norm ? "x[(b,) n, d_model]" : "x[(b,) n, d]", steps.packed, packed, head, heads, first);
    if (norm) {
        first.alias("gain", std::string(steps.norm) + ".gain");
        placed = rms_norm(placed, *norm, options.norm, first);
    }
    if (norm && is_rotary)
        placed = turned(placed, steps, options.rotary, trace);
    else if (is_rotary)
        placed = rotary(placed, options.rotary, first);
    if (trace.has_listener())
        trace.alias(parse_step_label(steps.label).name, std::string(is_rotary ? steps.rotary : steps.norm) + ".output");
    return placed;
}

/// One head's bias: its own where positions are ALiBi's or there is one for each head, else that of all heads.
inline std::optional<AnyBias> head_bias(const std::optional<AnyBias>& shared, std::size_t n, std::size_t m,
                                        std::size_t head, const GroupedQueryOptions& options, const Trace& trace)
{
    if (options.positions != HeadPositions::alibi)
        return of_head("bias", shared, head, options.heads, trace);
    return alibi_bias(n, m, alibi_slopes(options.heads)(head), trace);
}

} // namespace attn
