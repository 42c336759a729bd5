#include "commands.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/diff/gradient_name.hpp"
#include "attn/files/file.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/explain.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/formula/scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace attn::cli {
namespace {

struct Request {
    std::filesystem::path trace, seed, output;
    std::string of;
    bool checks = false;
    std::optional<std::size_t> budget;
};

/// True for the name of a gradient of that step: grad.output, output.grad, d_output; also dout and dy, whatever it is called.
bool is_gradient_of(const std::string& name, const Step& of, const Recording& recording)
{
    const std::optional<std::string> path = diff::gradient_name(name);
    if (!path)
        return false;
    const std::string rest = path->substr(formula::gradient_scope.size());
    const std::optional<std::size_t> step = formula::StepNames(recording).find(rest);
    return step ? &recording.steps[*step] == &of : rest == "out" || rest == "y";
}

/// The one array of a file, or of several the one that is called the gradient of that step: a program's own gradients.
Array read_seed(const Request& request, const Recording& recording)
{
    files::NamedArrays arrays = files::read_npz(request.seed);
    if (arrays.size() > 1) {
        const Step& of = recording.steps[formula::step_of_gradients(recording, request.of)];
        std::erase_if(arrays, [&](const auto& array) { return !is_gradient_of(array.first, of, recording); });
        if (arrays.size() != 1)
            throw Error(fmt::format("--seed: {} has several arrays, and {} of them are called the gradient of {}: "
                                    "expected one, such as grad.{} or {}.grad",
                                    request.seed.string(), arrays.size(), of.path, of.path, of.path));
    }
    if (arrays.empty())
        throw Error(fmt::format("--seed: {} has no array, expected the gradient to begin with", request.seed.string()));
    return std::move(arrays.begin()->second);
}

/// The trace without the gradients that it has, which are taken anew.
Recording forward_part(const Recording& recording, const std::string& of)
{
    Recording forward = formula::without_gradients(recording);
    const std::string path = of.substr(0, of.find('['));
    if (formula::StepNames(recording).find(path) && !formula::StepNames(forward).find(path))
        throw Error("--of: ", path, " is a gradient, or follows from one; expected a step of the forward pass");
    return forward;
}

/// What the gradients are of: a step, or some of its numbers.
formula::GradientOptions asked_for(const Request& request, const Recording& recording)
{
    formula::GradientOptions options{.of = request.of};
    const std::size_t bracket = request.of.find('[');
    if (bracket != std::string::npos) {
        const formula::ExplainedCells cells = formula::find_cells(recording, request.of);
        options.of = cells.step->path;
        options.seed = Array{cells.step->value.shape, std::vector<double>(cells.step->value.size())};
        for (const std::size_t offset : cells.offsets)
            options.seed->values[offset] = 1;
    }
    if (request.seed.empty())
        return options;
    if (bracket != std::string::npos)
        throw Error("--seed: --of ", request.of, " says where the gradient begins already");
    options.seed = read_seed(request, recording);
    return options;
}

/// The Euclidean length of all numbers.
double norm_of(const Array& array)
{
    double square = 0;
    for (const double value : array.values)
        square += value * value;
    return std::sqrt(square);
}

void print_inputs(const Recording& result)
{
    const formula::StepNames names(result);
    std::size_t width = 0;
    std::vector<const Step*> inputs;
    for (const Step& step : result.steps)
        if (step.formula.empty() && !step.path.starts_with(formula::gradient_scope) &&
            step.value.type == ElementType::real)
            if (const auto found = names.find(std::string(formula::gradient_scope).append(step.path))) {
                inputs.push_back(&result.steps[*found]);
                width = std::max(width, inputs.back()->path.size());
            }
    for (const Step* gradient : inputs)
        print("{:{}}  {:16}  norm {:.6g}\n", gradient->path, width, to_string(gradient->value.shape),
              norm_of(gradient->value));
}

/// @return whether all agree
bool print_checks(const Recording& result)
{
    const std::vector<formula::GradientCheck> checks = formula::check_gradients(result);
    std::size_t wrong = 0;
    for (const formula::GradientCheck& check : checks) {
        wrong += check.agrees() ? 0 : 1;
        print("{}  {}: {:.15g} by the gradient, {:.15g} by differences, which can be off by {:.2g}\n",
              check.agrees() ? "agrees " : "DIFFERS", check.input, check.by_gradient, check.by_differences,
              check.error);
    }
    print("{} inputs checked by central differences along random directions, {} differ\n", checks.size(), wrong);
    return wrong == 0;
}

int take_gradients(const Request& request)
{
    expect_not_replaced("-o", request.output, {request.trace, request.seed});
    const BudgetScope budget{budget_for(request.budget, {request.trace})};
    const Recording recording = forward_part(files::read_trace(request.trace), request.of);
    const formula::GradientOptions options = asked_for(request, recording);
    const Recording result =
        files::about_file(request.trace, "", [&] { return formula::gradients(recording, options); });
    if (!request.output.empty())
        files::write_trace(request.output, result);
    print_inputs(result);
    const std::string& of = result.steps[recording.steps.size()].path;
    print("{}{} steps on the way back from {}\n", request.output.empty() ? "" : request.output.string() + ": ",
          result.steps.size() - recording.steps.size(), of.substr(formula::gradient_scope.size()));
    return !request.checks || print_checks(result) ? 0 : 1;
}

} // namespace

Command grad_command()
{
    const auto request = std::make_shared<Request>();
    return {.name = "grad",
            .summary = "walk a trace backwards: the gradients of every step, as steps",
            .groups =
                {{"Arguments", {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"}}},
                 {"What to derive",
                  {{"--of", "STEP[INDEX]", request->of,
                    "a step, or some of its numbers, such as logits[-1,42] (default: output, else the last step); the "
                    "gradients are those of their sum"},
                   {"--seed", "FILE.npz", request->seed,
                    "one array, the gradient of that step to begin with, such as that of a loss; or a program's own "
                    "gradients, "
                    "with one called grad.output, output.grad or dout"}}},
                 {"What to do",
                  {{"-o,--output", "GRADS.npz", request->output,
                    "the trace with the gradients after it, in place of those that it has; verify, explain, view, "
                    "graph and diff read it"},
                   {"--check", "", request->checks,
                    "compare the gradient of each input with central differences; exit code 1 where one differs"},
                   budget_flag(request->budget)}}},
            .run = [request] { return take_gradients(*request); }};
}

} // namespace attn::cli
