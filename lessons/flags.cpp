#include "flags.hpp"

#include "attn/cli/shared_flags.hpp"

namespace attn {
namespace {

/// A lesson's own flag, and where its value goes.
cli::Flag own_flag(LessonFlag& flag)
{
    const auto target = [](auto& value) -> cli::FlagValue {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::same_as<Value, double>)
            return cli::number(value, cli::NumberRange::from_zero);
        else if constexpr (std::same_as<Value, std::optional<std::size_t>>)
            return cli::whole_number(value, 0, std::size_t{1} << 20);
        else
            return value;
    };
    return {flag.name, flag.type, std::visit(target, flag.value), flag.help};
}

std::vector<cli::FlagGroup> groups_of(LessonFlags& flags)
{
    std::vector<cli::FlagGroup> groups{
        {"Files",
         {{"--trace", "FILE.npz", flags.trace, "write every step to this file"},
          {"--input", "FILE.npz", flags.input,
           "your own numbers in place of the example's"}}},
        cli::intervention_flags(flags.interventions),
        cli::screen_flags(flags.console),
    };
    std::vector<cli::Flag>& screen = groups.back().flags;
    screen.insert(
        screen.begin(),
        {"--all", "", flags.console.all,
         "print every step; by default what happens inside a scope is one line"});
    screen.push_back(
        {"--summary", "", flags.summary,
         "print one line only: how many steps and checks, and whether all held"});
    cli::FlagGroup own{"Of this lesson", {}};
    for (LessonFlag& flag : flags.own)
        own.flags.push_back(own_flag(flag));
    if (!own.flags.empty())
        groups.insert(groups.begin(), std::move(own));
    return groups;
}

} // namespace

std::optional<int> read_flags(LessonFlags& flags, const std::string& program, int argc,
                              const char* const* argv)
{
    bool is_read = false;
    const auto go_on = [&is_read] {
        is_read = true;
        return 0;
    };
    const int code = cli::run_program(
        {.name = program,
         .summary = "Computes attention step by step and shows every tensor on the way.",
         .groups = groups_of(flags),
         .run = go_on},
        argc, argv);
    return is_read ? std::nullopt : std::optional(code);
}

} // namespace attn
