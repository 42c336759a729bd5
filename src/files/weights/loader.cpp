#include "attn/files/weights/loader.hpp"

#include "attn/files/file.hpp"

#include <algorithm>
#include <cmath>

namespace attn::files {
namespace {

/// So many times a letter.
struct Term {
    std::size_t times;
    std::string letter;
};

/// "2*h_d_k + h_d_v" is {2, h_d_k} and {1, h_d_v}.
std::vector<Term> terms_of(const std::string& axis)
{
    std::vector<Term> terms;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 3) {
        end = axis.find(" + ", begin);
        const std::string term = axis.substr(begin, end - begin);
        const std::size_t star = term.find('*');
        if (star == std::string::npos)
            terms.push_back({1, term});
        else
            terms.push_back({std::stoul(term.substr(0, star)), term.substr(star + 1)});
    }
    return terms;
}

/// A slice of a stored tensor along an axis.
Array slice(const Array& array, std::size_t axis, std::size_t begin, std::size_t count)
{
    std::size_t blocks = 1;
    for (std::size_t before = 0; before < axis; ++before)
        blocks *= array.shape[before];
    const std::size_t block = array.size() / blocks, width = block / array.shape[axis];
    Array part{array.shape, {}, array.type};
    part.shape[axis] = count;
    part.values.reserve(blocks * count * width);
    for (std::size_t i = 0; i < blocks; ++i) {
        const auto first = array.values.begin() + static_cast<std::ptrdiff_t>(i * block + begin * width);
        part.values.insert(part.values.end(), first, first + static_cast<std::ptrdiff_t>(count * width));
    }
    return part;
}

} // namespace

WeightsLoader::WeightsLoader(const NamedArrays& arrays, std::string_view module, const AxisSizes& sizes,
                             const LoadOptions& options)
    : arrays_(arrays),
      dialect_(options.dialect ? *options.dialect : dialect_of(arrays)),
      options_(options),
      sizes_(sizes),
      module_(options.module.empty() ? module : options.module)
{
    std::string_view before = " with ";
    for (const auto& [letter, size] : sizes) {
        module_ += std::string(before) + letter + " " + std::to_string(size);
        before = ", ";
    }
    if (!dialect_.family.empty() && options.module.empty())
        module_ += " under " + dialect_.family + " names";
    if (sizes.contains("d_model"))
        sizes_.try_emplace("d_memory", sizes.at("d_model"));
    if (sizes_.contains("d_memory"))
        sizes_.try_emplace("d_value", sizes_.at("d_memory"));
    begin_layer("");
}

// ------------------------------------------------------------------------------------------------ which parts there are

bool WeightsLoader::has_any(const std::string& ours) const
{
    const std::string prefix = dialect_.theirs(ours);
    const auto first = arrays_.lower_bound(prefix);
    return first != arrays_.end() && first->first.starts_with(prefix);
}

void WeightsLoader::begin_layer(const std::string&) { sizes_.erase("d_ff"); }

bool WeightsLoader::has_shared_heads(const std::string& prefix) const
{
    const auto packed = arrays_.find(dialect_.theirs(prefix + "in_proj_weight"));
    const auto d_model = sizes_.find("d_model");
    if (packed == arrays_.end() || packed->second.rank() != 2 || !sizes_.contains("h_d_k"))
        return false;
    const Shape& shape = packed->second.shape;
    const bool is_in_out = dialect_.is_in_out(packed->first);
    const std::size_t in = d_model == sizes_.end() ? shape[is_in_out ? 0 : 1] : d_model->second;
    return shape[is_in_out ? 1 : 0] != 3 * in || sizes_.at("h_d_k") != in;
}

bool WeightsLoader::has_norms_of_all_heads(const std::string& prefix) const
{
    const auto is_wide = [&](const std::string& norm, const std::string& axis) {
        const auto found = arrays_.find(dialect_.theirs(prefix + norm));
        return found != arrays_.end() && found->second.size() == size_of(axis);
    };
    return is_wide("q_norm.weight", "h_d_k") && is_wide("k_norm.weight", "g_d_k");
}

