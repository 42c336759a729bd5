#pragma once

#include "attn/core/array.hpp"
#include "attn/core/step_name.hpp"

#include <any>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn {

/// The options that a function ran with, as text, in the order of its struct: {{"scale", "1/sqrt(d_k)"}}.
using StepOptions = std::vector<std::pair<std::string, std::string>>;

/// One named tensor of a computation, as a listener gets it.
struct Step {
    std::string path;              ///< scopes and name, dotted: "encoder.layers.0.self_attn.head.1.scores"
    std::string formula;           ///< how it follows from earlier steps (see docs/formulas.md); empty for an input
    std::vector<std::string> axes; ///< the letters of its axes: {"n", "m"}; empty where the caller gave none
    std::string module;            ///< the function that computed it; empty outside of any
    StepOptions options;           ///< what that function ran with
    Array value;
};

/// Another name of a step. It holds no numbers of its own.
struct Alias {
    std::string path;   ///< "norm1.x"
    std::string target; ///< the path of the step that it means: "residual1"
};

/// The recorded steps of a run, and their other names, in order.
///
/// Every step is there by its path, also what a function does not return, such as the attention weights of a layer:
///
///     Recorder recorder;
///     encoder_layer(x, weights, options, Trace(recorder));
///     const auto of_head = from_array<Matrix>(recorder.recording().at("self_attn.head.1.weights").value);
struct Recording {
    std::vector<Step> steps;
    std::vector<Alias> aliases;

    /// The step of that path, its own or another name's; nullptr where there is none. It looks through all steps.
    const Step* find(std::string_view path) const;

    /// The same.
    /// @throws Error where there is none: "no step is called head.1.weight; did you mean head.1.weights?"
    const Step& at(std::string_view path) const;
};

/// A listener gets each step of one run, in order, and can replace its value.
///
/// The console, the recorder and the trace file only listen. An intervention replaces values: the run goes on with them.
class Listener {
public:
    virtual ~Listener() = default;

    /// Takes one step.
    /// @return the value to go on with, or nothing to keep the step's own
    /// @throws std::logic_error where the path is taken: every step has a path of its own
    std::optional<Array> record(const Step& step);

    /// Takes another name of a step.
    /// @throws std::logic_error where the path is taken
    void record(const Alias& alias);

    /// The path of the step that a path means: its own, or an alias's target; nothing where none was recorded.
    std::optional<std::string_view> find(std::string_view path) const;

    /// Keeps what replaces an input for as long as this listens, and gives it back.
    template <class T>
    const T& keep(T replacement)
    {
        return std::any_cast<const T&>(replacements_.emplace_back(std::move(replacement)));
    }

private:
    virtual std::optional<Array> on_step(const Step& step) = 0;
    virtual void on_alias(const Alias&) {}

    void take(const std::string& path, const std::string& target);

    std::map<std::string, std::string, std::less<>> targets_; ///< by path; a step's is its own path
    std::deque<std::any> replacements_;
};

/// Several listeners as one. Each gets the values by which the ones before it replaced others.
class Listeners final : public Listener {
public:
    /// @param listeners  not owned; they outlive this
    explicit Listeners(std::vector<Listener*> listeners) : listeners_(std::move(listeners)) {}

private:
    std::optional<Array> on_step(const Step& step) override;
    void on_alias(const Alias& alias) override;

    std::vector<Listener*> listeners_;
};

} // namespace attn
