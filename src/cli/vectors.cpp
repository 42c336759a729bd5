#include "commands.hpp"
#include "modules/module.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/files/file.hpp"
#include "attn/vectors/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace attn::cli {
namespace {

struct Request {
    std::size_t seed = 1;
    std::filesystem::path output;
};

files::NamedArrays named(const vectors::Arrays& arrays) { return {arrays.begin(), arrays.end()}; }

/// The flag that a parameter is, and its value as a command line has it.
std::pair<std::string, std::string> flag_of(const std::string& parameter, const vectors::Json& value)
{
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (parameter == "causal") // the flag is called after what it adds to: the input mask
        return {"--mask", text == "bottom-right" ? "causal" : "causal-" + text};
    std::string flag = "--" + parameter;
    std::ranges::replace(flag, '_', '-');
    return {flag, text};
}

Recording run_module(const std::string& name, const vectors::Json& parameters, const vectors::Arrays& inputs,
                     const vectors::Arrays& weights)
{
    const std::vector<Module> all = modules(); // with flags of their own
    const auto module = std::ranges::find(all, name, &Module::name);
    if (module == all.end())
        throw std::logic_error("there is no module " + name);
    for (const auto& [parameter, value] : parameters.items()) {
        const auto [flag, text] = flag_of(parameter, value);
        const auto found = std::ranges::find(module->flags, flag, &Flag::name);
        if (found == module->flags.end())
            throw std::logic_error(name + " has no flag " + flag);
        found->value.take(text);
    }
    module->check(!weights.empty());
    const files::NamedArrays input_arrays = named(inputs), weight_arrays = named(weights);
    Recorder recorder;
    const Trace trace(recorder);
    std::vector<files::Parameter> learned;
    module->run({Inputs(input_arrays, *module), weight_arrays, trace, learned, {}, false});
    return recorder.recording();
}

int make(const Request& request)
{
    std::filesystem::create_directories(request.output);
    std::size_t cases = 0, bytes = 0;
    for (const vectors::File& file : vectors::make_vectors(request.seed, run_module)) {
        const std::string json = vectors::to_json(file, ATTN_VERSION);
        files::write_file(request.output / (file.name + ".json"), json);
        for (const vectors::Group& group : file.groups)
            cases += group.cases.size();
        bytes += json.size();
        print("{:7}  {}\n", json.size(), file.name);
    }
    print("{} cases, {} bytes\n", cases, bytes);
    return 0;
}

} // namespace

Command vectors_command()
{
    const auto request = std::make_shared<Request>();
    return {.name = "vectors",
            .summary = "test vectors that name mistakes: make them, or check a program by them",
            .groups = {{"To make them",
                        {{"--seed", "S", whole_number(request->seed, 0), "of their numbers: others are of the same kind"},
                         {"-o,--output", "FOLDER", request->output, "where the files are written to", true}}}},
            .run = [request] { return make(*request); }};
}

} // namespace attn::cli
