// Exercise 31: keys in fewer bits, with a scale for each channel.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 31

#include "exercise.hpp"

using namespace attn;

Matrix my_stored_keys(const Matrix& keys, double /*largest_code*/)
{
    // To do. Which numbers share a scale? What is a code of one worth? What is read back
    // from a code?
    return xt::zeros_like(keys);
}
