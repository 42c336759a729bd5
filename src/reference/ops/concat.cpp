#include "attn/reference/ops/concat.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/heads.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace attn {
namespace {

template <class Numbers>
Numbers concatenate(const Numbers& first, const Numbers& second)
{
    Numbers both(typename Numbers::shape_type{first.size() + second.size()});
    std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), both.begin()));
    return both;
}

} // namespace

Vector concat(const Vector& first, const Vector& second) { return concatenate(first, second); }
Integers concat(const Integers& first, const Integers& second) { return concatenate(first, second); }

Matrix concat_rows(const Matrix& first, const Matrix& second)
{
    expect_agreement("concat_rows", "d", {"first", first, 1}, {"second", second, 1});
    Matrix both = xt::zeros<double>({first.shape(0) + second.shape(0), first.shape(1)});
    std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), both.begin()));
    return both;
}

Tensor3 concat_rows(const Tensor3& first, const Tensor3& second)
{
    expect_agreement("concat_rows", "b", {"first", first, 0}, {"second", second, 0});
    expect_agreement("concat_rows", "d", {"first", first, 2}, {"second", second, 2});
    Tensor3 both(Tensor3::shape_type{first.shape(0), first.shape(1) + second.shape(1), first.shape(2)});
    xt::view(both, xt::all(), xt::range(0, first.shape(1)), xt::all()) = first;
    xt::view(both, xt::all(), xt::range(first.shape(1), both.shape(1)), xt::all()) = second;
    return both;
}

Tensor4 concat_rows(const Tensor4& first, const Tensor4& second)
{
    expect_agreement("concat_rows", "b", {"first", first, 0}, {"second", second, 0});
    expect_agreement("concat_rows", "h", {"first", first, 1}, {"second", second, 1});
    return as_heads(concat_rows(as_batch(first), as_batch(second)), first.shape(0), first.shape(1));
}

namespace {

Matrix side_by_side(const std::vector<Matrix>& parts)
{
    std::size_t width = 0;
    for (const Matrix& part : parts) {
        expect_agreement("concat_columns", "n", {"first", parts.front(), 0}, {"another", part, 0});
        width += part.shape(1);
    }
    Matrix all(Matrix::shape_type{parts.front().shape(0), width});
    std::size_t begin = 0;
    for (const Matrix& part : parts) {
        xt::view(all, xt::all(), xt::range(begin, begin + part.shape(1))) = part;
        begin += part.shape(1);
    }
    return all;
}

Tensor3 side_by_side(const std::vector<Tensor3>& parts)
{
    std::vector<Matrix> tokens;
    for (const Tensor3& part : parts) {
        expect_agreement("concat_columns", "b", {"first", parts.front(), 0}, {"another", part, 0});
        tokens.push_back(tokens_of(part));
    }
    return batch_of(side_by_side(tokens), parts.front().shape(0), parts.front().shape(1));
}

Tensor4 side_by_side(const std::vector<Tensor4>& parts)
{
    std::vector<Tensor3> sequences;
    for (const Tensor4& part : parts) {
        expect_agreement("concat_columns", "b", {"first", parts.front(), 0}, {"another", part, 0});
        expect_agreement("concat_columns", "h", {"first", parts.front(), 1}, {"another", part, 1});
        sequences.push_back(as_batch(part));
    }
    return as_heads(side_by_side(sequences), parts.front().shape(0), parts.front().shape(1));
}

} // namespace

template <Attending T>
T concat_columns(const std::vector<T>& parts)
{
    if (parts.empty())
        throw std::logic_error("concat_columns wants at least one part");
    return side_by_side(parts);
}

template Matrix concat_columns(const std::vector<Matrix>&);
template Tensor3 concat_columns(const std::vector<Tensor3>&);
template Tensor4 concat_columns(const std::vector<Tensor4>&);

Matrix columns(const Matrix& x, std::size_t begin, std::size_t end)
{
    if (begin > end || end > x.shape(1))
        throw ShapeError("columns: x ", shape_of(x), " has no features ", begin, " to ", end);
    return xt::view(x, xt::all(), xt::range(begin, end));
}

Tensor3 columns(const Tensor3& x, std::size_t begin, std::size_t end)
{
    return token_by_token(x, [&](const Matrix& tokens) { return columns(tokens, begin, end); });
}

Tensor4 columns(const Tensor4& x, std::size_t begin, std::size_t end)
{
    return token_by_token(x, [&](const Matrix& tokens) { return columns(tokens, begin, end); });
}

Matrix take_rows(const Matrix& table, const Integers& ids)
{
    Matrix rows(Matrix::shape_type{ids.size(), table.shape(1)});
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids(i) < 0 || static_cast<std::size_t>(ids(i)) >= table.shape(0))
            throw ShapeError("take_rows: ids[", i, "] is ", ids(i), ", but table ", shape_of(table),
                             " has no such row");
        const auto row = static_cast<std::size_t>(ids(i)) * table.shape(1);
        std::copy_n(table.data() + row, table.shape(1), rows.data() + i * table.shape(1));
    }
    return rows;
}

template <std::same_as<IntegerMatrix> Batch>
Tensor3 take_rows(const Matrix& table, const Batch& ids)
{
    Integers all(Integers::shape_type{ids.size()});
    std::copy(ids.begin(), ids.end(), all.begin());
    return batch_of(take_rows(table, all), ids.shape(0), ids.shape(1));
}

template Tensor3 take_rows(const Matrix&, const IntegerMatrix&);

} // namespace attn
