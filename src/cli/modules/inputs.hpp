#pragma once

#include "attn/attention/mask.hpp"
#include "attn/error.hpp"
#include "attn/trace_io/npz.hpp"
#include "attn/what_if/answers.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace attn {

/// What the numbers of an input stand for, and so which numbers it can hold.
enum class InputKind {
    numbers,       ///< finite
    bias,          ///< finite, or minus infinity where a query can't attend
    mask,          ///< booleans, true where a query can attend
    whole_numbers, ///< from 0; never rounded
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
ModuleInput required(std::string name, std::string axes);
ModuleInput mask_input(std::string name = "mask", std::string pairs = "n, m");
ModuleInput lengths_input(std::string name = "lengths");
ModuleInput bias_input();
/// @}

struct Module;

/// Arrays that are missing, or that a module does not take. The message goes on after the file's name.
class InputNamesError : public Error {
public:
    using Error::Error;
};

/// The inputs of one run: checked when they are handed out, by name, as containers.
class Inputs {
public:
    /// @param module  what it is for
    /// @param round   to so few digits, but for whole numbers and booleans
    /// @throws InputNamesError where an array is missing, or is there that the module does not take
    Inputs(const NamedArrays& arrays, const Module& module, std::optional<Precision> round = {});

    bool has(std::string_view name) const { return arrays_.contains(name); }

    /// True where the tokens of that name are a batch.
    bool is_batch(std::string_view name) const;

    /// Name and axes, for Trace: "x[(b,) n, d_model]".
    std::string label(std::string_view name) const;

    template <Traceable T>
    T get(std::string_view name) const
    {
        const Array array = checked(name);
        try {
            return from_array<T>(array);
        } catch (const Error& error) {
            throw Error(std::string(name) + ": " + error.what());
        }
    }

    /// A mask or a bias of queries and keys: (n, m); of a batch also (b, n, m), where an axis of size 1 serves all.
    /// @tparam Variant  AnyMask or AnyBias
    template <class Variant, Sequence T>
    std::optional<Variant> pairs(std::string_view name, const T& queries, const T& keys) const
    {
        if (!has(name))
            return std::nullopt;
        Shape all{queries.shape(token_axis<T>), keys.shape(token_axis<T>)};
        if (token_axis<T> == 1)
            all.insert(all.begin(), queries.shape(0));
        const Array array = checked_pairs(name, all);
        if (array.rank() == 2)
            return from_array<std::variant_alternative_t<0, Variant>>(array);
        return from_array<std::variant_alternative_t<1, Variant>>(array);
    }

    /// How many of the tokens of each sequence are real.
    template <Sequence T>
    std::optional<Integers> lengths(std::string_view name, const T& tokens) const
    {
        if (!has(name))
            return std::nullopt;
        expect_lengths(name, token_axis<T> == 1 ? std::optional(tokens.shape(0)) : std::nullopt);
        return get<Integers>(name);
    }

private:
    const Array& find(std::string_view name) const { return arrays_.find(name)->second; }
    Array checked(std::string_view name) const;
    Array checked_pairs(std::string_view name, const Shape& pairs) const;
    void expect_lengths(std::string_view name, std::optional<std::size_t> sequences) const;

    const NamedArrays& arrays_;
    const Module& module_;
    std::optional<Precision> round_;
};

} // namespace attn
