#pragma once

#include "attn/core/array.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/loader.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/files/weights/visit_llama.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::files {

/// Reads the tensors of a .safetensors or .npz file, by the name's ending.
/// @param prefix  takes only the tensors whose names begin with it, without it: "encoder." of a larger model
/// @throws FileError  where the file is damaged or has another ending, or no tensor has that prefix
NamedArrays read_weights(const std::filesystem::path& path, std::string_view prefix = {});

/// Writes a .safetensors or .npz file, by the name's ending, for read_weights() or PyTorch's load_state_dict().
/// @throws FileError  where the file has another ending or can't be written
void write_weights(const std::filesystem::path& path, const NamedArrays& weights);

/// @name Weights that load_weights() can't name by their struct alone
/// @throws WeightsError  as load_weights()
/// @{

/// nn.GRU; as many layers and directions as the arrays have
RecurrentWeights gru_weights(const NamedArrays& arrays, std::size_t d_in);
/// nn.LSTM: the same names, with four gates in place of three
RecurrentWeights lstm_weights(const NamedArrays& arrays, std::size_t d_in);

/// A decoder like Llama's, and which features of a head its weights rotate together.
struct LlamaCheckpoint {
    LlamaWeights weights;
    RotaryLayout layout; ///< halves under Hugging Face's names, pairs under others
};

/// Under the names of Hugging Face's LlamaForCausalLM, of llama.cpp, or of llama2.c: see llama_families. An output map that
/// equals the embedding is tied.
LlamaCheckpoint llama_weights(const NamedArrays& arrays);

/// A decoder like GPT-2, and the activation that its names stand for.
struct GptCheckpoint {
    GptWeights weights;
    std::optional<Activation> activation =
        {}; ///< gelu-tanh under GPT-2's names, gelu under nanoGPT's; empty under others
};

/// Under the names of PyTorch's modules (see GptWeights), of Hugging Face's GPT-2, or of nanoGPT. An output map that
/// equals the embedding is tied.
GptCheckpoint gpt_weights(const NamedArrays& arrays);

/// @}

/// A visitor that collects the tensors of weights under PyTorch's names.
class StateDictWriter {
public:
    template <class... Parts>
    void operator()(const WeightTensor& tensor, const Parts&... parts)
    {
        (append(tensor, to_stored(parts, tensor.is_transposed)), ...);
    }

    /// @name Refuse what PyTorch's modules can't hold
    /// @{
    void begin_part(const MultiHeadWeights& weights, const std::string& prefix) const;
    void begin_part(const RecurrentWeights& weights, const std::string& prefix) const;
    /// @}

    NamedArrays arrays;

private:
    static Array to_stored(const Vector& part, bool) { return to_array(part); }
    static Array to_stored(const Matrix& part, bool is_transposed)
    {
        return to_array(is_transposed ? transpose(part) : part);
    }
    void append(const WeightTensor& tensor, Array part);
};

/// The tensors of any weights that visit() takes, for write_weights(). Llama's have Hugging Face's names; no feature
/// changes its place, so that the rotary layout stays what it is.
/// @throws Error where PyTorch's module can't hold them: multi-head attention without an output map or with heads of
///         another size than d_model / h, recurrent layers that differ in directions, biases or d_hidden
template <class Weights>
NamedArrays state_dict(const Weights& weights)
{
    StateDictWriter writer;
    visit(weights, "", writer);
    return std::move(writer.arrays);
}

/// A learned tensor: what a file calls it, and its shape there.
struct Parameter {
    std::string name;
    Shape shape;

    std::size_t count() const { return element_count(shape); }
};

/// The learned tensors of any weights that visit() takes, in PyTorch's order.
///
///     for (const Parameter& parameter : parameters(weights))
///         std::cout << parameter.name << ' ' << to_string(parameter.shape) << ' ' << parameter.count() << '\n';
template <class Weights>
std::vector<Parameter> parameters(const Weights& weights)
{
    std::vector<Parameter> all;
    visit(weights, "", [&all](const WeightTensor& tensor, const auto&... parts) {
        Parameter& parameter = all.emplace_back(Parameter{tensor.name, {}});
        const auto add = [&](Shape shape) {
            if (tensor.is_transposed)
                std::reverse(shape.begin(), shape.end());
            if (parameter.shape.empty())
                parameter.shape = shape;
            else
                parameter.shape.front() += shape.front();
        };
        (add(shape_of(parts)), ...);
    });
    return all;
}

/// How many numbers they hold together.
std::size_t total(const std::vector<Parameter>& parameters);

} // namespace attn::files
