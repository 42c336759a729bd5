#include "module.hpp"

#include "attn/core/step_name.hpp"
#include "attn/engines/train/loss.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace attn::cli {
namespace {

// --------------------------------------------------------------------------------------------------------------- names

constexpr std::string_view torch_mask =
    "nn.MultiheadAttention means the opposite, true where a query can NOT attend: save its negation, ~; "
    "F.scaled_dot_product_attention means the same as mask";
constexpr std::string_view torch_padding = "PyTorch's is true at padding, mask where a query can attend: save "
                                           "(~key_padding_mask)[:, None, None] as the mask, or "
                                           "the number of tokens of each sequence as lengths";
constexpr std::string_view hugging_face_mask =
    "Hugging Face's is 1 at a token and 0 at padding, (b, m), and can be saved as the mask";

/// The names that other programs have for a module's inputs.
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
        {"--softcap", {"softcap", "logit_cap", "attn_logit_softcapping"}},
        {"past_keys", {"past_key", "past_k", "k_cache", "key_cache"}},
        {"past_values", {"past_value", "past_v", "v_cache", "value_cache"}},
        {"--heads", {"heads", "num_heads", "nhead", "q_num_heads"}},
        {"lengths", {"seq_lens", "sequence_lengths", "nonpad_kv_seqlen"}},
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

/// The input or flag that was possibly meant by an array that the module does not take.
/// @param subject  the word for it in the question: "it"
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

/// Whether all numbers are one of two.
bool holds_only(const Array& array, double one, double other)
{
    return std::ranges::all_of(array.values, [&](double value) { return value == one || value == other; });
}

/// A mask as booleans, where its numbers mean true and false; else as it is, numbers that are added to the scores.
Array mask_of(const std::string& name, Array array)
{
    if (array.type == ElementType::boolean)
        return array;
    if (array.type == ElementType::integer && holds_only(array, 0, 0))
        throw Error(name,
                    " is the whole number 0 throughout: read as 1 and 0 it would hide every key, added to the scores "
                    "it would hide none. Leave it out, or save booleans that are true where a query can attend");
    const bool is_zero_or_infinite = holds_only(array, 0, -INFINITY);
    if (!is_zero_or_infinite && !holds_only(array, 0, 1))
        return array;
    for (double& value : array.values)
        value = is_zero_or_infinite ? value == 0 : value;
    array.type = ElementType::boolean;
    return array;
}

bool is_mask(InputKind kind) { return kind == InputKind::mask || kind == InputKind::added_mask; }

bool is_whole(double value) { return value >= 0 && value < 0x1p53 && value == std::trunc(value); }

bool can_be(double value, InputKind kind)
{
    switch (kind) {
    case InputKind::bias:
    case InputKind::mask:
    case InputKind::added_mask:
        return std::isfinite(value) || value == -INFINITY;
    case InputKind::whole_numbers:
        return is_whole(value);
    case InputKind::targets:
        return is_whole(value) || value == train::ignored_target;
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
    case InputKind::mask:
    case InputKind::added_mask:
        return "finite numbers, or -inf where a query can't attend";
    case InputKind::whole_numbers:
        return "whole numbers from 0";
    case InputKind::targets:
        return "whole numbers from 0, or -100 for a target that is not counted";
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

/// The same numbers in another shape.
Array reshaped(Array array, Shape shape)
{
    array.shape = std::move(shape);
    return array;
}

/// "(n, m) = (3, 4) or (b, n, m) = (2, 3, 4)"
std::string expected_pairs(const PairAxes& axes)
{
    const std::size_t n = axes.queries, m = axes.keys;
    std::string text = "(n, m) = " + to_string(Shape{n, m});
    if (axes.sequences && !axes.has_heads)
        text += " or (b, n, m) = " + to_string(Shape{*axes.sequences, n, m});
    if (axes.heads)
        text += " or (b, h, n, m) = " + to_string(Shape{axes.sequences.value_or(1), *axes.heads, n, m});
    return text;
}

/// A form in which masks and biases are saved: which of b, h, n and m each of its axes is; "bh" is b * h in one.
struct PairForm {
    std::vector<std::string_view> axes;
    std::string_view meaning; ///< goes on after "where"
};

const std::vector<PairForm>& pair_forms()
{
    static const std::vector<PairForm> all{{{"m"}, "all queries have the same keys"},
                                           {{"n", "m"}, "it is the same for all sequences"},
                                           {{"b", "m"}, "each sequence has a row of keys of its own"},
                                           {{"b", "n", "m"}, "it is the same for all heads"},
                                           {{"h", "n", "m"}, "each head has its own, the same for all sequences"},
                                           {{"bh", "n", "m"}, "each head of each sequence has its own"},
                                           {{"b", "h", "n", "m"}, "each head of each sequence has its own"}};
    return all;
}

/// "(b, n, m)"
std::string axes_text(const PairForm& form)
{
    std::string text;
    for (const std::string_view axis : form.axes)
        text += (text.empty() ? "(" : ", ") + std::string(axis);
    return text + ")";
}

/// What gives an array of this form all four axes: "[:, None]" for (b, n, m).
std::string subscript_of(const PairForm& form)
{
    std::string text = "[";
    for (const std::string_view axis : {"b", "h"})
        text += std::string(axis == "b" ? "" : ", ") +
                (std::ranges::find(form.axes, axis) == form.axes.end() ? "None" : ":");
    if (form.axes.size() == 2 && form.axes.front() == "b")
        text += ", None";
    return text + "]";
}

/// The shape (b, h, n, m) that an array of this form has with all axes, 1 on those that it lacks; nothing where it does not
/// fit. An axis of size 1 serves all.
std::optional<Shape> placed(const PairForm& form, const Shape& shape, const PairAxes& axes)
{
    const std::map<char, std::size_t> sizes{
        {'b', axes.sequences.value_or(1)}, {'h', axes.heads.value_or(1)}, {'n', axes.queries}, {'m', axes.keys}};
    if (shape.size() != form.axes.size())
        return std::nullopt;
    std::map<char, std::size_t> found;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        std::size_t expected = 1;
        for (const char letter : form.axes[i]) {
            if (shape.size() < 4 && ((letter == 'b' && !axes.sequences) || (letter == 'h' && !axes.heads)))
                return std::nullopt;
            expected *= sizes.at(letter);
            found[letter] = shape[i] == 1 ? 1 : sizes.at(letter);
        }
        if (shape[i] != 1 && shape[i] != expected)
            return std::nullopt;
    }
    const auto size = [&](char letter) { return found.contains(letter) ? found.at(letter) : 1; };
    return Shape{size('b'), size('h'), size('n'), size('m')};
}

/// The numbers with all axes, (b, h, n, m), where an axis of size 1 is shared. Nothing where they do not fit.
/// @throws Error where they fit in two forms that mean different things
std::optional<Array> with_all_axes(const std::string& name, const Array& array, const PairAxes& axes)
{
    const PairForm* only = nullptr;
    Shape whole;
    for (const PairForm& form : pair_forms()) {
        const std::optional<Shape> shape = placed(form, array.shape, axes);
        if (!shape || (only != nullptr && *shape == whole))
            continue;
        if (only != nullptr)
            throw Error(name, " has the shape ", array.shape, ", which is ", axes_text(*only), " as well as ",
                        axes_text(form), " here: save ", name, subscript_of(*only), " where ", only->meaning, ", ",
                        name, subscript_of(form), " where ", form.meaning);
        only = &form;
        whole = *shape;
    }
    return only == nullptr ? std::nullopt : std::optional(reshaped(array, whole));
}

/// Keys after the longest sequence need no column: they are hidden already.
/// @param used  how many of the keys the longest sequence has
Array with_all_keys(const Array& array, const PairAxes& axes, std::size_t used)
{
    if (array.rank() < 2 || array.shape.back() >= axes.keys || array.shape.back() < used)
        return array;
    const double hidden = array.type == ElementType::boolean ? 0 : -INFINITY;
    const std::size_t columns = array.shape.back();
    Array all{array.shape, {}, array.type};
    all.shape.back() = axes.keys;
    for (std::size_t i = 0; i < element_count(all.shape); ++i) {
        const std::size_t row = i / axes.keys, key = i % axes.keys;
        all.values.push_back(key < columns ? array.values[row * columns + key] : hidden);
    }
    return all;
}

template <class Variant>
Variant of_rank(const Array& array)
{
    if (array.rank() == 2)
        return from_array<std::variant_alternative_t<0, Variant>>(array);
    if (array.rank() == 3)
        return from_array<std::variant_alternative_t<1, Variant>>(array);
    return from_array<std::variant_alternative_t<2, Variant>>(array);
}

} // namespace

ModuleInput required(std::string name, std::string axes, std::string help)
{
    return {std::move(name), std::move(axes), std::move(help), true};
}

ModuleInput mask_input(std::string name, std::string pairs, InputKind kind)
{
    const std::string added = kind == InputKind::added_mask ? "; other numbers are added" : "";
    return {std::move(name), "(b,) " + pairs, "true (or 1) where a query can attend" + added, false, kind};
}

ModuleInput lengths_input(std::string name)
{
    return {std::move(name), "b", "tokens of each sequence before its padding", false, InputKind::whole_numbers};
}

ModuleInput bias_input() { return {"bias", "(b,) n, m", "is added to the scaled scores", false, InputKind::bias}; }

ModuleInput ids_input() { return {"ids", "(b,) n", "the ids of the tokens", true, InputKind::whole_numbers}; }

Inputs::Inputs(const files::NamedArrays& arrays, const Module& module, std::optional<mistakes::Precision> round)
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

std::size_t Inputs::rank(std::string_view name, std::size_t least, std::size_t most, std::string_view expected) const
{
    const std::size_t rank = find(name).rank();
    if (rank < least || rank > most)
        throw Error(name, " has the shape ", find(name).shape, ", expected ", expected);
    return rank;
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
        throw Error(name, " has the shape ", array.shape, " and no numbers, expected at least one on every axis");
    if (array.type == ElementType::boolean && is_mask(kind))
        return array;
    if (array.type == ElementType::boolean && kind != InputKind::zero_or_one)
        throw Error(name, " holds booleans, expected numbers");
    for (std::size_t i = 0; i < array.size(); ++i)
        if (!can_be(array.values[i], kind))
            throw Error(name, bracketed(index_at(i, array.shape), ", "), " is ", exact_text(array.values[i]),
                        ", expected ", expected_of(kind));
    if (kind == InputKind::whole_numbers || kind == InputKind::targets)
        array.type = ElementType::integer;
    if (is_mask(kind))
        array = mask_of(std::string(name), std::move(array));
    if (round_ && array.type == ElementType::real)
        for (double& value : array.values)
            value = rounded_to(*round_, value);
    return array;
}

/// The numbers for each pair, with as many axes as they differ on: (n, m), (b, n, m) or (b, h, n, m).
Array Inputs::checked_pairs(std::string_view name, const PairAxes& axes) const
{
    const Array given = with_all_keys(checked(name), axes, used_keys(name, axes.keys));
    const std::optional<Array> whole = with_all_axes(std::string(name), given, axes);
    if (!whole)
        throw Error(name, " has the shape ", given.shape, ", expected ", expected_pairs(axes));
    const std::size_t b = whole->shape[0], h = whole->shape[1], n = axes.queries, m = axes.keys;
    const bool is_of_batch = b > 1 || (axes.sequences == b && given.rank() == 3);
    Array pairs = broadcast(*whole, {b, h, n, m});
    if (h > 1 || (axes.has_heads && b > 1))
        return pairs;
    return reshaped(std::move(pairs), is_of_batch && !axes.has_heads ? Shape{b, n, m} : Shape{n, m});
}

/// How many of the keys of a mask or bias the longest sequence has.
std::size_t Inputs::used_keys(std::string_view name, std::size_t keys) const
{
    if ((name != "mask" && name != "bias") || !has("lengths"))
        return keys;
    const Array lengths = checked("lengths");
    return static_cast<std::size_t>(*std::ranges::max_element(lengths.values));
}

/// Whether there is a mask, and it holds numbers that are added to the scores.
bool Inputs::is_added(std::string_view mask) const { return has(mask) && checked(mask).type != ElementType::boolean; }

OptionalMask Inputs::mask(std::string_view name, const PairAxes& axes) const
{
    if (!has(name))
        return std::nullopt;
    if (!is_added(name))
        return of_rank<AnyMask>(checked_pairs(name, axes));
    if (input_of(module_, name)->kind == InputKind::added_mask)
        return std::nullopt;
    const std::string text(name);
    throw Error(text, " holds numbers that are added to the scores, and ", module_.name,
                " only takes a mask that hides keys: save ", text, " == 0 where 0 lets a query attend, ", text,
                " == 1 where 1 does");
}

OptionalBias Inputs::bias(std::string_view mask, const PairAxes& axes) const
{
    const bool has_bias = mask == "mask" && has("bias");
    if (is_added(mask) && has_bias)
        throw Error("mask holds numbers that are added to the scores, and so does bias: save their sum as bias");
    if (!is_added(mask) && !has_bias)
        return std::nullopt;
    return of_rank<AnyBias>(checked_pairs(has_bias ? "bias" : mask, axes));
}

std::optional<Integers> Inputs::lengths(std::string_view name, std::optional<std::size_t> sequences) const
{
    if (!has(name))
        return std::nullopt;
    expect_lengths(name, sequences);
    return get<Integers>(name);
}

void Inputs::expect_lengths(std::string_view name, std::optional<std::size_t> sequences) const
{
    const Shape& shape = find(name).shape;
    if (!sequences || shape != Shape{*sequences})
        throw Error(name, " has the shape ", shape, ", expected a number for each sequence of a batch",
                    (sequences ? ", " + to_string(Shape{*sequences}) : "; there is only one sequence here"));
}

} // namespace attn::cli
