#pragma once

#include "attn/tensor.hpp"

#include <concepts>
#include <any>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn {

/// The options that a function ran with, as text, in the order of its struct: {{"scale", "1/sqrt(d_k)"}}.
using StepOptions = std::vector<std::pair<std::string, std::string>>;

/// One named tensor of a computation, as a listener hears it.
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

/// What was heard of a run: its steps, and their other names, in order.
struct Recording {
    std::vector<Step> steps;
    std::vector<Alias> aliases;
};

/// What stands in front of a formula: a step's name and the letters of its axes.
struct StepLabel {
    std::string name;
    std::vector<std::string> axes;
    bool may_be_batch = false; ///< a value with one more axis has the axis b in front of them
};

/// Reads "scores[n, m]" as the name scores and the axes n and m; "scores" has no axes. "scores[(b,) n, m]" may be one
/// sequence's scores or a batch's.
/// @throws std::logic_error where the text is no such label
StepLabel parse_step_label(std::string_view text);

/// Hears the steps of one run, in order, and may answer with another value.
///
/// Listening gives the console, the recorder and the file. Answering gives "what if": the run goes on with the answer.
class Listener {
public:
    virtual ~Listener() = default;

    /// Hears one step.
    /// @return the value to go on with, or nothing to keep the step's own
    /// @throws std::logic_error where the path is taken: every step has a path of its own
    std::optional<Array> hear(const Step& step);

    /// Hears another name of a step.
    /// @throws std::logic_error where the path is taken
    void hear(const Alias& alias);

    /// The path of the step that a path means: its own, or an alias's target; nothing where it was not heard.
    std::optional<std::string_view> heard(std::string_view path) const;

    /// Keeps an answer to an input for as long as this listens, and gives it back.
    template <class T>
    const T& keep(T answer)
    {
        return std::any_cast<const T&>(answers_.emplace_back(std::move(answer)));
    }

private:
    virtual std::optional<Array> on_step(const Step& step) = 0;
    virtual void on_alias(const Alias&) {}

    void take(const std::string& path, const std::string& target);

    std::map<std::string, std::string, std::less<>> targets_; ///< by path; a step's is its own path
    std::deque<std::any> answers_;
};

/// Several listeners as one. Each hears what the ones before it answered.
class Listeners final : public Listener {
public:
    /// @param listeners  not owned; they outlive this
    explicit Listeners(std::vector<Listener*> listeners) : listeners_(std::move(listeners)) {}

private:
    std::optional<Array> on_step(const Step& step) override;
    void on_alias(const Alias& alias) override;

    std::vector<Listener*> listeners_;
};

/// A step's formula: text, or a function that makes the text and is called only when somebody listens.
template <class F>
concept Formula = std::convertible_to<F, std::string_view> || std::is_invocable_r_v<std::string, F>;

/// Names the steps of a computation on the lines of their equations, and passes their values through.
///
///     const Matrix scores = trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
///
/// A tiny immutable handle: who listens, the scope around, the scope's name. The default one has no listener and is
/// the identity: results are bitwise the same, for the price of one branch.
///
/// The value that comes back is the one to go on with: a listener may have answered with another.
///
/// A scope or module points to the trace that it came from, which must outlive it: keep both on the stack.
class Trace {
public:
    /// Nobody listens.
    Trace() = default;

    /// @param listener  not owned; it outlives the trace
    explicit Trace(Listener& listener) : listener_(&listener) {}

    bool has_listener() const { return listener_ != nullptr; }

    /// Names in a child scope that mean steps of the scope around: {{"x", "residual1"}}.
    using Aliases = std::initializer_list<std::pair<std::string_view, std::string_view>>;

