#pragma once

#include <cstddef>

/// @file
/// Matrices in float32, and products of them; in double for what rounding is told from.

namespace attn {

/// A matrix in somebody else's storage, whose rows can lie further apart than they are wide.
template <class Number>
struct BasicView {
    Number* data;
    std::size_t rows, columns, stride;
    bool is_transposed = false; ///< rows and columns are those of the transpose; only for what is multiplied

    BasicView transposed() const { return {data, columns, rows, stride, !is_transposed}; }
    BasicView row_range(std::size_t begin, std::size_t count) const
    {
        return {data + begin * stride, count, columns, stride};
    }
    BasicView column_range(std::size_t begin, std::size_t count) const { return {data + begin, rows, count, stride}; }
    Number* row(std::size_t i) const { return data + i * stride; }

    operator BasicView<const Number>() const { return {data, rows, columns, stride, is_transposed}; }
};
using View = BasicView<float>;
using ConstView = BasicView<const float>;

/// A matrix whose rows lie side by side.
template <class Number>
BasicView<Number> view(Number* data, std::size_t rows, std::size_t columns)
{
    return {data, rows, columns, columns};
}

/// Whether a product is added to the numbers that are there already, or replaces them.
enum class Accumulate { no, yes };

/// into = factor * left @ right, or that added to it.
void multiply(const ConstView& left, const ConstView& right, const View& into, Accumulate accumulate = Accumulate::no,
              float factor = 1);
void multiply(const BasicView<const double>& left, const BasicView<const double>& right, const BasicView<double>& into,
              Accumulate accumulate = Accumulate::no, double factor = 1);

/// While one lives, a product uses one thread, where BLAS says how that is done (OpenBLAS does).
class OneThreadForBlas {
public:
    OneThreadForBlas();
    OneThreadForBlas(const OneThreadForBlas&) = delete;
    OneThreadForBlas& operator=(const OneThreadForBlas&) = delete;
    ~OneThreadForBlas();

private:
    int before_ = 0;
};

} // namespace attn
