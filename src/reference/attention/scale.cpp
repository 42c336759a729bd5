#include "attn/reference/attention/scale.hpp"

#include "attn/core/shape.hpp"

#include <cmath>

namespace attn {

double scale_factor(const std::optional<double>& given, std::size_t d_k)
{
    return given.value_or(1.0 / std::sqrt(static_cast<double>(d_k)));
}

std::string scale_formula(const std::optional<double>& given, std::string_view scores)
{
    return std::string(scores) + (given ? " * " + exact_text(*given) : " / sqrt(keys.shape[-1])");
}

std::string describe_scale(const std::optional<double>& given) { return given ? exact_text(*given) : "1/sqrt(d_k)"; }

} // namespace attn
