#pragma once

#include "attn/core/array.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/loader.hpp"
#include "attn/files/weights/visit.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace attn::files {

/// Reads the tensors of a .safetensors or .npz file, by the name's ending.
/// @param prefix     takes only the tensors whose names begin with it, without it: "encoder." of a larger model
/// @param is_wanted  of tensors by their names in the file: the others are not read
/// @throws FileError  where the file is damaged or has another ending, or no tensor has that prefix
NamedArrays read_weights(const std::filesystem::path& path, std::string_view prefix = {},
                         const NameFilter& is_wanted = any_name);

/// Writes a .safetensors or .npz file, by the name's ending, for read_weights() or PyTorch's load_state_dict().
/// @throws FileError  where the file has another ending or can't be written
void write_weights(const std::filesystem::path& path, const NamedArrays& weights);

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
    static Array to_stored(const Tensor3& part, bool) { return to_array(part); }
    static Array to_stored(const Tensor4& part, bool) { return to_array(part); }
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
    visit_any(weights, writer);
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
    for_each_tensor(weights, [&all](const WeightTensor& tensor, const auto&... parts) {
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
