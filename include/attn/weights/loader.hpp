#pragma once

#include "attn/error.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/trace_io/npz.hpp"
#include "attn/weights/visit.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attn {

/// Weights that do not fit a module: a line for each tensor that is missing, not expected, or of another shape.
class WeightsError : public Error {
public:
    using Error::Error;
};

/// What a file of weights has to fit.
struct ExpectedWeights {
    std::string module;                               ///< for messages: "an encoder layer with d_model 512"
    std::map<std::string, std::size_t> sizes = {};    ///< of the letters that are known before anything is read
    std::optional<std::size_t> layers = std::nullopt; ///< of each stack; as many as the file has unless given
    bool has_output_map = true;                       ///< of attention
};

/// A visitor that fills weights with the tensors of a file, and collects everything that does not fit.
///
/// A letter whose size is not known yet takes the one of the first tensor that has it. Biases are all there or all
/// missing in each layer, as in PyTorch's modules, and each layer has a d_ff of its own.
class WeightsLoader {
public:
    /// @param arrays  must outlive the loader
    WeightsLoader(const NamedArrays& arrays, ExpectedWeights expected);

    template <class... Parts>
    void operator()(const StoredTensor& tensor, Parts&... parts)
    {
        std::vector<Array> stored = take(tensor, sizeof...(parts));
        auto next = stored.begin();
        if (!stored.empty())
            ((parts = from_stored<Parts>(*next++, tensor.is_transposed)), ...);
    }

    /// @name Makes the parts that the file has
    /// @{
    void begin_part(MultiHeadWeights& weights, const std::string& prefix);
    void begin_part(RecurrentWeights& weights, const std::string& prefix);
    void begin_part(std::optional<LayerNormWeights>& norm, const std::string& prefix);
    void begin_part(std::optional<Matrix>& tensor, const std::string& name);
    void begin_part(std::optional<Vector>& bias, const std::string& name);
    template <class Layer>
    void begin_part(std::vector<Layer>& layers, const std::string& prefix)
    {
        layers.resize(layers_after(prefix));
    }
    template <class Layer>
    void begin_part(Layer&, const std::string& prefix)
    {
        begin_layer(prefix);
    }
    /// @}

    bool has(const std::string& name) const { return arrays_.contains(name); }

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

    std::vector<Array> take(const StoredTensor& tensor, std::size_t parts);
    std::string objection(const Array& array, const std::vector<std::string>& axes);
    bool fits(std::size_t found, const std::string& axis);
    std::optional<std::size_t> size_of(const std::string& axis) const;
    std::string in_letters(const std::vector<std::string>& axes) const;
    std::size_t layers_after(const std::string& prefix) const;
    void begin_layer(const std::string& prefix);
    bool has_any(const std::string& prefix) const;

    const NamedArrays& arrays_;
    ExpectedWeights expected_;
    bool has_biases_ = false;
    std::set<std::string> used_;
    std::vector<std::string> complaints_;
};

/// Weights of any struct that visit() takes, from the tensors of a file.
/// @param more  what else visit() takes, such as the gates of a recurrent cell
/// @throws WeightsError  with everything that does not fit
template <class Weights, class... More>
Weights load_weights(const NamedArrays& arrays, ExpectedWeights expected, const More&... more)
{
    WeightsLoader loader(arrays, std::move(expected));
    Weights weights;
    visit(weights, "", loader, more...);
    loader.finish();
    return weights;
}

} // namespace attn
