#include "pitfalls.hpp"

#include "attn/what_if/pitfalls.hpp"

#include <CLI/CLI.hpp>
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

std::function<int()> add_pitfalls_command(CLI::App& app)
{
    CLI::App* command = app.add_subcommand("pitfalls", "the well-known mistakes that --pitfall makes");
    const auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "for machines");
    return [json] { return *json ? list_for_machines() : list(); };
}

} // namespace attn
