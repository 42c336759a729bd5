#include "reader.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/trace_io/file.hpp"

#include <algorithm>
#include <cmath>

namespace attn {

StateDictReader::StateDictReader(const NamedArrays& arrays, std::string module,
                                 std::map<std::string, std::size_t> sizes)
    : arrays_(arrays), module_(std::move(module)), sizes_(std::move(sizes))
{
    begin_part("");
}

void StateDictReader::begin_part(const std::string& prefix)
{
    has_biases_ = false;
    for (auto entry = arrays_.lower_bound(prefix); entry != arrays_.end() && entry->first.starts_with(prefix); ++entry)
        has_biases_ = has_biases_ || entry->first.ends_with("bias");
    sizes_.erase("d_ff");
}

bool StateDictReader::has_any(std::string_view prefix) const
{
    const auto first = arrays_.lower_bound(prefix);
    return first != arrays_.end() && first->first.starts_with(prefix);
}

Vector StateDictReader::vector(const std::string& name, const Dimension& size)
{
    const Array* array = take(name, {size});
    return array == nullptr ? Vector{} : from_array<Vector>(*array);
}

std::optional<Vector> StateDictReader::bias(const std::string& name, const Dimension& size)
{
    return has_biases_ ? std::optional(vector(name, size)) : std::nullopt;
}

Matrix StateDictReader::matrix(const std::string& name, const Dimension& rows, const Dimension& columns)
{
    const Array* array = take(name, {rows, columns});
    return array == nullptr ? Matrix{} : from_array<Matrix>(*array);
}

Matrix StateDictReader::weight(const std::string& name, const Dimension& out, const Dimension& in)
{
    const Array* array = take(name, {out, in});
    return array == nullptr ? Matrix{} : transpose(from_array<Matrix>(*array));
}

LinearWeights StateDictReader::linear(const std::string& name, const std::string& out, const std::string& in)
{
    Matrix map = weight(name + ".weight", {1, out}, {1, in});
    return {std::move(map), bias(name + ".bias", {1, out})};
}

void StateDictReader::finish()
{
    for (const auto& [name, array] : arrays_)
        if (!used_.contains(name))
            complaints_.push_back(printable(name) + " " + to_string(array.shape) + " is not expected");
    if (complaints_.empty())
        return;
    std::string message = std::to_string(complaints_.size()) +
                          (complaints_.size() == 1 ? " tensor does" : " tensors do") + " not fit " + module_ + ":";
    constexpr std::size_t most = 100; // of lines: a file may hold a million tensors
    for (std::size_t i = 0; i < std::min(complaints_.size(), most); ++i)
        message += "\n  " + complaints_[i];
    if (complaints_.size() > most)
        message += "\n  and " + std::to_string(complaints_.size() - most) + " more";
    throw WeightsError(message);
}

const Array* StateDictReader::take(const std::string& name, const std::vector<Dimension>& expected)
{
    used_.insert(name);
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) {
        complaints_.push_back(name + " is missing");
        return nullptr;
    }
    const std::string complaint = objection(found->second, expected);
    if (complaint.empty())
        return &found->second;
    complaints_.push_back(name + " " + complaint);
    return nullptr;
}

/// Why a tensor can't be taken; nothing where it can. A letter that is seen for the first time takes its size.
std::string StateDictReader::objection(const Array& array, const std::vector<Dimension>& expected)
{
    bool fits = array.rank() == expected.size();
    for (std::size_t axis = 0; fits && axis < expected.size(); ++axis) {
        const auto& [times, letter] = expected[axis];
        const std::size_t found = array.shape[axis];
        fits =
            found > 0 && found % times == 0 && sizes_.try_emplace(letter, found / times).first->second == found / times;
    }
    if (!fits)
        return "is " + to_string(array.shape) + ", expected " + in_letters(expected);
    if (array.type != ElementType::real)
        return "holds " + std::string(array.type == ElementType::boolean ? "booleans" : "whole numbers") +
               ", expected real numbers";
    for (std::size_t i = 0; i < array.size(); ++i)
        if (!std::isfinite(array.values[i]))
            return "holds " + std::to_string(array.values[i]) + " at " + to_string(index_at(i, array.shape)) +
                   ", expected finite numbers";
    return {};
}

/// "(3*d_model, d_model) = (12, 4)"; without the sizes where one is not known yet.
std::string StateDictReader::in_letters(const std::vector<Dimension>& expected) const
{
    std::string letters;
    Shape shape;
    for (const auto& [times, letter] : expected) {
        letters += (letters.empty() ? "" : ", ") + (times == 1 ? "" : std::to_string(times) + "*") + letter;
        if (const auto size = sizes_.find(letter); size != sizes_.end())
            shape.push_back(times * size->second);
    }
    const std::string text = "(" + letters + (expected.size() == 1 ? ",)" : ")");
    return shape.size() == expected.size() ? text + " = " + to_string(shape) : text;
}

