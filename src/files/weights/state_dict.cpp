#include "attn/files/weights/state_dict.hpp"

#include <numeric>

namespace attn::files {

void StateDictWriter::begin_part(const MultiHeadWeights& w, const std::string&) const
{
    const std::size_t d_model = w.query.weight.shape(0);
    const bool square =
        w.query.weight.shape(1) == d_model && w.key.weight.shape(1) == d_model && w.value.weight.shape(1) == d_model;
    if (!square || !w.output || w.output->weight.shape(1) != d_model)
        throw Error("PyTorch's nn.MultiheadAttention has heads of d_model / h features and an output map: it "
                    "cannot hold these weights");
    const bool biased = w.query.bias.has_value();
    if (w.key.bias.has_value() != biased || w.value.bias.has_value() != biased || w.output->bias.has_value() != biased)
        throw Error("PyTorch's nn.MultiheadAttention has a bias for all of its maps or for none");
}

void StateDictWriter::append(const WeightTensor& tensor, Array part)
{
    const auto [entry, is_new] = arrays.try_emplace(tensor.name, std::move(part));
    if (is_new)
        return;
    Array& whole = entry->second;
    whole.shape.front() += part.shape.front();
    whole.values.insert(whole.values.end(), part.values.begin(), part.values.end());
}

std::size_t total(const std::vector<Parameter>& parameters)
{
    return std::accumulate(parameters.begin(), parameters.end(), std::size_t{0},
                           [](std::size_t sum, const Parameter& parameter) { return sum + parameter.count(); });
}

} // namespace attn::files
