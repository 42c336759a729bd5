#include "commands.hpp"

#include "attn/error.hpp"
#include "attn/formula/verify.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <fmt/format.h>

#include <memory>

namespace attn {
namespace {

int verify_trace(const std::filesystem::path& path)
{
    const Verification verification = verify(read_trace(path));
    if (verification.inputs() == verification.checks.size())
        throw Error(path.string() + ": no step has a formula, so there is nothing to recompute");
    for (const StepCheck& check : verification.checks)
        if (!check.passed())
            fmt::print("{}\n", check.message);

    fmt::print("{}: {} steps recomputed from their formulas, {} inputs, {} wrong\n", path.string(),
               verification.recomputed(), verification.inputs(), verification.failures());
    return verification.passed() ? 0 : 1;
}

} // namespace

Command verify_command()
{
    const auto trace = std::make_shared<std::filesystem::path>();
    return {.name = "verify",
            .summary = "recompute every step of a trace from its formula",
            .groups = {{"Arguments", {{"TRACE.npz", "", *trace, "a trace, as --trace writes it"}}}},
            .run = [trace] { return verify_trace(*trace); }};
}

} // namespace attn
