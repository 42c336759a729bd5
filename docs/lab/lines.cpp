#include "lines.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>

namespace attn::lab {
namespace {

using Strings = std::vector<std::string>;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_name(std::string_view text)
{
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
           std::ranges::all_of(text, is_word);
}

std::string trimmed(std::string_view text)
{
    const std::size_t first = text.find_first_not_of(" \t\r");
    return first == text.npos ? "" : std::string(text.substr(first, text.find_last_not_of(" \t\r") + 1 - first));
}

/// Where a string ends that begins here: after its closing quote.
std::size_t after_string(std::string_view text, std::size_t at)
{
    const std::string_view quote = text.substr(at, text.substr(at, 3) == std::string(3, text[at]) ? 3 : 1);
    const std::size_t end = text.find(quote, at + quote.size());
    if (end == text.npos || (quote.size() == 1 && text.substr(at, end - at).find('\n') != text.npos))
        throw Error("a string that begins with " + std::string(quote) + " doesn't end");
    return end + quote.size();
}

/// Calls what for each character that is in no string, with how many brackets are open before it, until it says true.
/// @return where that was, or the end
std::size_t find_outside(std::string_view text, std::size_t at,
                         const std::function<bool(std::size_t at, int open)>& what)
{
    int open = 0;
    while (at < text.size()) {
        if (what(at, open))
            return at;
        const char c = text[at];
        open += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        at = c == '"' || c == '\'' ? after_string(text, at) : at + 1;
    }
    return text.size();
}

/// The parts between commas that are in no brackets; "a," has one.
Strings split(std::string_view text)
{
    Strings parts;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end =
            find_outside(text, at, [&](std::size_t i, int open) { return open == 0 && text[i] == ','; });
        parts.push_back(trimmed(text.substr(at, end - at)));
        at = end + 1;
    }
    return parts;
}

/// Where a bracket closes that opens here.
std::size_t closing(std::string_view text, std::size_t at)
{
    const std::size_t end = find_outside(
        text, at, [&](std::size_t i, int open) { return i > at && open == 1 && (text[i] == ')' || text[i] == ']'); });
    if (end == text.size())
        throw Error("a bracket doesn't close");
    return end;
}

/// The sign of an assignment, which is in no brackets; nothing where there is none. Before it can stand an operator: "+=".
std::optional<std::size_t> assignment(std::string_view text)
{
    const std::size_t at = find_outside(text, 0, [&](std::size_t i, int open) {
        const bool is_compared = i > 0 && std::string_view("=<>!").find(text[i - 1]) != std::string_view::npos;
        return open == 0 && text[i] == '=' && text.substr(i, 2) != "==" && !is_compared;
    });
    return at == text.size() ? std::nullopt : std::optional(at);
}

std::string first_word(std::string_view text)
{
    const auto end = std::ranges::find_if_not(text, is_word);
    return {text.begin(), end};
}

/// "my_f" and its parameters, of "def my_f(x, heads=2):".
std::pair<std::string, Definition> head_of(std::string_view text)
{
    const std::size_t open = text.find('(');
    const std::string name = trimmed(text.substr(3, open - 3));
    if (open == text.npos || !is_name(name))
        throw Error("expected a function such as def f(x):");
    const std::size_t close = closing(text, open);
    Definition definition;
    for (const std::string& part : split(text.substr(open + 1, close - open - 1))) {
        const std::size_t sign = part.find('=');
        definition.parameters.push_back({trimmed(part.substr(0, std::min(sign, part.find(':')))),
                                         sign == part.npos ? "" : trimmed(part.substr(sign + 1))});
    }
    const std::size_t colon = text.find(':', close);
    if (colon == text.npos)
        throw Error("expected : after the parameters of " + name);
    if (const std::string rest = trimmed(text.substr(colon + 1)); !rest.empty())
        definition.body.push_back({0, 0, rest});
    return {name, definition};
}

/// Runs some lines; those of a function that they call, in one of its own.
class Runner {
public:
    Runner(Definitions& functions, std::string_view refused, int depth)
        : functions_(functions), refused_(refused), depth_(depth)
    {
        constexpr int deepest = 20;
        if (depth > deepest)
            throw Error("functions call each other too deeply");
    }

