#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/layers/layer_norm.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// The tokens of one layer on their way through its blocks, and the name of the step that they are.
///
/// A block is a norm and a sublayer: x + sublayer(norm(x)) with the norm before it (pre), norm(x + sublayer(x)) with the
/// norm after it (post). The first block's norm stands in the scope norm1 and its sum is residual1, and so on.
template <Sequence T>
class ResidualStream {
public:
    /// @param function   the layer's name, for errors
    /// @param is_pre     whether norms stand before the sublayers
    /// @param blocks     how many there will be; without a norm after it, the last sum is the layer's output
    /// @param trace      the layer's scope, in which the step x is named
    ResidualStream(std::string_view function, const T& x, bool is_pre, std::size_t blocks, const Trace& trace)
        : function_(function), tokens_(x), is_pre_(is_pre), blocks_(blocks), trace_(trace)
    {
    }

    /// Adds the result of a sublayer.
    /// @param scope     of the sublayer: "self_attn"
    /// @param norm      from tokens (T, Trace) to normalised ones, with the input called x
    /// @param sublayer  from tokens (T, Trace) to what is added to them, with the input called x
    template <class Norm, class Sublayer>
    void add(std::string_view scope, const Norm& norm, const Sublayer& sublayer)
    {
        const std::string number = std::to_string(++block_), norm_scope = "norm" + number;
        const std::string sum = is_pre_ && block_ == blocks_ ? "output" : "residual" + number;
        const auto normalized = [&](const T& tokens, std::string_view name) {
            const Trace inside = trace_.scope(norm_scope, {{"x", name}});
            return norm(tokens, inside);
        };
        const auto summed = [&](const T& input, std::string_view name) {
            const Trace inside = trace_.scope(scope, {{"x", name}});
            const T found = sublayer(input, inside);
            if (shape_of(found) != shape_of(tokens_)) // the sum would broadcast
                throw ShapeError(std::string(function_) + ": " + name_ + " " + to_string(shape_of(tokens_)) + " and " +
                                 std::string(scope) + ".output " + to_string(shape_of(found)) +
                                 " must agree in d_model: they are added");
            return trace_(
                sum + "[(b,) n, d_model]", [&] { return name_ + " + " + std::string(scope) + ".output"; },
                T(tokens_ + found));
        };
        const std::string norm_output = norm_scope + ".output";
        if (is_pre_) {
            tokens_ = summed(normalized(tokens_, name_), norm_output);
            name_ = sum;
        } else {
            tokens_ = normalized(summed(tokens_, name_), sum);
            name_ = norm_output;
        }
    }

    /// The same with a layer norm or an RMS norm.
    /// @param scope     of the sublayer: "self_attn"
    /// @param weights   of the norm
    /// @param options   of the norm
    /// @param sublayer  from tokens (T, Trace) to what is added to them, with the input called x
    template <class Sublayer>
    void add(std::string_view scope, const LayerNormWeights& weights, const LayerNormOptions& options,
             const Sublayer& sublayer)
    {
        add(
            scope, [&](const T& y, const Trace& inside) { return layer_norm(y, weights, options, inside); }, sublayer);
    }
    template <class Sublayer>
    void add(std::string_view scope, const RmsNormWeights& weights, const RmsNormOptions& options,
             const Sublayer& sublayer)
    {
        add(
            scope, [&](const T& y, const Trace& inside) { return rms_norm(y, weights, options, inside); }, sublayer);
    }

    /// The tokens after the last block, under the name output.
    T output() const
    {
        if (!is_pre_)
            trace_.alias("output", name_);
        return tokens_;
    }

private:
    std::string_view function_;
    T tokens_;
    std::string name_ = "x";
    bool is_pre_;
    std::size_t blocks_, block_ = 0;
    const Trace& trace_;
};

/// Layers on top of each other, each in its scope: layers.0, layers.1, …
/// @param tokens  what goes in
/// @param name    the step that they are: "x"
/// @param layer   one layer: from (tokens, weights of the layer, its scope) to what comes out, its step `output`
/// @return the name of the step that the tokens now are
template <Sequence T, class Weights, class Layer>
std::string pass_through(T& tokens, std::string name, const std::vector<Weights>& layers, const Trace& trace,
                         const Layer& layer)
{
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i, {{"x", name}});
        tokens = layer(tokens, layers[i], inside);
        name = "layers." + std::to_string(i) + ".output";
    }
    return name;
}

} // namespace attn
