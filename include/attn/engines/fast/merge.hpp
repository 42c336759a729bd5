#pragma once

#include "attn/core/trace.hpp"
#include "attn/engines/fast/attention.hpp"

#include <cstddef>
#include <span>

namespace attn::fast {

/// The attention of some queries to some of their keys: what it takes to merge it with that to other keys.
struct PartialAttention {
    HeadRows<float> context; ///< (b, h, n, d_v); 0 for a query that can attend to none of the keys
    HeadRows<float> largest; ///< m, (b, h, n, 1): the largest score; -inf for such a query
    HeadRows<float> sum;     ///< l, (b, h, n, 1): the sum of exp(score - m); 0 for such a query
};

/// Some rows of each head: [first, first + count).
template <class Number>
HeadRows<Number> rows_of(HeadRows<Number> all, std::size_t first, std::size_t count)
{
    all.numbers += first * all.strides[2];
    all.shape[2] = count;
    return all;
}

/// @copydoc rows_of(HeadRows<Number>, std::size_t, std::size_t)
inline PartialAttention rows_of(const PartialAttention& all, std::size_t first, std::size_t count)
{
    return {rows_of(all.context, first, count), rows_of(all.largest, first, count), rows_of(all.sum, first, count)};
}

/// Makes it the attention to no keys: context 0, largest score -inf, sum 0.
/// @throws Error where a pointer to numbers is null
void clear(const PartialAttention& all);

/// Merges the attention of the same queries to two sets of keys that have no key in common.
///
/// With m = max(m1, m2), each sum and context counts exp(its m - m) times: l = l1 exp(m1 - m) + l2 exp(m2 - m), and the
/// context is (l1 exp(m1 - m) context1 + l2 exp(m2 - m) context2) / l. Where one of both is empty, the other one stays
/// as it is, bit by bit.
/// @param all      the first one; becomes that to both sets
/// @param more     the second one
/// @param scratch  2 b h n numbers to work with
/// @param trace    | step              | shape          | formula                                                  |
///                 |-------------------|----------------|----------------------------------------------------------|
///                 | merged_largest    | (b, h, n)      | where(largest_before > largest, largest_before, largest) |
///                 | correction_before | (b, h, n)      | where(largest_before == merged_largest, 1, exp(largest_before - merged_largest)) |
///                 | correction        | (b, h, n)      | where(largest == merged_largest, 1, exp(largest - merged_largest)) |
///                 | merged_sum        | (b, h, n)      | sum_before * correction_before + sum * correction        |
///                 | merged_context    | (b, h, n, d_v) | where(merged_sum[..., None] == 0, 0, ((sum_before * correction_before)[..., None] * context_before + (sum * correction)[..., None] * context) / merged_sum[..., None]) |
///
///                 where the caller has named largest_before, sum_before, context_before, largest, sum and context
/// @throws ShapeError where both are not for the same queries, or scratch is too small
/// @throws Error      where a pointer to numbers is null
/// @see Milakov and Gimelshein 2018, section 3.1; Liu, Zaharia and Abbeel 2023, Ring Attention, section 3
void merge(const PartialAttention& all, const PartialAttention& more, std::span<float> scratch,
           const Trace& trace = {});

} // namespace attn::fast
