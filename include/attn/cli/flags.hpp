#pragma once

#include "attn/core/choices.hpp"

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attn::cli {

/// Where the value of a flag goes, and which texts are a value.
struct FlagValue {
    FlagValue(bool& value);                     ///< takes no text: true where the flag is given
    FlagValue(std::string& value);              ///< any text but an empty one
    FlagValue(std::filesystem::path& value);    ///< the same
    FlagValue(std::vector<std::string>& value); ///< the same; the flag can be given several times
    FlagValue(std::function<void(const std::string&)> store, bool several = false)
        : take(std::move(store)), takes_several(several)
    {
    }

    /// The same with an example: a value that changes what comes out, and flags with which it does, "--groups 2".
    FlagValue like(std::string text, std::string flags = "") &&
    {
        example = std::move(text);
        among = std::move(flags);
        return std::move(*this);
    }

    std::function<void(const std::string&)> take; ///< stores a text's value; throws Error where it has none
    std::string type = {};                        ///< as --help shows it, where the flag does not name it
    std::string preset = {};                      ///< what --help shows as the default; empty for none
    std::string example = {}, among = {};         ///< see like()
    bool takes_text = true;
    bool takes_several = false;
};

/// Which numbers a flag takes; finite ones only.
enum class NumberRange { any, above_zero, from_zero };

/// @name Values that are numbers, or one of several names
///
/// The target holds the default; an optional one has none.
/// @{
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
FlagValue whole_number(std::function<void(std::size_t)> store, std::string preset, std::size_t least, std::size_t most);
FlagValue number(std::function<void(double)> store, std::optional<double> preset, NumberRange range);

/// Decimal digits: 10 and 010 are ten.
template <std::integral T>
FlagValue whole_number(T& value, std::size_t least, std::size_t most = unlimited)
{
    return whole_number([&value](std::size_t given) { value = static_cast<T>(given); }, std::to_string(value), least,
                        most);
}

inline FlagValue whole_number(std::optional<std::size_t>& value, std::size_t least, std::size_t most = unlimited)
{
    return whole_number([&value](std::size_t given) { value = given; }, "", least, most);
}

template <class T>
requires std::same_as<T, double> || std::same_as<T, std::optional<double>>
    FlagValue number(T& value, NumberRange range = NumberRange::any)
{
    return number([&value](double given) { value = given; }, value, range);
}

/// What is chosen for a value, or for an optional one.
template <class T>
struct Chosen {
    using Type = T;
};
template <class T>
struct Chosen<std::optional<T>> {
    using Type = T;
};

template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

/// What choices have in common, whatever they stand for.
FlagValue one_of_names(std::function<void(std::size_t)> store, const std::vector<std::string>& names);

template <class Target>
FlagValue one_of(Target& value, const Choices<typename Chosen<Target>::Type>& choices)
{
    std::vector<std::string> names;
    for (const auto& choice : choices)
        names.push_back(choice.first);
    FlagValue result = one_of_names([&value, choices](std::size_t i) { value = choices[i].second; }, names);
    for (const auto& choice : choices)
        if (value == choice.second)
            result.preset = choice.first;
    return std::move(result).like(names.front() == result.preset ? names.back() : names.front());
}

/// Any enumerator, under its own name: that of name_of().
template <class Target>
FlagValue one_of(Target& value)
{
    using Enum = typename Chosen<Target>::Type;
    Choices<Enum> choices;
    for (const Enum choice : enumerators<Enum>)
        choices.emplace_back(name_of(choice), choice);
    return one_of(value, choices);
}
/// @}

/// A flag of a program, or an argument by position.
struct Flag {
    std::string name; ///< "--heads", "-o,--output"; without a dash an argument by position, which is required: "MINE"
    std::string type; ///< of its value, as --help shows it: "H"; empty for the value's own: "post|pre"
    FlagValue value;
    std::string help;
    bool is_required = false;
    std::string needs = {};    ///< without which it has no effect: "--weights", or "--positions rotary"
    std::string excludes = {}; ///< a flag that it can't be given with
};

/// Flags that --help shows together.
struct FlagGroup {
    std::string title;
    std::vector<Flag> flags;
};

/// A program, or one of its subcommands.
struct Command {
    std::string name;         ///< "attn"; "run"
    std::string summary;      ///< what it does, in one line
    std::string details = {}; ///< what its --help says before the flags, ended by a newline
    std::vector<FlagGroup> groups = {};
    std::vector<Command> commands = {}; ///< one of them has to be given
    std::function<int()> run = {};      ///< does what was asked for; @return exit code
    std::string version = {};           ///< what --version prints
};

/// Does a program's work. Whatever stops it, memory that does not suffice among others, is one line on standard error.
/// @param name  of the program, which the line begins with; asked for when there is one
/// @return what the work returns; 2 where it was stopped
int guarded(const std::function<std::string()>& name, const std::function<int()>& work);

/// Reads a command line, and runs the command that it names.
///
/// Wrong usage, and an Error of the command, are one message on standard error, which begins with the program and its
/// subcommand: "attn run: --heads: 0 is not a whole number from 1 (see attn run encoder --help)".
/// @return the command's exit code; 0 after --help; 2 where usage or input is unusable, or output can't be written
int run_program(const Command& program, int argc, const char* const* argv);

} // namespace attn::cli
