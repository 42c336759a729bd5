#pragma once

#include "../ops/float_product.hpp"

#include <cstddef>
#include <span>
#include <vector>

/// Parts of networks in float32, forwards and backwards. They add in an order that depends on the sizes alone.
namespace attn::train {

/// Softmax of the first `count` numbers of a row, in place; the rest becomes zero.
void softmax_row(float* row, std::size_t count, std::size_t width);

/// The sum of the products of entry with entry.
float dot(const float* left, const float* right, std::size_t count);

/// into += factor * from
void add(float* into, const float* from, std::size_t count, float factor = 1);

/// The gradient of softmax's input: weights * (grad - dot(grad, weights)) * scale, in place of the weights.
/// @param grad  of softmax's output
void softmax_backward_row(float* weights, const float* grad, std::size_t count, float scale);

/// Layer norm of each row, and what its way back needs.
struct Norm {
    ConstView gain, bias; ///< (1, d)

    /// @param normal   gets the rows with mean 0 and variance 1
    /// @param inverse  gets 1 / sqrt(variance + epsilon) of each row
    void forward(const View& x, float epsilon, const View& normal, std::vector<float>& inverse,
                 const View& output) const;
    /// @param grad       of the output, (n, d)
    /// @param grad_gain  gets a sum, as does grad_bias
    /// @param grad_x     is added to
    void backward(const View& grad, const View& normal, const std::vector<float>& inverse, const View& grad_gain,
                  const View& grad_bias, const View& grad_x) const;
};

/// y = x W + b
void linear(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& output);
/// @param grad_x  becomes the gradient of x, or has it added
void linear_backward(const ConstView& grad, const ConstView& x, const ConstView& weight, const View& grad_weight,
                     const View& grad_bias, const View& grad_x, Into what_is_there);

/// Cross-entropy of one row of logits, which become softmax(logits) less the target's one, times a factor: the gradient.
/// @return the loss
double cross_entropy_row(float* logits, std::size_t classes, std::size_t target, double smoothing, float factor);

} // namespace attn::train
