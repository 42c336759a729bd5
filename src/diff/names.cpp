// Which array of somebody's program is which step.

#include "names.hpp"

#include "attn/error.hpp"

#include <algorithm>
#include <memory>

namespace attn {
namespace {

using Words = std::vector<std::string>;

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

std::string trimmed(std::string_view text)
{
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string_view::npos ? ""
                                           : std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

bool is_number(std::string_view text)
{
    return !text.empty() && text.size() < 10 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The text with each `{key}` replaced.
std::string filled(std::string text, const std::string& key, const std::string& by)
{
    const std::string hole = std::string("{").append(key).append("}");
    for (std::size_t at = text.find(hole); at != std::string::npos; at = text.find(hole, at + by.size()))
        text.replace(at, hole.size(), by);
    return text;
}

// ------------------------------------------------------------------------------------------------ a part of an array

/// What is taken along one axis.
struct Taken {
    enum class Kind { all, heads, part, ellipsis } kind = Kind::all;
    std::size_t part = 0, of = 1; ///< the second of three equal parts: 1 and 3
};

/// A rule's left side: a name, and what is taken of that array.
struct Left {
    std::string text; ///< behind the name: "[..., {h}, :, :].T"
    Words name;
    std::vector<Taken> taken;
    bool is_transposed = false;

    bool takes(Taken::Kind kind) const { return std::ranges::find(taken, kind, &Taken::kind) != taken.end(); }
};

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
    if (numbers.size() == 2 && is_number(numbers[0]) && is_number(numbers[1]) &&
        std::stoul(numbers[0]) < std::stoul(numbers[1]))
        return {Taken::Kind::part, std::stoul(numbers[0]), std::stoul(numbers[1])};
    refuse(rule, "has " + text + " between its brackets; what can be there is : and ... and {h} and parts such as 1/3");
}

Left read_left(const NameRule& rule)
{
    Left left;
    std::string name = rule.theirs;
    if (name.ends_with(".T")) {
        left.is_transposed = true;
        name.resize(name.size() - 2);
    }
    if (name.ends_with(']') && name.find('[') != std::string::npos) {
        const std::size_t begin = name.find('[');
        for (const std::string& text : split(std::string_view(name).substr(begin + 1, name.size() - begin - 2), ','))
            left.taken.push_back(read_taken(rule, trimmed(text)));
        name.resize(begin);
    }
    if (std::ranges::count(left.taken, Taken::Kind::ellipsis, &Taken::kind) > 1)
        refuse(rule, "has ... twice between its brackets");
    if (left.takes(Taken::Kind::heads) != (rule.step.find("{h}") != std::string::npos))
        refuse(rule, "has {h} on one side only");
    left.text = rule.theirs.substr(name.size());
    left.name = split(name, '.');
    return left;
}

/// One entry an axis; nothing where the array has too few.
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

/// Entries begin to end of one axis, in the order of the array.
Array range_of(const Array& array, std::size_t axis, std::size_t begin, std::size_t end)
{
    Array result{array.shape, {}, array.type};
    result.shape[axis] = end - begin;
    std::size_t inner = 1, outer = 1;
    for (std::size_t i = 0; i < array.rank(); ++i)
        (i < axis ? outer : inner) *= i == axis ? 1 : array.shape[i];
    result.values.reserve(element_count(result.shape));
    for (std::size_t before = 0; before < outer; ++before) {
        const auto row = array.values.begin() + static_cast<std::ptrdiff_t>(before * array.shape[axis] * inner);
        result.values.insert(result.values.end(), row + static_cast<std::ptrdiff_t>(begin * inner),
                             row + static_cast<std::ptrdiff_t>(end * inner));
    }
    return result;
}

Array transposed(const Array& array)
{
    Array result = array;
    if (array.rank() < 2)
        return result;
    const std::size_t rows = array.shape[array.rank() - 2], columns = array.shape.back();
    std::swap(result.shape[array.rank() - 2], result.shape.back());
    for (std::size_t i = 0; i < array.size(); ++i) {
        const std::size_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
        result.values[matrix * rows * columns + column * rows + row] = array.values[i];
    }
    return result;
}

/// Takes what a rule says.
/// @param rank  axes of one sequence in front that are more are dropped
Array taken_from(Array array, const std::vector<Taken>& axes, const Left& left, std::size_t head, std::size_t rank)
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
    return left.is_transposed ? transposed(array) : array;
}

// ------------------------------------------------------------------------------------------------ names

/// What the holes of a name stand for.
struct Holes {
    std::string i, rest;
};

/// Compares words with a pattern's, from the first on.
std::optional<Holes> match(const Words& pattern, const Words& words)
{
    Holes holes;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        if (pattern[at] == "{*}" && at + 1 == pattern.size() && at < words.size()) {
            for (; at < words.size(); ++at)
                holes.rest += (holes.rest.empty() ? "" : ".") + words[at];
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
        if (!is_number(number) || (!holes.i.empty() && holes.i != number))
            return std::nullopt;
        holes.i = number;
    }
    return words.size() == pattern.size() ? std::optional(holes) : std::nullopt;
}

std::string without(std::string text, const std::string& begin)
{
    return text.starts_with(begin) ? text.substr(begin.size()) : text;
}

/// The reference's steps, for those who look for one.
class Paths {
public:
    explicit Paths(const std::vector<Step>& reference)
    {
        for (std::size_t i = 0; i < reference.size(); ++i) {
            numbers_.emplace(reference[i].path, i);
            has_layers_ = has_layers_ || ("." + reference[i].path).find(".layers.") != std::string::npos;
        }
    }

