#include "module.hpp"

#include "attn/step_name.hpp"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

// --------------------------------------------------------------------------------------------------------------- names

constexpr std::string_view torch_mask =
    "nn.MultiheadAttention means the opposite, true where a query can NOT attend: save its negation, ~; "
    "F.scaled_dot_product_attention means the same as mask";
constexpr std::string_view torch_padding =
    "PyTorch's is true at padding, mask where a query can attend: save (~key_padding_mask)[:, None, :] as the mask, or "
    "the number of tokens of each sequence as lengths";
constexpr std::string_view hugging_face_mask =
    "Hugging Face's is 1 at a token and 0 at padding: save attention_mask[:, None, :] == 1 as the mask";

/// How other programs call what a module takes.
struct WellKnownNames {
    std::string_view here; ///< an input, or a flag
    std::vector<std::string_view> names;
    std::string_view remark = {};
};

const std::vector<WellKnownNames>& well_known_names()
{
    static const std::vector<WellKnownNames> all{
        {"mask", {"attn_mask", "src_mask", "tgt_mask"}, torch_mask},
        {"source_mask", {"src_mask"}, torch_mask},
        {"target_mask", {"tgt_mask"}, torch_mask},
        {"mask", {"key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask"}, torch_padding},
        {"source_mask", {"src_key_padding_mask"}, torch_padding},
        {"target_mask", {"tgt_key_padding_mask"}, torch_padding},
        {"memory_mask", {"memory_key_padding_mask"}, torch_padding},
        {"mask", {"attention_mask"}, hugging_face_mask},
        {"bias", {"attn_bias"}},
        {"--mask causal", {"is_causal", "causal"}},
        {"--scale", {"scale"}},
        {"--heads", {"heads", "num_heads", "nhead"}},
        {"lengths", {"seq_lens", "sequence_lengths"}},
        {"queries", {"q", "query"}},
        {"keys", {"k"}},
        {"values", {"v"}},
        {"source", {"src"}},
        {"target", {"tgt"}},
        {"x", {"src", "tgt", "input", "inputs", "hidden_states"}},
        {"memory", {"encoder_hidden_states"}},
        {"ids", {"input_ids"}},
        {"initial_hidden", {"h0", "h_0"}},
        {"initial_cell", {"c0", "c_0"}},
    };
    return all;
}

const ModuleInput* input_of(const Module& module, std::string_view name)
{
    const auto found = std::ranges::find(module.inputs, name, &ModuleInput::name);
    return found == module.inputs.end() ? nullptr : &*found;
}

/// What an array that the module does not take may be meant for.
/// @param subject  how the question calls it: "it"
std::string suggestion(std::string_view name, const std::string& subject, const Module& module)
{
    for (const auto& [here, names, remark] : well_known_names()) {
        if (std::ranges::find(names, name) == names.end())
            continue;
        const std::string is_it = " Is " + subject + " the ", meant(here);
        if (std::ranges::find(module.flags, meant.substr(0, meant.find(' ')), &Flag::name) != module.flags.end())
            return is_it + "flag " + meant + "?";
        if (input_of(module, here) != nullptr)
            return is_it + meant + "?" + (remark.empty() ? "" : " " + std::string(remark) + ".");
    }
    for (const ModuleInput& input : module.inputs)
        if (std::min(name.size(), input.name.size()) > 2 && edit_distance(name, input.name) == 1)
            return " Is " + subject + " the " + input.name + "?";
    return "";
}

/// "array called x", "arrays called x, y and 3 more".
std::string arrays_called(const std::vector<std::string>& names)
{
    constexpr std::size_t most = 6;
    std::string text = names.size() == 1 ? "array called " : "arrays called ";
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
        text += (i == 0 ? "" : ", ") + names[i];
    return text + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "");
}

// --------------------------------------------------------------------------------------------------------------- kinds

void expect_booleans(const std::string& name, const Array& array)
{
    if (array.type != ElementType::boolean)
        throw Error(name +
                    " holds numbers, expected booleans that are true where a query can attend: of 0 and 1, save " +
                    name + " == 1 where 1 means that it can, " + name +
                    " == 0 where 1 means that it can't, as at padding; of numbers to be added to the scores, 0 and "
                    "-inf, save " +
                    name + " == 0, or give them as bias where the module takes one");
}

bool is_whole(double value) { return value >= 0 && value < 0x1p53 && value == std::trunc(value); }

bool can_be(double value, InputKind kind)
{
    switch (kind) {
    case InputKind::bias:
        return std::isfinite(value) || value == -INFINITY;
    case InputKind::whole_numbers:
        return is_whole(value);
    case InputKind::zero_or_one:
        return value == 0 || value == 1;
    default:
        return std::isfinite(value);
    }
}

std::string expected_of(InputKind kind)
{
    switch (kind) {
    case InputKind::bias:
        return "finite numbers, or -inf where a query can't attend";
    case InputKind::whole_numbers:
        return "whole numbers from 0";
    case InputKind::zero_or_one:
        return "1 for a token, 0 for padding";
    default:
        return "finite numbers";
    }
}

/// Where an axis has the size 1, the same for the whole axis.
Array broadcast(const Array& array, const Shape& shape)
{
    Array result{shape, {}, array.type};
    for (std::size_t i = 0; i < element_count(shape); ++i) {
        const Shape index = index_at(i, shape);
        std::size_t offset = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
            offset = offset * array.shape[axis] + (array.shape[axis] == 1 ? 0 : index[axis]);
        result.values.push_back(array.values[offset]);
    }
    return result;
}

