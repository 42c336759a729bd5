#include "attn/core/step_name.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace attn {
namespace {

constexpr std::size_t longest_name = 200; // longer ones are neither compared nor shown in full

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

} // namespace

bool is_step_name(std::string_view text)
{
    return !text.empty() && begins_name(text.front()) && std::ranges::all_of(text, continues_name);
}

bool is_step_path(std::string_view text)
{
    const auto is_allowed = [](char c) { return continues_name(c) || c == '.'; };
    return !text.empty() && text.front() != '.' && text.back() != '.' && text.find("..") == std::string_view::npos &&
           std::ranges::all_of(text, is_allowed);
}

StepLabel parse_step_label(std::string_view text)
{
    const auto malformed = [&] {
        return std::logic_error("trace: \"" + std::string(text) + "\" is no step name such as scores or scores[n, m]");
    };
    const std::size_t bracket = std::min(text.find('['), text.size());
    StepLabel label{std::string(text.substr(0, bracket)), {}};
    if (!is_step_name(label.name))
        throw malformed();
    if (bracket == text.size())
        return label;
    if (text.back() != ']')
        throw malformed();

    constexpr std::string_view separator = ", ", batch = "(b,) ";
    std::string_view rest = text.substr(bracket + 1, text.size() - bracket - 2);
    label.may_be_batch = rest.starts_with(batch);
    if (label.may_be_batch)
        rest.remove_prefix(batch.size());
    while (true) {
        const std::size_t end = std::min(rest.find(separator), rest.size());
        label.axes.emplace_back(rest.substr(0, end));
        if (!is_step_name(label.axes.back()))
            throw malformed();
        if (end == rest.size())
            return label;
        rest.remove_prefix(end + separator.size());
    }
}

std::size_t edit_distance(std::string_view from, std::string_view to)
{
    std::vector<std::size_t> row(to.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j)
        row[j] = j;
    for (std::size_t i = 0; i < from.size(); ++i) {
        std::size_t before = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < to.size(); ++j) {
            const std::size_t changed = before + (from[i] == to[j] ? 0 : 1);
            before = row[j + 1];
            row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

std::string suggestion(const std::vector<std::string_view>& names, std::string_view name)
{
    constexpr std::size_t most = 3;
    std::vector<std::pair<std::size_t, std::string_view>> near;
    if (name.size() > longest_name)
        return {};
    const std::string end = std::string(".").append(name);
    for (const std::string_view candidate : names) {
        const std::size_t far = candidate.size() > longest_name ? longest_name : edit_distance(name, candidate);
        if (candidate.ends_with(end)) // the same name in a scope
            near.emplace_back(0, candidate);
        else if (far <= 1 + name.size() / 5)
            near.emplace_back(far, candidate);
        else if (edit_distance(last_word(name), last_word(candidate).substr(0, longest_name)) <= 1)
            near.emplace_back(longest_name, candidate);
    }
    std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string_view>::first);
    std::string text;
    for (std::size_t i = 0; i < std::min(most, near.size()); ++i)
        text += (i == 0 ? "; did you mean " : " or ") + std::string(near[i].second);
    return text.empty() ? text : text + "?";
}

std::string no_step_is_called(std::string_view path, const std::vector<std::string_view>& paths)
{
    return "no step is called " + std::string(path.substr(0, longest_name)) + suggestion(paths, path);
}

} // namespace attn
