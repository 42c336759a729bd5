#pragma once

#include "attn/reference/ops/float_product.hpp"

#include <cstddef>
#include <type_traits>
#include <vector>

/// Parts of networks, forwards and backwards, in float32, and in double to tell rounding from mistakes. They add in an
/// order that depends on the sizes alone.
namespace attn::train {

/// What is read; another argument says the type of its numbers.
template <class Number>
using Given = BasicView<const std::type_identity_t<Number>>;
template <class Number>
using As = std::type_identity_t<Number>;

/// Softmax of the first `count` numbers of a row, in place; the rest becomes zero.
template <class Number>
void softmax_row(Number* row, std::size_t count, std::size_t width);

/// The sum of the products of entry with entry.
template <class Number>
Number dot(const Number* left, const Number* right, std::size_t count);

/// into += factor * from
template <class Number>
void add(Number* into, const Number* from, std::size_t count, As<Number> factor = 1);

/// The gradient of softmax's input: weights * (grad - dot(grad, weights)) * scale, in place of the weights.
/// @param grad  of softmax's output
template <class Number>
void softmax_backward_row(Number* weights, const Number* grad, std::size_t count, As<Number> scale);

/// Layer norm of each row, and what its way back needs.
template <class Number>
struct Norm {
    Given<Number> gain, bias; ///< (1, d)

    /// @param normal   gets the rows with mean 0 and variance 1
    /// @param inverse  gets 1 / sqrt(variance + epsilon) of each row
    void forward(const BasicView<Number>& x, Number epsilon, const BasicView<Number>& normal,
                 std::vector<Number>& inverse, const BasicView<Number>& output) const;
    /// @param grad       of the output, (n, d)
    /// @param grad_gain  gets a sum, as does grad_bias
    /// @param grad_x     is added to
    void backward(const BasicView<Number>& grad, const BasicView<Number>& normal, const std::vector<Number>& inverse,
                  const BasicView<Number>& grad_gain, const BasicView<Number>& grad_bias,
                  const BasicView<Number>& grad_x) const;
};

/// y = x W + b
template <class Number>
void linear(const Given<Number>& x, const Given<Number>& weight, const Given<Number>& bias,
            const BasicView<Number>& output);
/// @param grad_x  becomes the gradient of x, or has it added
template <class Number>
void linear_backward(const Given<Number>& grad, const Given<Number>& x, const Given<Number>& weight,
                     const BasicView<Number>& grad_weight, const BasicView<Number>& grad_bias,
                     const BasicView<Number>& grad_x, Accumulate accumulate);

/// Cross-entropy of one row of logits, which become softmax(logits) less the target's one, times a factor: the gradient.
/// @return the loss
template <class Number>
double cross_entropy_row(Number* logits, std::size_t classes, std::size_t target, double smoothing, As<Number> factor);

} // namespace attn::train
