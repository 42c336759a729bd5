#include "commands.hpp"

#include "attn/what_if/pitfalls.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace attn {
namespace {

int list()
{
    for (const Pitfall& pitfall : pitfalls())
        fmt::print("{}\n  {} {}\n  {}: {}\n  instead of {}\n  seen: {}\n        {}\n\n", pitfall.id, pitfall.sentence,
                   pitfall.shows, pitfall.step, pitfall.mistaken, pitfall.right, pitfall.seen, pitfall.link);
    fmt::print("{} of them. Make one: lesson_05_masking --pitfall mask_zero\n", pitfalls().size());
    return 0;
}

int list_for_machines()
{
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Pitfall& pitfall : pitfalls())
        all.push_back({{"id", pitfall.id},
                       {"sentence", pitfall.sentence},
                       {"shows", pitfall.shows},
                       {"seen", pitfall.seen},
                       {"link", pitfall.link},
                       {"step", pitfall.step},
                       {"right", pitfall.right},
                       {"mistaken", pitfall.mistaken}});
    fmt::print("{}\n", all.dump(1));
    return 0;
}

} // namespace

Command pitfalls_command()
{
    const auto is_json = std::make_shared<bool>(false);
    return {.name = "pitfalls",
            .summary = "list the well-known mistakes that --pitfall makes",
            .groups = {{"Flags", {{"--json", "", *is_json, "print JSON"}}}},
            .run = [is_json] { return *is_json ? list_for_machines() : list(); }};
}

} // namespace attn
