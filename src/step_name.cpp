#include "attn/step_name.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace attn {

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

} // namespace attn
