#pragma once

#include "attn/layers/grouped_query.hpp"

#include "heads.hpp"

/// Heads that share keys and values, and know their positions.
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

/// One head's queries or keys, rotated by their positions where the options say so.
/// @param scope  of the rotation: "rotary_query"
/// @param step   label of the head's tensor: "queries[(b,) n, d_k]"
/// @param name   of the packed tensor: "query"
/// @param trace  the head's scope
template <Sequence T>
T placed_head(std::string_view scope, std::string_view step, std::string_view name, const T& packed, std::size_t head,
              std::size_t heads, const GroupedQueryOptions& options, const Trace& trace)
{
    if (options.positions != HeadPositions::rotary)
        return split_head(step, name, packed, head, heads, trace);
    const Trace turning = trace.scope(scope);
    const T straight = split_head("x[(b,) n, d]", name, packed, head, heads, turning);
    T turned = rotary(straight, options.rotary, turning);
    if (trace.has_listener())
        trace.alias(parse_step_label(step).name, std::string(scope) + ".output");
    return turned;
}

/// One head's bias: its own where positions are ALiBi's, else that of all heads.
inline std::optional<AnyBias> head_bias(const std::optional<AnyBias>& shared, std::size_t n, std::size_t m,
                                        std::size_t head, const GroupedQueryOptions& options, const Trace& trace)
{
    if (options.positions != HeadPositions::alibi)
        return shared;
    return alibi_bias(n, m, alibi_slopes(options.heads)(head), trace);
}

} // namespace attn
