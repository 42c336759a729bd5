#include "lines.hpp"

#include "numpy.hpp"

#include "attn/core/budget.hpp"
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

/// The words of a text that stand in no brackets, no string and no other word, and are one of these: "if", "and".
std::optional<std::pair<std::size_t, std::string>>
find_word(std::string_view text, std::initializer_list<std::string_view> words, std::size_t from = 0)
{
    std::string found;
    const std::size_t at = find_outside(text, 0, [&](std::size_t i, int open) {
        if (open != 0 || i < from || (i > 0 && (is_word(text[i - 1]) || text[i - 1] == '.')) || !is_word(text[i]))
            return false;
        found = first_word(text.substr(i));
        return std::ranges::find(words, found) != words.end();
    });
    return at == text.size() ? std::nullopt : std::optional(std::pair(at, found));
}

/// Where x begins in x.method, x[0].method or f(x).method: what its dot follows.
std::size_t begin_of_value(std::string_view text, std::size_t dot)
{
    std::size_t at = dot;
    while (at > 0) {
        const char c = text[at - 1];
        if (c == ')' || c == ']') {
            int open = 0;
            do {
                --at;
                open += text[at] == ')' || text[at] == ']' ? 1 : text[at] == '(' || text[at] == '[' ? -1 : 0;
            } while (at > 0 && open > 0);
        } else if (is_word(c) || c == '.') {
            --at;
        } else {
            break;
        }
    }
    return at;
}

