// The products of float_product.hpp without a BLAS, chosen by ATTN_PLAIN_BLAS: small to carry, and slower.

#include "attn/reference/ops/float_product.hpp"

#include <algorithm>
#include <vector>

namespace attn {
namespace {

/// The rows that the view's columns are, side by side.
template <class Number>
std::vector<Number> rows_of_transposed(const BasicView<const Number>& view)
{
    std::vector<Number> rows(view.rows * view.columns);
    for (std::size_t i = 0; i < view.rows; ++i)
        for (std::size_t j = 0; j < view.columns; ++j)
            rows[i * view.columns + j] = view.data[j * view.stride + i];
    return rows;
}

/// Row by row of the right matrix, so that the inner loop runs along rows.
template <class Number>
void multiply_rows(const BasicView<const Number>& left, const BasicView<const Number>& right,
                   const BasicView<Number>& into, Accumulate accumulate, Number factor)
{
    std::vector<Number> turned;
    BasicView<const Number> rows = right;
    if (right.is_transposed) {
        turned = rows_of_transposed(right);
        rows = {turned.data(), right.rows, right.columns, right.columns};
    }
    const std::size_t along = left.is_transposed ? left.stride : 1, across = left.is_transposed ? 1 : left.stride;
    for (std::size_t i = 0; i < into.rows; ++i) {
        Number* const sums = into.row(i);
        if (accumulate == Accumulate::no)
            std::fill_n(sums, into.columns, Number(0));
        for (std::size_t k = 0; k < left.columns; ++k) {
            const Number weight = factor * left.data[i * across + k * along];
            const Number* const row = rows.row(k);
            for (std::size_t j = 0; j < into.columns; ++j)
                sums[j] += weight * row[j];
        }
    }
}

} // namespace

void multiply(const ConstView& left, const ConstView& right, const View& into, Accumulate accumulate, float factor)
{
    multiply_rows(left, right, into, accumulate, factor);
}

void multiply(const BasicView<const double>& left, const BasicView<const double>& right, const BasicView<double>& into,
              Accumulate accumulate, double factor)
{
    multiply_rows(left, right, into, accumulate, factor);
}

OneThreadForBlas::OneThreadForBlas() = default;
OneThreadForBlas::~OneThreadForBlas() = default;

} // namespace attn
