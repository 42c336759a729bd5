// The one file that includes CLI11, which takes long to compile. CLI11 splits a command line into flags and their
// texts. What the texts mean, which flags are missing, and the wording of help and errors is decided here.

#include "attn/cli/flags.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/core/array.hpp"
#include "attn/core/error.hpp"
#include "attn/core/memory.hpp"
#include "attn/files/output.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <unistd.h>

namespace attn::cli {
namespace {

/// The whole text as a number, or nothing.
std::optional<std::size_t> parsed_whole(const std::string& text)
{
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<double> parsed(std::string_view text)
{
    const std::optional<double> value = take_number(text);
    return text.empty() ? value : std::nullopt;
}

void expect_text(const std::string& text)
{
    if (text.empty())
        throw Error("the value is empty");
    if (text.starts_with("--")) // CLI11 takes any word that follows
        throw Error("the value is missing: ", text, " is a flag");
}

} // namespace

FlagValue::FlagValue(bool& value) : take([&value](const std::string&) { value = true; }), takes_text(false) {}

FlagValue::FlagValue(std::string& value)
    : take([&value](const std::string& text) {
          expect_text(text);
          value = text;
      }),
      preset(value)
{
}

FlagValue::FlagValue(std::filesystem::path& value)
    : take([&value](const std::string& text) {
          expect_text(text);
          value = text;
      })
{
}

FlagValue::FlagValue(std::vector<std::string>& value)
    : take([&value](const std::string& text) {
          expect_text(text);
          value.push_back(text);
      }),
      takes_several(true)
{
}

FlagValue whole_number(std::function<void(std::size_t)> store, std::string preset, std::size_t least, std::size_t most)
{
    FlagValue result([store = std::move(store), least, most](const std::string& text) {
        const std::optional<std::size_t> value = parsed_whole(text);
        if (!value || *value < least || *value > most)
            throw Error(fmt::format("{} is not a whole number from {}{}", text, least,
                                    most == unlimited ? "" : fmt::format(" to {}", most)));
        store(*value);
    });
    result.preset = std::move(preset);
    return result;
}

FlagValue number(std::function<void(double)> store, std::optional<double> preset, NumberRange range)
{
    FlagValue result([store = std::move(store), range](const std::string& text) {
        const std::optional<double> value = parsed(text);
        const bool is_usable = value && std::isfinite(*value) && (range != NumberRange::above_zero || *value > 0) &&
                               (range != NumberRange::from_zero || *value >= 0);
        if (!is_usable)
            throw Error(text, " is not a finite number",
                        (range == NumberRange::any          ? ""
                         : range == NumberRange::above_zero ? " above zero"
                                                            : " from zero"));
        store(*value);
    });
    if (preset)
        result.preset = fmt::format("{}", *preset);
    return result;
}

FlagValue one_of_names(std::function<void(std::size_t)> store, const std::vector<std::string>& names)
{
    FlagValue result([store = std::move(store), names](const std::string& text) {
        const auto found = std::ranges::find(names, text);
        if (found == names.end())
            throw Error(fmt::format("{} is none of {}", text, fmt::join(names, ", ")));
        store(static_cast<std::size_t>(found - names.begin()));
    });
    result.type = fmt::format("{}", fmt::join(names, "|"));
    return result;
}

namespace {

class UsageError : public Error {
public:
    using Error::Error;
};

/// "--output" of "-o,--output".
std::string long_name(const Flag& flag) { return flag.name.substr(flag.name.find(',') + 1); }

bool is_positional(const Flag& flag) { return flag.name.front() != '-'; }

std::string type_of(const Flag& flag) { return flag.type.empty() ? flag.value.type : flag.type; }

// ---------------------------------------------------------------------------------------------------------------- help

constexpr std::size_t widest = 100, column = 28;

/// Text in lines that are not too long, all but the first indented.
std::string wrapped(const std::string& text, std::size_t indent)
{
    std::string result, line;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (!line.empty() && indent + line.size() + 1 + word.size() > widest) {
            result += line + "\n" + std::string(indent, ' ');
            line.clear();
        }
        line += (line.empty() ? "" : " ") + word;
    }
    return result + line;
}

/// A name, and beside it what it means.
void print_entry(const std::string& name, const std::string& meaning)
{
    const std::string gap =
        name.size() + 4 > column ? "\n" + std::string(column, ' ') : std::string(column - name.size() - 2, ' ');
    print_lines("  " + name + gap + wrapped(meaning, column) + "\n");
}

void print_flag(const Flag& flag)
{
    const std::string type = type_of(flag);
    std::string name = flag.name, meaning = flag.help;
    if (const std::size_t comma = name.find(','); comma != std::string::npos)
        name.insert(comma + 1, " ");
    if (flag.value.takes_several)
        meaning += " (can be given several times)";
    if (flag.is_required)
        meaning += " (required)";
    else if (!flag.value.preset.empty() && !is_positional(flag))
        meaning += " (default: " + flag.value.preset + ")";
    print_entry(name + (type.empty() ? "" : " " + type), meaning);
}

void print_help(const Command& command, const std::string& path)
{
    std::string usage = path + (command.commands.empty() ? "" : " COMMAND") + " [FLAGS]";
    for (const FlagGroup& group : command.groups)
        for (const Flag& flag : group.flags)
            usage += is_positional(flag) ? " " + flag.name : "";
    print_lines(wrapped(command.summary, 0) + "\n\nUsage: " + usage + "\n");
    if (!command.details.empty())
        print_lines("\n" + command.details);
    if (!command.commands.empty())
        print("\nCommands:\n");
    for (const Command& other : command.commands)
        print_entry(other.name, other.summary);
    for (const FlagGroup& group : command.groups) {
        print("\n{}:\n", group.title);
        for (const Flag& flag : group.flags)
            print_flag(flag);
    }
    print("\n");
    if (!command.version.empty())
        print_entry("--version", "print the version");
    print_entry("-h, --help", "print this");
}

// ------------------------------------------------------------------------------------------------------ a command line

/// A command with CLI11's view of it.
struct Parser {
    const Command& command;
    CLI::App& app;
    std::string path; ///< "attn run encoder"
    std::vector<std::pair<const Flag*, CLI::Option*>> flags = {};
    std::vector<Parser> parsers = {};

