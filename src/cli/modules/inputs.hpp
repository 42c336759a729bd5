#pragma once

#include "attn/core/error.hpp"
#include "attn/files/npz.hpp"
#include "attn/mistakes/interventions.hpp"
#include "attn/reference/attention/mask.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace attn::cli {

/// The meaning of an input's numbers, which decides what numbers it can hold.
enum class InputKind {
    numbers,       ///< finite
    bias,          ///< finite, or minus infinity where a query can't attend
    mask,          ///< booleans, true where a query can attend; 1 and 0, or 0 and -inf, mean the same
    added_mask,    ///< the same, or other numbers, which are added to the scores
    whole_numbers, ///< from 0; never rounded
    targets,       ///< the same, or -100, which is not counted
    zero_or_one    ///< 1 for a token, 0 for padding
};

/// An array that a module takes.
struct ModuleInput {
    std::string name;
    std::string axes; ///< in letters, a batch's in brackets: "(b,) n, d_model"
    std::string help = {};
    bool is_required = false;
    InputKind kind = InputKind::numbers;
};

/// @name Inputs that several modules take
/// @{
ModuleInput required(std::string name, std::string axes, std::string help = {});
/// @param kind  mask or added_mask
ModuleInput mask_input(std::string name = "mask", std::string pairs = "n, m", InputKind kind = InputKind::added_mask);
ModuleInput lengths_input(std::string name = "lengths");
ModuleInput bias_input();
ModuleInput ids_input();
/// @}

struct Module;

/// The sizes of masks and biases: n queries by m keys, of b sequences, in h heads.
struct PairAxes {
    std::optional<std::size_t> sequences = {}; ///< none for a single sequence
    std::optional<std::size_t> heads = {};     ///< none where all heads have the same mask
    std::size_t queries = 0, keys = 0;
    bool has_heads = false; ///< scores are (b, h, n, m)
};

/// Arrays that are missing, or that a module does not take. The message goes on after the file's name.
class InputNamesError : public Error {
public:
    using Error::Error;
};

/// The axes of masks and biases of queries and keys.
/// @param heads  of the queries, where each head can have a mask of its own
template <Attending T>
PairAxes pair_axes(const T& queries, const T& keys, std::optional<std::size_t> heads = {})
{
    PairAxes axes{.heads = heads, .queries = queries.shape(token_axis<T>), .keys = keys.shape(token_axis<T>)};
    if (token_axis < T >> 0)
        axes.sequences = queries.shape(0);
    return axes;
}

/// The inputs of one run: checked when they are handed out, by name, as containers.
class Inputs {
public:
    /// @param module  what it is for
    /// @param round   to so few digits, but for whole numbers and booleans
    /// @throws InputNamesError where an array is missing, or is there that the module does not take
    Inputs(const files::NamedArrays& arrays, const Module& module, std::optional<mistakes::Precision> round = {});

    bool has(std::string_view name) const { return arrays_.contains(name); }

    const Shape& shape(std::string_view name) const { return find(name).shape; }

    /// How many axes an array has.
    /// @param expected  what it can be: "(n, m) or (b, n, m)"
    /// @throws Error where it has fewer than least or more than most
    std::size_t rank(std::string_view name, std::size_t least, std::size_t most, std::string_view expected) const;

    /// Name and axes, for Trace: "x[(b,) n, d_model]".
    std::string label(std::string_view name) const;

    template <Traceable T>
    T get(std::string_view name) const
    {
        const Array array = checked(name);
        try {
            return from_array<T>(array);
        } catch (const Error& error) {
            throw Error(name, ": ", error.what());
        }
    }

    /// A mask, or nothing where its numbers are added to the scores: bias() has them.
    /// @throws Error where they can't be: the module's mask only hides
    OptionalMask mask(std::string_view name, const PairAxes& axes) const;

    /// The numbers of a mask that are added to the scores, or, of `mask`, the array bias.
    OptionalBias bias(std::string_view mask, const PairAxes& axes) const;

    /// How many of the tokens of each sequence are real.
    /// @param sequences  none for a single sequence, which has no padding
    std::optional<Integers> lengths(std::string_view name, std::optional<std::size_t> sequences) const;
    template <Attending T>
    std::optional<Integers> lengths(std::string_view name, const T& tokens) const
    {
        return lengths(name, token_axis<T> == 0 ? std::nullopt : std::optional(tokens.shape(0)));
    }

private:
    const Array& find(std::string_view name) const { return arrays_.find(name)->second; }
    Array checked(std::string_view name) const;
    Array checked_pairs(std::string_view name, const PairAxes& axes) const;
    bool is_added(std::string_view mask) const;
    std::size_t used_keys(std::string_view name, std::size_t keys) const;
    void expect_lengths(std::string_view name, std::optional<std::size_t> sequences) const;

    const files::NamedArrays& arrays_;
    const Module& module_;
    std::optional<mistakes::Precision> round_;
};

} // namespace attn::cli
