// Exercise 29: positions in a padded batch, and attention through a table of pages.
//
// Write the functions that exercise.hpp describes. They are checked by
//
//     script/exercise 29

#include "exercise.hpp"

using namespace attn;

Matrix my_positions(const Mask& real)
{
    // To do. How many words stand in a row up to and with this place?
    return xt::zeros<double>(real.shape());
}

Vector my_paged_context(const Vector& /*query*/, const Matrix& /*keys*/,
                        const Matrix& values, const Integers& /*table*/,
                        std::size_t /*tokens*/, std::size_t /*size*/)
{
    // To do. In which block is token i, and in which row of it? Which rows of the pool
    // are those of the sequence, and which are not?
    return xt::zeros<double>({values.shape(1)});
}