    Parser(const Command& what, CLI::App& parsed_by, const std::string& called)
        : command(what), app(parsed_by), path(called)
    {
        for (const FlagGroup& group : command.groups)
            for (const Flag& flag : group.flags)
                flags.emplace_back(&flag, added(flag));
        for (const Command& other : command.commands)
            parsers.emplace_back(other, *app.add_subcommand(other.name), path + " " + other.name);
        if (!command.commands.empty())
            app.require_subcommand(0, 1); // an unknown one is then an unexpected word, by its name
    }

    CLI::Option* added(const Flag& flag)
    {
        if (!flag.value.takes_text)
            return app.add_flag(flag.name)->disable_flag_override()->multi_option_policy(
                CLI::MultiOptionPolicy::TakeAll);
        return app.add_option(flag.name)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->type_name(type_of(flag));
    }

    /// The subcommand that was given, of all levels.
    const Parser& chosen() const
    {
        for (const Parser& parser : parsers)
            if (parser.app.parsed())
                return parser.chosen();
        return *this;
    }

    const CLI::Option* option(const std::string& name) const
    {
        for (const auto& [flag, option] : flags)
            if (long_name(*flag) == name)
                return option;
        throw std::logic_error("no flag is called " + name);
    }

    /// True where a flag was given, as "--weights" or with one value as "--positions rotary".
    bool is_given(const std::string& words) const
    {
        const std::size_t space = words.find(' ');
        const CLI::Option& found = *option(words.substr(0, space));
        return found.count() > 0 && (space == std::string::npos || found.results().back() == words.substr(space + 1));
    }

