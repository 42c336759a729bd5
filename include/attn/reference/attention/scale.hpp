#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace attn {

/// What scores are multiplied by, and how formulas and options say it: 1/sqrt(d_k) unless another factor is given, so that the
/// size of scores does not grow with d_k.
/// @{
double scale_factor(const std::optional<double>& given, std::size_t d_k);
/// "scores / sqrt(keys.shape[-1])", or with a given factor "scores * 0.5". In place of the step `scores` another expression can
/// stand, such as "queries @ keys.T".
std::string scale_formula(const std::optional<double>& given, std::string_view scores = "scores");
/// "1/sqrt(d_k)", or "0.5"
std::string describe_scale(const std::optional<double>& given);
/// @}

} // namespace attn