    Ran run(const std::vector<Line>& lines, Names names)
    {
        names_ = std::move(names);
        Ran ran;
        for (const Line& line : lines)
            about(line, lines, [&] { expect_understood(first_word(line.text)); });
        for (std::size_t i = 0; i < lines.size() && !has_returned_; ++i)
            about(lines[i], lines, [&] { statement(lines, i, ran); });
        return ran;
    }

private:
    /// Does something with one of some lines; says which when that fails.
    template <class Work>
    static void about(const Line& line, const std::vector<Line>& lines, const Work& work)
    {
        const std::size_t number = line.number;
        try {
            work();
        } catch (const Error& error) {
            const bool is_said = lines.size() == 1 || std::string_view(error.what()).starts_with("line ");
            throw Error((is_said ? "" : "line " + std::to_string(number) + ": ") + error.what());
        }
    }

    static void expect_understood(const std::string& word)
    {
        for (const std::string_view other :
             {"for", "while", "if", "elif", "else", "with", "try", "class", "assert", "raise", "pass"})
            if (word == other)
                throw Error("the page has no " + word +
                            ", only names, formulas and functions; in C++ and Python you have all of it");
    }

    /// @param i  of the line; a definition takes those after it that belong to it
    void statement(const std::vector<Line>& lines, std::size_t& i, Ran& ran)
    {
        const std::string& text = lines[i].text;
        const std::string word = first_word(text);
        if (word == "def")
            return define_function(lines, i);
        if (word == "import" || word == "from")
            return;
        if (word == "return") {
            ran.results = values(trimmed(text.substr(word.size())));
            has_returned_ = true;
        } else if (const auto sign = assignment(text)) {
            assign(text, *sign, ran);
        } else {
            ran.results = values(text);
        }
    }

    void define_function(const std::vector<Line>& lines, std::size_t& i)
    {
        auto [name, definition] = head_of(lines[i].text);
        const std::size_t indent = lines[i].indent;
        while (i + 1 < lines.size() && lines[i + 1].indent > indent)
            definition.body.push_back(lines[++i]);
        if (definition.body.empty())
            throw Error(name + " has no lines");
        definition.around = names_;
        functions_.insert_or_assign(name, std::move(definition));
    }

    void assign(const std::string& text, std::size_t sign, Ran& ran)
    {
        if (sign == 0)
            throw Error("expected a name before =");
        std::string value = trimmed(text.substr(sign + 1));
        const std::size_t end = text.find_last_not_of("+-*/%@&| ", sign - 1) + 1;
        const std::string target = trimmed(text.substr(0, end)), op = trimmed(text.substr(end, sign - end));
        const Strings targets = split(target);
        for (const std::string& name : targets)
            if (!is_name(name))
                throw Error("expected a name before =, found " + name);
        if (!op.empty())
            value = target + " " + op + " (" + value + ")";
        if (targets.size() == 1)
            if (const auto string = string_in(value)) {
                names_.texts.insert_or_assign(target, *string);
                return;
            }
        std::vector<Array> given = values(value);
        if (given.size() == 1 && targets.size() > 1)
            given = entries_of(given[0]);
        if (given.size() != targets.size())
            throw Error(std::to_string(targets.size()) + " names for " + std::to_string(given.size()) + " values");
        for (std::size_t i = 0; i < targets.size(); ++i) {
            ran.named.emplace_back(targets[i], given[i]);
            names_.texts.erase(targets[i]);
            names_.arrays.insert_or_assign(targets[i], std::move(given[i]));
        }
        ran.results = {ran.named.back().second};
    }

    /// What several names get of one array: an entry of its first axis each.
    static std::vector<Array> entries_of(const Array& array)
    {
        std::vector<Array> entries;
        for (std::size_t i = 0; array.rank() > 0 && i < array.shape[0]; ++i)
            entries.push_back(
                formula::evaluate("x[" + std::to_string(i) + "]", [&](std::string_view) { return &array; }).value);
        return entries;
    }

