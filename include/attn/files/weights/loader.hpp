#pragma once

#include "attn/core/error.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/dialect.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/layers/convolution.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attn {
struct LlamaLayerWeights; // visited in llama.hpp
struct RecurrentWeights;  // visited in recurrent.hpp
struct LatentAttentionWeights;
struct GatedDeltaNetWeights;
using SelfAttentionWeights = std::variant<MultiHeadWeights, LatentAttentionWeights,
                                          GatedDeltaNetWeights>; // visited in language_model.hpp
struct PatchWeights;
using InputWeights = std::variant<Matrix, PatchWeights, LinearWeights, std::vector<ConvolutionWeights>,
                                  std::monostate>; // there, too
struct FeedForwardWeights;
struct GatedFeedForwardWeights;
struct ExpertsWeights;
using NetworkWeights =
    std::variant<FeedForwardWeights, GatedFeedForwardWeights, ExpertsWeights>; // visited in language_model.hpp
} // namespace attn

namespace attn::files {

/// Weights that do not fit a module: a line for each tensor that is missing, not expected, or of another shape.
class WeightsError : public ErrorList {
public:
    using ErrorList::ErrorList;
};

/// What a file of weights must match, besides sizes.
struct LoadOptions {
    std::optional<std::size_t> layers = {}; ///< of each stack; as many as the file has unless given
    bool has_output_map = true;             ///< false for heads side by side: no out_proj, and heads of any size
    bool has_input = true;                  ///< false for layers of a model that takes tokens: nothing makes them
    std::string module = {};                ///< for messages: "a GRU"; by the struct unless given
    std::string ignored = {};               ///< tensors with this ending are left out
    std::optional<Dialect> dialect = {};    ///< the names of the file; found by dialect_of() unless given
};

/// The sizes of letters: {{"d_model", 512}}.
using AxisSizes = std::map<std::string, std::size_t>;

/// A visitor that fills weights with the tensors of a file, and collects everything that does not fit.
///
/// A letter whose size is not known takes the one of the first tensor that has it. There is a bias where the file has
/// one, of all norms of a layer alike and of both maps of its network, and each layer can have its own d_ff. The tensors
/// have the names that visit() gives them, or those of another family: see dialect_of().
class WeightsLoader {
public:
    /// @param arrays  must outlive the loader
    /// @param module  for messages: "an encoder layer"
    WeightsLoader(const NamedArrays& arrays, std::string_view module, const AxisSizes& sizes,
                  const LoadOptions& options);

    template <class... Parts>
    void operator()(const WeightTensor& tensor, Parts&... parts)
    {
        const std::vector<const Array*> stored = take(tensor, sizeof...(parts));
        auto next = stored.begin();
        if (!stored.empty())
            ((parts = from_stored<Parts>(**next++, tensor.is_transposed && !is_in_out(tensor))), ...);
    }

    /// @name Makes the parts that the file has
    /// @{
    void begin_part(MultiHeadWeights& weights, const std::string& prefix);
    void begin_part(RecurrentWeights& weights, const std::string& prefix);
    void begin_part(LlamaLayerWeights& weights, const std::string& prefix);
    void begin_part(SelfAttentionWeights& attention, const std::string& prefix);
    void begin_part(NetworkWeights& network, const std::string& prefix);
    void begin_part(InputWeights& input, const std::string& prefix);
    void begin_part(std::optional<Vector>& bias, const std::string& name);
    template <class Part>
    void begin_part(std::optional<Part>& part, const std::string& prefix)
    {
        begin_layer(prefix);
        if (has_any(prefix))
            part.emplace();
    }
    template <class Layer>
    void begin_part(std::vector<Layer>& layers, const std::string& prefix)
    {
        layers.resize(options_.layers.value_or(std::max<std::size_t>(count_after(prefix), 1)));
    }
    void begin_part(std::vector<GatedFeedForwardWeights>& experts, const std::string& prefix)
    {
        experts.resize(std::max<std::size_t>(count_after(prefix), 1)); // of a layer, however many of these there are
    }
    void begin_part(std::vector<LayerNormWeights>& of_heads, const std::string& prefix)
    {
        of_heads.resize(has(prefix + "weight") ? 1 : count_after(prefix));
    }
    void begin_part(std::vector<ConvolutionWeights>& convolutions, const std::string& prefix)
    {
        convolutions.resize(std::max<std::size_t>(count_after(prefix), 1)); // before the layers, however many these are
    }
    template <class Layer>
    void begin_part(Layer&, const std::string& prefix)
    {
        begin_layer(prefix);
    }
    /// @}

    bool has(const std::string& name) const { return arrays_.contains(dialect_.theirs(name)); }

    /// Whether packed maps are not three times d_model wide: heads share keys and values, or have a size of their own.
    bool has_shared_heads(const std::string& prefix) const;

    /// Whether the norms of queries and keys are as wide as those of all heads side by side.
    bool has_norms_of_all_heads(const std::string& prefix) const;

    /// @throws WeightsError where anything did not fit, or is left over
    void finish();

private:
    template <class Part>
    static Part from_stored(const Array& stored, bool is_transposed)
    {
        if constexpr (std::same_as<Part, Matrix>)
            return is_transposed ? transpose(from_array<Matrix>(stored)) : from_array<Matrix>(stored);
        else
            return from_array<Part>(stored);
    }

    /// Biases that there are all of or none.
    struct Biases {
        std::set<std::string> there = {}, missing = {};
    };

    std::string kind_of_bias(std::string name) const;
    /// The parts of a tensor; none where it does not fit.
    std::vector<const Array*> take(const WeightTensor& tensor, std::size_t parts);
    /// Whether the file has it as (in, out), as we do.
    bool is_in_out(const WeightTensor& tensor) const
    {
        return tensor.is_transposed && dialect_.is_in_out(dialect_.theirs(tensor.name));
    }
    std::string objection(const Array& array, const std::vector<std::string>& axes);
    bool fits(const Shape& shape, const std::vector<std::string>& axes);
    bool fits(std::size_t found, const std::string& axis);
    std::optional<std::size_t> size_of(const std::string& axis) const;
    std::string in_letters(const std::vector<std::string>& axes) const;
    std::size_t count_after(const std::string& prefix) const;
    void begin_layer(const std::string& prefix);
    bool has_any(const std::string& prefix) const;

    const NamedArrays& arrays_;
    Dialect dialect_;
    LoadOptions options_;
    AxisSizes sizes_;
    std::string module_;
    std::set<std::string> used_;
    std::map<std::string, Biases> biases_; ///< by kind
    std::vector<std::string> complaints_;
    std::vector<Array> slices_; ///< of the tensor that was taken last
};

/// Weights of any struct that visit() takes, from the tensors of a file:
///
///     load_weights<EncoderWeights>(read_weights("model.safetensors"), {{"d_model", 512}}, {.layers = 6})
///
/// @param arrays   under the names that visit() gives them, and no others
/// @param sizes    of the letters that must have a certain size; a memory is as wide as d_model unless d_memory is given,
///                 and its values are as wide as d_memory unless d_value is
/// @param options  what else the file must fit
/// @param more     what else visit() takes, such as the gates of a recurrent cell
/// @throws WeightsError  with everything that does not fit
template <class Weights, class... More>
Weights load_weights(const NamedArrays& arrays, const AxisSizes& sizes, const LoadOptions& options = {},
                     const More&... more)
{
    Weights weights;
    WeightsLoader loader(arrays, module_name<Weights>, sizes, options);
    visit_any(weights, loader, more...);
    loader.finish();
    return weights;
}

} // namespace attn::files
