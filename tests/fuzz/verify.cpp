#include "attn/formula/verify.hpp"

#include "attn/core/budget.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/overflow.hpp"

#include "scratch.hpp"
#include "targets.hpp"
#include "traces.hpp"

namespace attn::fuzz {

/// The whole way: a trace is written, read and verified.
void verify(std::string_view bytes)
{
    const SmallBudget budget;
    const Recording recording = trace_of(bytes);
    files::write_trace(scratch("verified.npz"), recording);
    const Recording read = files::read_trace(scratch("verified.npz"));
    const formula::Verification verification = attn::formula::verify(read);
    expect(verification.checks.size() == read.steps.size(), "a step without a verdict");
    for (const formula::StepCheck& check : verification.checks)
        expect(check.passed() == check.message.empty(), "a failure without a message, or a message without one");
    if (const auto overflow = formula::find_overflow(read))
        expect(!formula::to_text(*overflow).empty(), "an overflow without a message");
}

} // namespace attn::fuzz