bool broadcasts(const Shape& from, const Shape& to)
{
    return std::ranges::equal(from, to, [](std::size_t a, std::size_t b) { return a == b || a == 1; });
}

/// A mask or bias of two axes, for a batch: it is (n, m), and never (b, m).
void expect_pairs(const std::string& name, const Shape& shape, const Shape& pairs)
{
    const bool is_for_keys = shape == Shape{pairs[0], pairs[2]}, is_for_pairs = shape == Shape{pairs[1], pairs[2]};
    const std::string found = name + " has the shape " + to_string(shape);
    const std::string for_keys = "save " + name + "[:, None, :] where each sequence has a row of keys of its own";
    if (is_for_keys && is_for_pairs && pairs[0] > 1)
        throw Error(found + ", which is (n, m) as well as (b, m) here: save " + name +
                    "[None, :, :] where it is the same for all sequences, " + for_keys);
    if (is_for_keys && !is_for_pairs)
        throw Error(found + ", which is (b, m), expected (n, m) or (b, n, m): " + for_keys);
}

} // namespace

ModuleInput required(std::string name, std::string axes) { return {std::move(name), std::move(axes), "", true}; }

ModuleInput mask_input(std::string name, std::string pairs)
{
    return {std::move(name), "(b,) " + pairs, "booleans, true where a query can attend", false, InputKind::mask};
}

ModuleInput lengths_input(std::string name)
{
    return {std::move(name), "b", "tokens of each sequence before its padding", false, InputKind::whole_numbers};
}

ModuleInput bias_input() { return {"bias", "(b,) n, m", "is added to the scaled scores", false, InputKind::bias}; }

Inputs::Inputs(const NamedArrays& arrays, const Module& module, std::optional<Precision> round)
    : arrays_(arrays), module_(module), round_(round)
{
    std::vector<std::string> missing, unknown;
    std::string taken;
    for (const ModuleInput& input : module.inputs) {
        taken += (taken.empty() ? "" : ", ") + input.name;
        if (input.is_required && !has(input.name))
            missing.push_back(input.name);
    }
    for (const auto& [name, array] : arrays)
        if (input_of(module, name) == nullptr)
            unknown.push_back(name);
    if (missing.empty() && unknown.empty())
        return;

    std::string text;
    if (!missing.empty())
        text = "has no " + arrays_called(missing) + ", which " + module.name + " needs; ";
    if (!unknown.empty())
        text += (unknown.size() == 1 ? "has an " : "has ") + arrays_called(unknown) + ", which " + module.name +
                " does not take; ";
    text += "it takes " + taken + ".";
    for (const std::string& name : unknown)
        text += suggestion(name, unknown.size() == 1 ? "it" : name, module);
    throw InputNamesError(text);
}

bool Inputs::is_batch(std::string_view name) const
{
    const std::size_t rank = find(name).rank();
    if (rank != 2 && rank != 3)
        throw Error(std::string(name) + " has the shape " + to_string(find(name).shape) +
                    ", expected a sequence (n, d) or a batch of sequences (b, n, d)");
    return rank == 3;
}

std::string Inputs::label(std::string_view name) const
{
    return std::string(name) + "[" + input_of(module_, name)->axes + "]";
}

Array Inputs::checked(std::string_view name) const
{
    Array array = find(name);
    const InputKind kind = input_of(module_, name)->kind;
    if (array.size() == 0)
        throw Error(std::string(name) + " has the shape " + to_string(array.shape) +
                    " and no numbers, expected at least one on every axis");
    if (kind == InputKind::mask) {
        expect_booleans(std::string(name), array);
        return array;
    }
    if (array.type == ElementType::boolean && kind != InputKind::zero_or_one)
        throw Error(std::string(name) + " holds booleans, expected numbers");
    for (std::size_t i = 0; i < array.size(); ++i)
        if (!can_be(array.values[i], kind))
            throw Error(std::string(name) + bracketed(index_at(i, array.shape), ", ") + " is " +
                        exact_text(array.values[i]) + ", expected " + expected_of(kind));
    if (kind == InputKind::whole_numbers)
        array.type = ElementType::integer;
    if (round_ && array.type == ElementType::real)
        for (double& value : array.values)
            value = rounded_to(*round_, value);
    return array;
}

Array Inputs::checked_pairs(std::string_view name, const Shape& pairs) const
{
    const Array array = checked(name);
    const bool is_batch = pairs.size() == 3;
    const Shape one(pairs.end() - 2, pairs.end()); // the same for all sequences
    if (is_batch && array.rank() == 2)
        expect_pairs(std::string(name), array.shape, pairs);
    if (array.shape == one)
        return array;
    if (!is_batch || !broadcasts(array.shape, pairs))
        throw Error(std::string(name) + " has the shape " + to_string(array.shape) +
                    ", expected (n, m) = " + to_string(one) + (is_batch ? " or (b, n, m) = " + to_string(pairs) : ""));
    const bool is_for_all = array.shape[0] == 1 && pairs[0] > 1;
    if (!is_for_all)
        return broadcast(array, pairs);
    return {one, broadcast(array, {1, one[0], one[1]}).values, array.type};
}

void Inputs::expect_lengths(std::string_view name, std::optional<std::size_t> sequences) const
{
    const Shape& shape = find(name).shape;
    if (!sequences || shape != Shape{*sequences})
        throw Error(std::string(name) + " has the shape " + to_string(shape) +
                    ", expected a number for each sequence of a batch" +
                    (sequences ? ", " + to_string(Shape{*sequences}) : "; there is only one sequence here"));
}

} // namespace attn
