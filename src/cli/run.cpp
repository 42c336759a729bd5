#include "commands.hpp"
#include "modules/module.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/files/weights/rename.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/overflow.hpp"
#include "attn/formula/scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace attn::cli {
namespace {

/// The values of a command line, except the module's own flags.
struct Request {
    show::ConsoleFlags console;
    mistakes::InterventionFlags interventions;
    std::filesystem::path input, weights, trace;
    std::string prefix;
    std::vector<std::string> renames, only;
    bool parameters = false, is_without_config = false, is_dry = false;
};

// ---------------------------------------------------------------------------------------------------------- parameters

std::string grouped(std::size_t number)
{
    std::string text = std::to_string(number);
    for (std::size_t i = text.size(); i > 3; i -= 3)
        text.insert(i - 3, ",");
    return text;
}

void print_parameters(const std::vector<files::Parameter>& parameters)
{
    std::vector<std::array<std::string, 3>> rows{{"name", "shape", "count"}};
    for (const files::Parameter& parameter : parameters)
        rows.push_back({parameter.name, to_string(parameter.shape), grouped(parameter.count())});
    rows.push_back({"total", "", grouped(files::total(parameters))});
    std::array<std::size_t, 3> widths{};
    for (const auto& row : rows)
        for (std::size_t i = 0; i < widths.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    for (const auto& [name, shape, count] : rows)
        print("{:<{}}  {:<{}}  {:>{}}\n", name, widths[0], shape, widths[1], count, widths[2]);
}

// ------------------------------------------------------------------------------------------------------ what is kept

/// @param pattern  in which a * stands for any text
bool fits(std::string_view path, std::string_view pattern)
{
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos)
        return path == pattern;
    if (!path.starts_with(pattern.substr(0, star)))
        return false;
    for (path.remove_prefix(star), pattern.remove_prefix(star + 1); !path.empty(); path.remove_prefix(1))
        if (fits(path, pattern))
            return true;
    return fits(path, pattern);
}

/// Passes on the steps that --only names, and their other names. A step whose formula uses one that is left out becomes an input.
class ChosenSteps final : public Listener {
public:
    ChosenSteps(const std::vector<std::string>& patterns, Listener& next) : patterns_(patterns), next_(next) {}

    /// @throws Error where a pattern fits no step
    void expect_all_used() const
    {
        for (const std::string& pattern : patterns_)
            if (!used_.contains(pattern)) {
                const auto alias = aliases_.find(pattern);
                throw Error("--only ", pattern,
                            (alias == aliases_.end()
                                 ? " fits no step"
                                 : " is another name of " + alias->second + ": give --only " + alias->second));
            }
    }

private:
    bool is_chosen(const std::string& path)
    {
        bool is_one = false;
        for (const std::string& pattern : patterns_)
            if (fits(path, pattern)) {
                used_.insert(pattern);
                is_one = true;
            }
        return is_one;
    }

    bool has_operands(const Step& step) const
    {
        if (step.formula.empty())
            return true;
        return std::ranges::all_of(formula::names_in(step.formula), [&](const formula::UsedName& used) {
            const auto operand =
                formula::resolve(step.path, used.name, [&](const std::string& path) { return find(path); });
            return operand && next_.find(*operand);
        });
    }

    std::optional<Array> on_step(const Step& step) override
    {
        if (!is_chosen(step.path))
            return std::nullopt;
        if (has_operands(step))
            return next_.record(step);
        Step input = step;
        input.formula.clear();
        return next_.record(input);
    }

    void on_alias(const Alias& alias) override
    {
        aliases_.emplace(alias.path, alias.target);
        if (next_.find(alias.target))
            next_.record(alias);
    }

