#include "flags.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace attn {
namespace {

void describe_own_flag(CLI::App& app, LessonFlag& flag)
{
    const auto describe = [&](auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::same_as<Value, bool>) {
            app.add_flag(flag.name, value, flag.help);
        } else {
            CLI::Option* option = app.add_option(flag.name, value, flag.help)->type_name(flag.type);
            if constexpr (std::same_as<Value, double>)
                option->check(CLI::Range(0.0, 1e6))->capture_default_str()->type_name(flag.type);
            if constexpr (std::same_as<Value, std::optional<std::size_t>>)
                option->check(CLI::Range(std::size_t{0}, std::size_t{1} << 20))->type_name(flag.type);
        }
    };
    std::visit(describe, flag.value);
}

void describe_console(CLI::App& app, LessonFlags& flags)
{
    app.add_flag("--all", flags.console.all, "print every step; by default what happens inside a scope is one line");
    app.add_option("--precision", flags.console.precision, "digits after the point (0 to 17)")
        ->type_name("DIGITS")
        ->capture_default_str()
        ->check(CLI::Range(0, 17));
    app.add_option("--color", flags.console.color, "names bold, formulas dim")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "always", "never"}));
    app.add_flag("--quiet", flags.console.quiet, "print nothing but errors");
    app.add_flag("--summary", flags.summary, "print one line only: how many steps and checks, and whether all held");
}

void describe_answers(CLI::App& app, AnswerFlags& flags)
{
    app.add_option_function<std::string>(
           "--round",
           [&flags](const std::string& name) {
               for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::float16})
                   if (name == name_of(precision))
                       flags.round = precision;
           },
           "what if: round every step")
        ->type_name("float32|bfloat16|float16")
        ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
    app.add_option("--ablate", flags.ablate, "what if: make a step zero; again for more")
        ->type_name("STEP")
        ->take_all();
    app.add_option("--pitfall", flags.pitfall, "what if: make a well-known mistake (attn pitfalls lists them)")
        ->type_name("ID");
}

} // namespace

std::optional<int> read_flags(LessonFlags& flags, const std::string& program, int argc, const char* const* argv)
{
    CLI::App app("Computes attention step by step and shows every tensor on the way.", program);
    app.add_option("--trace", flags.trace, "write every step to this .npz")->type_name("FILE.npz");
    app.add_option("--input", flags.input, "your own numbers in place of the example's")->type_name("FILE.npz");
    describe_console(app, flags);
    describe_answers(app, flags.answers);
    for (LessonFlag& flag : flags.own)
        describe_own_flag(app, flag);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return 0;
    } catch (const CLI::ParseError& error) {
        std::fprintf(stderr, "%s: %s (see --help)\n", program.c_str(), error.what());
        return 2;
    }
    return std::nullopt;
}

} // namespace attn
