#pragma once

#include "attn/engines/fast/tokens.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

/// @file
/// The reference's weights in float32, in the order in which the kernels read them. They are made once.

namespace attn::fast {

/// Linear maps of the same input side by side, as one: x [W0 W1 …] + [b0 b1 …].
///
/// Columns are kept in panels, (d_in, panel_columns) each, so that a product reads its memory in order.
class LinearMaps {
public:
    /// One of the maps.
    struct Part {
        std::size_t columns;
        bool has_bias;
    };

    /// @throws ShapeError where the maps have no input in common, or a bias does not fit
    explicit LinearMaps(std::span<const LinearWeights* const> parts);
    explicit LinearMaps(const LinearWeights& only);

    std::size_t d_in() const { return d_in_; }
    std::size_t d_out() const { return d_out_; }
    std::size_t panels() const { return bias_.size() / panel_columns; }
    const std::vector<Part>& parts() const { return parts_; }
    const float* panel(std::size_t i) const { return panels_ + i * d_in_ * panel_columns; }
    const float* bias(std::size_t panel) const { return bias_.data() + panel * panel_columns; }

    /// One of the maps, as the reference has it.
    LinearWeights part(std::size_t number) const;

    static constexpr std::size_t panel_columns = 32;

private:
    std::size_t place_of(std::size_t i, std::size_t column) const;
    void copy(const LinearWeights& part, std::size_t first);

    std::size_t d_in_, d_out_ = 0;
    std::vector<Part> parts_;
    Buffer buffer_;
    float* panels_;           ///< in the buffer; zeros where there are no columns
    std::vector<float> bias_; ///< of each column of a panel
};

/// The gain, and perhaps bias, of a layer norm or a root mean square norm.
struct Norm {
    explicit Norm(const LayerNormWeights& weights);
    explicit Norm(const RmsNormWeights& weights);

    std::vector<float> gain;
    std::vector<float> bias; ///< empty: none
    bool is_centered;        ///< layer norm, which subtracts the mean
};

/// The maps of multi-head attention.
struct AttentionMaps {
    /// @param role  for errors: "self_attn"
    /// @throws Error where there is no output map, or queries or keys have a norm
    AttentionMaps(const MultiHeadWeights& weights, std::string_view role);
    AttentionMaps(LinearMaps of_query, LinearMaps of_key_value, LinearMaps of_output);

    LinearMaps query;     ///< (d_model, h d_k)
    LinearMaps key_value; ///< (d_memory, g d_k + g d_v): the keys of all heads, then the values
    LinearMaps output;    ///< (h d_v, d_model)

    std::size_t key_columns() const { return key_value.parts()[0].columns; }
    std::size_t value_columns() const { return key_value.parts()[1].columns; }
};

/// The maps of a feed-forward network.
struct FeedForwardMaps {
    explicit FeedForwardMaps(const FeedForwardWeights& weights);
    explicit FeedForwardMaps(const GatedFeedForwardWeights& weights);
    FeedForwardMaps(LinearMaps of_hidden, LinearMaps of_output);

    LinearMaps hidden; ///< (d_model, d_ff), or the gate and then what it gates, (d_model, 2 d_ff)
    LinearMaps output; ///< (d_ff, d_model)

    bool is_gated() const { return hidden.parts().size() == 2; }
    std::size_t d_ff() const { return output.d_in(); }
};

} // namespace attn::fast
