#pragma once

#include "attn/engines/train/loss.hpp"
#include "attn/engines/train/parameters.hpp"

#include "attn/reference/ops/float_product.hpp"

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

/// A decoder like GPT-2 in float32 or double, a few texts at a time.
namespace attn::train {

struct GptSizes {
    std::size_t vocabulary, d_model, heads, layers;
    double epsilon;
    bool has_positions = true;
};

/// A map's weight (d_in, d_out) and bias (1, d_out); a norm's gain and bias (1, d).
template <class Number>
struct Pair {
    BasicView<Number> weight, bias;
};

template <class Number>
struct GptLayerMaps {
    Pair<Number> norm1, query, key, value, output, norm2, hidden, back;
};

template <class Number>
struct GptMaps {
    BasicView<Number> words, positions;
    std::vector<GptLayerMaps<Number>> layers;
    Pair<Number> norm;
};

template <class Number>
GptMaps<Number> gpt_maps_in(Number* numbers, const ParameterTable& table, std::size_t layers)
{
    const auto of = [&](const std::string& name, std::size_t part = 0) {
        const ParameterPlace& place = table.at(name, part);
        const std::size_t rows = place.shape.size() == 1 ? 1 : place.shape[0];
        return view(numbers + place.offset, rows, place.shape.back());
    };
    const auto pair = [&](const std::string& name) { return Pair<Number>{of(name + ".weight"), of(name + ".bias")}; };
    GptMaps<Number> maps{of("token_embedding.weight"), of("position_embedding.weight"), {}, pair("norm")};
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string layer = "layers." + std::to_string(i) + ".";
        const auto in = [&](std::size_t part) {
            return Pair<Number>{of(layer + "self_attn.in_proj_weight", part),
                                of(layer + "self_attn.in_proj_bias", part)};
        };
        maps.layers.push_back({pair(layer + "norm1"), in(0), in(1), in(2), pair(layer + "self_attn.out_proj"),
                               pair(layer + "norm2"), pair(layer + "linear1"), pair(layer + "linear2")});
    }
    return maps;
}

/// What the way back of a layer needs, a row per token.
template <class Number>
struct GptLayerSpace {
    std::vector<Number> normal1, inverse1, normed1, query, key, value, weights, merged;
    std::vector<Number> middle, normal2, inverse2, normed2, hidden;
};

/// Where one thread computes.
template <class Number>
struct GptSpace {
    std::vector<Number> x, normal, inverse, normed, logits;
    std::vector<GptLayerSpace<Number>> layers;
    std::vector<Number> grad_x, grad_normed, grad_query, grad_key, grad_value, grad_merged, grad_hidden, grad_weights;
};

/// Some texts of a batch, one after another without their last ids: each id predicts the next one.
struct GptBlock {
    std::vector<std::size_t> ids, targets;
    std::vector<std::size_t> begins; ///< where each text begins, and where the last one ends

    std::size_t rows() const { return ids.size(); }
    std::size_t texts() const { return begins.size() - 1; }
    std::size_t length(std::size_t text) const { return begins[text + 1] - begins[text]; }
};

struct GptLoss {
    double smoothing = 0; ///< of labels
    double share = 1;     ///< factor of the gradients
    RowLoss of_row = {};  ///< in place of cross-entropy
};

/// The sum of the losses; with a gradient also the gradients of that sum times the share, which are added to it.
template <class Number>
double gpt_block(const GptBlock& block, const GptSizes& sizes, const GptMaps<const Number>& maps, const GptLoss& of,
                 GptSpace<Number>& space, const GptMaps<std::type_identity_t<Number>>* grad);

} // namespace attn::train
