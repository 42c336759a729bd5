#include "attn/what_if/pitfalls.hpp"

#include "pitfall_list.hpp"

#include "attn/error.hpp"
#include "attn/formula/scope.hpp"

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

/// The number behind the innermost "head" of a path; nothing outside of any head.
std::string head_of(const std::string& path)
{
    constexpr std::string_view scope = "head.";
    std::size_t head = path.rfind(scope);
    while (head != std::string::npos && head > 0 && path[head - 1] != '.')
        head = path.rfind(scope, head - 1);
    if (head == std::string::npos)
        return "";
    const std::size_t begin = head + scope.size();
    return path.substr(begin, path.find('.', begin) - begin);
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

std::optional<std::string> mistaken_formula(const Pitfall& pitfall, const Step& step)
{
    if (name_of(step.path) != pitfall.step)
        return std::nullopt;
    const auto taken = match(pitfall.right, step.formula);
    const std::string head = head_of(step.path);
    const bool wants_head = pitfall.mistaken.find("{head}") != std::string_view::npos;
    if (!taken || (wants_head && head.empty()))
        return std::nullopt;

    std::string formula(pitfall.mistaken);
    const Shape& shape = step.value.shape;
    const bool is_batch = shape.size() == 3;
    replace_all(formula, "{batch}", is_batch ? std::to_string(shape[0]) + ", " : "");
    replace_all(formula, "{each}", is_batch ? ":, " : "");
    replace_all(formula, "{shape}", joined(shape));
    replace_all(formula, "{head}", head);
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

std::optional<Array> mistaken_value(const Pitfall& pitfall, const Step& step, const Lookup& lookup)
{
    const std::optional<std::string> formula = mistaken_formula(pitfall, step);
    if (!formula)
        return std::nullopt;
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
        return resolve(step.path, name, [&](std::string_view path) -> const Array* {
            const std::optional<std::string_view> target = heard(path);
            const auto found = target ? earlier_.find(*target) : earlier_.end(); // not this step itself
            return found == earlier_.end() ? nullptr : &found->second;
        });
    });
    if (answer)
        broken_.push_back(step.path);
    earlier_.emplace(step.path, answer ? *answer : step.value);
    return answer;
}

} // namespace attn
