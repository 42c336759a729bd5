#include "11_encoder_stack/exercise.hpp"

std::size_t my_parameter_count(std::size_t layers, std::size_t d_model, std::size_t d_ff)
{
    const std::size_t attention = 4 * (d_model * d_model + d_model);
    const std::size_t feed_forward = 2 * d_model * d_ff + d_ff + d_model;
    const std::size_t norms = 2 * 2 * d_model;
    return layers * (attention + feed_forward + norms);
}
