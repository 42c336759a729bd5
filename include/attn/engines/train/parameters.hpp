#pragma once

#include "attn/files/weights/visit.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attn::train {

/// Where one part of a tensor of weights lies among all parameters of a model in one flat buffer.
struct ParameterPlace {
    std::string name;     ///< the tensor's: "layers.0.self_attn.in_proj_weight"
    std::size_t part = 0; ///< of the tensors that PyTorch packs: 0 queries, 1 keys, 2 values
    Shape shape;          ///< as attn has it: a map is (d_in, d_out)
    std::size_t offset = 0;

    std::size_t count() const { return element_count(shape); }
};

/// All parameters of a model, one after another in the order of files::visit().
struct ParameterTable {
    std::vector<ParameterPlace> places;
    std::size_t size = 0; ///< of the buffer

    /// @throws std::logic_error where there is no such tensor or part
    const ParameterPlace& at(std::string_view name, std::size_t part = 0) const;
};

/// The table of any weights that files::visit() takes.
template <class Weights>
ParameterTable table_of(const Weights& weights)
{
    ParameterTable table;
    files::for_each_tensor(weights, [&table](const files::WeightTensor& tensor, const auto&... parts) {
        std::size_t part = 0;
        const auto add = [&](const auto& numbers) {
            table.places.push_back({tensor.name, part++, shape_of(numbers), table.size});
            table.size += numbers.size();
        };
        (add(parts), ...);
    });
    return table;
}

/// The parameters as float32 or double, one after another as table_of() says.
template <class Number = float, class Weights>
std::vector<Number> packed(const Weights& weights)
{
    std::vector<Number> numbers;
    files::for_each_tensor(weights, [&numbers](const files::WeightTensor&, const auto&... parts) {
        const auto add = [&](const auto& part) {
            for (const double number : part)
                numbers.push_back(static_cast<Number>(number));
        };
        (add(parts), ...);
    });
    return numbers;
}

/// The other way round: gives weights of the same shapes the numbers of a buffer.
/// @param weights  say the shapes; their numbers are replaced
template <class Number, class Weights>
Weights unpacked(const std::vector<Number>& numbers, Weights weights)
{
    const Number* next = numbers.data();
    files::for_each_tensor(weights, [&next](const files::WeightTensor&, auto&... parts) {
        const auto fill = [&](auto& part) {
            for (double& number : part)
                number = *next++;
        };
        (fill(parts), ...);
    });
    return weights;
}

} // namespace attn::train