    const StepNumbers& numbers() const { return numbers_; }

    std::optional<std::size_t> exactly(const std::string& path) const
    {
        const auto found = numbers_.find(path);
        return found == numbers_.end() ? std::nullopt : std::optional(found->second);
    }

    /// By the path, or by its only end: "layers.0.self_attn.query" is "encoder.layers.0.self_attn.query", or, where there
    /// is nothing but one layer or one attention, "self_attn.query" or "query".
    std::optional<std::size_t> freely(std::string path) const
    {
        for (const std::string& scope : {std::string(), std::string("layers.0."), std::string("self_attn.")}) {
            if (scope == "layers.0." && has_layers_)
                break;
            if (!path.starts_with(scope))
                break;
            path = without(path, scope);
            if (const auto found = exactly(path))
                return found;
            std::optional<std::size_t> only;
            std::size_t count = 0;
            for (const auto& [known, number] : numbers_)
                if (known.ends_with("." + path)) {
                    only = number;
                    ++count;
                }
            if (count == 1)
                return only;
        }
        return std::nullopt;
    }

private:
    StepNumbers numbers_;
    bool has_layers_ = false;
};

/// A rule, ready to be tried.
struct ReadRule {
    Left left;
    Words steps;       ///< alternatives
    std::string layer; ///< of its table: "encoder.layer.{i}."
    bool is_of_table = false;
};

ReadRule read_rule(const NameRule& rule, const NameTable* table)
{
    if (rule.theirs.empty() || rule.step.empty())
        refuse(rule, "has an empty side; it is written as NAME=STEP");
    return {read_left(rule), split(rule.step, '|'), table == nullptr ? "" : std::string(table->layer),
            table != nullptr};
}

/// What the holes of a rule's name stand for in an array's name.
std::optional<Holes> match_rule(const ReadRule& rule, const Words& words)
{
    if (const auto holes = match(rule.left.name, words); holes || !rule.is_of_table)
        return holes;
    // The model's words in front of a layer's names.
    const Words layer = split(rule.layer, '.');
    const bool is_of_layer = !rule.layer.empty() && rule.left.name.size() >= layer.size() - 1 &&
                             std::equal(layer.begin(), layer.end() - 1, rule.left.name.begin());
    if (words.size() > rule.left.name.size())
        if (const auto holes = match(
                rule.left.name, Words(words.end() - static_cast<std::ptrdiff_t>(rule.left.name.size()), words.end()));
            holes && (is_of_layer || rule.left.name.size() > 1))
            return holes;
    // A layer's names alone.
    if (!is_of_layer || rule.left.name.size() == layer.size() - 1)
        return std::nullopt;
    auto holes = match(
        Words(rule.left.name.begin() + static_cast<std::ptrdiff_t>(layer.size() - 1), rule.left.name.end()), words);
    if (holes)
        holes->i = "0";
    return holes;
}

/// Makes claims of one array by one rule.
class Claimant {
public:
    Claimant(const std::vector<Step>& reference, const Paths& paths, Claims& claims)
        : reference_(reference), paths_(paths), claims_(claims)
    {
    }

