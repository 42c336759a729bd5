#include "attn/diff/diff.hpp"

#include "attn/core/budget.hpp"

#include "targets.hpp"
#include "traces.hpp"

namespace attn::fuzz {

/// Two traces, and their diagnosis. A trace is the same as itself.
void diff(std::string_view bytes)
{
    const SmallBudget budget;
    constexpr std::string_view separator = "---\n";
    const std::size_t second = bytes.find(separator);
    const Recording reference = trace_of(bytes.substr(0, second));
    const Recording other =
        second == std::string_view::npos ? reference : trace_of(bytes.substr(second + separator.size()));
    if (reference.steps.empty())
        return;
    files::NamedArrays mine;
    for (const Step& step : other.steps)
        mine.emplace(step.path, step.value);
    const diff::Diff result = attn::diff::compare(reference, mine);
    expect(second != std::string_view::npos || result.passed(), "a trace that differs from itself");
    for (const diff::StepDiff& step : result.steps)
        expect(step.step != nullptr, "a verdict about nothing");
    diff::diagnose(result);
}

} // namespace attn::fuzz
