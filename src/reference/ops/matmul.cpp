#include "attn/reference/ops/matmul.hpp"

#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/float_product.hpp"
#include "attn/reference/ops/heads.hpp"

// The one place of attn that includes xtensor-blas. Not xt::linalg::dot: that is numpy.dot, which means something else
// for three axes, returns a dynamic array, and takes a wrong shortcut where its operands share storage.
#include <xtensor-blas/xblas.hpp>

#include <algorithm>
#include <utility>

namespace attn {
namespace {

/// BLAS needs at least one number on every axis, since an empty sum is zero.
template <class Left, class Right>
bool is_for_blas(const Left& left, const Right& right)
{
    return left.size() > 0 && right.size() > 0;
}

/// One of several matrices, where it lies.
template <class T>
auto matrix(T& matrices, std::size_t index)
{
    const std::size_t rows = matrices.shape(1), columns = matrices.shape(2);
    return view(matrices.data() + index * rows * columns, rows, columns);
}

Matrix slice(const Tensor3& tensor, std::size_t index) { return xt::view(tensor, index, xt::all(), xt::all()); }

} // namespace

Matrix matmul(const Matrix& left, const Matrix& right)
{
    expect_agreement("matmul", "k", {"left", left, 1}, {"right", right, 0});
    expect_memory("matmul: the product", {left.shape(0), right.shape(1)});
    Matrix product(Matrix::shape_type{left.shape(0), right.shape(1)});
    if (is_for_blas(left, right))
        xt::blas::gemm(left, right, product);
    else
        product.fill(0);
    return product;
}

Vector matmul(const Matrix& left, const Vector& right)
{
    expect_agreement("matmul", "k", {"left", left, 1}, {"right", right, 0});
    Vector product = xt::zeros<double>({left.shape(0)});
    if (is_for_blas(left, right))
        xt::blas::gemv(left, right, product);
    return product;
}

Vector matmul(const Vector& left, const Matrix& right)
{
    expect_agreement("matmul", "k", {"left", left, 0}, {"right", right, 0});
    Vector product = xt::zeros<double>({right.shape(1)});
    if (is_for_blas(left, right))
        xt::blas::gemv(right, left, product, true);
    return product;
}

Matrix matmul(const Tensor3& left, const Vector& right)
{
    expect_agreement("matmul", "k", {"left", left, 2}, {"right", right, 0});
    Matrix product = xt::zeros<double>({left.shape(0), left.shape(1)});
    for (std::size_t i = 0; i < left.shape(0); ++i)
        xt::view(product, i, xt::all()) = matmul(slice(left, i), right);
    return product;
}

Tensor3 matmul(const Tensor3& left, const Tensor3& right)
{
    expect_agreement("matmul", "b", {"left", left, 0}, {"right", right, 0});
    expect_agreement("matmul", "k", {"left", left, 2}, {"right", right, 1});
    expect_memory("matmul: the product", {left.shape(0), left.shape(1), right.shape(2)});
    Tensor3 product(Tensor3::shape_type{left.shape(0), left.shape(1), right.shape(2)});
    if (is_for_blas(left, right))
        for (std::size_t i = 0; i < left.shape(0); ++i)
            multiply(matrix(left, i), matrix(right, i), matrix(product, i));
    else
        product.fill(0);
    return product;
}

Tensor3 matmul(const Tensor3& left, const Matrix& right)
{
    expect_agreement("matmul", "k", {"left", left, 2}, {"right", right, 0});
    return batch_of(matmul(tokens_of(left), right), left.shape(0), left.shape(1));
}

Tensor4 matmul(const Tensor4& left, const Tensor4& right)
{
    expect_agreement("matmul", "b", {"left", left, 0}, {"right", right, 0});
    expect_agreement("matmul", "h", {"left", left, 1}, {"right", right, 1});
    return as_heads(matmul(as_batch(left), as_batch(right)), left.shape(0), left.shape(1));
}

double dot(const Vector& left, const Vector& right)
{
    expect_agreement("dot", "k", {"left", left, 0}, {"right", right, 0});
    double product = 0;
    if (is_for_blas(left, right))
        xt::blas::dot(left, right, product);
    return product;
}

Matrix outer(const Vector& left, const Vector& right)
{
    expect_memory("outer: the product", {left.size(), right.size()});
    return xt::view(left, xt::all(), xt::newaxis()) * xt::view(right, xt::newaxis(), xt::all());
}

namespace {

/// Of each of several matrices, by blocks, whose rows and columns are at hand.
template <class T>
T transposed(const T& matrices)
{
    constexpr std::size_t block = 16;
    typename T::shape_type shape = matrices.shape();
    const std::size_t rank = shape.size(), rows = shape[rank - 2], columns = shape[rank - 1];
    std::swap(shape[rank - 2], shape[rank - 1]);
    T result(shape);
    for (std::size_t first = 0; first < matrices.size(); first += rows * columns) {
        const double* const from = matrices.data() + first;
        double* const to = result.data() + first;
        for (std::size_t row = 0; row < rows; row += block)
            for (std::size_t column = 0; column < columns; column += block)
                for (std::size_t j = column; j < std::min(column + block, columns); ++j)
                    for (std::size_t i = row; i < std::min(row + block, rows); ++i)
                        to[j * rows + i] = from[i * columns + j];
    }
    return result;
}

} // namespace

Matrix transpose(const Matrix& matrix) { return transposed(matrix); }
Tensor3 transpose(const Tensor3& matrices) { return transposed(matrices); }
Tensor4 transpose(const Tensor4& matrices) { return transposed(matrices); }

} // namespace attn