namespace {

Vector part(const Vector& packed, std::size_t begin, std::size_t end)
{
    return xt::view(packed, xt::range(begin, end));
}

/// Shares a packed bias out to queries, keys and values.
void share_bias(const Vector& packed, MultiHeadWeights& weights)
{
    const std::size_t keys = weights.query.weight.shape(1), values = keys + weights.key.weight.shape(1);
    weights.query.bias = part(packed, 0, keys);
    weights.key.bias = part(packed, keys, values);
    weights.value.bias = part(packed, values, packed.size());
}

MultiHeadWeights packed_weights(StateDictReader& reader, const std::string& prefix)
{
    const Matrix packed = reader.weight(prefix + "in_proj_weight", {3, "d_model"}, {1, "d_model"});
    const std::optional<Vector> bias = reader.bias(prefix + "in_proj_bias", {3, "d_model"});
    if (!reader.fits())
        return {};
    const std::size_t d_model = packed.shape(0);
    MultiHeadWeights weights{{columns(packed, 0, d_model)},
                             {columns(packed, d_model, 2 * d_model)},
                             {columns(packed, 2 * d_model, 3 * d_model)}};
    if (bias)
        share_bias(*bias, weights);
    return weights;
}

MultiHeadWeights separate_weights(StateDictReader& reader, const std::string& prefix, bool is_pytorch)
{
    // PyTorch's heads share out d_model, whatever the sizes of key and value are.
    const std::string h_d_k = is_pytorch ? "d_model" : "h_d_k", h_d_v = is_pytorch ? "d_model" : "h_d_v";
    MultiHeadWeights weights{{reader.weight(prefix + "q_proj_weight", {1, h_d_k}, {1, "d_model"})},
                             {reader.weight(prefix + "k_proj_weight", {1, h_d_k}, {1, "d_memory"})},
                             {reader.weight(prefix + "v_proj_weight", {1, h_d_v}, {1, "d_value"})}};
    const std::optional<Vector> bias = is_pytorch ? reader.bias(prefix + "in_proj_bias", {3, "d_model"})
                                                  : reader.bias(prefix + "in_proj_bias", {1, "in_proj"});
    if (!reader.fits() || !bias)
        return weights;
    if (bias->size() != 2 * weights.query.weight.shape(1) + weights.value.weight.shape(1))
        throw WeightsError(prefix + "in_proj_bias " + to_string(shape_of(*bias)) +
                           " is not as long as queries, keys and values");
    share_bias(*bias, weights);
    return weights;
}

} // namespace

MultiHeadWeights take_multi_head(StateDictReader& reader, const std::string& prefix, bool has_output_map)
{
    const bool is_separate = reader.has(prefix + "q_proj_weight") || !has_output_map;
    MultiHeadWeights weights =
        is_separate ? separate_weights(reader, prefix, has_output_map) : packed_weights(reader, prefix);
    if (has_output_map)
        weights.output = reader.linear(prefix + "out_proj", "d_model", "d_model");
    return weights;
}

FeedForwardWeights take_feed_forward(StateDictReader& reader, const std::string& prefix)
{
    LinearWeights hidden = reader.linear(prefix + "linear1", "d_ff", "d_model");
    return {std::move(hidden), reader.linear(prefix + "linear2", "d_model", "d_ff")};
}

LayerNormWeights take_layer_norm(StateDictReader& reader, const std::string& prefix)
{
    Vector gain = reader.vector(prefix + "weight", {1, "d_model"});
    return {std::move(gain), reader.bias(prefix + "bias", {1, "d_model"})};
}

EncoderLayerWeights take_encoder_layer(StateDictReader& reader, const std::string& prefix)
{
    MultiHeadWeights attention = take_multi_head(reader, prefix + "self_attn.", true);
    FeedForwardWeights feed_forward = take_feed_forward(reader, prefix);
    LayerNormWeights norm1 = take_layer_norm(reader, prefix + "norm1.");
    return {std::move(attention), std::move(feed_forward), std::move(norm1),
            take_layer_norm(reader, prefix + "norm2.")};
}

EncoderWeights take_encoder(StateDictReader& reader, const std::string& prefix, std::optional<std::size_t> layers)
{
    return take_stack<EncoderWeights>(reader, prefix, layers, take_encoder_layer);
}

std::map<std::string, std::size_t> sizes_of(std::size_t d_model)
{
    return {{"d_model", d_model}, {"d_memory", d_model}, {"d_value", d_model}};
}

std::string with_d_model(const std::string& module, std::size_t d_model)
{
    return module + " with d_model " + std::to_string(d_model);
}

std::size_t layers_in(const StateDictReader& reader, const std::string& prefix)
{
    std::size_t layers = 0;
    while (reader.has_any(prefix + "layers." + std::to_string(layers) + "."))
        ++layers;
    return layers;
}

} // namespace attn
