#include "attn/ops/concat.hpp"

#include "attn/shape.hpp"

#include <algorithm>

namespace attn {

Vector concat(const Vector& first, const Vector& second)
{
    Vector both = xt::zeros<double>({first.size() + second.size()});
    std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), both.begin()));
    return both;
}

Matrix concat_rows(const Matrix& first, const Matrix& second)
{
    expect_agreement("concat_rows", "d", {"first", first, 1}, {"second", second, 1});
    Matrix both = xt::zeros<double>({first.shape(0) + second.shape(0), first.shape(1)});
    std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), both.begin()));
    return both;
}

} // namespace attn
