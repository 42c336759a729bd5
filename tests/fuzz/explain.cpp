#include "attn/formula/explain.hpp"

#include "attn/core/budget.hpp"

#include "targets.hpp"
#include "traces.hpp"

#include <cmath>

namespace attn::fuzz {

/// Every number of the last steps: what is explained is what is evaluated.
void explain(std::string_view bytes)
{
    const SmallBudget budget;
    const Recording recording = trace_of(bytes);
    const formula::StepNames names(recording);
    constexpr std::size_t most = 8;
    for (const Step& step : recording.steps)
        for (std::size_t offset = 0; offset < std::min(most, step.value.size()); ++offset) {
            try {
                const formula::Explanation explanation =
                    attn::formula::explain(recording, names, step, offset, {.depth = 2});
                expect(!formula::to_text(explanation).empty(), "an explanation without a word");
                formula::explain_text(recording, explanation.cell, {.digits = 3});
            } catch (const BudgetError&) {
                throw;
            } catch (const Error& error) {
                expect(!std::string(error.what()).empty(), "an error without a word");
            }
        }
}

} // namespace attn::fuzz
