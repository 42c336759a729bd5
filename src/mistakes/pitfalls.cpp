#include "attn/mistakes/pitfalls.hpp"

#include "attn/mistakes/head_scope.hpp"

#include "attn/core/error.hpp"
#include "attn/core/step_name.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>

namespace attn::mistakes {
namespace {

/// What each % of a pattern stands for; nothing where the text doesn't match. A % takes as little as it can.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view text)
{
    const std::size_t wildcard = pattern.find('%');
    if (wildcard == std::string_view::npos)
        return pattern == text ? std::optional(std::vector<std::string>{}) : std::nullopt;
    if (!text.starts_with(pattern.substr(0, wildcard)))
        return std::nullopt;
    const std::string_view rest = pattern.substr(wildcard + 1);
    for (std::size_t end = wildcard; end <= text.size(); ++end)
        if (const auto further = match(rest, text.substr(end))) {
            std::vector<std::string> taken{std::string(text.substr(wildcard, end - wildcard))};
            taken.insert(taken.end(), further->begin(), further->end());
            return taken;
        }
    return std::nullopt;
}

/// True where the last words of a path are those of a pattern, in which * is any word. Gradients are meant by patterns of
/// gradients only.
bool ends_with(std::string_view path, std::string_view pattern)
{
    const bool is_of_gradient = path.starts_with(formula::gradient_scope);
    if (pattern.starts_with(formula::gradient_scope) != is_of_gradient)
        return false;
    for (std::string_view* one : {&path, &pattern})
        one->remove_prefix(is_of_gradient ? formula::gradient_scope.size() : 0);
    while (!pattern.empty()) {
        if (path.empty())
            return false;
        const std::size_t word = path.rfind('.') + 1, wanted = pattern.rfind('.') + 1; // without a dot 0: npos + 1
        if (pattern.substr(wanted) != "*" && pattern.substr(wanted) != path.substr(word))
            return false;
        path = path.substr(0, word == 0 ? 0 : word - 1);
        pattern = pattern.substr(0, wanted == 0 ? 0 : wanted - 1);
    }
    return true;
}

/// Where a head takes its share of the features, if something else stands between it and the scores: a norm, a rotation, a
/// temperature, a past.
constexpr std::pair<std::string_view, std::string_view> stand_ins[] = {
    {"queries", "query_norm.x"}, {"queries", "rotary_query.x"}, {"queries", "plain_queries"}, {"keys", "key_norm.x"},
    {"keys", "rotary_key.x"},    {"keys", "new_keys"},          {"values", "new_values"},
};

/// True where an edit is about a step of that path: its last words are the edit's, or what stands in for these.
bool is_about(std::string_view path, const StepEdit& edit)
{
    return ends_with(path, edit.step) || std::ranges::any_of(stand_ins, [&](const auto& one) {
               return one.first == edit.step && ends_with(path, one.second);
           });
}

/// The number of the innermost numbered scope: 2 for rank.0.hop.2.keys; nothing where there is none.
std::optional<int> number_of(std::string_view path)
{
    for (std::size_t end = path.rfind('.'); end != std::string_view::npos; end = path.rfind('.', end - 1)) {
        const std::size_t begin = path.rfind('.', end - 1) + 1; // without a dot 0: npos + 1
        const std::string_view word = path.substr(begin, end - begin);
        if (is_number(word))
            return std::stoi(std::string(word));
        if (begin == 0)
            break;
    }
    return std::nullopt;
}

std::string joined(const Shape& shape)
{
    std::string text;
    for (const std::size_t size : shape)
        text += (text.empty() ? "" : ", ") + std::to_string(size);
    return text;
}

void replace_all(std::string& text, std::string_view what, const std::string& by)
{
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

/// A formula with other words for its names.
/// @param meant_by  from a name to what stands in its place; the name itself where nothing does
template <class MeantBy>
std::string with_names(std::string_view formula, const MeantBy& meant_by)
{
    const auto is_word = [](char c) { return continues_name(c) || c == '.'; };
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < formula.size(); begin = end) {
        while (end < formula.size() && is_word(formula[end]) == is_word(formula[begin]))
            ++end;
        std::string_view word = formula.substr(begin, end - begin);
        const bool is_call = end < formula.size() && formula[end] == '(';
        std::string_view after;
        for (const std::string_view suffix : {".T", ".shape"})
            if (word.ends_with(suffix)) {
                after = suffix;
                word.remove_suffix(suffix.size());
            }
        const bool is_name = !is_call && !word.empty() && begins_name(word.front());
        text.append(is_name ? meant_by(word) : std::string(word)).append(after);
    }
    return text;
}

/// A formula with the paths of steps where it has other names of theirs: "norm1.output @ weights" for "x @ weights".
std::string with_paths(std::string_view formula, const StepOf& step_of)
{
    return with_names(formula, [&](std::string_view word) {
        const Step* meant = step_of(word);
        const bool is_other =
            meant != nullptr && meant->path != word && !meant->path.ends_with("." + std::string(word));
        return is_other ? meant->path : std::string(word);
    });
}

/// The words of a text, without the ~ in front of each.
std::vector<std::string_view> words_of(std::string_view text)
{
    std::vector<std::string_view> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        words.push_back(word.starts_with('~') ? word.substr(1) : word);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

/// A formula in which some names mean others; nothing where it has none of them.
/// @param names    "~x", or several: "~key_weights ~key_bias"
/// @param instead  one expression, or as many words as there are names
std::optional<std::string> with_other_meanings(std::string_view names, std::string_view instead,
                                               std::string_view formula)
{
    const std::vector<std::string_view> from = words_of(names);
    const std::vector<std::string_view> to = from.size() == 1 ? std::vector{instead} : words_of(instead);
    bool is_other = false;
    std::string text = with_names(formula, [&](std::string_view word) {
        const auto found = std::ranges::find(from, word);
        is_other = is_other || found != from.end();
        return std::string(found == from.end() ? word : to[static_cast<std::size_t>(found - from.begin())]);
    });
    return is_other ? std::optional(std::move(text)) : std::nullopt;
}

/// A mistaken formula with what its pattern has taken out of the right one; nothing where that doesn't match.
std::optional<std::string> with_taken(const StepEdit& edit, const std::string& formula)
{
    const auto taken = match(edit.right, formula);
    if (!taken)
        return std::nullopt;
    std::string mistaken(edit.mistaken);
    for (std::size_t i = taken->size(); i-- > 0;)
        replace_all(mistaken, "$" + std::to_string(i + 1), (*taken)[i]);
    return mistaken;
}

/// The mistaken formula, before the sizes of the step are put in.
std::optional<std::string> rewritten(const StepEdit& edit, const Step& step, const StepOf& step_of)
{
    for (const std::string& formula : {step.formula, with_paths(step.formula, step_of)})
        if (auto mistaken = edit.right.starts_with('~') ? with_other_meanings(edit.right, edit.mistaken, formula)
                                                        : with_taken(edit, formula))
            return mistaken;
    return std::nullopt;
}

/// Puts in the numbers of the step's scopes.
/// @return false where a number is wanted that the step has none for
bool fill_numbers(std::string& formula, std::string_view wanted, std::string_view path)
{
    if (wanted.find("{head}") != std::string_view::npos) {
        const std::optional<HeadScope> head = head_scope(path);
        if (!head)
            return false;
        replace_all(formula, "{head}", std::string(head->number));
    }
    if (wanted.find("{before}") != std::string_view::npos) {
        const std::optional<int> number = number_of(path);
        if (!number || *number == 0)
            return false;
        replace_all(formula, "{before}", std::to_string(*number - 1));
    }
    if (wanted.find("{number}") != std::string_view::npos) {
        const std::optional<int> number = number_of(path);
        if (!number)
            return false;
        replace_all(formula, "{number}", std::to_string(*number));
    }
    return true;
}

/// "head.0.masked, head.1.masked": a step of all heads, and how many these are.
std::pair<std::string, std::size_t> of_all_heads(const std::string& name, const StepOf& step_of)
{
    std::string list;
    for (std::size_t heads = 0;; ++heads) {
        const std::string path = "head." + std::to_string(heads) + '.' + name;
        if (step_of(path) == nullptr)
            return {list, heads};
        list += (heads == 0 ? "" : ", ") + path;
    }
}

/// Puts in the steps of all heads, and the number of heads.
/// @return false where such a step is wanted, and heads have none
bool fill_heads(std::string& formula, const StepOf& step_of)
{
    constexpr std::string_view begin = "{heads.";
    for (std::size_t at = formula.find(begin); at != std::string::npos; at = formula.find(begin, at)) {
        const std::size_t name = at + begin.size(), end = formula.find('}', at);
        const auto [list, heads] = of_all_heads(formula.substr(name, end - name), step_of);
        if (heads == 0)
            return false;
        formula.replace(at, end + 1 - at, list);
        replace_all(formula, "{heads}", std::to_string(heads));
    }
    return true;
}

/// Puts in the first and the last term of the right formula, where it is a sum.
void fill_terms(std::string& formula, const std::string& right)
{
    constexpr std::string_view plus = " + ";
    const std::size_t first = right.find(plus);
    if (first == std::string::npos)
        return;
    replace_all(formula, "{first}", right.substr(0, first));
    replace_all(formula, "{last}", right.substr(right.rfind(plus) + plus.size()));
}

void fill_sizes(std::string& formula, const Shape& shape)
{
    const bool is_batch = shape.size() == 3;
    replace_all(formula, "{batch}", is_batch ? std::to_string(shape[0]) + ", " : "");
    replace_all(formula, "{each}", is_batch ? ":, " : "");
    replace_all(formula, "{shape}", joined(shape));
    if (!shape.empty()) {
        replace_all(formula, "{width}", std::to_string(shape.back()));
        replace_all(formula, "{half}", std::to_string(shape.back() / 2));
    }
    if (shape.size() > 1)
        replace_all(formula, "{rows}", std::to_string(shape[shape.size() - 2]));
}

} // namespace

const Pitfall& find_pitfall(std::string_view id)
{
    const auto found = std::ranges::find(pitfalls(), id, &Pitfall::id);
    if (found != pitfalls().end())
        return *found;
    const std::string_view first_word = id.substr(0, id.find('_'));
    std::string near, all;
    for (const Pitfall& pitfall : pitfalls()) {
        all += (all.empty() ? "" : ", ") + std::string(pitfall.id);
        if (!first_word.empty() && pitfall.id.find(first_word) != std::string_view::npos)
            near += (near.empty() ? "" : ", ") + std::string(pitfall.id);
    }
    throw Error("there is no pitfall ", id, "; there are ", (near.empty() ? all : near));
}

std::optional<std::string> mistaken_formula(const StepEdit& edit, std::string_view value, const Step& step,
                                            const StepOf& step_of)
{
    if (!is_about(step.path, edit))
        return std::nullopt;
    std::string mistaken(edit.mistaken);
    replace_all(mistaken, "{v}", std::string(value));
    std::optional<std::string> formula = rewritten({edit.step, edit.right, mistaken}, step, step_of);
    if (!formula || !fill_numbers(*formula, edit.mistaken, step.path) || !fill_heads(*formula, step_of))
        return std::nullopt;
    fill_terms(*formula, step.formula);
    fill_sizes(*formula, step.value.shape);
    return formula;
}

std::optional<std::string> mistaken_formula(const Pitfall& pitfall, const Step& step, const StepOf& step_of)
{
    return mistaken_formula(pitfall.shown(), pitfall.forms.front().values.front(), step, step_of);
}

std::optional<Array> mistaken_value(const Pitfall& pitfall, const Step& step, const StepOf& step_of)
{
    const std::optional<std::string> formula = mistaken_formula(pitfall, step, step_of);
    if (!formula)
        return std::nullopt;
    const formula::Lookup lookup = [&](std::string_view name) {
        const Step* operand = step_of(name);
        return operand == nullptr ? nullptr : &operand->value;
    };
    try {
        Array wrong = formula::evaluate(*formula, lookup).value;
        wrong.type = step.value.type;
        return wrong.shape == step.value.shape ? std::optional(std::move(wrong)) : std::nullopt;
    } catch (const formula::FormulaError&) {
        return std::nullopt;
    }
}

std::optional<Array> Mistaken::on_step(const Step& step)
{
    std::optional<Array> wrong = mistaken_value(*pitfall_, step, [&](std::string_view name) {
        return formula::resolve(step.path, name, [&](std::string_view path) -> const Step* {
            const std::optional<std::string_view> target = find(path);
            const auto found = target ? earlier_.find(*target) : earlier_.end(); // not this step itself
            return found == earlier_.end() ? nullptr : &found->second;
        });
    });
    if (wrong)
        broken_.push_back(step.path);
    Step& kept = earlier_.emplace(step.path, step).first->second;
    if (wrong)
        kept.value = *wrong;
    return wrong;
}

} // namespace attn::mistakes
