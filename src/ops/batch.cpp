#include "attn/ops/batch.hpp"

#include "attn/shape.hpp"

#include <algorithm>
#include <string>

namespace attn {

Matrix tokens_of(const Tensor3& batch)
{
    Matrix tokens(Matrix::shape_type{batch.shape(0) * batch.shape(1), batch.shape(2)});
    std::copy(batch.begin(), batch.end(), tokens.begin());
    return tokens;
}

Tensor3 batch_of(const Matrix& tokens, std::size_t sequences, std::size_t length)
{
    if (sequences * length != tokens.shape(0))
        throw ShapeError("batch_of: tokens " + to_string(shape_of(tokens)) + " are not " + std::to_string(sequences) +
                         " sequences of " + std::to_string(length));
    Tensor3 batch(Tensor3::shape_type{sequences, length, tokens.shape(1)});
    std::copy(tokens.begin(), tokens.end(), batch.begin());
    return batch;
}

} // namespace attn
