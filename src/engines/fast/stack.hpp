#pragma once

#include "blocks.hpp"

#include "attn/engines/fast/encoder.hpp"

#include <optional>
#include <string_view>

/// @file
/// What the calls of encoder and decoder layers begin with.

namespace attn::fast {

/// Checks that maps of attention fit tokens of d_model features, and a memory of d_memory; that there is a kernel of the
/// activation.
/// @throws ShapeError, Error
void expect_fit(std::string_view function, std::size_t d_model, std::size_t d_memory, const AttentionMaps& maps,
                std::size_t heads);
void expect_fit(std::string_view function, std::size_t d_model, const FeedForwardMaps& maps, Activation activation);
void expect_fit(std::string_view function, std::size_t d_model, const Norm& norm);

/// The tokens that layers change in place: a copy of x, the step x.
/// @throws ShapeError where the output's shape is not that of x
View begin_tokens(std::string_view function, const Tokens<const float>& x, const Tokens<float>& output,
                  const Trace& trace);

/// The cosines and sines of n positions, as steps.
/// @param earlier  positions before the first, besides those of the options
Rotation rotation_of(const RotaryOptions& options, std::size_t earlier, std::size_t n, std::size_t d, Buffer& buffer,
                     const Trace& trace);

/// Scale, softcap, causal mask and slopes of the options, and the masks.
/// @param buffer  keeps the slopes
/// @throws Error where a mask or a bias is among the options, since masking has the mask
Scoring scoring_of(const MultiHeadOptions& options, const Masking& masking, Buffer& buffer);

/// The self-attention of all layers of a call, a sublayer of a Stream.
class SelfAttention {
public:
    /// @param maps  of one of the layers: all have heads of one size
    SelfAttention(const Tokens<const float>& x, const Masking& masking, const AttentionMaps& maps,
                  const MultiHeadOptions& options, Workspace& workspace, const Trace& trace);

    void of_layer(const AttentionMaps& maps, const View& x, const View& result, const Trace& inside) const;
    void operator()(const View& x, const View& result, const Trace& inside) const
    {
        of_layer(maps_, x, result, inside);
    }

private:
    Sequences sequences_;
    const AttentionMaps& maps_;
    std::size_t heads_;
    Workspace& workspace_;
    Scoring scoring_;
    std::optional<Rotation> rotation_;
};

/// What the calls of encoder and decoder layers have in common.
template <class Options>
Setting setting_of(const Options& options, Workspace& workspace)
{
    return {workspace, static_cast<float>(options.norm.epsilon), options.placement};
}

/// The module of the steps: the options of the reference's, and the type.
StepOptions in_float32(StepOptions options);

/// Layers on top of each other, in the scopes layers.0, layers.1, …, and the norm after them where there is one.
/// @param layer  changes the tokens: from (weights of the layer, its scope)
template <class Weights, class Layer>
void pass_through(const std::vector<Weights>& layers, const std::optional<Norm>& norm, const EncoderOptions& options,
                  const View& tokens, const Sequences& sequences, const Trace& trace, const Layer& layer)
{
    std::string name = "x";
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i, {{"x", name}});
        layer(layers[i], inside);
        name = "layers." + std::to_string(i) + ".output";
    }
    if (norm) {
        const Trace inside = trace.scope("norm", {{"x", name}});
        const float epsilon = static_cast<float>(options.final_norm.value_or(options.norm).epsilon);
        normalize(tokens, *norm, epsilon, tokens, sequences, inside);
        name = "norm.output";
    }
    trace.alias("output", name);
}

} // namespace attn::fast
