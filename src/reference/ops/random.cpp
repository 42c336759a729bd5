#include "attn/reference/ops/random.hpp"

namespace attn {
namespace {

template <class T>
T filled(T tensor, RandomNumbers& numbers, double scale)
{
    for (double& value : tensor)
        value = scale * numbers.next();
    return tensor;
}

} // namespace

double RandomNumbers::next()
{
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z = z ^ (z >> 31);
    return static_cast<double>(z >> 40) * 0x1p-23 - 1; // 24 bits, from 0 to 2 - 2^-23, less 1
}

Vector RandomNumbers::vector(std::size_t n, double scale)
{
    return filled(Vector(Vector::shape_type{n}), *this, scale);
}

Matrix RandomNumbers::matrix(std::size_t n, std::size_t m, double scale)
{
    return filled(Matrix(Matrix::shape_type{n, m}), *this, scale);
}

Tensor3 RandomNumbers::tensor3(std::size_t b, std::size_t n, std::size_t m, double scale)
{
    return filled(Tensor3(Tensor3::shape_type{b, n, m}), *this, scale);
}

} // namespace attn
