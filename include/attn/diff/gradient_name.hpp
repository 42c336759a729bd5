#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attn::diff {

/// The path that an array's name gives the gradient of a step: "grad.x" for x.grad, grads.x, grad_x, x_grad, gradX,
/// d_x, dL_dx, dx and delta_x. After a plain d has to come a capital letter or words that programs have for steps: dWq
/// and dscores, not dropout.
/// @return nothing where the name says no gradient
std::optional<std::string> gradient_name(std::string_view name);

} // namespace attn::diff
