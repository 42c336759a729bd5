#pragma once

#include "inputs.hpp"

#include "attn/cli/flags.hpp"
#include "attn/files/weights/state_dict.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace attn::cli {

/// What one run of a module uses.
struct ModuleRun {
    const Inputs& inputs;
    files::NamedArrays& arrays; ///< of weights, which it can take; none where it takes none, or was given none
    const Trace& trace;
    std::vector<files::Parameter>& learned;    ///< what the module makes of the arrays
    const std::filesystem::path& weights_path; ///< where the arrays are from
    bool has_config;                           ///< false where the flags alone say what is computed

    /// An input, which becomes a step under its name.
    template <Traceable T>
    T input(std::string_view name) const
    {
        return trace.input(inputs.label(name), inputs.get<T>(name));
    }

    /// The weights, listed among what is learned.
    template <class Weights>
    Weights load(const files::AxisSizes& sizes, const files::LoadOptions& options = {}) const
    {
        return list(files::load_weights<Weights>(arrays, sizes, options));
    }
    template <class Weights>
    Weights list(Weights weights) const
    {
        learned = files::parameters(weights);
        return weights;
    }
};

/// Whether a module has learned weights.
enum class Weights { none, optional, required };

/// The description of a module of `attn run`.
///
/// Its inputs become steps under their names, and its result is the step `output`.
struct Module {
    std::string name;    ///< "encoder-layer"
    std::string summary; ///< in one line
    std::vector<ModuleInput> inputs;
    Weights weights = Weights::required;
    std::string what_weights = "the module's state_dict"; ///< for --help
    /// Where the weights are a folder with config.json: what it and its tensors describe, line by line, for --dry-run; empty for
    /// others.
    /// @throws Error, WeightsError as run
    std::function<std::vector<std::string>(const std::filesystem::path& folder, const files::NamedArrays& arrays)>
        describe_folder = {};
    /// Where the weights are such a folder: which of its tensors flags ask for.
    /// @throws Error as run
    std::function<files::NameFilter(const std::filesystem::path& folder)> needed_tensors = {};
    std::vector<Flag> flags = {};
    /// Refuses flags that contradict each other or have no effect, before any file is read.
    /// @throws Error
    std::function<void(bool has_weights)> check = [](bool) {};
    /// What its flags name beside input and weights, which a trace must not replace.
    std::function<std::vector<std::filesystem::path>()> files_read = [] {
        return std::vector<std::filesystem::path>();
    };
    /// @throws Error         where inputs are unusable
    /// @throws WeightsError  where weights do not fit
    /// @throws ShapeError    where inputs disagree
    std::function<void(const ModuleRun& run)> run;
};

/// All modules, each with flags of its own.
std::vector<Module> modules();

/// Runs a function on an input that is one sequence, a Matrix, or a batch, a Tensor3.
template <class Work>
std::function<void(const ModuleRun&)> with_tokens(std::string name, Work work)
{
    return [name = std::move(name), work = std::move(work)](const ModuleRun& run) {
        if (run.inputs.rank(name, 2, 3, "a sequence (n, d) or a batch of sequences (b, n, d)") == 3)
            work(run.input<Tensor3>(name), run);
        else
            work(run.input<Matrix>(name), run);
    };
}

/// Runs a function on an input that is of one sequence, a Matrix, of a batch, a Tensor3, or of its heads, a Tensor4.
template <class Work>
std::function<void(const ModuleRun&)> with_heads(std::string name, Work work)
{
    return [name = std::move(name), work = std::move(work)](const ModuleRun& run) {
        const std::size_t rank =
            run.inputs.rank(name, 2, 4, "two axes, three with those of a batch, or four with heads");
        if (rank == 2)
            work(run.input<Matrix>(name), run);
        else if (rank == 3)
            work(run.input<Tensor3>(name), run);
        else
            work(run.input<Tensor4>(name), run);
    };
}

/// Runs a function on ids, of one sequence, Integers, or of a batch, IntegerMatrix.
template <class Work>
std::function<void(const ModuleRun&)> with_ids(Work work)
{
    return [work = std::move(work)](const ModuleRun& run) {
        if (run.inputs.rank("ids", 1, 2, "one sequence (n,) or a batch (b, n)") == 1)
            work(run.input<Integers>("ids"), run);
        else
            work(run.input<IntegerMatrix>("ids"), run);
    };
}

template <Sequence T>
std::size_t features(const T& tokens)
{
    return tokens.shape(feature_axis<T>);
}

/// Weights are looked for by d_model, which the tokens decide.
template <Sequence T>
files::AxisSizes d_model(const T& tokens)
{
    return {{"d_model", features(tokens)}};
}

} // namespace attn::cli
