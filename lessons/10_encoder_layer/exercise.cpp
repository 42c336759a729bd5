// Exercise 10: a pre-norm encoder layer, made of the parts of the library.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 10

#include "exercise.hpp"

using namespace attn;

Matrix my_pre_norm_layer(const Matrix& x, const EncoderLayerWeights& /*weights*/,
                         std::size_t /*heads*/)
{
    // To do, for both blocks, attention and the feed-forward network: normalise the
    // input, apply the block to the normalised input, and add its output to the input
    // before norm.
    return xt::zeros<double>(x.shape());
}
