#include "attn/tools/state_dict.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/safetensors.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace attn {
namespace {

/// An axis of a tensor in a file: so many times a letter's size.
struct Dimension {
    std::size_t times;
    std::string letter;
};

/// Takes tensors out of a file by name and shape, and collects everything that does not fit.
class StateDictReader {
public:
    StateDictReader(const NamedArrays& arrays, std::string module, std::map<std::string, std::size_t> sizes)
        : arrays_(arrays), module_(std::move(module)), sizes_(std::move(sizes))
    {
        begin_part("");
    }

    /// From here on, tensors belong to one part of the module, such as a layer: it has biases of its own or none, and
    /// may have a width of its own.
    void begin_part(const std::string& prefix)
    {
        has_biases_ = false;
        for (auto entry = arrays_.lower_bound(prefix); entry != arrays_.end() && entry->first.starts_with(prefix);
             ++entry)
            has_biases_ = has_biases_ || entry->first.ends_with("bias");
        sizes_.erase("d_ff");
    }

    bool has(const std::string& name) const { return arrays_.contains(name); }
    bool has_any(std::string_view prefix) const
    {
        const auto first = arrays_.lower_bound(prefix);
        return first != arrays_.end() && first->first.starts_with(prefix);
    }

    Vector vector(const std::string& name, const Dimension& size)
    {
        const Array* array = take(name, {size});
        return array == nullptr ? Vector{} : from_array<Vector>(*array);
    }

    std::optional<Vector> bias(const std::string& name, const Dimension& size)
    {
        return has_biases_ ? std::optional(vector(name, size)) : std::nullopt;
    }

    Matrix matrix(const std::string& name, const Dimension& rows, const Dimension& columns)
    {
        const Array* array = take(name, {rows, columns});
        return array == nullptr ? Matrix{} : from_array<Matrix>(*array);
    }

    /// A linear map's weight: (out, in) in the file, (in, out) here.
    Matrix weight(const std::string& name, const Dimension& out, const Dimension& in)
    {
        const Array* array = take(name, {out, in});
        return array == nullptr ? Matrix{} : transpose(from_array<Matrix>(*array));
    }

    LinearWeights linear(const std::string& name, const std::string& out, const std::string& in)
    {
        Matrix map = weight(name + ".weight", {1, out}, {1, in});
        return {std::move(map), bias(name + ".bias", {1, out})};
    }

    bool fits() const { return complaints_.empty(); }

    /// @throws WeightsError where anything did not fit, or is left over
    void finish()
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

private:
    const Array* take(const std::string& name, const std::vector<Dimension>& expected)
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
    std::string objection(const Array& array, const std::vector<Dimension>& expected)
    {
        bool fits = array.rank() == expected.size();
        for (std::size_t axis = 0; fits && axis < expected.size(); ++axis) {
            const auto& [times, letter] = expected[axis];
            const std::size_t found = array.shape[axis];
            fits = found > 0 && found % times == 0 &&
                   sizes_.try_emplace(letter, found / times).first->second == found / times;
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
    std::string in_letters(const std::vector<Dimension>& expected) const
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

    const NamedArrays& arrays_;
    std::string module_;
    std::map<std::string, std::size_t> sizes_;
    bool has_biases_ = false;
    std::set<std::string> used_;
    std::vector<std::string> complaints_;
};

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

/// The sizes of a file without a memory: it is the tokens themselves that answer.
std::map<std::string, std::size_t> sizes_of(std::size_t d_model)
{
    return {{"d_model", d_model}, {"d_memory", d_model}, {"d_value", d_model}};
}

std::string with_d_model(const std::string& module, std::size_t d_model)
{
    return module + " with d_model " + std::to_string(d_model);
}

std::size_t layers_in(const StateDictReader& reader)
{
    std::size_t layers = 0;
    while (reader.has_any("layers." + std::to_string(layers) + "."))
        ++layers;
    return layers;
}

} // namespace

MultiHeadWeights multi_head_weights(const NamedArrays& arrays, const AttentionSizes& sizes, bool has_output_map)
{
    std::map<std::string, std::size_t> known = sizes_of(sizes.d_model);
    known["d_memory"] = sizes.d_memory.value_or(sizes.d_model);
    known["d_value"] = sizes.d_value.value_or(known["d_memory"]);
    StateDictReader reader(arrays, with_d_model("a multi-head attention", sizes.d_model), std::move(known));
    MultiHeadWeights weights = take_multi_head(reader, "", has_output_map);
    reader.finish();
    return weights;
}

FeedForwardWeights feed_forward_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("a feed-forward network", d_model), sizes_of(d_model));
    FeedForwardWeights weights = take_feed_forward(reader, "");
    reader.finish();
    return weights;
}

