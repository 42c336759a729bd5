#include "attn/engines/fast/merge.hpp"

#include "attn/core/shape.hpp"
#include "attn/engines/fast/record.hpp"
#include "expect.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::fast {
namespace {

template <class F>
void for_each_row(const PartialAttention& all, const F& f)
{
    for (std::size_t b = 0; b < all.context.batch(); ++b)
        for (std::size_t h = 0; h < all.context.heads(); ++h)
            for (std::size_t i = 0; i < all.context.rows(); ++i)
                f(b, h, i);
}

void expect_numbers(std::string_view who, const PartialAttention& all)
{
    expect_numbers(who, "context", all.context);
    expect_numbers(who, "largest", all.largest);
    expect_numbers(who, "sum", all.sum);
}

void expect_same_queries(const PartialAttention& all, const PartialAttention& more, std::size_t scratch)
{
    const auto shape_text = [](const HeadRows<float>& rows) {
        return to_string(Shape(rows.shape.begin(), rows.shape.end()));
    };
    if (all.context.shape != more.context.shape)
        throw ShapeError("fast::merge: contexts ", shape_text(all.context), " and ", shape_text(more.context),
                         " must have the same shape");
    std::array<std::size_t, 4> one_each = all.context.shape;
    one_each[3] = 1;
    for (const HeadRows<float>& rows : {all.largest, all.sum, more.largest, more.sum})
        if (rows.shape != one_each)
            throw ShapeError("fast::merge: sums ", shape_text(rows), " don't fit contexts ", shape_text(all.context),
                             ": expected one number per query");
    if (scratch < 2 * one_each[0] * one_each[1] * one_each[2])
        throw ShapeError("fast::merge: scratch of ", scratch,
                         " numbers, expected 2 b h n = ", 2 * one_each[0] * one_each[1] * one_each[2]);
    for (const PartialAttention* one : {&all, &more})
        expect_numbers("fast::merge", *one);
}

/// What sums are multiplied by when the largest score becomes another one.
float correction(float before, float after) { return before == after ? 1 : std::exp(before - after); }

/// The average of two rows with the weights of their sums. An empty one changes nothing.
void average(float* row, float weight, const float* other, float other_weight, float sum, std::size_t features)
{
    if (other_weight == 0)
        return;
    if (weight == 0 && sum == other_weight)
        std::copy_n(other, features, row);
    else
        for (std::size_t k = 0; k < features; ++k)
            row[k] = (weight * row[k] + other_weight * other[k]) / sum;
}

} // namespace

void clear(const PartialAttention& all)
{
    expect_numbers("fast::clear", all);
    for_each_row(all, [&](std::size_t b, std::size_t h, std::size_t i) {
        std::fill_n(all.context.row(b, h, i), all.context.features(), 0.F);
        *all.largest.row(b, h, i) = -std::numeric_limits<float>::infinity();
        *all.sum.row(b, h, i) = 0;
    });
}

void merge(const PartialAttention& all, const PartialAttention& more, std::span<float> scratch, const Trace& caller)
{
    expect_same_queries(all, more, scratch.size());
    std::array<std::size_t, 4> one_each = all.context.shape;
    one_each[3] = 1;
    const HeadRows<float> weight = head_rows(scratch.data(), one_each);
    const HeadRows<float> other_weight = head_rows(scratch.data() + scratch.size() / 2, one_each);
    const Trace trace = caller.observing();

    // The largest score of both.
    for_each_row(all, [&](std::size_t b, std::size_t h, std::size_t i) {
        float& largest = *all.largest.row(b, h, i);
        *weight.row(b, h, i) = largest;
        largest = std::max(largest, *more.largest.row(b, h, i));
    });
    record_sums(trace, "merged_largest[b, h, n]", "where(largest_before > largest, largest_before, largest)",
                all.largest);

    // What each side is multiplied by, to be relative to that score.
    for_each_row(all, [&](std::size_t b, std::size_t h, std::size_t i) {
        float& factor = *weight.row(b, h, i);
        factor = correction(factor, *all.largest.row(b, h, i));
        *other_weight.row(b, h, i) = correction(*more.largest.row(b, h, i), *all.largest.row(b, h, i));
    });
    record_sums(trace, "correction_before[b, h, n]",
                "where(largest_before == merged_largest, 1, exp(largest_before - merged_largest))", weight);
    record_sums(trace, "correction[b, h, n]", "where(largest == merged_largest, 1, exp(largest - merged_largest))",
                other_weight);

    // The sum of both.
    for_each_row(all, [&](std::size_t b, std::size_t h, std::size_t i) {
        float &factor = *weight.row(b, h, i), &other = *other_weight.row(b, h, i), &sum = *all.sum.row(b, h, i);
        factor *= sum;
        other *= *more.sum.row(b, h, i);
        sum = factor + other;
    });
    record_sums(trace, "merged_sum[b, h, n]", "sum_before * correction_before + sum * correction", all.sum);

    // The average of both contexts, by their share of the sum.
    for_each_row(all, [&](std::size_t b, std::size_t h, std::size_t i) {
        average(all.context.row(b, h, i), *weight.row(b, h, i), more.context.row(b, h, i), *other_weight.row(b, h, i),
                *all.sum.row(b, h, i), all.context.features());
    });
    record(trace, "merged_context[b, h, n, d_v]",
           "where(merged_sum[..., None] == 0, 0, ((sum_before * correction_before)[..., None] * context_before + "
           "(sum * correction)[..., None] * context) / merged_sum[..., None])",
           all.context);
}

} // namespace attn::fast
