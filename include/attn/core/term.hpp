#pragma once

#include "attn/core/tensor.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn {

class Listener;

/// How a formula says a term, where somebody listens: "weights @ values". The names of steps stand in it by their paths, so that every
/// scope can say them as its own formulas find them.
struct Wording {
    /// How tightly the outermost operator binds, as in Python.
    enum Binding { compares, joins, meets, adds, multiplies, negates, raises, is_whole };

    Listener* listener =
        nullptr; ///< who has the steps; nullptr where nobody listens, and where no step has the numbers
    std::string text = {};
    Binding binding = is_whole;

    /// The name of a step, by its path.
    static Wording of_step(Listener& listener, std::string_view path);

    /// The path of the step that this is the name of; empty where it is more than a name.
    std::string_view path() const;
    /// The text with other names for the paths of steps.
    std::string with_names(const std::function<std::string(std::string_view path)>& name_of) const;
};

/// @name How operations say their result; nobody can where nobody, or somebody else, has the steps of an operand
/// @{
Wording operator_between(const Wording& left, std::string_view sign, const Wording& right, Wording::Binding binding);
/// @param after  "[..., 0:2]", ".T"
Wording with_suffix(const Wording& term, std::string_view after);
/// "table[ids]"
Wording with_index(const Wording& term, const Wording& index);
/// "-x"
Wording with_prefix(std::string_view sign, const Wording& term);
/// "x ** 2"
Wording with_power(const Wording& term, std::string_view power);
/// @param after  what follows the operands: "axis=-1"
Wording call_of(std::string_view function, const std::vector<Wording>& operands, std::string_view after = {});
/// A number is said with every digit.
Wording wording_of(double number, const Wording& beside);
/// @}

/// Numbers, and how a formula says them: a step by its name, or what was computed of steps and is not one yet.
///
///     const Term scores = trace("scores[(b,) n, m]", matmul(queries, transpose(keys)));
///
/// The text is made only where there is a listener. Copies share the numbers, which never change.
template <Traceable T>
class Term {
public:
    Term() = default;
    /// Numbers that no step has. What outlives the term is not copied.
    explicit Term(const T& value) : value_(std::shared_ptr<const T>(), &value) {}
    explicit Term(T&& value) : value_(std::make_shared<T>(std::move(value))) {}
    Term(T&& value, Wording wording) : Term(std::move(value)) { wording_ = std::move(wording); }
    /// The same numbers, said otherwise.
    Term(const Term& same, Wording wording) : value_(same.value_), wording_(std::move(wording)) {}

    const T& operator*() const& { return *value_; }
    T operator*() && { return std::move(*this).take(); }
    const T* operator->() const { return value_.get(); }
    explicit operator T() const& { return *value_; }
    explicit operator T() && { return std::move(*this).take(); }

    /// The numbers, in their storage where no other term has them.
    T take() &&
    {
        if (value_.use_count() == 1) // made by make_shared, as something that is not const
            return std::move(const_cast<T&>(*value_));
        return *value_;
    }

    const Wording& wording() const { return wording_; }

    const auto& shape() const { return value_->shape(); }
    std::size_t shape(std::size_t axis) const { return value_->shape(axis); }
    std::size_t size() const { return value_->size(); }

private:
    std::shared_ptr<const T> value_;
    Wording wording_;
};

/// For explicit instantiations: INSTANTIATE(T) for one sequence and for a batch, as tensors and as terms.
#define ATTN_FOR_SEQUENCES(INSTANTIATE)                                                                                \
    INSTANTIATE(Matrix) INSTANTIATE(Tensor3) INSTANTIATE(Term<Matrix>) INSTANTIATE(Term<Tensor3>)

/// The same of a function template of one name: ATTN_MAKE_FOR_SEQUENCES(layer_norm)
#define ATTN_MAKE_FOR_SEQUENCES(function)                                                                              \
    template decltype(function<Matrix>) function<Matrix>;                                                              \
    template decltype(function<Tensor3>) function<Tensor3>;                                                            \
    template decltype(function<Term<Matrix>>) function<Term<Matrix>>;                                                  \
    template decltype(function<Term<Tensor3>>) function<Term<Tensor3>>;

} // namespace attn
