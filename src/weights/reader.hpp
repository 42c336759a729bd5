#pragma once

#include "attn/array.hpp"
#include "attn/layers/encoder.hpp"
#include "attn/weights/state_dict.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// An axis of a tensor in a file: so many times a letter's size.
struct Dimension {
    std::size_t times;
    std::string letter;
};

/// Takes tensors out of a file by name and shape, and collects everything that does not fit.
class StateDictReader {
public:
    /// @param sizes  of the letters that are known before anything is read
    StateDictReader(const NamedArrays& arrays, std::string module, std::map<std::string, std::size_t> sizes);

    /// From here on, tensors belong to one part of the module, such as a layer: it has biases of its own or none, and
    /// may have a width of its own.
    void begin_part(const std::string& prefix);

    /// For a module whose biases have names of another kind than those that end with bias.
    void expect_biases(bool are_there) { has_biases_ = are_there; }

    bool has(const std::string& name) const { return arrays_.contains(name); }
    bool has_any(std::string_view prefix) const;

    Vector vector(const std::string& name, const Dimension& size);
    std::optional<Vector> bias(const std::string& name, const Dimension& size);
    Matrix matrix(const std::string& name, const Dimension& rows, const Dimension& columns);

    /// A linear map's weight: (out, in) in the file, (in, out) here.
    Matrix weight(const std::string& name, const Dimension& out, const Dimension& in);
    LinearWeights linear(const std::string& name, const std::string& out, const std::string& in);

    bool fits() const { return complaints_.empty(); }

    /// @throws WeightsError where anything did not fit, or is left over
    void finish();

private:
    const Array* take(const std::string& name, const std::vector<Dimension>& expected);
    std::string objection(const Array& array, const std::vector<Dimension>& expected);
    std::string in_letters(const std::vector<Dimension>& expected) const;

    const NamedArrays& arrays_;
    std::string module_;
    std::map<std::string, std::size_t> sizes_;
    bool has_biases_ = false;
    std::set<std::string> used_;
    std::vector<std::string> complaints_;
};

/// @name Parts that several modules have
/// @param prefix  in front of the part's names: "self_attn."
/// @{
MultiHeadWeights take_multi_head(StateDictReader& reader, const std::string& prefix, bool has_output_map);
FeedForwardWeights take_feed_forward(StateDictReader& reader, const std::string& prefix);
LayerNormWeights take_layer_norm(StateDictReader& reader, const std::string& prefix);
EncoderLayerWeights take_encoder_layer(StateDictReader& reader, const std::string& prefix);
/// @param layers  how many there must be; as many as there are unless given
EncoderWeights take_encoder(StateDictReader& reader, const std::string& prefix, std::optional<std::size_t> layers);
/// @}

/// The sizes of a file whose memory, if any, is as wide as its tokens.
std::map<std::string, std::size_t> sizes_of(std::size_t d_model);

/// "an encoder layer with d_model 512"
std::string with_d_model(const std::string& module, std::size_t d_model);

/// How many layers a file has behind a prefix.
std::size_t layers_in(const StateDictReader& reader, const std::string& prefix = "");

/// The layers of a stack, each a part with biases and a width of its own, and the norm behind them where there is one.
/// @param layers  how many there must be; as many as there are, and at least one, unless given
/// @param take    takes a layer: (reader, prefix) to its weights
template <class Weights, class Take>
Weights take_stack(StateDictReader& reader, const std::string& prefix, std::optional<std::size_t> layers,
                   const Take& take)
{
    const std::size_t count = layers.value_or(std::max<std::size_t>(layers_in(reader, prefix), 1));
    Weights weights;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string of_layer = prefix + "layers." + std::to_string(i) + ".";
        reader.begin_part(of_layer);
        weights.layers.push_back(take(reader, of_layer));
    }
    reader.begin_part(prefix + "norm.");
    if (reader.has_any(prefix + "norm."))
        weights.norm = take_layer_norm(reader, prefix + "norm.");
    return weights;
}

} // namespace attn
