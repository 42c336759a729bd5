#pragma once

// What arrives at the factors of a product, and how gradients are recorded.

#include "attn/core/step_name.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>

namespace attn {

//! [left]
/// C = A B. What arrives at A: dA[i, k] is the sum over j of dC[i, j] B[k, j].
inline Term<Matrix> gradient_of_left(const Term<Matrix>& arriving,
                                     const Term<Matrix>& right)
{
    Matrix left = xt::zeros<double>({arriving.shape(0), right.shape(0)});
    for (std::size_t i = 0; i < arriving.shape(0); ++i)
        for (std::size_t k = 0; k < right.shape(0); ++k)
            for (std::size_t j = 0; j < right.shape(1); ++j)
                left(i, k) += (*arriving)(i, j) * (*right)(k, j);
    return {std::move(left), matmul(arriving, transpose(right)).wording()};
}
//! [left]

//! [right]
/// C = A B. What arrives at B: dB[k, j] is the sum over i of A[i, k] dC[i, j].
inline Term<Matrix> gradient_of_right(const Term<Matrix>& left,
                                      const Term<Matrix>& arriving)
{
    Matrix right = xt::zeros<double>({left.shape(1), arriving.shape(1)});
    for (std::size_t i = 0; i < left.shape(0); ++i)
        for (std::size_t k = 0; k < left.shape(1); ++k)
            for (std::size_t j = 0; j < arriving.shape(1); ++j)
                right(k, j) += (*left)(i, k) * (*arriving)(i, j);
    return {std::move(right), matmul(transpose(left), arriving).wording()};
}
//! [right]

/// Records gradients. The formula of a gradient stands in the scope of the step that it is
/// the gradient of, and calls the gradients of that scope grad.scaled and so on.
struct GradientTrace {
    const Trace& steps;     ///< where the steps are
    const Trace& gradients; ///< where their gradients go
    std::string inside =
        {}; ///< the scope of these gradients in that of the step: "from."

    Term<Matrix> operator()(std::string_view step, const Term<Matrix>& gradient) const
    {
        return (*this)(step, steps.say(gradient.wording()), gradient);
    }

    Term<Matrix> operator()(std::string_view step, std::string_view formula,
                            const Term<Matrix>& gradient) const
    {
        return {gradients(step, formula, gradient),
                steps.worded("grad." + inside + parse_step_label(step).name)};
    }
};

} // namespace attn
