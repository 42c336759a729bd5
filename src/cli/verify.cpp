#include "commands.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/files/file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/overflow.hpp"
#include "attn/formula/verify.hpp"

#include <fmt/format.h>

#include <memory>

namespace attn::cli {
namespace {

struct Request {
    std::filesystem::path trace;
    std::optional<std::size_t> budget;
};

int verify_trace(const Request& request)
{
    const std::filesystem::path& path = request.trace;
    const BudgetScope budget{budget_for(request.budget, {path})};
    const Recording recording = files::read_trace(path);
    const formula::Verification verification = files::about_file(path, "", [&] { return formula::verify(recording); });
    if (verification.inputs() == verification.checks.size())
        throw Error(path.string(), ": no step has a formula, so there is nothing to recompute");
    for (const formula::StepCheck& check : verification.checks)
        if (!check.passed())
            print("{}\n", check.message);

    print("{}: {} steps recomputed from their formulas, {} inputs, {} wrong\n", path.string(),
          verification.recomputed(), verification.inputs(), verification.failures());
    if (const auto overflow = formula::find_overflow(recording))
        print_error("attn verify", Error("warning: " + path.string() + ": " + formula::to_text(*overflow)));
    return verification.passed() ? 0 : 1;
}

} // namespace

Command verify_command()
{
    const auto request = std::make_shared<Request>();
    return {.name = "verify",
            .summary = "recompute every step of a trace from its formula",
            .groups = {{"Arguments", {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"}}},
                       {"Flags", {budget_flag(request->budget)}}},
            .run = [request] { return verify_trace(*request); }};
}

} // namespace attn::cli
