#pragma once

#include "attn/reference/ops/float_product.hpp"

#include "attn/engines/fast/weights.hpp"

#include "attn/reference/layers/position.hpp"

/// @file
/// What is computed row by row. A row's numbers depend neither on how many rows there are, nor on who computes them.

namespace attn::fast {

/// The columns of the panels [first, last) of x W + b.
/// @param into  whole panels
void multiply_panels(const ConstView& x, const LinearMaps& maps, std::size_t first, std::size_t last, const View& into);

/// x W + b. Threads share the columns, unless they are sharing something larger already.
/// @param into  rows at least as far apart as whole panels are wide; the columns beyond d_out become zeros
void multiply(const ConstView& x, const LinearMaps& maps, const View& into);

/// Layer norm or root mean square norm.
/// @param into  can be x
void normalize(const ConstView& x, const Norm& norm, float epsilon, const View& into);

/// into += x
void add(const ConstView& x, const View& into);

/// into *= x
void scale_by(const ConstView& x, const View& into);

/// Replaces each number by its activation.
using ActivationKernel = void (*)(const View& x);

/// What computes an activation; nullptr where nothing does.
ActivationKernel find_kernel(Activation activation);

/// The cosines and sines of positions.
struct Rotation {
    const float *cosines, *sines; ///< (n, d / 2)
    std::size_t n, d;
    bool are_halves; ///< what is rotated together: features i and i + d/2, or neighbours
};

/// Rotates each head of each row by its row's angles.
/// @param heads  side by side, d columns each
/// @param first  the position of the first row modulo n; after n rows another sequence begins
void rotate(const Rotation& rotation, std::size_t first, const View& heads);

/// Attention of a single query to all keys: softmax(scale q K^T) V. There is at least one key.
/// @param query    d_k numbers
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @param scores   m numbers to work with
/// @param context  d_v numbers, are written
void attend_once(const float* query, const ConstView& keys, const ConstView& values, float scale, float* scores,
                 float* context);

} // namespace attn::fast
