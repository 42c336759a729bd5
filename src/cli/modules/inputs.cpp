#include "inputs.hpp"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

/// True for a name that some module takes: an array of that name is meant.
bool is_known(std::string_view name)
{
    return std::ranges::any_of(modules(), [&](const ModuleEntry& entry) {
        return std::ranges::find(entry.inputs, name, &ModuleInput::name) != entry.inputs.end();
    });
}

std::string listed(std::span<const ModuleInput> inputs)
{
    std::string text;
    for (const auto& [name, shape, is_required] : inputs)
        text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::string(shape) +
                (is_required ? "" : " if you like");
    return text;
}

} // namespace

Inputs::Inputs(const NamedArrays& arrays, std::span<const ModuleInput> accepted) : arrays_(arrays)
{
    std::string complaints;
    for (const ModuleInput& input : accepted)
        if (input.is_required && !has(input.name))
            complaints += "\n  " + std::string(input.name) + " is missing";
    for (const auto& [name, array] : arrays)
        if (is_known(name) && std::ranges::find(accepted, name, &ModuleInput::name) == accepted.end())
            complaints += "\n  " + name + " is not taken by this module";
    if (!complaints.empty())
        throw Error("these inputs do not fit:" + complaints + "\n  expected " + listed(accepted));
}

bool Inputs::is_batch(std::string_view name) const
{
    const std::size_t rank = find(name).rank();
    if (rank != 2 && rank != 3)
        throw Error(std::string(name) + " has the shape " + to_string(find(name).shape) +
                    ", expected a sequence (n, d) or a batch of sequences (b, n, d)");
    return rank == 3;
}

std::optional<AnyMask> Inputs::mask(std::string_view name) const
{
    if (!has(name))
        return std::nullopt;
    return find(name).rank() == 3 ? AnyMask(get<BatchMask>(name)) : AnyMask(get<Mask>(name));
}

std::optional<Integers> Inputs::lengths(std::size_t sequences, bool is_batch, std::string_view name) const
{
    if (!has(name))
        return std::nullopt;
    const Array& array = find(name);
    if (!is_batch || array.shape != Shape{sequences})
        throw Error(std::string(name) + " has the shape " + to_string(array.shape) +
                    ", expected a number for each sequence of a batch" +
                    (is_batch ? ", " + to_string(Shape{sequences}) : "; there is only one sequence here"));
    return get<Integers>(name);
}

void Inputs::expect_usable(std::string_view name, const Array& array)
{
    if (array.size() == 0)
        throw Error(std::string(name) + " has the shape " + to_string(array.shape) +
                    " and no numbers, expected at least one on every axis");
    const bool is_mask = name.ends_with("mask");
    if (!is_mask && array.type == ElementType::boolean)
        throw Error(std::string(name) + " holds booleans, expected numbers");
    for (std::size_t i = 0; i < array.size(); ++i)
        if (const bool may_forbid = name == "bias" && array.values[i] == -INFINITY;
            !std::isfinite(array.values[i]) && !may_forbid)
            throw Error(std::string(name) + " at " + to_string(index_at(i, array.shape)) + " is " +
                        exact_text(array.values[i]) + ", expected finite numbers");
}

GroupedQueryOptions grouped_query_options(const ModuleOptions& options)
{
    return {.heads = options.heads, .scale = options.scale, .positions = options.positions, .rotary = options.rotary};
}

} // namespace attn