    /// One value, or several with commas between; x.shape has one for each axis.
    std::vector<Array> values(const std::string& text)
    {
        const Strings parts = split(text);
        if (parts.size() == 1) {
            std::string one = with_dictionaries(text);
            if (one.ends_with(".shape")) {
                std::vector<Array> sizes;
                for (const std::size_t size : value(one.substr(0, one.size() - 6)).shape)
                    sizes.push_back({{}, {static_cast<double>(size)}, ElementType::integer});
                return sizes;
            }
            const std::string name = first_word(one);
            if (functions_.contains(name) && one.substr(name.size()).starts_with("(") &&
                closing(one, name.size()) + 1 == one.size())
                return called(name, one.substr(name.size() + 1, one.size() - name.size() - 2));
        }
        std::vector<Array> all;
        for (const std::string& part : parts)
            all.push_back(value(part));
        return all;
    }

    Array value(const std::string& text)
    {
        const std::string formula = with_calls(with_dictionaries(text));
        expect_not_refused(formula::parse_formula(formula));
        return formula::evaluate(formula, [&](std::string_view name) { return array_called(name); }).value;
    }

    const Array* array_called(std::string_view name) const
    {
        const auto found = names_.arrays.find(name);
        return found == names_.arrays.end() ? nullptr : &found->second;
    }

    void expect_not_refused(const formula::Expression& expression) const
    {
        if (expression.kind == formula::Expression::Kind::call && expression.text == refused_)
            throw Error(expression.text + " is what is to be written here: write it without calling it");
        for (const formula::Expression* part : formula::parts_of(expression))
            expect_not_refused(*part);
    }

    /// weights["norm1.bias"] as weights.norm1.bias, the name of one of a dictionary's arrays.
    std::string with_dictionaries(std::string text) const
    {
        for (std::size_t at = 0; (at = text.find('[', at)) != text.npos; ++at) {
            const std::size_t end = closing(text, at);
            if (const auto key = string_in(trimmed(text.substr(at + 1, end - at - 1))))
                text = text.substr(0, at) + "." + *key + text.substr(end + 1);
        }
        return text;
    }

    /// The calls of the lines' own functions as names of what these give.
    std::string with_calls(std::string text)
    {
        for (std::size_t at = 0; at < text.size();) {
            if (!is_word(text[at]) || (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.'))) {
                ++at;
                continue;
            }
            const std::string name = first_word(std::string_view(text).substr(at));
            const std::size_t open = at + name.size();
            if (!functions_.contains(name) || text.substr(open, 1) != "(") {
                at = open;
                continue;
            }
            const std::size_t close = closing(text, open);
            const std::vector<Array> given = called(name, text.substr(open + 1, close - open - 1));
            if (given.size() != 1)
                throw Error(name + " gives " + std::to_string(given.size()) + " values, which need names of their own");
            const std::string result = name + "_" + std::to_string(++count_) + "_"; // no name of theirs
            names_.arrays.insert_or_assign(result, given[0]);
            text = text.substr(0, at) + result + text.substr(close + 1);
            at += result.size();
        }
        return text;
    }

    std::vector<Array> called(const std::string& name, const std::string& arguments)
    {
        const Definition definition = functions_.at(name);
        Names inside = definition.around;
        std::vector<bool> is_given(definition.parameters.size());
        const Strings parts = split(arguments);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            std::size_t place = i;
            std::string text = parts[i];
            if (const auto sign = assignment(text)) {
                const std::string keyword = trimmed(text.substr(0, *sign));
                place = static_cast<std::size_t>(std::ranges::find(definition.parameters, keyword, &Parameter::name) -
                                                 definition.parameters.begin());
                text = trimmed(text.substr(*sign + 1));
            }
            if (place >= definition.parameters.size())
                throw Error(name + " takes " + std::to_string(definition.parameters.size()) + " arguments, and no " +
                            text);
            give(inside, definition.parameters[place].name, text);
            is_given[place] = true;
        }
        for (std::size_t i = 0; i < is_given.size(); ++i)
            if (!is_given[i] && definition.parameters[i].otherwise.empty())
                throw Error(name + " needs " + definition.parameters[i].name);
            else if (!is_given[i])
                give(inside, definition.parameters[i].name, definition.parameters[i].otherwise);
        const Ran ran = Runner(functions_, refused_, depth_ + 1).run(definition.body, std::move(inside));
        if (ran.results.empty())
            throw Error(name + " returns nothing");
        return ran.results;
    }

