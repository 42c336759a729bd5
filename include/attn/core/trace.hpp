#pragma once

#include "attn/core/recording.hpp"
#include "attn/core/tensor.hpp"
#include "attn/core/term.hpp"

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace attn {

/// A step's formula: text, or a function that makes the text and is called only when there is a listener.
template <class F>
concept Formula = std::convertible_to<F, std::string_view> || std::is_invocable_r_v<std::string, F>;

/// Names the steps of a computation on the lines of their equations, and passes their values through.
///
///     const Matrix scores = trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
///
/// A small immutable handle: a listener, the enclosing scope, and the scope's name. The default one has no listener and
/// is the identity: results are bitwise the same, and the cost is one branch.
///
/// Go on with the value that is returned: a listener can have replaced it. What can't go on with it, as
/// the fast engines, which keep their numbers elsewhere, records its steps with an observing() trace.
///
/// A scope points to the trace that it came from, which must outlive it: keep both on the stack.
class Trace {
public:
    /// Without a listener.
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
    /// @throws std::logic_error  where there is a listener and a name is malformed, taken, or means no earlier step
    Trace scope(std::string_view name, Aliases aliases = {}) const&;
    /// A numbered child scope, such as the third of several heads: "head.2".
    Trace scope(std::string_view name, std::size_t index, Aliases aliases = {}) const&;
    template <std::same_as<std::string> Temporary>
    Trace scope(Temporary&& name, Aliases aliases = {}) const& = delete; // the name is not copied: it would dangle
    Trace scope(std::string_view name, Aliases aliases = {}) && = delete;
    Trace scope(std::string_view name, std::size_t index, Aliases aliases = {}) && = delete;

    /// Another name, in this scope, for a step: `trace.alias("output", "norm2.output")`.
    /// @param target  as a formula here would find it
    /// @throws std::logic_error  where there is a listener and the name is malformed, taken, or means no earlier step
    void alias(std::string_view name, std::string_view target) const;
    /// The same for the step that a term is.
    /// @return the term by its other name
    template <Traceable T>
    [[nodiscard]] Term<T> alias(std::string_view name, const Term<T>& term) const
    {
        return listener_ == nullptr ? term : Term<T>(term, aliased(name, term.wording()));
    }

    /// The same scope inside a function: its steps say which function computed them, with which options.
    /// @param options  a function that returns StepOptions; called only when there is a listener
    Trace module(std::string_view name, const std::function<StepOptions()>& options = {}) const;

    /// The same scope, in which no value can be replaced: a listener that replaces one gets a std::logic_error.
    Trace observing() const;

    /// Records a step and returns its value, or the one by which a listener replaced it.
    /// @param step     its name, with the letters of its axes where they have some: "scores[n, m]"
    /// @param formula  how it follows from earlier steps: "queries @ keys.T"
    /// @param value    what the equation gave
    /// @throws std::logic_error  where the name is malformed, taken, or has another number of axes than the value, or
    ///                           the listener replaces it by one of another shape, or in an observing() trace
    template <Traceable T, Formula F>
    [[nodiscard]] T operator()(std::string_view step, F&& formula, T value) const
    {
        if (listener_ == nullptr) [[likely]]
            return value;
        return recorded(step, text_of(formula), std::move(value));
    }

    template <OtherTensor T, Formula F>
    RefusedTensor<T> operator()(std::string_view step, F&& formula, const T& value) const;

    /// Records a term as a step: its formula is how the term is said.
    /// @return the term by the step's name
    /// @throws std::logic_error as above, and where no step has what the term was computed of
    template <Traceable T>
    [[nodiscard]] Term<T> operator()(std::string_view step, Term<T> term) const
    {
        if (listener_ == nullptr) [[likely]]
            return term;
        std::string formula = said(step, term.wording());
        return recorded(step, std::move(formula), std::move(term));
    }

    /// Records a term with a formula of its own, where text and computation differ.
    template <Traceable T, Formula F>
    [[nodiscard]] Term<T> operator()(std::string_view step, F&& formula, Term<T> term) const
    {
        if (listener_ == nullptr) [[likely]]
            return term;
        std::string text = text_of(formula);
        return recorded(step, std::move(text), std::move(term));
    }

    /// Records numbers that follow from nothing: a step without a formula.
    template <Traceable T>
    [[nodiscard]] Term<T> given(std::string_view step, T value) const
    {
        return (*this)(step, "", Term(std::move(value)));
    }

    /// Records an argument of a function, unless this scope has a name for it already, as a step or as an alias.
    /// @return the value to go on with; it lives as long as the given one and the listener do
    /// @throws std::logic_error  as operator() does
    template <Traceable T>
    [[nodiscard]] const T& input(std::string_view step, const T& value) const
    {
        if (listener_ == nullptr) [[likely]]
            return value;
        return recorded_input(step, value);
    }
    template <Traceable T>
    [[nodiscard]] T input(std::string_view step, T&& value) const
    {
        return input(step, std::as_const(value)); // a copy: what was given is gone
    }

    /// The same for a term. One that is a step already gets another name here, since numbers stand in a trace once; one that was computed
    /// of steps becomes a step.
    /// @return the term by its name in this scope
    template <Traceable T>
    [[nodiscard]] Term<T> input(std::string_view step, Term<T> term) const
    {
        if (listener_ == nullptr) [[likely]]
            return term;
        return recorded_input(step, std::move(term));
    }

    /// Records an argument that is the same for many scopes, such as the mask of all heads, unless this scope or one
    /// around it has a name for it already, where a formula finds it.
    /// @return as input() does
    template <Traceable T>
    [[nodiscard]] const T& shared_input(std::string_view step, const T& value) const
    {
        if (listener_ == nullptr || is_in_scope(step)) [[likely]]
            return value;
        return recorded_input(step, value);
    }
    template <Traceable T>
    [[nodiscard]] Term<T> shared_input(std::string_view step, Term<T> term) const
    {
        if (listener_ == nullptr) [[likely]]
            return term;
        if (const auto there = name_in_scope(step))
            return Term<T>(term, Wording::of_step(*listener_, *there));
        return recorded_input(step, std::move(term));
    }

    /// How a formula in this scope says a term.
    std::string say(const Wording& wording) const;
    /// What a name means here, as a formula would find it: a step, or else the name as it is.
    Wording known(std::string_view name) const
    {
        const auto whole = listener_ == nullptr ? std::nullopt : full_name(name);
        return whole ? Wording::of_step(*listener_, *whole) : worded(name);
    }
    /// A text of the formula language as what a formula in this scope says.
    Wording worded(std::string_view text) const { return {listener_, std::string(listener_ ? text : "")}; }

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
    T recorded(std::string_view step, std::string formula, T value) const;
    template <Traceable T>
    const T& recorded_input(std::string_view step, const T& value) const;
    template <Traceable T>
    Term<T> recorded(std::string_view step, std::string formula, Term<T> term) const;
    template <Traceable T>
    Term<T> recorded_input(std::string_view step, Term<T> term) const;

    std::string said(std::string_view step, const Wording& wording) const;
    Wording aliased(std::string_view name, const Wording& target) const;
    std::string relative(std::string_view target) const;
    Step describe(std::string_view step, std::string formula, Array value) const;
    bool is_in_scope(std::string_view step) const { return name_in_scope(step).has_value(); }
    std::optional<std::string> name_in_scope(std::string_view step) const;
    std::optional<std::string> full_name(std::string_view name) const;
    std::optional<std::string_view> meaning_of(std::string_view name) const;
    void name_aliases(Aliases aliases, const Trace& around) const;
    std::string path() const;

    Listener* listener_ = nullptr;
    const Trace* parent_ = nullptr;
    std::string_view name_;            ///< of this scope; empty at the root and for a module
    std::optional<std::size_t> index_; ///< of a numbered scope
    std::shared_ptr<const Module> module_;
    bool is_observing_ = false; ///< nobody can replace a value
};

/// A tensor as the term of that name, which the caller's formulas know it by; a term has its own name.
template <class T>
Term<Value<T>> named(const T& given, std::string_view name, const Trace& trace)
{
    if constexpr (Traceable<T>)
        return {Term(given), trace.known(name)};
    else
        return given;
}

} // namespace attn
