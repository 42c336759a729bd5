#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>
#include <cstdint>

namespace attn {

/// Pseudorandom numbers that are the same on every machine, since the generator is defined here.
///
/// Number i of a seed is the top 24 bits of SplitMix64's output number i, as a fraction in [-1, 1): each is exactly a
/// float32. Any language makes the same in a few lines, see docs/notation.md.
///
/// @see Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"
class RandomNumbers {
public:
    explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}

    /// The next number, uniformly distributed in [-1, 1).
    double next();

    /// The next numbers, row by row, times a scale; a power of two keeps them exact in float32.
    Vector vector(std::size_t n, double scale = 1);
    Matrix matrix(std::size_t n, std::size_t m, double scale = 1);
    Tensor3 tensor3(std::size_t b, std::size_t n, std::size_t m, double scale = 1);

private:
    std::uint64_t state_;
};

} // namespace attn
