#include "attn/what_if/pitfalls.hpp"

#include "attn/what_if/head_scope.hpp"
#include "pitfall_list.hpp"

#include "attn/error.hpp"
#include "attn/formula/scope.hpp"
#include "attn/step_name.hpp"

#include <algorithm>

namespace attn {
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

std::string name_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

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

/// A formula with the paths of steps where it has other names of theirs: "norm1.output @ weights" for "x @ weights".
std::string with_paths(std::string_view formula, const StepOf& step_of)
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
        const bool is_name = !is_call && begins_name(word.front());
        const Step* meant = is_name ? step_of(word) : nullptr;
        const bool is_other =
            meant != nullptr && meant->path != word && !meant->path.ends_with("." + std::string(word));
        text.append(is_other ? meant->path : word).append(after);
    }
    return text;
}

} // namespace

std::span<const Pitfall> pitfalls() { return pitfall_list; }

const Pitfall& find_pitfall(std::string_view id)
{
    const auto found = std::ranges::find(pitfall_list, id, &Pitfall::id);
    if (found != std::end(pitfall_list))
        return *found;
    const std::string_view first_word = id.substr(0, id.find('_'));
    std::string near, all;
    for (const Pitfall& pitfall : pitfall_list) {
        all += (all.empty() ? "" : ", ") + std::string(pitfall.id);
        if (!first_word.empty() && pitfall.id.find(first_word) != std::string_view::npos)
            near += (near.empty() ? "" : ", ") + std::string(pitfall.id);
    }
    throw Error("there is no pitfall " + std::string(id) + "; there are " + (near.empty() ? all : near));
}

std::optional<std::string> mistaken_formula(const Pitfall& pitfall, const Step& step, const StepOf& step_of)
{
    if (name_of(step.path) != pitfall.step)
        return std::nullopt;
    auto taken = match(pitfall.right, step.formula);
    if (!taken)
        taken = match(pitfall.right, with_paths(step.formula, step_of));
    const std::optional<HeadScope> head = head_scope(step.path);
    const bool wants_head = pitfall.mistaken.find("{head}") != std::string_view::npos;
    if (!taken || (wants_head && !head))
        return std::nullopt;

    std::string formula(pitfall.mistaken);
    const Shape& shape = step.value.shape;
    const bool is_batch = shape.size() == 3;
    replace_all(formula, "{batch}", is_batch ? std::to_string(shape[0]) + ", " : "");
    replace_all(formula, "{each}", is_batch ? ":, " : "");
    replace_all(formula, "{shape}", joined(shape));
    replace_all(formula, "{head}", head ? std::string(head->number) : "");
    if (!shape.empty()) {
        replace_all(formula, "{width}", std::to_string(shape.back()));
        replace_all(formula, "{half}", std::to_string(shape.back() / 2));
    }
    if (shape.size() > 1)
        replace_all(formula, "{rows}", std::to_string(shape[shape.size() - 2]));
    for (std::size_t i = taken->size(); i-- > 0;) {
        std::string placeholder(1, '$');
        placeholder += std::to_string(i + 1);
        replace_all(formula, placeholder, (*taken)[i]);
    }
    return formula;
}

std::optional<Array> mistaken_value(const Pitfall& pitfall, const Step& step, const StepOf& step_of)
{
    const std::optional<std::string> formula = mistaken_formula(pitfall, step, step_of);
    if (!formula)
        return std::nullopt;
    const Lookup lookup = [&](std::string_view name) {
        const Step* operand = step_of(name);
        return operand == nullptr ? nullptr : &operand->value;
    };
    try {
        Array wrong = evaluate(*formula, lookup).value;
        wrong.type = step.value.type;
        return wrong.shape == step.value.shape ? std::optional(std::move(wrong)) : std::nullopt;
    } catch (const FormulaError&) {
        return std::nullopt;
    }
}

std::optional<Array> Mistaken::on_step(const Step& step)
{
    std::optional<Array> answer = mistaken_value(*pitfall_, step, [&](std::string_view name) {
        return resolve(step.path, name, [&](std::string_view path) -> const Step* {
            const std::optional<std::string_view> target = heard(path);
            const auto found = target ? earlier_.find(*target) : earlier_.end(); // not this step itself
            return found == earlier_.end() ? nullptr : &found->second;
        });
    });
    if (answer)
        broken_.push_back(step.path);
    Step& kept = earlier_.emplace(step.path, step).first->second;
    if (answer)
        kept.value = *answer;
    return answer;
}

} // namespace attn