    /// @return true where the rule is about the array, and there are such steps
    bool claim(const ReadRule& rule, const std::string& name, const Array& array)
    {
        const auto holes = match_rule(rule, split(name, '.'));
        if (!holes)
            return false;
        for (const std::string& alternative : rule.steps) {
            const std::string step = filled(filled(alternative, "i", holes->i), "*", holes->rest);
            const std::vector<std::size_t> heads = steps_of(step, rule.is_of_table);
            if (!heads.empty() && claim_heads(rule, name, array, heads))
                return true;
        }
        return false;
    }

private:
    /// The step, or that of every head.
    std::vector<std::size_t> steps_of(const std::string& step, bool is_free) const
    {
        std::vector<std::size_t> numbers;
        const bool has_heads = step.find("{h}") != std::string::npos;
        for (std::size_t head = 0; head == 0 || has_heads; ++head) {
            const std::string path = filled(step, "h", std::to_string(head));
            const auto number = is_free ? paths_.freely(path) : paths_.exactly(path);
            if (!number)
                break;
            numbers.push_back(*number);
        }
        return numbers;
    }

    bool claim_heads(const ReadRule& rule, const std::string& name, const Array& array,
                     const std::vector<std::size_t>& heads)
    {
        const std::size_t rank = reference_[heads.front()].value.rank();
        const auto axes = taken_of_axes(rule.left.taken, array.rank());
        if (!axes || array.rank() < rank + (rule.left.takes(Taken::Kind::heads) ? 1 : 0)) {
            if (rule.is_of_table) // another row of the table may be about an array of fewer axes
                return false;
            complain(rule, name, heads.front(), "has the shape " + to_string(array.shape) + ", too few axes");
            return true;
        }
        for (std::size_t axis = 0; axis < axes->size(); ++axis) {
            const Taken& taken = (*axes)[axis];
            const std::size_t size = array.shape[axis];
            if (taken.kind == Taken::Kind::heads && size != heads.size()) {
                complain(rule, name, heads.front(),
                         "has " + std::to_string(size) + " heads along axis " + std::to_string(axis) + " of " +
                             to_string(array.shape) + ", expected " + std::to_string(heads.size()));
                return true;
            }
            if (taken.kind == Taken::Kind::part && size % taken.of != 0) {
                complain(rule, name, heads.front(),
                         "has the shape " + to_string(array.shape) + ": axis " + std::to_string(axis) +
                             " can't be split into " + std::to_string(taken.of) + " equal parts");
                return true;
            }
        }
        for (std::size_t head = 0; head < heads.size(); ++head) {
            const std::string part = filled(rule.left.text, "h", std::to_string(head));
            claims_.parts.push_back(std::make_unique<const Array>(taken_from(array, *axes, rule.left, head, rank)));
            claims_.claims.push_back({heads[head], name + part, claims_.parts.back().get(), ""});
        }
        return true;
    }

    void complain(const ReadRule& rule, const std::string& name, std::size_t step, const std::string& what)
    {
        claims_.claims.push_back({step, name + rule.left.text, nullptr, name + ' ' + what});
    }

    const std::vector<Step>& reference_;
    const Paths& paths_;
    Claims& claims_;
};

} // namespace

Claims claims_of(const std::vector<Step>& reference, const ArrayViews& mine, const DiffOptions& options)
{
    std::vector<ReadRule> rules;
    for (const NameRule& rule : options.names)
        rules.push_back(read_rule(rule, nullptr));
    if (options.table != nullptr)
        for (const NameRule& rule : options.table->rules)
            rules.push_back(read_rule(rule, options.table));

    Claims claims;
    const Paths paths(reference);
    Claimant claimant(reference, paths, claims);
    for (const auto& [name, array] : mine) {
        // One rule is enough, unless it takes a part: then others take the rest.
        const ReadRule* taken = nullptr;
        for (const ReadRule& rule : rules)
            if (taken == nullptr || (taken->left.takes(Taken::Kind::part) && rule.left.name == taken->left.name))
                if (claimant.claim(rule, name, *array))
                    taken = &rule;
        if (taken != nullptr)
            continue;
        if (const auto number = paths.exactly(name))
            claims.claims.push_back({*number, name, array, ""});
        else
            claims.extra.push_back(name);
    }
    std::ranges::stable_sort(claims.claims, {}, &Claim::step);
    return claims;
}

std::size_t heads_around(const std::string& path, const std::vector<Step>& reference)
{
    const std::size_t at = ("." + path).rfind(".head.");
    const std::string begin = path.substr(0, at == std::string::npos ? path.rfind('.') + 1 : at) + "head.";
    std::size_t heads = 0;
    for (const Step& step : reference)
        if (step.path.starts_with(begin)) {
            const std::string number = step.path.substr(begin.size(), step.path.find('.', begin.size()) - begin.size());
            if (is_number(number))
                heads = std::max<std::size_t>(heads, std::stoul(number) + 1);
        }
    return heads;
}

} // namespace attn
