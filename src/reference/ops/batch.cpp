#include "attn/reference/ops/batch.hpp"

#include "attn/core/shape.hpp"

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
        throw ShapeError("batch_of: tokens ", shape_of(tokens), " are not ", sequences, " sequences of ", length);
    Tensor3 batch(Tensor3::shape_type{sequences, length, tokens.shape(1)});
    std::copy(tokens.begin(), tokens.end(), batch.begin());
    return batch;
}

Matrix spread(const Vector& numbers, std::size_t features)
{
    Matrix all(Matrix::shape_type{numbers.size(), features});
    for (std::size_t token = 0; token < numbers.size(); ++token)
        std::fill_n(&all(token, 0), features, numbers(token));
    return all;
}

Tensor3 spread(const Matrix& numbers, std::size_t features)
{
    Vector tokens(Vector::shape_type{numbers.size()});
    std::ranges::copy(numbers, tokens.begin());
    return batch_of(spread(tokens, features), numbers.shape(0), numbers.shape(1));
}

} // namespace attn
