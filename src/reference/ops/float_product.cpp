#include "attn/reference/ops/float_product.hpp"

// What every BLAS has. Its header is not where all of them put it, and xtensor-blas's own belongs to ops/matmul.cpp.
extern "C" {
void cblas_sgemm(int order, int left, int right, int rows, int columns, int inner, float factor, const float* a,
                 int a_stride, const float* b, int b_stride, float keep, float* c, int c_stride);
void cblas_dgemm(int order, int left, int right, int rows, int columns, int inner, double factor, const double* a,
                 int a_stride, const double* b, int b_stride, double keep, double* c, int c_stride);
[[gnu::weak]] int openblas_get_num_threads(void);
[[gnu::weak]] void openblas_set_num_threads(int threads);
}

namespace attn {
namespace {

constexpr int row_major = 101, as_is = 111, flipped = 112; // CBLAS's

int whole(std::size_t size) { return static_cast<int>(size); }

/// @param gemm  BLAS's function for such numbers
template <class Gemm, class Number>
void multiply_by(Gemm gemm, const BasicView<const Number>& left, const BasicView<const Number>& right,
                 const BasicView<Number>& into, Accumulate accumulate, Number factor)
{
    const auto flip_of = [](const auto& matrix) { return matrix.is_transposed ? flipped : as_is; };
    gemm(row_major, flip_of(left), flip_of(right), whole(into.rows), whole(into.columns), whole(left.columns), factor,
         left.data, whole(left.stride), right.data, whole(right.stride), accumulate == Accumulate::yes ? Number(1) : 0,
         into.data, whole(into.stride));
}

} // namespace

void multiply(const ConstView& left, const ConstView& right, const View& into, Accumulate accumulate, float factor)
{
    multiply_by(cblas_sgemm, left, right, into, accumulate, factor);
}

void multiply(const BasicView<const double>& left, const BasicView<const double>& right, const BasicView<double>& into,
              Accumulate accumulate, double factor)
{
    multiply_by(cblas_dgemm, left, right, into, accumulate, factor);
}

OneThreadForBlas::OneThreadForBlas()
{
    if (openblas_get_num_threads != nullptr && openblas_set_num_threads != nullptr) {
        before_ = openblas_get_num_threads();
        openblas_set_num_threads(1);
    }
}

OneThreadForBlas::~OneThreadForBlas()
{
    if (before_ > 0)
        openblas_set_num_threads(before_);
}

} // namespace attn
