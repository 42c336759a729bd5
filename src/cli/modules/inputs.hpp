#pragma once

#include "attn/error.hpp"
#include "modules.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// The inputs of one run: looked up by name, checked, and handed out as containers.
class Inputs {
public:
    /// @throws Error where one is missing, or one that another module takes is there
    Inputs(const NamedArrays& arrays, std::span<const ModuleInput> accepted);

    bool has(std::string_view name) const { return arrays_.contains(name); }

    /// True where the tokens of that name are a batch.
    bool is_batch(std::string_view name) const;

    template <Traceable T>
    T get(std::string_view name) const
    {
        const Array& array = find(name);
        expect_usable(name, array);
        try {
            return from_array<T>(array);
        } catch (const Error& error) {
            throw Error(std::string(name) + ": " + error.what());
        }
    }

    /// A mask of any rank.
    std::optional<AnyMask> mask(std::string_view name = "mask") const;

    /// How many of the tokens of each sequence are real.
    std::optional<Integers> lengths(std::size_t sequences, bool is_batch, std::string_view name = "lengths") const;

private:
    const Array& find(std::string_view name) const { return arrays_.find(name)->second; }
    static void expect_usable(std::string_view name, const Array& array);

    const NamedArrays& arrays_;
};

/// What one run of a module works with.
struct ModuleRun {
    const Inputs& inputs;
    const NamedArrays& weights;
    const ModuleOptions& options;
    const Trace& trace;
};

/// Weights are looked for by d_model, which the tokens decide.
template <Sequence T>
std::size_t features(const T& tokens)
{
    return tokens.shape(feature_axis<T>);
}

/// The mask of a run: what the file gives, what the flags add.
template <Sequence T>
std::optional<AnyMask> mask_for(const T& asking, const T& answering, const ModuleRun& run)
{
    constexpr bool is_batch = std::same_as<T, Tensor3>;
    const MaskParts parts{.given = run.inputs.mask(),
                          .causal = run.options.causal,
                          .key_lengths = run.inputs.lengths(answering.shape(0), is_batch)};
    return join_masks(asking.shape(token_axis<T>), answering.shape(token_axis<T>), parts, run.trace);
}

/// What heads are told by flags.
GroupedQueryOptions grouped_query_options(const ModuleOptions& options);

} // namespace attn