LayerNormWeights layer_norm_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("a layer norm", d_model), sizes_of(d_model));
    LayerNormWeights weights = take_layer_norm(reader, "");
    reader.finish();
    return weights;
}

EncoderLayerWeights encoder_layer_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("an encoder layer", d_model), sizes_of(d_model));
    EncoderLayerWeights weights = take_encoder_layer(reader, "");
    reader.finish();
    return weights;
}

EncoderWeights encoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers)
{
    StateDictReader reader(arrays, with_d_model("an encoder", d_model), sizes_of(d_model));
    const std::size_t count = layers.value_or(std::max<std::size_t>(layers_in(reader), 1));
    EncoderWeights weights;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string prefix = "layers." + std::to_string(i) + ".";
        reader.begin_part(prefix);
        weights.layers.push_back(take_encoder_layer(reader, prefix));
    }
    reader.begin_part("norm.");
    if (reader.has_any("norm."))
        weights.norm = take_layer_norm(reader, "norm.");
    reader.finish();
    return weights;
}

AdditiveWeights additive_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k)
{
    StateDictReader reader(arrays, "an additive score", {{"d_q", d_q}, {"d_k", d_k}});
    Matrix query = reader.matrix("query_weights", {1, "d_q"}, {1, "d_hidden"});
    Matrix key = reader.matrix("key_weights", {1, "d_k"}, {1, "d_hidden"});
    AdditiveWeights weights{std::move(query), std::move(key), reader.vector("score_weights", {1, "d_hidden"})};
    reader.finish();
    return weights;
}

ConcatenatedWeights concatenated_weights(const NamedArrays& arrays, std::size_t d_pair)
{
    StateDictReader reader(arrays, "an additive score of concatenated pairs", {{"d_pair", d_pair}});
    Matrix hidden = reader.matrix("hidden_weights", {1, "d_pair"}, {1, "d_hidden"});
    ConcatenatedWeights weights{std::move(hidden), reader.vector("score_weights", {1, "d_hidden"})};
    reader.finish();
    return weights;
}

Matrix bilinear_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k)
{
    StateDictReader reader(arrays, "a bilinear score", {{"d_q", d_q}, {"d_k", d_k}});
    Matrix weights = reader.matrix("bilinear_weights", {1, "d_q"}, {1, "d_k"});
    reader.finish();
    return weights;
}

// -------------------------------------------------------------------------------------------------------- the way back

