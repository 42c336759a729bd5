#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/trace.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// What a sublayer gives, which is added to x: a residual connection.
/// @param function  the layer's name, for the error
/// @param sublayer  its scope: "self_attn"
/// @throws ShapeError where their shapes differ, since the sum would broadcast
template <Sequence T>
const T& added_to(const T& x, std::string_view function, std::string_view sublayer, const T& found)
{
    if (shape_of(found) != shape_of(x))
        throw ShapeError(function, ": x ", shape_of(x), " and ", sublayer, ".output ", shape_of(found),
                         " must agree in d_model: they are added");
    return found;
}

/// Layers on top of each other, each in its scope: layers.0, layers.1, …
/// @param x      what goes in
/// @param layer  one layer: from (tokens, weights of the layer, its scope) to what comes out
template <Sequence T, class Weights, class Layer>
Term<T> pass_through(Term<T> x, const std::vector<Weights>& layers, const Trace& trace, const Layer& layer)
{
    for (std::size_t i = 0; i < layers.size(); ++i)
        x = layer(x, layers[i], trace.scope("layers", i));
    return x;
}

} // namespace attn