    /// A child scope: its steps' paths begin with this one's path, then the name.
    ///
    ///     const Trace norm1 = trace.scope("norm1", {{"x", "residual1"}});
    ///
    /// @param aliases  names in the child scope, and what they mean here, as a formula here would find it
    /// @throws std::logic_error  where somebody listens and a name is malformed, taken, or means no earlier step
    Trace scope(std::string_view name, Aliases aliases = {}) const&;
    /// A numbered child scope, such as the third of several heads: "head.2".
    Trace scope(std::string_view name, std::size_t index, Aliases aliases = {}) const&;
    template <std::same_as<std::string> Temporary>
    Trace scope(Temporary&& name, Aliases aliases = {}) const& = delete; // the name is not copied: it would dangle
    Trace scope(std::string_view name, Aliases aliases = {}) && = delete;
    Trace scope(std::string_view name, std::size_t index, Aliases aliases = {}) && = delete;

    /// Another name, in this scope, for a step: `trace.alias("output", "norm2.output")`.
    /// @param target  as a formula here would find it
    /// @throws std::logic_error  where somebody listens and the name is malformed, taken, or means no earlier step
    void alias(std::string_view name, std::string_view target) const;

    /// The same scope inside a function: its steps say which function computed them, with which options.
    /// @param options  a function that returns StepOptions; called only when somebody listens
    Trace module(std::string_view name, const std::function<StepOptions()>& options = {}) const&;
    Trace module(std::string_view name, const std::function<StepOptions()>& options = {}) && = delete;

    /// Records a step and returns its value, or the listener's answer.
    /// @param step     its name, with the letters of its axes where they have some: "scores[n, m]"
    /// @param formula  how it follows from earlier steps: "queries @ keys.T"
    /// @param value    what the equation gave
    /// @throws std::logic_error  where the name is malformed, taken, or has another number of axes than the value, or
    ///                           the listener answers with another shape
    template <Traceable T, Formula F>
    [[nodiscard]] T operator()(std::string_view step, F&& formula, T value) const
    {
        if (listener_ == nullptr) [[likely]]
            return value;
        return heard(step, text_of(formula), std::move(value));
    }

    /// Records something that a function was given, unless this scope has a name for it already: as a step, or as an
    /// alias.
    /// @return the value to go on with; it lives as long as the given one and the listener do
    /// @throws std::logic_error  as operator() does
    template <Traceable T>
    [[nodiscard]] const T& input(std::string_view step, const T& value) const
    {
        if (listener_ == nullptr) [[likely]]
            return value;
        return input_heard(step, value);
    }
    template <Traceable T>
    [[nodiscard]] T input(std::string_view step, T&& value) const
    {
        return input(step, std::as_const(value)); // a copy: what was given is gone
    }

    /// Records something that is the same for many scopes, such as the mask of all heads, unless this scope or one
    /// around it has a name for it already: a formula finds it there.
    /// @return as input() does
    template <Traceable T>
    [[nodiscard]] const T& shared_input(std::string_view step, const T& value) const
    {
        if (listener_ == nullptr || is_in_scope(step)) [[likely]]
            return value;
        return input_heard(step, value);
    }

private:
    struct Module {
        std::string name;
        StepOptions options;
    };

    template <Formula F>
    static std::string text_of(const F& formula)
    {
        if constexpr (std::convertible_to<F, std::string_view>)
            return std::string(std::string_view(formula));
        else
            return formula();
    }

    template <Traceable T>
    T heard(std::string_view step, std::string formula, T value) const;
    template <Traceable T>
    const T& input_heard(std::string_view step, const T& value) const;

    Step describe(std::string_view step, std::string formula, Array value) const;
    bool is_in_scope(std::string_view step) const;
    std::optional<std::string_view> meaning_of(std::string_view name) const;
    void name_aliases(Aliases aliases, const Trace& around) const;
    std::string path() const;

    Listener* listener_ = nullptr;
    const Trace* parent_ = nullptr;
    std::string_view name_;            ///< of this scope; empty at the root and for a module
    std::optional<std::size_t> index_; ///< of a numbered scope
    std::shared_ptr<const Module> module_;
};

} // namespace attn
