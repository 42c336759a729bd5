#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <type_traits>

/// @file
/// A set of choices, such as the activations, is an enum and one table with a row for each of its enumerators:
///
///     constexpr Choice<NormPlacement> placements[] = {{NormPlacement::post, "post"}, {NormPlacement::pre, "pre"}};
///
///     std::string_view name_of(NormPlacement placement) { return row_for<placements>(placement).name; }
///
/// A table that says more of each choice has rows of its own, with the members `choice` and `name`. The compiler refuses a
/// table in which an enumerator has no row, or not at its place.

namespace attn {

/// A row of a table that says nothing but names.
template <class Enum>
struct Choice {
    Enum choice;
    std::string_view name;
};

/// Whether an enum's definition has a name for a value. The compiler writes `attn::Activation::gelu` for one that has, and
/// `(attn::Activation)5` for one that has not.
template <auto value>
constexpr bool is_enumerator()
{
    constexpr std::string_view text = __PRETTY_FUNCTION__;
    return text[text.find_last_of(":)")] == ':';
}

/// How many enumerators there are from 0 on, without gaps.
template <class Enum, std::size_t count = 0>
constexpr std::size_t count_of_enumerators()
{
    if constexpr (is_enumerator<static_cast<Enum>(count)>())
        return count_of_enumerators<Enum, count + 1>();
    else
        return count;
}

/// All enumerators, in order: `for (const Activation activation : enumerators<Activation>)`.
template <class Enum>
inline constexpr auto enumerators = [] {
    constexpr std::size_t count = count_of_enumerators<Enum>();
    static_assert(count > 0, "include the header that defines the enumerators");
    std::array<Enum, count> all{};
    for (std::size_t i = 0; i < count; ++i)
        all[i] = static_cast<Enum>(i);
    return all;
}();

/// The enum that a table is about.
template <const auto& table>
using EnumOf = std::remove_const_t<decltype(std::begin(table)->choice)>;

/// Whether each enumerator has a row, at its place.
template <const auto& table>
inline constexpr bool is_complete = [] {
    const auto& all = enumerators<EnumOf<table>>;
    bool complete = std::size(table) == all.size();
    for (std::size_t i = 0; complete && i < all.size(); ++i)
        complete = table[i].choice == all[i];
    return complete;
}();

/// Whether the rows are in the order of the enumerators, some of which can have none, and none has two.
template <const auto& table>
inline constexpr bool is_in_order = [] {
    bool in_order = true;
    for (std::size_t i = 1; i < std::size(table); ++i)
        in_order = in_order && table[i - 1].choice < table[i].choice;
    return in_order;
}();

/// The row of a choice.
template <const auto& table>
constexpr const auto& row_for(EnumOf<table> choice)
{
    static_assert(is_complete<table>, "each enumerator needs its row, in the order of the enum");
    return table[static_cast<std::size_t>(choice)];
}

/// The row of a choice, in a table of some; nullptr where it has none.
template <const auto& table>
constexpr auto find_row(EnumOf<table> choice) -> decltype(std::begin(table))
{
    static_assert(is_in_order<table>, "the rows stand in the order of the enum, one for a choice");
    for (const auto& row : table)
        if (row.choice == choice)
            return &row;
    return nullptr;
}

} // namespace attn