    const std::vector<std::string>& patterns_;
    Listener& next_;
    std::set<std::string> used_;
    std::map<std::string, std::string> aliases_;
};

// ----------------------------------------------------------------------------------------------------------------- run

/// Weights, under the names that --rename gives, and rounded where --round is given.
files::NamedArrays read_weights(const Module& module, const Request& request)
{
    if (request.weights.empty())
        return {};
    const bool are_all_needed = !module.needed_tensors || !request.renames.empty(); // whose names nobody knows yet
    files::NamedArrays arrays = files::read_weights(
        request.weights, request.prefix, are_all_needed ? files::any_name : module.needed_tensors(request.weights));
    try {
        arrays = files::rename_tensors(std::move(arrays), request.renames);
    } catch (const Error& error) {
        throw Error(request.weights.string(), ": --rename: ", error.what());
    }
    for (auto& [name, array] : arrays)
        if (request.interventions.round && array.type == ElementType::real)
            for (double& value : array.values)
                value = rounded_to(*request.interventions.round, value);
    return arrays;
}

/// A model's configuration says what its weights alone can't tell, such as a norm that adds one to its gain. A module that
/// does not read it could compute another model.
void expect_no_config(const std::filesystem::path& weights)
{
    const std::filesystem::path config = weights.parent_path() / "config.json";
    if (!std::filesystem::exists(config) || !files::read_json_object(config, "a configuration").contains("model_type"))
        return;
    throw Error(config.string(), " describes a whole model: give its folder to attn run model, which reads it. Or give "
                                 "--without-config: then the flags alone say what is computed");
}

/// Runs a module, and says which file is at fault where it can't.
int run(const Module& module, const Request& request)
{
    module.check(!request.weights.empty());
    if (request.is_dry) {
        for (const std::string& line : module.describe_folder(request.weights, read_weights(module, request)))
            print("{}\n", line);
        return 0;
    }
    if (request.input.empty())
        throw Error("--input is missing: an .npz file with the arrays that ", module.name, " takes (see --help)");
    expect_not_replaced("--trace", request.trace, {request.input, request.weights});
    for (const std::filesystem::path& file : module.files_read())
        expect_not_replaced("--trace", request.trace, {file});
    if (!request.weights.empty() && !module.describe_folder && !request.is_without_config)
        expect_no_config(request.weights);
    const files::NamedArrays arrays = files::read_npz(request.input);
    files::NamedArrays weights = read_weights(module, request);

    formula::OverflowWatch overflows;
    show::ConsoleListener console(show::standard_output(request.console), show::style_of(request.console));
    std::optional<files::TraceWriter> file;
    std::optional<ChosenSteps> chosen;
    if (!request.trace.empty())
        file.emplace(request.trace);
    if (file && !request.only.empty())
        chosen.emplace(request.only, *file);
    const mistakes::Interventions interventions(request.interventions);
    std::vector<Listener*> kept{&overflows};
    if (chosen)
        kept.push_back(&*chosen);
    else if (file)
        kept.push_back(&*file);
    if (!request.parameters)
        kept.push_back(&console);
    Listeners listeners(interventions.before(kept));
    const Trace trace(listeners);
    std::vector<files::Parameter> learned;
    try {
        const Inputs inputs(arrays, module, request.interventions.round);
        module.run({inputs, weights, trace, learned, request.weights, !request.is_without_config});
    } catch (const files::FileError&) {
        throw;
    } catch (const files::WeightsError& error) {
        throw ErrorList(printable(request.weights.string()) + ": " + error.what());
    } catch (const InputNamesError& error) {
        throw Error(request.input.string(), " ", error.what());
    } catch (const Error& error) {
        throw Error(request.input.string(), ": ", error.what());
    }
    interventions.expect_effect();
    if (chosen)
        chosen->expect_all_used();
    if (const auto overflow = overflows.found(); overflow && request.interventions.pitfall.empty())
        print_error("attn run", Error("warning: " + request.input.string() + ": " + formula::to_text(*overflow)));
    if (request.parameters)
        print_parameters(learned);
    if (file)
        file->finish();
    return 0;
}

// -------------------------------------------------------------------------------------------------------- command line

std::string inputs_text(const Module& module)
{
    std::string text = "Input, arrays by name:\n";
    for (const ModuleInput& input : module.inputs) {
        const bool is_single = input.axes.find(',') == std::string::npos;
        const std::string help = (input.is_required ? "" : "(optional) ") + input.help;
        text += fmt::format("  {:<15} {:<26}{}", input.name, "(" + input.axes + (is_single ? ",)" : ")"), help);
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text + "Axes: b sequences of a batch, h heads, n queries, m keys. The result is the step output.\n";
}

FlagGroup file_flags(const Module& module, Request& request)
{
    const bool is_folder = static_cast<bool>(module.describe_folder);
    FlagGroup files{"Files", {{"--input", "FILE.npz", request.input, "the arrays above", !is_folder}}};
    if (is_folder)
        files.flags.push_back({"--weights", "FOLDER", request.weights,
                               "with config.json and the weights, as save_pretrained() of transformers writes it",
                               true});
    else if (module.weights != Weights::none)
        files.flags.push_back({"--weights", "FILE", request.weights,
                               "a .safetensors or .npz file with " + module.what_weights,
                               module.weights == Weights::required});
    if (is_folder)
        files.flags.push_back(
            {"--dry-run", "", request.is_dry, "print what the folder describes, and compute nothing"});
    else if (module.weights != Weights::none) {
        files.flags.push_back({"--prefix", "NAME.", request.prefix,
                               "take the tensors whose names begin with it, without it", false, "--weights"});
        files.flags.push_back(
            {"--without-config", "", request.is_without_config,
             "compute what the flags say, without a config.json or whatever one beside the weights says "
             "of the model that they are from",
             false, "--weights"});
    }
    if (module.weights != Weights::none) {
        files.flags.push_back({"--rename", "OLD=NEW", request.renames,
                               "read the tensor OLD as NEW; a * stands for any text, in both", false, "--weights"});
        files.flags.push_back({"--parameters", "", request.parameters,
                               "print a table of the weights in place of the steps", false, "--weights"});
    }
    files.flags.push_back({"--trace", "FILE.npz", request.trace, "write every step to this file"});
    files.flags.push_back({"--only", "STEPS", request.only,
                           "write these steps alone: layers.*.output, where a * stands for any text; one that follows "
                           "from a step that is left out becomes an input",
                           false, "--trace"});
    return files;
}

Command command_of(const Module& module)
{
    const auto request = std::make_shared<Request>();
    Command command{.name = module.name, .summary = module.summary, .details = inputs_text(module)};
    command.groups.push_back(file_flags(module, *request));
    if (!module.flags.empty())
        command.groups.push_back({"Module", module.flags});
    command.groups.push_back(intervention_flags(request->interventions));
    if (std::ranges::find(module.flags, "--fast", &Flag::name) != module.flags.end())
        for (Flag& flag : command.groups.back().flags)
            flag.excludes = "--fast"; // whose steps can only be observed
    command.groups.push_back(screen_flags(request->console));
    command.run = [request, module] { return run(module, *request); };
    return command;
}

} // namespace

Command run_command()
{
    Command command{.name = "run", .summary = "run a module on your own numbers, and print every step"};
    for (const Module& module : modules())
        command.commands.push_back(command_of(module));
    return command;
}

} // namespace attn::cli