/// How many parts there are after a prefix: 0, 1, …
std::size_t WeightsLoader::count_after(const std::string& prefix) const
{
    std::size_t found = 0;
    while (has_any(prefix + std::to_string(found) + "."))
        ++found;
    return found;
}

void WeightsLoader::begin_part(MultiHeadWeights& weights, const std::string& prefix)
{
    if (options_.has_output_map)
        weights.output.emplace();
    if (has(prefix + "sinks"))
        weights.sinks.emplace();

    // The output map says how wide the queries of all heads are; what is left of packed maps is for keys and values.
    const auto packed = arrays_.find(dialect_.theirs(prefix + "in_proj_weight"));
    const auto output = arrays_.find(dialect_.theirs(prefix + "out_proj.weight"));
    if (packed == arrays_.end() || output == arrays_.end() || packed->second.rank() != 2 || output->second.rank() != 2)
        return;
    const std::size_t all = packed->second.shape[dialect_.is_in_out(packed->first) ? 1 : 0];
    const std::size_t queries = output->second.shape[dialect_.is_in_out(output->first) ? 0 : 1];
    if (all <= queries || (all - queries) % 2 != 0)
        return;
    sizes_["h_d_k"] = queries;
    sizes_["g_d_k"] = (all - queries) / 2;
}

void WeightsLoader::begin_part(std::optional<Vector>& bias, const std::string& name)
{
    if (has(name))
        bias.emplace();
    Biases& alike = biases_[kind_of_bias(name)];
    (bias ? alike.there : alike.missing).insert(dialect_.theirs(name));
}

/// The same for all biases that PyTorch's modules have together: of all norms of a layer, of both maps of a feed-forward
/// network, and of nn.MultiheadAttention. Their names differ in the numbers at the end of a word: norm1, norm2.
std::string WeightsLoader::kind_of_bias(std::string name) const
{
    const std::string output = "out_proj.bias";
    if (name.ends_with(output)) {
        const std::string prefix = name.substr(0, name.size() - output.size());
        if (has(prefix + "in_proj_weight") || has(prefix + "q_proj_weight"))
            name = prefix + "in_proj_bias";
    }
    std::string kind;
    const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
    bool is_in_word = false; // layers.0 and layers.1 can differ
    for (const char letter : name) {
        if (!is_digit(letter))
            is_in_word = letter != '.';
        if (!is_digit(letter) || !is_in_word)
            kind += letter;
    }
    return kind;
}

// -------------------------------------------------------------------------------------------------- what does not fit

std::vector<const Array*> WeightsLoader::take(const WeightTensor& tensor, std::size_t parts)
{
    const std::string name = dialect_.theirs(tensor.name);
    std::vector<std::string> axes = tensor.axes;
    if (is_in_out(tensor))
        std::ranges::reverse(axes);
    used_.insert(name);
    const auto found = arrays_.find(name);
    const std::string complaint = found == arrays_.end() ? "is missing" : objection(found->second, axes);
    if (!complaint.empty()) {
        complaints_.push_back(name + " " + complaint);
        return {};
    }
    if (parts == 1)
        return {&found->second};
    slices_.clear();
    std::size_t begin = 0;
    for (const auto& [times, letter] : terms_of(tensor.axes.front()))
        for (std::size_t i = 0; i < times && complaints_.empty(); ++i) {
            const std::size_t count = sizes_.at(letter);
            slices_.push_back(slice(found->second, is_in_out(tensor) ? axes.size() - 1 : 0, begin, count));
            begin += count;
        }
    std::vector<const Array*> slices;
    if (complaints_.empty())
        for (const Array& one : slices_)
            slices.push_back(&one);
    return slices;
}