namespace {

void put_weight(NamedArrays& arrays, const std::string& name, const Matrix& weight)
{
    arrays[name] = to_array(transpose(weight));
}

void put_bias(NamedArrays& arrays, const std::string& name, const std::optional<Vector>& bias)
{
    if (bias)
        arrays[name] = to_array(*bias);
}

void put_linear(NamedArrays& arrays, const std::string& name, const LinearWeights& weights)
{
    put_weight(arrays, name + ".weight", weights.weight);
    put_bias(arrays, name + ".bias", weights.bias);
}

/// What nn.MultiheadAttention can't hold; it has a bias for all maps or none, and an output map.
void expect_pytorch(const MultiHeadWeights& w)
{
    const std::size_t d_model = w.query.weight.shape(0);
    const bool square =
        w.query.weight.shape(1) == d_model && w.key.weight.shape(1) == d_model && w.value.weight.shape(1) == d_model;
    if (!square || !w.output || w.output->weight.shape(1) != d_model)
        throw Error(
            "PyTorch's nn.MultiheadAttention has heads of d_model / h features and an output map: these weights "
            "have no place in it");
    const bool biased = w.query.bias.has_value();
    if (w.key.bias.has_value() != biased || w.value.bias.has_value() != biased || w.output->bias.has_value() != biased)
        throw Error("PyTorch's nn.MultiheadAttention has a bias for all of its maps or for none");
}

void put_multi_head(NamedArrays& arrays, const std::string& prefix, const MultiHeadWeights& w)
{
    expect_pytorch(w);
    const std::size_t d_model = w.query.weight.shape(0);
    if (w.key.weight.shape(0) == d_model && w.value.weight.shape(0) == d_model) {
        put_weight(arrays, prefix + "in_proj_weight",
                   concat_columns(std::vector<Matrix>{w.query.weight, w.key.weight, w.value.weight}));
    } else {
        put_weight(arrays, prefix + "q_proj_weight", w.query.weight);
        put_weight(arrays, prefix + "k_proj_weight", w.key.weight);
        put_weight(arrays, prefix + "v_proj_weight", w.value.weight);
    }
    if (w.query.bias)
        arrays[prefix + "in_proj_bias"] = to_array(concat(concat(*w.query.bias, *w.key.bias), *w.value.bias));
    put_linear(arrays, prefix + "out_proj", *w.output);
}

void put_feed_forward(NamedArrays& arrays, const std::string& prefix, const FeedForwardWeights& weights)
{
    put_linear(arrays, prefix + "linear1", weights.hidden);
    put_linear(arrays, prefix + "linear2", weights.output);
}

void put_layer_norm(NamedArrays& arrays, const std::string& prefix, const LayerNormWeights& weights)
{
    arrays[prefix + "weight"] = to_array(weights.gain);
    put_bias(arrays, prefix + "bias", weights.bias);
}

void put_encoder_layer(NamedArrays& arrays, const std::string& prefix, const EncoderLayerWeights& weights)
{
    put_multi_head(arrays, prefix + "self_attn.", weights.self_attention);
    put_feed_forward(arrays, prefix, weights.feed_forward);
    put_layer_norm(arrays, prefix + "norm1.", weights.norm1);
    put_layer_norm(arrays, prefix + "norm2.", weights.norm2);
}

} // namespace

NamedArrays state_dict(const MultiHeadWeights& weights)
{
    NamedArrays arrays;
    put_multi_head(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const FeedForwardWeights& weights)
{
    NamedArrays arrays;
    put_feed_forward(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const LayerNormWeights& weights)
{
    NamedArrays arrays;
    put_layer_norm(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const EncoderLayerWeights& weights)
{
    NamedArrays arrays;
    put_encoder_layer(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const EncoderWeights& weights)
{
    NamedArrays arrays;
    for (std::size_t i = 0; i < weights.layers.size(); ++i)
        put_encoder_layer(arrays, "layers." + std::to_string(i) + ".", weights.layers[i]);
    if (weights.norm)
        put_layer_norm(arrays, "norm.", *weights.norm);
    return arrays;
}

// --------------------------------------------------------------------------------------------------------------- files

namespace {

bool is_safetensors(const std::filesystem::path& path)
{
    if (path.extension() != ".safetensors" && path.extension() != ".npz")
        throw FileError(path, "is neither .safetensors nor .npz by its name; with PyTorch, write one by "
                              "safetensors.torch.save_file(model.state_dict(), …) or numpy.savez");
    return path.extension() == ".safetensors";
}

} // namespace

NamedArrays read_weights(const std::filesystem::path& path, std::string_view prefix)
{
    NamedArrays all = is_safetensors(path) ? read_safetensors(path) : read_npz(path);
    if (prefix.empty())
        return all;
    NamedArrays chosen;
    for (auto& [name, array] : all)
        if (name.starts_with(prefix))
            chosen.emplace(name.substr(prefix.size()), std::move(array));
    if (chosen.empty())
        throw FileError(path, "has no tensor whose name begins with \"" + std::string(prefix) + "\"");
    return chosen;
}

void write_weights(const std::filesystem::path& path, const NamedArrays& weights)
{
    if (is_safetensors(path))
        write_safetensors(path, weights);
    else
        write_npz(path, {{}, {weights.begin(), weights.end()}, {}});
}

} // namespace attn