/// True where brackets open at the beginning and close at the end.
bool is_bracketed(std::string_view text, char open)
{
    return text.starts_with(open) && closing(text, 0) + 1 == text.size();
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

    /// @param returns  a function's lines give what return says, others what the last one says
    Ran run(const std::vector<Line>& lines, Names names, bool returns)
    {
        names_ = std::move(names);
        is_alone_ = lines.size() == 1;
        for (const Line& line : lines)
            about(line, [&] { expect_understood(first_word(line.text)); });
        run_block(lines);
        if (returns && leaving_ != Leaving::function)
            ran_.results.clear();
        return std::move(ran_);
    }

private:
    /// What is left before its last line: by continue, break or return.
    enum class Leaving { nothing, round, loop, function };

    /// Does something with a line; says which when that fails.
    template <class Work>
    void about(const Line& line, const Work& work) const
    {
        const std::string place = is_alone_ ? "" : "line " + std::to_string(line.number) + ": ";
        try {
            work();
        } catch (const BudgetError&) {
            throw Error(place + "the page stops here, after more work than an exercise needs: does each loop end?");
        } catch (const Error& error) {
            throw Error((std::string_view(error.what()).starts_with("line ") ? "" : place) + error.what());
        }
    }

    static void expect_understood(const std::string& word)
    {
        for (const std::string_view other :
             {"with", "try", "class", "assert", "raise", "lambda", "global", "del", "yield"})
            if (word == other)
                throw Error("the page has no " + word +
                            ", only names, formulas, loops and functions; in C++ and Python you have all of it");
    }

    void run_block(const std::vector<Line>& lines)
    {
        for (std::size_t i = 0; i < lines.size() && leaving_ == Leaving::nothing; ++i)
            about(lines[i], [&] {
                temporaries_.clear();
                if (lines[i].indent != lines[0].indent)
                    throw Error("is indented otherwise than the lines before it");
                constexpr double operations_each = 10'000;
                spend(operations_each);
                statement(lines, i);
            });
    }

    /// @param i  of the line; for, if and def take those after it that belong to them
    void statement(const std::vector<Line>& lines, std::size_t& i)
    {
        const std::string& text = lines[i].text;
        const std::string word = first_word(text);
        if (word == "def")
            return define_function(lines, i);
        if (word == "for")
            return repeat_for_each(lines, i);
        if (word == "while")
            return repeat_while(lines, i);
        if (word == "if")
            return choose(lines, i);
        if (word == "elif" || word == "else")
            throw Error(word + " has no if before it");
        if (word == "import" || word == "from" || text == "pass")
            return;
        if (text == "break" || text == "continue") {
            if (loops_ == 0)
                throw Error(text + " is in no loop");
            leaving_ = text == "break" ? Leaving::loop : Leaving::round;
        } else if (word == "return") {
            ran_.results = values(trimmed(text.substr(word.size())));
            leaving_ = Leaving::function;
        } else if (const auto sign = assignment(text)) {
            assign(text, *sign);
        } else if (const std::size_t method = text.find(".append(");
                   method != text.npos && is_name(text.substr(0, method)) && !text.starts_with("np.")) {
            append(text.substr(0, method), text.substr(method + 7));
        } else {
            ran_.results = values(text);
        }
    }

    // ------------------------------------------------------------------------------------------- blocks of lines

    /// What stands between the first word of a line and its colon, and the lines that belong to it: those that are indented, or what
    /// follows the colon.
    static std::pair<std::string, std::vector<Line>> block_of(const std::vector<Line>& lines, std::size_t& i)
    {
        const Line& head = lines[i];
        const std::size_t colon =
            find_outside(head.text, 0, [&](std::size_t at, int open) { return open == 0 && head.text[at] == ':'; });
        const std::string word = first_word(head.text);
        if (colon == head.text.size())
            throw Error("expected : at the end of " + word);
        std::vector<Line> body;
        if (const std::string rest = trimmed(head.text.substr(colon + 1)); !rest.empty()) {
            body.push_back({head.indent, head.number, rest});
            while (i + 1 < lines.size() && lines[i + 1].goes_on)
                body.push_back(lines[++i]);
        } else {
            while (i + 1 < lines.size() && lines[i + 1].indent > head.indent)
                body.push_back(lines[++i]);
        }
        if (body.empty())
            throw Error("no indented line follows " + word);
        return {trimmed(head.text.substr(word.size(), colon - word.size())), body};
    }

    void define_function(const std::vector<Line>& lines, std::size_t& i)
    {
        auto [name, definition] = head_of(lines[i].text);
        definition.body = block_of(lines, i).second;
        definition.around = names_;
        functions_.insert_or_assign(name, std::move(definition));
    }

    /// @return false where the loop ends
    bool run_round(const std::vector<Line>& body)
    {
        constexpr double operations_each = 10'000;
        spend(operations_each);
        ++loops_;
        run_block(body);
        --loops_;
        if (leaving_ == Leaving::loop || leaving_ == Leaving::round) {
            const bool ends = leaving_ == Leaving::loop;
            leaving_ = Leaving::nothing;
            return !ends;
        }
        return leaving_ == Leaving::nothing;
    }

    /// After a loop or a choice there is no last line that says the result.
    void end_block()
    {
        if (leaving_ != Leaving::function)
            ran_.results.clear();
    }

    void repeat_for_each(const std::vector<Line>& lines, std::size_t& i)
    {
        const auto [head, body] = block_of(lines, i);
        for_each(head, [&] { return run_round(body); });
        end_block();
    }

    void repeat_while(const std::vector<Line>& lines, std::size_t& i)
    {
        const auto [condition, body] = block_of(lines, i);
        while (is_true(condition) && run_round(body)) {
        }
        end_block();
    }

    void choose(const std::vector<Line>& lines, std::size_t& i)
    {
        const std::size_t indent = lines[i].indent;
        bool is_chosen = false, has_else = false;
        for (std::string word = "if"; word == "if" || word == "elif" || word == "else";) {
            if (has_else)
                throw Error(word + " stands after else");
            has_else = word == "else";
            const auto [condition, body] = block_of(lines, i);
            if (has_else != condition.empty())
                throw Error(has_else ? "else has no condition" : word + " needs a condition");
            if (!is_chosen && (has_else || is_true(condition))) {
                is_chosen = true;
                run_block(body);
            }
            const bool goes_on = i + 1 < lines.size() && lines[i + 1].indent == indent;
            word = goes_on ? first_word(lines[i + 1].text) : "";
            if (word == "elif" || word == "else")
                ++i;
            else
                break;
        }
        end_block();
    }

    /// Does something for each value of "i in range(3)"; the names before "in" have it.
    template <class Work>
    void for_each(const std::string& head, const Work& work)
    {
        const auto in = find_word(head, {"in"});
        if (!in)
            throw Error("expected names and in: for i in range(3)");
        std::string target = trimmed(head.substr(0, in->first));
        if (is_bracketed(target, '('))
            target = target.substr(1, target.size() - 2);
        const Strings names = split(target);
        if (names.empty() || !std::ranges::all_of(names, is_name))
            throw Error("expected a name after for" + (target.empty() ? "" : ", found " + target));
        for (std::vector<Array>& values : rounds(trimmed(head.substr(in->first + 2)))) {
            if (names.size() > 1 && values.size() == 1)
                values = entries_of(values[0]);
            if (names.size() == 1 && values.size() > 1)
                values = {stacked(values)};
            if (names.size() != values.size())
                throw Error(std::to_string(names.size()) + " names for " + std::to_string(values.size()) + " values");
            for (std::size_t i = 0; i < names.size(); ++i)
                set(names[i], std::move(values[i]), false, true);
            if (!work())
                return;
        }
    }

    /// The values of each round: of an array its entries; of enumerate() a number and an entry, of zip() an entry of each.
    std::vector<std::vector<Array>> rounds(const std::string& text)
    {
        const std::string function = first_word(text);
        std::vector<std::vector<Array>> all;
        if (text.substr(function.size()).starts_with("(") && closing(text, function.size()) + 1 == text.size()) {
            const Strings parts = split(text.substr(function.size() + 1, text.size() - function.size() - 2));
            if (function == "enumerate" && parts.size() == 1) {
                for (const Array& entry : entries_of(value(parts[0])))
                    all.push_back({{{}, {static_cast<double>(all.size())}, ElementType::integer}, entry});
                return all;
            }
            if (function == "zip") {
                for (std::size_t j = 0; j < parts.size(); ++j) {
                    const std::vector<Array> entries = entries_of(value(parts[j]));
                    all.resize(j == 0 ? entries.size() : std::min(all.size(), entries.size()));
                    for (std::size_t i = 0; i < all.size(); ++i)
                        all[i].push_back(entries[i]);
                }
                return all;
            }
            if (function == "reversed" && parts.size() == 1) {
                for (const Array& entry : entries_of(value(parts[0])))
                    all.insert(all.begin(), {entry});
                return all;
            }
        }
        for (const Array& entry : entries_of(value(text)))
            all.push_back({entry});
        return all;
    }

    // ------------------------------------------------------------------------------------------------ assignment

    /// Gives a name an array. One that has no other name can be changed in place.
    void set(const std::string& name, Array array, bool is_list, bool is_shared)
    {
        names_.texts.erase(name);
        const auto has_prefix = names_.arrays.lower_bound(name + ".");
        if (has_prefix != names_.arrays.end() && has_prefix->first.starts_with(name + "."))
            throw Error(name + " is a dictionary of weights");
        if (is_list)
            names_.lists.insert(name);
        else
            names_.lists.erase(name);
        if (is_shared && array.rank() > 0)
            own_.erase(name);
        else
            own_.insert(name);
        names_.arrays.insert_or_assign(name, std::move(array));
    }

    /// That an array is changed in place changes all that share its numbers, which the page doesn't do.
    void expect_own(const std::string& name) const
    {
        if (!names_.arrays.contains(name))
            throw Error("there is no " + name + " yet");
        if (!own_.contains(name))
            throw Error(name + " is not changed in place here, since it can have another name: begin with a copy, " +
                        name + " = " + name + ".copy()");
    }

    void append(const std::string& name, const std::string& argument)
    {
        expect_own(name);
        if (!names_.lists.contains(name))
            throw Error(name + " is no list: only a list has append");
        if (!is_bracketed(argument, '('))
            throw Error("expected nothing after append(…)");
        const Array added = value(argument.substr(1, argument.size() - 2));
        set(name, joined(names_.arrays.at(name), stacked({added})), true, false);
        ran_.results.clear();
    }

    static Array joined(const Array& first, const Array& second)
    {
        std::vector<Array> entries = entries_of(first);
        std::ranges::move(entries_of(second), std::back_inserter(entries));
        return stacked(entries);
    }

    void assign(const std::string& text, std::size_t sign)
    {
        if (sign == 0)
            throw Error("expected a name before =");
        std::string given = trimmed(text.substr(sign + 1));
        const std::size_t end = text.find_last_not_of("+-*/%@&| ", sign - 1) + 1;
        const std::string target = trimmed(text.substr(0, end)), op = trimmed(text.substr(end, sign - end));
        if (target.ends_with("]"))
            return assign_cells(target, op.empty() ? given : target + " " + op + " (" + given + ")");
        const Strings targets = split(target);
        for (const std::string& name : targets)
            if (!is_name(name))
                throw Error("expected a name before =, found " + name);
        if (!op.empty()) {
            const auto found = names_.arrays.find(target);
            if (found != names_.arrays.end() && found->second.rank() > 0)
                expect_own(target);
            given = names_.lists.contains(target) ? target + " " + op + " " + given
                                                  : target + " " + op + " (" + given + ")";
        }
        std::vector<std::optional<std::string>> strings;
        const Strings parts = split(given);
        for (const std::string& part : parts)
            strings.push_back(string_in(part));
        if (targets.size() == parts.size() &&
            std::ranges::any_of(strings, [](const auto& one) { return one.has_value(); })) {
            for (std::size_t i = 0; i < targets.size(); ++i)
                if (strings[i])
                    names_.texts.insert_or_assign(targets[i], *strings[i]);
                else
                    set(targets[i], value(parts[i]), false, true);
            return;
        }
        std::vector<Array> found = values(given);
        bool is_list = targets.size() == 1 && ran_.is_list;
        const bool is_shared = ran_.is_shared;
        if (found.size() == 1 && targets.size() > 1) {
            found = entries_of(found[0]);
            is_list = false;
        }
        if (found.size() != targets.size())
            throw Error(std::to_string(targets.size()) + " names for " + std::to_string(found.size()) + " values");
        for (std::size_t i = 0; i < targets.size(); ++i)
            name_result(targets[i], std::move(found[i]), is_list, is_shared);
        ran_.results = {ran_.named.back().second};
    }

    void name_result(const std::string& name, Array array, bool is_list, bool is_shared)
    {
        std::erase_if(ran_.named, [&](const auto& named) { return named.first == name; });
        ran_.named.emplace_back(name, array);
        set(name, std::move(array), is_list, is_shared);
    }

    /// x[i, :] = formula: the subscripts of an array of its places say which numbers are meant.
    void assign_cells(const std::string& target, const std::string& given)
    {
        const std::string name = first_word(target);
        if (!target.substr(name.size()).starts_with("["))
            throw Error("expected a name before =, found " + target);
        expect_own(name);
        const std::size_t end = closing(target, name.size());
        if (end + 1 != target.size() && value(target.substr(name.size() + 1, end - name.size() - 1)).rank() > 0)
            throw Error("expected one pair of brackets before =: " + name + "[i, j]");
        const Array added = value(given);
        Array array = names_.arrays.at(name);
        if (names_.lists.contains(name) && added.type == ElementType::real)
            array.type = ElementType::real;
        if (added.type == ElementType::real && array.type != ElementType::real && array.size() > 0)
            throw Error(name +
                        " has whole numbers or booleans, which NumPy would make of what is not one: begin with real "
                        "numbers, such as np.zeros(" +
                        to_string(array.shape) + ")");
        Array places{array.shape, {}, ElementType::integer};
        for (std::size_t i = 0; i < array.size(); ++i)
            places.values.push_back(static_cast<double>(i));
        const std::string of_places = temporary(std::move(places)), of_added = temporary(added);
        const Array meant = value(of_places + target.substr(name.size()));
        const Array put = value("where(" + temporary(meant) + " >= 0, " + of_added + ", 0)");
        if (put.shape != meant.shape)
            throw Error("the shape " + to_string(added.shape) + " doesn't fit " + target + " of the shape " +
                        to_string(meant.shape));
        for (std::size_t i = 0; i < meant.size(); ++i)
            array.values[static_cast<std::size_t>(meant.values[i])] =
                array.type == ElementType::boolean ? static_cast<double>(put.values[i] != 0) : put.values[i];
        name_result(name, std::move(array), names_.lists.contains(name), false);
        ran_.results.clear();
    }

    /// What several names get of one array: an entry of its first axis each.
    static std::vector<Array> entries_of(const Array& array)
    {
        if (array.rank() == 0)
            throw Error("one number has no entries");
        const Shape shape(array.shape.begin() + 1, array.shape.end());
        const auto size = static_cast<std::ptrdiff_t>(element_count(shape));
        std::vector<Array> entries;
        for (auto begin = array.values.begin(); entries.size() < array.shape[0]; begin += size)
            entries.push_back({shape, {begin, begin + size}, array.type});
        return entries;
    }

    // ---------------------------------------------------------------------------------------------------- values

    /// One value, or several with commas between; x.shape has one for each axis.
    std::vector<Array> values(const std::string& text)
    {
        ran_.is_list = ran_.is_shared = false;
        const Strings parts = split(text);
        if (parts.size() == 1) {
            const std::string one = with_dictionaries(text);
            if (one.ends_with(".shape"))
                return entries_of(shape_of(one));
            const std::string name = first_word(one);
            if (functions_.contains(name) && one.substr(name.size()).starts_with("(") &&
                closing(one, name.size()) + 1 == one.size())
                return called(name, one.substr(name.size() + 1, one.size() - name.size() - 2));
            if (std::optional<Array> list = list_in(one)) {
                ran_.is_list = true;
                ran_.is_shared = names_.lists.contains(one) && shares(one);
                return {std::move(*list)};
            }
        }
        std::vector<Array> all;
        bool is_shared = false;
        for (const std::string& part : parts) {
            all.push_back(value(part));
            is_shared = is_shared || shares(part);
        }
        ran_.is_list = false;
        ran_.is_shared = is_shared;
        return all;
    }

    /// True where a value can be a part of one that has a name, as NumPy's views are. What it is a part of is no longer changed in place.
    bool shares(const std::string& text)
    {
        if (begin_of_value(text, text.size()) != 0 || text.starts_with("np."))
            return text.starts_with("np.asarray(") || text.starts_with("np.reshape(") ||
                   text.starts_with("np.transpose(");
        const std::string name = first_word(text);
        const bool is_part = text == name || text.ends_with("]") || text.ends_with(".T");
        const bool is_turned =
            std::ranges::any_of(std::initializer_list<std::string_view>{"reshape(", "transpose(", "permute("},
                                [&](std::string_view turn) { return text.find(turn) != text.npos; });
        if (!is_part && !(is_turned && is_word(text[0])))
            return false;
        for (std::size_t at = 0; at < text.size();) {
            const std::string word = first_word(std::string_view(text).substr(at));
            if (const auto found = names_.arrays.find(word); found != names_.arrays.end() && found->second.rank() > 0)
                own_.erase(word);
            at += std::max<std::size_t>(word.size(), 1);
        }
        return true;
    }

    Array shape_of(const std::string& text)
    {
        const Shape shape = value(text.substr(0, text.size() - std::string_view(".shape").size())).shape;
        return {{shape.size()}, {shape.begin(), shape.end()}, ElementType::integer};
    }

    /// The value of a text without commas: of a choice, of and, or and not, of a comparison of three, of a list, or of a formula.
    Array value(const std::string& text)
    {
        if (const auto condition = find_word(text, {"if"})) {
            const auto other = find_word(text, {"else"}, condition->first);
            if (!other)
                throw Error("expected else: a if condition else b");
            const bool is_first = is_true(text.substr(condition->first + 2, other->first - condition->first - 2));
            return value(trimmed(is_first ? text.substr(0, condition->first) : text.substr(other->first + 4)));
        }
        for (const std::string_view word : {"or", "and"})
            if (const auto found = find_word(text, {word})) {
                Array left = value(trimmed(text.substr(0, found->first)));
                if (truth(left) == (word == "or"))
                    return left;
                return value(trimmed(text.substr(found->first + word.size())));
            }
        if (first_word(text) == "not")
            return {{}, {is_true(text.substr(3)) ? 0.0 : 1.0}, ElementType::boolean};
        if (const auto chain = compared_in_a_row(text))
            return *chain;
        if (std::optional<Array> list = list_in(text))
            return *list;
        const std::string plain = with_dictionaries(text);
        if (plain.ends_with(".shape"))
            return shape_of(plain);
        const std::string formula = with_subscripts(with_calls(plain));
        const formula::Expression expression = formula::parse_formula(formula);
        expect_not_refused(expression);
        expect_no_list(expression);
        return formula::evaluate(formula, [&](std::string_view name) { return array_called(name); }).value;
    }

    bool is_true(const std::string& text) { return truth(value(trimmed(text))); }

    static bool truth(const Array& array)
    {
        if (array.rank() == 1 && array.size() == 0)
            return false;
        if (array.size() != 1)
            throw Error("the shape " + to_string(array.shape) +
                        " is neither true nor false: say np.all(…), np.any(…) or which number");
        return array.values[0] != 0;
    }

    /// 0 <= i < n
    std::optional<Array> compared_in_a_row(const std::string& text)
    {
        std::vector<std::size_t> signs;
        find_outside(text, 0, [&](std::size_t i, int open) {
            if (open == 0 && (text[i] == '<' || text[i] == '>' ||
                              (text[i] == '=' && i > 0 && text[i - 1] != '<' && text[i - 1] != '>' &&
                               text[i - 1] != '!' && text[i - 1] != '=')))
                signs.push_back(i);
            return false;
        });
        if (signs.size() < 2)
            return std::nullopt;
        const auto after = [&](std::size_t sign) { return sign + (text.substr(sign + 1, 1) == "=" ? 2 : 1); };
        for (std::size_t i = 0; i < signs.size(); ++i) {
            const std::size_t begin = i == 0 ? 0 : after(signs[i - 1]),
                              end = i + 1 == signs.size() ? text.size() : signs[i + 1];
            if (!is_true(text.substr(begin, end - begin)))
                return Array{{}, {0}, ElementType::boolean};
        }
        return Array{{}, {1}, ElementType::boolean};
    }

    /// A list: [a, b], [f(x) for x in y], (a, b), list(x), a list's name or a part of it, or lists with + between; nothing where it is none.
    std::optional<Array> list_in(const std::string& text)
    {
        if (names_.lists.contains(text))
            return names_.arrays.at(text);
        if (is_bracketed(text, '[')) {
            const std::string inner = trimmed(text.substr(1, text.size() - 2));
            return find_word(inner, {"for"}) ? comprehension(inner) : stacked(each(inner));
        }
        if (is_bracketed(text, '(') && text.find(',') != text.npos)
            if (const std::string inner = text.substr(1, text.size() - 2);
                split(inner).size() > 1 || inner.ends_with(","))
                return stacked(each(inner));
        if (text.starts_with("list(") && is_bracketed(std::string_view(text).substr(4), '('))
            return value(text.substr(5, text.size() - 6));
        const std::string name = first_word(text);
        if (names_.lists.contains(name) && is_bracketed(std::string_view(text).substr(name.size()), '[') &&
            text.find(':') != text.npos)
            return formula_value(text);
        if (text.starts_with("[") && closing(text, 0) + 1 < text.size())
            if (const std::string rest = trimmed(text.substr(closing(text, 0) + 1)); rest.starts_with("*"))
                return repeated(*list_in(text.substr(0, closing(text, 0) + 1)), value(trimmed(rest.substr(1))));
        const std::size_t plus =
            find_outside(text, 0, [&](std::size_t i, int open) { return open == 0 && i > 0 && text[i] == '+'; });
        if (plus == text.size())
            return std::nullopt;
        const std::string left = trimmed(text.substr(0, plus)), right = trimmed(text.substr(plus + 1));
        if (!begins_list(left) && !begins_list(right))
            return std::nullopt;
        const std::optional<Array> first = list_in(left), second = list_in(right);
        if (first.has_value() != second.has_value())
            throw Error("one side of + is a list and the other is not: [x] is a list of x, and np.array(ids) an array "
                        "of a list");
        return first ? std::optional(joined(*first, *second)) : std::nullopt;
    }

    /// [0] * n
    static Array repeated(const Array& list, const Array& count)
    {
        constexpr double most = 10'000;
        if (count.rank() != 0 || count.type != ElementType::integer || !(count.values[0] <= most))
            throw Error("a list is repeated a whole number of times, 10,000 at most");
        Array all = stacked({});
        for (double i = 0; i < count.values[0]; ++i)
            all = joined(all, list);
        return all;
    }

    bool begins_list(const std::string& text) const
    {
        return text.starts_with("[") || text.starts_with("list(") || names_.lists.contains(text);
    }

    Array formula_value(const std::string& text)
    {
        const std::string formula = with_subscripts(with_calls(with_dictionaries(text)));
        return formula::evaluate(formula, [&](std::string_view name) { return array_called(name); }).value;
    }

    std::vector<Array> each(const std::string& text)
    {
        std::vector<Array> all;
        for (const std::string& part : split(text))
            all.push_back(value(part));
        return all;
    }

    /// f(x) for x in y if condition
    Array comprehension(const std::string& text)
    {
        const std::size_t begin = find_word(text, {"for"})->first;
        const std::string result = trimmed(text.substr(0, begin)), rest = text.substr(begin + 3);
        const auto condition = find_word(rest, {"if"});
        if (find_word(rest, {"for"}))
            throw Error("the page has one for in a list");
        std::vector<Array> all;
        for_each(condition ? rest.substr(0, condition->first) : rest, [&] {
            constexpr double operations_each = 10'000;
            spend(operations_each);
            if (!condition || is_true(rest.substr(condition->first + 2)))
                all.push_back(value(result));
            return true;
        });
        return stacked(all);
    }

    const Array* array_called(std::string_view name) const
    {
        if (const auto found = temporaries_.find(name); found != temporaries_.end())
            return &found->second;
        const auto found = names_.arrays.find(name);
        return found == names_.arrays.end() ? nullptr : &found->second;
    }

    /// A name for an array that has none.
    std::string temporary(Array array)
    {
        const std::string name = "value_" + std::to_string(++count_) + "_"; // no name of theirs
        temporaries_.insert_or_assign(name, std::move(array));
        return name;
    }

    void expect_not_refused(const formula::Expression& expression) const
    {
        if (expression.kind == formula::Expression::Kind::call && expression.text == refused_)
            throw Error(expression.text + " is what is to be written here: write it without calling it");
        for (const formula::Expression* part : formula::parts_of(expression))
            expect_not_refused(*part);
    }

    /// Python's + of two lists is no sum.
    void expect_no_list(const formula::Expression& expression) const
    {
        using Kind = formula::Expression::Kind;
        for (const formula::Expression* part : formula::parts_of(expression)) {
            if ((expression.kind == Kind::binary || expression.kind == Kind::negated) && part->kind == Kind::name &&
                names_.lists.contains(part->text))
                throw Error(part->text + " is a list, with which Python doesn't compute: np.array(" + part->text +
                            ") is an array of its numbers");
            expect_no_list(*part);
        }
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

    /// The calls of the lines' own functions, and of NumPy's that the formulas don't have, as names of what these give; and what no
    /// formula can have in parentheses.
    std::string with_calls(std::string text)
    {
        for (std::size_t at = 0; at < text.size();) {
            const bool begins = at == 0 || !is_word(text[at - 1]);
            if (text[at] == '(' && begins) {
                const std::size_t close = closing(text, at);
                const std::string inner = text.substr(at + 1, close - at - 1);
                if (find_word(inner, {"if", "and", "or", "not"}) && split(inner).size() == 1)
                    at = replace(text, at, close + 1, value(trimmed(inner)));
                else
                    ++at;
                continue;
            }
            if (!is_word(text[at]) || !begins) {
                ++at;
                continue;
            }
            const std::string name = first_word(std::string_view(text).substr(at));
            const std::size_t open = at + name.size();
            if (text.substr(open, 1) != "(") {
                at = open;
                continue;
            }
            const std::size_t close = closing(text, open);
            const std::string arguments = text.substr(open + 1, close - open - 1);
            const bool is_numpy = at >= 3 && text.substr(at - 3, 3) == "np." && (at == 3 || !is_word(text[at - 4]));
            const bool is_method = !is_numpy && at > 0 && text[at - 1] == '.';
            const std::size_t begin = is_numpy ? at - 3 : is_method ? begin_of_value(text, at - 1) : at;
            if (functions_.contains(name) && begin == at) {
                const std::vector<Array> given = called(name, arguments);
                if (given.size() != 1)
                    throw Error(name + " gives " + std::to_string(given.size()) +
                                " values, which need names of their own");
                at = replace(text, begin, close + 1, given[0]);
            } else if (const auto found =
                           of_numpy(name, is_numpy, is_method ? text.substr(begin, at - 1 - begin) : "", arguments)) {
                at = replace(text, begin, close + 1, *found);
            } else {
                at = open;
            }
        }
        return text;
    }

    /// Puts a name for an array in place of a part of a text. @return what is after it
    std::size_t replace(std::string& text, std::size_t begin, std::size_t end, Array array)
    {
        const std::string name = temporary(std::move(array));
        text = text.substr(0, begin) + name + text.substr(end);
        return begin + name.size();
    }

    /// What a function of NumPy or Python gives that the formulas don't have; nothing where they have it.
    std::optional<Array> of_numpy(const std::string& name, bool is_numpy, const std::string& receiver,
                                  const std::string& text)
    {
        const Strings parts = split(text);
        const bool is_python_extreme =
            (name == "max" || name == "min") && !is_numpy && receiver.empty() && parts.size() > 1;
        const bool is_joined = (name == "concatenate" || name == "concat") && !parts.empty() && is_list_alone(parts[0]);
        const NumpyFunction function = numpy_function(name);
        if (function == nullptr && !is_python_extreme && !is_joined)
            return std::nullopt;
        if (name == refused_)
            throw Error(name + " is what is to be written here: write it without calling it");
        Given given;
        if (!receiver.empty())
            given.arrays.push_back(value(receiver));
        for (const std::string& part : parts) {
            const auto sign = assignment(part);
            const std::string keyword = sign ? trimmed(part.substr(0, *sign)) : "";
            const std::string argument = sign ? trimmed(part.substr(*sign + 1)) : part;
            if (const auto type = type_called(argument); type && (keyword.empty() || keyword == "dtype"))
                given.type = *type;
            else if (!keyword.empty())
                given.keywords.insert_or_assign(keyword, value(argument));
            else
                given.arrays.push_back(value(argument));
        }
        try {
            if (is_joined)
                return joined_parts(given);
            if (function != nullptr)
                return function(given);
        } catch (const BudgetError&) {
            throw;
        } catch (const Error& error) {
            throw Error(name + ": " + error.what());
        }
        if (!given.keywords.empty() ||
            std::ranges::any_of(given.arrays, [](const Array& array) { return array.rank() > 0; }))
            return std::nullopt; // NumPy's, along an axis
        return *std::ranges::max_element(given.arrays, {},
                                         [&](const Array& x) { return name == "max" ? x.values[0] : -x.values[0]; });
    }

    /// A list that formulas can't read as their own operands: one with a name, or one with for.
    bool is_list_alone(const std::string& text) const
    {
        return names_.lists.contains(text) ||
               (is_bracketed(text, '[') && find_word(std::string_view(text).substr(1, text.size() - 2), {"for"}));
    }

    /// np.concatenate of a list whose arrays have one shape.
    Array joined_parts(const Given& given)
    {
        Array all = given.arrays[0];
        const auto axis = given.keywords.find("axis");
        const Array place = given.arrays.size() > 1        ? given.arrays[1]
                            : axis != given.keywords.end() ? axis->second
                                                           : Array{{}, {0}, ElementType::integer};
        std::string text = "concat(";
        for (Array& entry : entries_of(all))
            text += temporary(std::move(entry)) + ", ";
        return formula_value(text + "axis=" + std::to_string(static_cast<int>(place.values.at(0))) + ")");
    }

    static std::optional<ElementType> type_called(const std::string& text)
    {
        static const std::map<std::string_view, ElementType> types{{"int", ElementType::integer},
                                                                   {"np.int64", ElementType::integer},
                                                                   {"float", ElementType::real},
                                                                   {"np.float64", ElementType::real},
                                                                   {"bool", ElementType::boolean}};
        const auto found = types.find(text);
        return found == types.end() ? std::nullopt : std::optional(found->second);
    }

    /// Subscripts that are masks as the places of what is true: x[scores > 0].
    std::string with_subscripts(std::string text)
    {
        for (std::size_t at = 1; at < text.size(); ++at) {
            if (text[at] != '[' || !(is_word(text[at - 1]) || text[at - 1] == ')' || text[at - 1] == ']'))
                continue;
            const std::size_t end = closing(text, at);
            std::string inside;
            const Strings parts = split(text.substr(at + 1, end - at - 1));
            for (const std::string& part : parts)
                inside += (inside.empty() ? "" : ", ") + with_places(part, parts.size());
            text = text.substr(0, at + 1) + inside + text.substr(end);
        }
        return text;
    }

    std::string with_places(const std::string& part, std::size_t parts)
    {
        const bool is_slice =
            find_outside(part, 0, [&](std::size_t i, int open) { return open == 0 && part[i] == ':'; }) != part.size();
        if (is_slice || part == "..." || part == "None" || part == "np.newaxis" ||
            std::ranges::all_of(part,
                                [](char c) { return is_word(c) && std::isdigit(static_cast<unsigned char>(c)) != 0; }))
            return part;
        const Array index = value(part);
        if (index.type == ElementType::real && index.size() > 0)
            throw Error("between brackets stand whole numbers, and " + part + " is none: // divides to a whole number");
        if (index.type != ElementType::boolean)
            return index.rank() == 0 ? part : temporary(index);
        if (index.rank() != 1 || parts > 1)
            throw Error("the page takes a mask of one axis alone between brackets: x[mask]");
        return temporary(places_of_true(index));
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
        Ran ran = Runner(functions_, refused_, depth_ + 1).run(definition.body, std::move(inside), definition.returns);
        if (ran.results.empty())
            throw Error(name + " returns nothing: return says what it gives");
        ran_.is_list = ran.is_list;
        ran_.is_shared = ran.is_shared;
        return std::move(ran.results);
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
            inside.lists.erase(parameter);
            if (list_in(text))
                inside.lists.insert(parameter);
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
    std::map<std::string, Array, std::less<>> temporaries_; ///< what parts of a statement gave
    std::set<std::string, std::less<>> own_;                ///< arrays that no other name shares
    Ran ran_;
    bool is_alone_ = false; ///< there is one line, which needs no number
    Leaving leaving_ = Leaving::nothing;
    int loops_ = 0;
    int count_ = 0;
};

} // namespace

std::vector<Line> lines_of(std::string_view text)
{
    std::vector<Line> lines;
    std::size_t number = 1;
    bool begins = true, goes_on = false;
    int open = 0;
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (begins) {
            const std::size_t first = std::min(text.find_first_not_of(" \t", at), text.size());
            lines.push_back({goes_on ? lines.back().indent : first - at, number, "", goes_on});
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
            goes_on = c == ';';
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
    return Runner(functions, refused, 0).run(lines, std::move(names), false);
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
    Ran ran = Runner(functions, refused, 0).run(definition.body, std::move(names), definition.returns);
    if (ran.results.empty() && definition.returns)
        throw Error(std::string(name) + " returns nothing: return says what it gives");
    return ran;
}

} // namespace attn::lab
