#include "plan.hpp"

#include "attn/core/choices.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace attn::vectors {
namespace {

constexpr std::pair<std::string_view, Holds> kinds[] = {{"numbers", Holds::numbers},
                                                        {"gains", Holds::gains},
                                                        {"large", Holds::large},
                                                        {"mask", Holds::mask},
                                                        {"mask with an empty row", Holds::mask_with_empty_row},
                                                        {"lengths", Holds::lengths},
                                                        {"ids", Holds::ids},
                                                        {"pages", Holds::pages},
                                                        {"padding before", Holds::padded_before},
                                                        {"padding after", Holds::padded_after},
                                                        {"targets", Holds::targets},
                                                        {"formula", Holds::by_formula}};

/// "n d", or "b: lengths to m": axes, and what they hold.
Drawn drawn_of(const std::string& name, std::string text)
{
    Drawn drawn{name, {}};
    if (const std::size_t colon = text.find(": "); colon != std::string::npos) {
        std::string kind = text.substr(colon + 2);
        text.resize(colon);
        if (const std::size_t limit = kind.find(" to "); limit != std::string::npos) {
            drawn.limit = kind.substr(limit + 4);
            kind.resize(limit);
        }
        const auto* const found = std::ranges::find(kinds, kind, &std::pair<std::string_view, Holds>::first);
        if (found == std::end(kinds))
            throw std::logic_error(name + ": there are no inputs that hold " + kind);
        drawn.holds = found->second;
    }
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        drawn.axes.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return drawn;
}

std::vector<Drawn> all_drawn_of(const Json& all)
{
    std::vector<Drawn> result;
    for (const auto& [name, text] : all.items())
        if (!text.is_null())
            result.push_back(drawn_of(name, text.get<std::string>()));
    return result;
}

/// What a file has under a name, then what a group has.
Json joined(const Json& file, const Json& group, const char* which)
{
    Json all = file.value(which, Json::object());
    all.update(group.value(which, Json::object()));
    return all;
}

Formulas formulas_of(const Json& json)
{
    Formulas formulas;
    for (const auto& [name, formula] : json.items())
        formulas.emplace_back(name, formula.get<std::string>());
    return formulas;
}

std::optional<PlannedCalls> calls_of(const Json& json)
{
    if (json.empty())
        return std::nullopt;
    const auto part = [&](const char* which) { return json.value(which, Json::object()); };
    return PlannedCalls{.requests = json.at("requests"),
                        .shared = all_drawn_of(part("shared")),
                        .of_request = all_drawn_of(part("of_request")),
                        .start = formulas_of(part("start")),
                        .carried = formulas_of(part("carried")),
                        .computed = formulas_of(part("computed")),
                        .beside = json.value("beside", std::vector<std::string>{}),
                        .mistakes = json.at("mistakes")};
}

/// The sizes of each call: {"n": [3, 1], "d": 2} has those of two.
std::vector<Sizes> sizes_of(const Json& json, std::size_t calls)
{
    std::vector<Sizes> sizes(calls);
    for (const auto& [axis, size] : json.items())
        for (std::size_t call = 0; call < calls; ++call)
            sizes[call].emplace(axis, size.is_array() ? size.at(call) : size);
    return sizes;
}

PlannedGroup group_of(const Json& file, const Json& group)
{
    PlannedGroup result{.comment = group.value("comment", ""),
                        .parameters = joined(file, group, "parameters"),
                        .inputs = all_drawn_of(joined(file, group, "inputs")),
                        .weights = all_drawn_of(joined(file, group, "weights")),
                        .keeps_all = group.value("keeps_all", false),
                        .rows = group.value("rows", std::vector<std::size_t>{}),
                        .accepts = group.value("accepts", std::map<std::string, Convention>{}),
                        .calls = calls_of(joined(file, group, "calls"))};
    std::size_t calls = result.calls ? 0 : 1;
    if (result.calls)
        for (const std::size_t of_request : result.calls->requests)
            calls += of_request;
    for (const Json& sizes : group.contains("sizes") ? group["sizes"] : file.at("sizes"))
        result.sizes.push_back(sizes_of(sizes, calls));
    return result;
}

PlannedFile file_of(const PlanFile& plan)
{
    const Json json = Json::parse(plan.json);
    PlannedFile file{.name = std::string(plan.name),
                     .function = json.at("function"),
                     .module = json.value("module", json.at("function").get<std::string>()),
                     .title = json.at("title"),
                     .about = json.at("about")};
    file.is_backward = file.function.ends_with("_backward");
    for (const std::string_view end : {"_backward", "_calls"})
        if (file.module.ends_with(end))
            file.module.resize(file.module.size() - end.size());
    std::ranges::replace(file.module, '_', '-');
    for (const Json& group : json.at("groups"))
        file.groups.push_back(group_of(json, group));
    return file;
}

} // namespace

std::vector<PlannedFile> plan()
{
    std::vector<PlannedFile> files;
    for (const PlanFile& one : plan_files())
        try {
            files.push_back(file_of(one));
        } catch (const nlohmann::json::exception& error) {
            throw std::logic_error("src/vectors/plan/" + std::string(one.name) + ".json: " + error.what());
        }
    return files;
}

std::size_t size_of(std::string_view axis, const Sizes& sizes)
{
    std::size_t product = 1;
    while (!axis.empty()) {
        const std::size_t end = std::min(axis.find('*'), axis.size());
        const std::string factor(axis.substr(0, end));
        axis.remove_prefix(std::min(end + 1, axis.size()));
        std::size_t number = 0;
        const auto [rest, error] = std::from_chars(factor.data(), factor.data() + factor.size(), number);
        product *= error == std::errc() && rest == factor.data() + factor.size() ? number : sizes.at(factor);
    }
    return product;
}

} // namespace attn::vectors