    /// A parameter's value: a string, a dictionary, or an array.
    void give(Names& inside, const std::string& parameter, const std::string& text)
    {
        const std::string prefix = text + ".";
        if (const auto string = string_in(text)) {
            inside.texts.insert_or_assign(parameter, *string);
        } else if (const auto first = names_.arrays.lower_bound(prefix);
                   first != names_.arrays.end() && first->first.starts_with(prefix)) {
            for (auto array = first; array != names_.arrays.end() && array->first.starts_with(prefix); ++array)
                inside.arrays.insert_or_assign(parameter + "." + array->first.substr(prefix.size()), array->second);
        } else {
            inside.arrays.insert_or_assign(parameter, value(text));
        }
    }

    /// The text of "norm1", of f"{name}.bias", or of a name that has one; nothing where it is none of these.
    std::optional<std::string> string_in(const std::string& text) const
    {
        if (const auto found = names_.texts.find(text); found != names_.texts.end())
            return found->second;
        const std::size_t quote = text.starts_with("f") ? 1 : 0;
        if (text.size() < quote + 2 || (text[quote] != '"' && text[quote] != '\'') ||
            after_string(text, quote) != text.size())
            return std::nullopt;
        std::string string = text.substr(quote + 1, text.size() - quote - 2);
        for (std::size_t at = 0; quote == 1 && (at = string.find('{', at)) != string.npos;) {
            const std::size_t end = string.find('}', at);
            const auto inner =
                end == string.npos ? names_.texts.end() : names_.texts.find(string.substr(at + 1, end - at - 1));
            if (inner == names_.texts.end())
                throw Error("in " + text + " only names of strings can stand in braces");
            string.replace(at, end + 1 - at, inner->second);
            at += inner->second.size();
        }
        return string;
    }

    Definitions& functions_;
    std::string_view refused_;
    int depth_;
    Names names_;
    bool has_returned_ = false;
    int count_ = 0;
};

} // namespace

std::vector<Line> lines_of(std::string_view text)
{
    std::vector<Line> lines;
    std::size_t number = 1;
    bool begins = true;
    int open = 0;
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (begins) {
            const std::size_t first = std::min(text.find_first_not_of(" \t", at), text.size());
            lines.push_back({first - at, number, ""});
            at = first;
            begins = false;
        } else if (c == '#') {
            at = std::min(text.find('\n', at), text.size());
        } else if (c == '"' || c == '\'') {
            const std::size_t end = after_string(text, at);
            const std::string_view string = text.substr(at, end - at);
            number += static_cast<std::size_t>(std::ranges::count(string, '\n'));
            if (!string.starts_with("\"\"\"") && !string.starts_with("'''")) // which says what a function does
                lines.back().text += string;
            at = end;
        } else if (c == '\n' || (c == ';' && open == 0)) {
            begins = open <= 0;
            lines.back().text += ' ';
            number += c == '\n' ? 1 : 0;
            ++at;
        } else {
            open += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
            lines.back().text += c == '\t' || c == '\r' ? ' ' : c;
            ++at;
        }
    }
    for (Line& line : lines)
        line.text = trimmed(line.text);
    std::erase_if(lines, [](const Line& line) { return line.text.empty(); });
    return lines;
}

bool define(const std::vector<Line>& lines, std::string_view function)
{
    return std::ranges::any_of(lines, [&](const Line& line) {
        return first_word(line.text) == "def" && head_of(line.text).first == function;
    });
}

Ran run_lines(const std::vector<Line>& lines, Names names, Definitions& functions, std::string_view refused)
{
    return Runner(functions, refused, 0).run(lines, std::move(names));
}

Ran run_function(std::string_view name, const std::vector<std::map<std::string, Array, std::less<>>>& arguments,
                 Definitions& functions, std::string_view refused)
{
    const Definition definition = functions.find(name)->second;
    const std::size_t most = definition.parameters.size();
    if (arguments.size() > most)
        throw Error(std::string(name) + " has " + std::to_string(most) + " parameters, and is called with " +
                    std::to_string(arguments.size()) + " arguments");
    Names names = definition.around;
    for (std::size_t i = 0; i < arguments.size(); ++i)
        for (const auto& [key, array] : arguments[i])
            names.arrays.insert_or_assign(definition.parameters[i].name + (key.empty() ? "" : "." + key), array);
    return run_lines(definition.body, std::move(names), functions, refused);
}

} // namespace attn::lab