/// Why a tensor can't be taken; nothing where it can.
std::string WeightsLoader::objection(const Array& array, const std::vector<std::string>& axes)
{
    if (!fits(array.shape, axes)) {
        const bool is_transposed = array.rank() == 2 && fits({array.shape[1], array.shape[0]}, axes);
        return "is " + to_string(array.shape) + ", expected " + in_letters(axes) +
               (is_transposed ? ": it looks transposed" : "");
    }
    if (array.type != ElementType::real)
        return "holds " + std::string(array.type == ElementType::boolean ? "booleans" : "whole numbers") +
               ", expected real numbers";
    const auto infinite = std::ranges::find_if_not(array.values, [](double value) { return std::isfinite(value); });
    if (infinite != array.values.end())
        return "holds " + std::to_string(*infinite) + " at " +
               to_string(index_at(static_cast<std::size_t>(infinite - array.values.begin()), array.shape)) +
               ", expected finite numbers";
    return {};
}

/// Whether all axes have their sizes. Where they have not, no letter takes one.
bool WeightsLoader::fits(const Shape& shape, const std::vector<std::string>& axes)
{
    if (shape.size() != axes.size())
        return false;
    const AxisSizes before = sizes_;
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
        if (!fits(shape[axis], axes[axis])) {
            sizes_ = before;
            return false;
        }
    return true;
}

/// Whether an axis has its size. A letter that is seen for the first time takes the size that makes it fit; a sum of
/// unknown letters is let through, since there is a complaint already about the tensors that decide them.
bool WeightsLoader::fits(std::size_t found, const std::string& axis)
{
    const std::vector<Term> terms = terms_of(axis);
    if (found == 0 || (terms.size() == 1 && found % terms.front().times != 0))
        return false;
    if (terms.size() == 1)
        sizes_.try_emplace(terms.front().letter, found / terms.front().times);
    return size_of(axis).value_or(found) == found;
}

/// The size of an axis, where all its letters are known.
std::optional<std::size_t> WeightsLoader::size_of(const std::string& axis) const
{
    std::size_t sum = 0;
    for (const auto& [times, letter] : terms_of(axis)) {
        const auto size = sizes_.find(letter);
        if (size == sizes_.end())
            return std::nullopt;
        sum += times * size->second;
    }
    return sum;
}

/// "(3*d_model, d_model) = (12, 4)"; without the sizes where one is not known yet.
std::string WeightsLoader::in_letters(const std::vector<std::string>& axes) const
{
    std::string letters;
    Shape shape;
    for (const std::string& axis : axes) {
        letters += (letters.empty() ? "" : ", ") + axis;
        if (const std::optional<std::size_t> size = size_of(axis))
            shape.push_back(*size);
    }
    const std::string text = "(" + letters + (axes.size() == 1 ? ",)" : ")");
    return shape.size() == axes.size() ? text + " = " + to_string(shape) : text;
}

void WeightsLoader::finish()
{
    for (const auto& [name, array] : arrays_)
        if (!used_.contains(name) && !dialect_.ignores(name) &&
            (options_.ignored.empty() || !name.ends_with(options_.ignored)))
            complaints_.push_back(printable(name) + " " + to_string(array.shape) + " is not expected");
    for (const auto& [kind, alike] : biases_)
        if (!alike.there.empty())
            for (const std::string& name : alike.missing)
                complaints_.push_back(printable(name) + " is missing, and " + printable(*alike.there.begin()) +
                                      " is there: expected both or neither");
    if (complaints_.empty())
        return;
    const std::size_t count = complaints_.size(), most = 100; // of lines: a file can hold a million tensors
    std::string message =
        std::to_string(count) + (count == 1 ? " tensor does" : " tensors do") + " not fit " + module_ + ":";
    for (std::size_t i = 0; i < std::min(count, most); ++i)
        message += "\n  " + complaints_[i];
    if (count > most)
        message += "\n  and " + std::to_string(count - most) + " more";
    throw WeightsError(message);
}

} // namespace attn::files
