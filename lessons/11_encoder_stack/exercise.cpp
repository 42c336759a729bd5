// Exercise 11: count the parameters of an encoder.
//
// Run exercise_11_encoder_stack until it succeeds.

#include "exercise.hpp"

std::size_t my_parameter_count(std::size_t /*layers*/, std::size_t /*d_model*/,
                               std::size_t /*d_ff*/)
{
    // Yours. The number of heads does not matter: why?
    return 0;
}
