// What a name rule says: which arrays it is about, which step each is, and what is taken of it.

#include "name_rules.hpp"

#include "attn/mistakes/head_scope.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <numeric>

namespace attn::diff {
namespace {

std::string trimmed(std::string_view text)
{
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string_view::npos ? ""
                                           : std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

[[noreturn]] void refuse(const NameRule& rule, const std::string& what)
{
    throw Error("the name " + rule.theirs + " = " + rule.step + ' ' + what);
}

Taken read_taken(const NameRule& rule, const std::string& text)
{
    if (text == ":")
        return {};
    if (text == "...")
        return {Taken::Kind::ellipsis};
    if (text == "{h}")
        return {Taken::Kind::heads};
    const Words numbers = split(text, '/');
    if (numbers.size() == 2 && mistakes::is_number(numbers[0]) && mistakes::is_number(numbers[1]) &&
        std::stoul(numbers[0]) < std::stoul(numbers[1]))
        return {Taken::Kind::part, std::stoul(numbers[0]), std::stoul(numbers[1])};
    refuse(rule, "has " + text + " between its brackets, where : and ... and {h} and parts such as 1/3 can be");
}

/// Compares words with a pattern's, from the first on.
std::optional<Holes> match_words(const Words& pattern, const Words& words)
{
    Holes holes;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        if (pattern[at] == "{*}" && at + 1 == pattern.size() && at < words.size()) {
            holes.rest = joined(Words(words.begin() + static_cast<std::ptrdiff_t>(at), words.end()), '.');
            return holes;
        }
        if (at >= words.size())
            return std::nullopt;
        const std::size_t hole = pattern[at].find("{i}");
        if (hole == std::string::npos) {
            if (pattern[at] != words[at])
                return std::nullopt;
            continue;
        }
        const std::string before = pattern[at].substr(0, hole), after = pattern[at].substr(hole + 3);
        if (words[at].size() <= before.size() + after.size() || !words[at].starts_with(before) ||
            !words[at].ends_with(after))
            return std::nullopt;
        const std::string number = words[at].substr(before.size(), words[at].size() - before.size() - after.size());
        if (!mistakes::is_number(number) || (!holes.i.empty() && holes.i != number))
            return std::nullopt;
        holes.i = number;
    }
    return words.size() == pattern.size() ? std::optional(holes) : std::nullopt;
}

Array transposed(const Array& array)
{
    if (array.rank() < 2)
        return array;
    std::vector<std::size_t> order(array.rank());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::swap(order[order.size() - 2], order.back());
    return permuted(array, order);
}

} // namespace

Words split(std::string_view text, char separator)
{
    Words words;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        words.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

std::string joined(const Words& words, char separator)
{
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : std::string(1, separator)) + word;
    return text;
}

std::string filled(std::string text, const std::string& key, const std::string& by)
{
    const std::string hole = std::string("{").append(key).append("}");
    for (std::size_t at = text.find(hole); at != std::string::npos; at = text.find(hole, at + by.size()))
        text.replace(at, hole.size(), by);
    return text;
}

bool ReadRule::takes(Taken::Kind kind) const { return std::ranges::find(taken, kind, &Taken::kind) != taken.end(); }

ReadRule read_rule(const NameRule& rule, const NameTable* table)
{
    if (rule.theirs.empty() || rule.step.empty())
        refuse(rule, "has an empty side; it is written as NAME=STEP");
    ReadRule read;
    read.theirs = rule.theirs;
    std::string name = rule.theirs;
    if (name.ends_with(".T")) {
        read.is_transposed = true;
        name.resize(name.size() - 2);
    }
    if (name.ends_with(']') && name.find('[') != std::string::npos) {
        const std::size_t begin = name.find('[');
        for (const std::string& text : split(std::string_view(name).substr(begin + 1, name.size() - begin - 2), ','))
            read.taken.push_back(read_taken(rule, trimmed(text)));
        name.resize(begin);
    }
    if (std::ranges::count(read.taken, Taken::Kind::ellipsis, &Taken::kind) > 1)
        refuse(rule, "has ... twice between its brackets");
    if (read.takes(Taken::Kind::heads) != (rule.step.find("{h}") != std::string::npos))
        refuse(rule, "has {h} on one side only");
    read.suffix = rule.theirs.substr(name.size());
    read.name = split(name, '.');
    read.steps = split(rule.step, '|');
    read.layer = table == nullptr ? "" : std::string(table->layer);
    read.is_of_table = table != nullptr;
    return read;
}

std::optional<Holes> match(const ReadRule& rule, const Words& name)
{
    if (const auto holes = match_words(rule.name, name); holes || !rule.is_of_table)
        return holes;
    const Words layer = split(rule.layer, '.'); // its last word is empty
    const auto words_of_layer = static_cast<std::ptrdiff_t>(layer.size()) - 1;
    const bool is_of_layer = !rule.layer.empty() && rule.name.size() >= layer.size() - 1 &&
                             std::equal(layer.begin(), layer.end() - 1, rule.name.begin());
    // The model's words in front of a layer's names.
    const auto words_of_rule = static_cast<std::ptrdiff_t>(rule.name.size());
    if (name.size() > rule.name.size())
        if (auto holes = match_words(rule.name, Words(name.end() - words_of_rule, name.end()));
            holes && (is_of_layer || rule.name.size() > 1)) {
            holes->front.assign(name.begin(), name.end() - words_of_rule);
            return holes;
        }
    // A layer's names alone.
    if (!is_of_layer || words_of_rule == words_of_layer)
        return std::nullopt;
    auto holes = match_words(Words(rule.name.begin() + words_of_layer, rule.name.end()), name);
    if (holes)
        holes->i = "0";
    return holes;
}

std::optional<std::vector<Taken>> taken_of_axes(const std::vector<Taken>& taken, std::size_t rank)
{
    std::vector<Taken> axes;
    for (const Taken& one : taken) {
        if (one.kind != Taken::Kind::ellipsis)
            axes.push_back(one);
        else
            for (std::size_t i = taken.size() - 1; i < rank; ++i)
                axes.emplace_back();
    }
    if (axes.size() > rank)
        return std::nullopt;
    axes.resize(rank);
    return axes;
}

Array range_of(const Array& array, std::size_t axis, std::size_t begin, std::size_t end)
{
    Array result{array.shape, {}, array.type};
    result.shape[axis] = end - begin;
    std::ptrdiff_t inner = 1; // the numbers of one entry
    for (std::size_t i = axis + 1; i < array.rank(); ++i)
        inner *= static_cast<std::ptrdiff_t>(array.shape[i]);
    const auto at = [&](std::size_t entry) { return static_cast<std::ptrdiff_t>(entry) * inner; };
    for (auto row = array.values.begin(); row != array.values.end(); row += at(array.shape[axis]))
        result.values.insert(result.values.end(), row + at(begin), row + at(end));
    return result;
}

Array taken_from(Array array, const std::vector<Taken>& axes, bool is_transposed, std::size_t head, std::size_t rank)
{
    for (std::size_t axis = axes.size(); axis-- > 0;) {
        if (axes[axis].kind == Taken::Kind::heads) {
            array = range_of(array, axis, head, head + 1);
            array.shape.erase(array.shape.begin() + static_cast<std::ptrdiff_t>(axis));
        } else if (axes[axis].kind == Taken::Kind::part) {
            const std::size_t size = array.shape[axis] / axes[axis].of;
            array = range_of(array, axis, axes[axis].part * size, (axes[axis].part + 1) * size);
        }
    }
    while (array.rank() > rank && array.shape.front() == 1)
        array.shape.erase(array.shape.begin());
    return is_transposed ? transposed(array) : array;
}

} // namespace attn::diff