    /// Hands every value to where it goes.
    void take() const
    {
        for (const auto& [flag, option] : flags) {
            const std::string name = long_name(*flag);
            if (option->count() > 1 && !flag->value.takes_several)
                throw UsageError(name, " is given ", option->count(), " times, expected once");
            for (const std::string& text : option->results())
                try {
                    flag->value.take(text);
                } catch (const Error& error) {
                    throw UsageError(name, ": ", error.what());
                }
        }
        for (const auto& [flag, option] : flags) {
            if (option->count() == 0 && (flag->is_required || is_positional(*flag)))
                throw UsageError(long_name(*flag), " is required");
            if (option->count() > 0 && !flag->needs.empty() && !is_given(flag->needs))
                throw UsageError(long_name(*flag), " has no effect without ", flag->needs);
            if (option->count() > 0 && !flag->excludes.empty() && is_given(flag->excludes))
                throw UsageError(long_name(*flag), " can't be given with ", flag->excludes);
        }
        if (!command.run)
            throw UsageError("which command?");
    }
};

int parse_and_run(const Parser& parser, int argc, const char* const* argv)
{
    const auto refuse = [&](const std::string& message) {
        throw UsageError(message, " (see ", parser.chosen().path, " --help)");
    };
    try {
        parser.app.parse(argc, argv);
        parser.chosen().take();
    } catch (const CLI::CallForHelp&) {
        print_help(parser.chosen().command, parser.chosen().path);
        return 0;
    } catch (const CLI::CallForVersion&) {
        print("{}\n", parser.command.version);
        return 0;
    } catch (const CLI::ExtrasError&) {
        refuse(parser.app.remaining(true).front() + " is not expected");
    } catch (const CLI::ParseError& error) {
        refuse(error.what());
    } catch (const UsageError& error) {
        refuse(error.what());
    }
    return parser.chosen().command.run();
}

std::string_view program_name; ///< as it was called, without its folder

void end_program();
const std::terminate_handler usual_end = std::set_terminate(end_program);

/// Where nobody catches an exception: before guarded(), in another thread, or where there is no memory to say what guarded()
/// says. This takes none.
void end_program()
{
    try {
        if (std::current_exception() != nullptr)
            throw;
    } catch (const std::bad_alloc&) {
        for (const std::string_view part : {program_name, std::string_view(": there is not enough memory\n")})
            if (::write(STDERR_FILENO, part.data(), part.size()) < 0)
                break;
        ::_exit(2);
    } catch (...) {
    }
    usual_end();
}

} // namespace

int run_program(const Command& program, int argc, const char* const* argv)
{
    files::prepare_streams();
    program_name = argv[0];
    program_name.remove_prefix(program_name.rfind('/') + 1); // npos + 1 is 0
    CLI::App app;
    if (!program.version.empty())
        app.set_version_flag("--version", program.version);
    const Parser parser(program, app, program.name);
    const auto name = [&] { // errors begin with "attn run" for "attn run encoder", too
        const std::string& path = parser.chosen().path;
        return path.substr(0, path.find(' ', std::min(path.size(), path.find(' ') + 1)));
    };
    return guarded(name, [&] {
        const int code = parse_and_run(parser, argc, argv);
        files::expect_delivered();
        return code;
    });
}

int guarded(const std::function<std::string()>& name, const std::function<int()>& work)
{
    const auto fail = [&](const Error& error) {
        print_error(name(), error);
        return 2;
    };
    const auto no_memory = [&] {
        return fail(Error("there is not enough memory for this; " + bytes_text(static_cast<double>(memory_left())) +
                          " are left: give smaller inputs, or more memory"));
    };
    try {
        return work();
    } catch (const Error& error) {
        return fail(error);
    } catch (const std::bad_alloc&) {
        return no_memory();
    } catch (const std::length_error&) { // more than any machine could hold
        return no_memory();
    } catch (const std::exception& error) {
        return fail(Error(std::string("this is a mistake in attn, please report it: ") + error.what()));
    }
}

} // namespace attn::cli
