#include "commands.hpp"
#include "json.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/mistakes/pitfalls.hpp"

#include <fmt/format.h>

#include <memory>

namespace attn::cli {
namespace {

int list()
{
    for (const mistakes::Pitfall& pitfall : mistakes::pitfalls())
        print("{}\n  {} {}\n  {}: {}\n  instead of {}\n  seen: {}\n        {}\n\n", pitfall.id, pitfall.sentence,
              pitfall.why, pitfall.shown().step, pitfall.shown().mistaken, pitfall.shown().right, pitfall.seen,
              pitfall.link);
    print("{} of them. Make one: lesson_05_masking --pitfall mask_zero\n", mistakes::pitfalls().size());
    return 0;
}

/// All forms of a mistake: the edits that are made together, and the values that are tried.
nlohmann::ordered_json forms_of(const mistakes::Pitfall& pitfall)
{
    nlohmann::ordered_json forms = nlohmann::ordered_json::array();
    for (const mistakes::PitfallForm& form : pitfall.forms) {
        nlohmann::ordered_json edits = nlohmann::ordered_json::array();
        for (const mistakes::StepEdit& edit : form.edits)
            edits.push_back({{"step", edit.step}, {"right", edit.right}, {"mistaken", edit.mistaken}});
        forms.push_back({{"edits", edits}, {"values", form.values}});
    }
    return forms;
}

int list_for_machines()
{
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const mistakes::Pitfall& pitfall : mistakes::pitfalls())
        all.push_back({{"id", pitfall.id},
                       {"sentence", pitfall.sentence},
                       {"why", pitfall.why},
                       {"seen", pitfall.seen},
                       {"link", pitfall.link},
                       {"step", pitfall.shown().step},
                       {"right", pitfall.shown().right},
                       {"mistaken", pitfall.shown().mistaken},
                       {"forms", forms_of(pitfall)},
                       {"is_exhibit", pitfall.is_exhibit}});
    print_json(all);
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

} // namespace attn::cli
