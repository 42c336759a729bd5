#pragma once

#include "attn/core/memory.hpp"
#include "attn/core/tensor.hpp"

namespace attn {

/// Refuses scores of every query for every key that would not fit into memory beside a mask, before they are made.
/// @throws Error such as "scores would be (1000000, 1000000), 7.3 TiB, …"
template <Attending T>
void expect_memory_for_scores(const T& queries, const T& keys)
{
    Shape shape = shape_of(queries);
    shape.back() = keys.shape(token_axis<T>);
    expect_memory("scores", shape, sizeof(double), sizeof(bool));
}

} // namespace attn
