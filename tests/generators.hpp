#pragma once

#include "masked.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/attention/bilinear.hpp"
#include "attn/reference/attention/dot_product.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace attn::test {

/// Numbers drawn from a seed, the same on every machine.
class Numbers {
public:
    explicit Numbers(std::uint64_t seed) : engine_(seed) {}

    /// In [-2, 2).
    double number() { return static_cast<double>(engine_() >> 11) * 0x1p-51 - 2; }

    Vector vector(std::size_t n) { return filled(Vector(Vector::shape_type{n})); }
    Matrix matrix(std::size_t n, std::size_t m) { return filled(Matrix(Matrix::shape_type{n, m})); }
    Tensor3 tensor3(std::size_t b, std::size_t n, std::size_t m)
    {
        return filled(Tensor3(Tensor3::shape_type{b, n, m}));
    }

    /// About two of three pairs are allowed.
    Mask mask(std::size_t n, std::size_t m)
    {
        Mask mask(Mask::shape_type{n, m});
        for (bool& allowed : mask)
            allowed = engine_() % 3 != 0;
        return mask;
    }

private:
    template <class T>
    T filled(T tensor)
    {
        for (double& value : tensor)
            value = number();
        return tensor;
    }

    std::mt19937_64 engine_;
};

/// The sizes of one attention: where two letters may differ, they do unless told otherwise.
struct Sizes {
    std::size_t n = 3;
    std::size_t m = 4;
    std::size_t d_q = 2;
    std::size_t d_k = 5;
    std::size_t d_v = 6;
    std::size_t d_hidden = 7;
};

/// Everything that any attention function may ask for.
struct Problem {
    Matrix queries;      ///< (n, d_k), for those that take a plain dot product
    Matrix wide_queries; ///< (n, d_q), for those that learn how to compare
    Matrix keys;         ///< (m, d_k)
    Matrix values;       ///< (m, d_v)
    AdditiveWeights additive;
    Matrix bilinear; ///< (d_q, d_k)
    Mask mask;       ///< (n, m)
};

inline Problem random_problem(const Sizes& s, std::uint64_t seed)
{
    Numbers numbers(seed);
    Problem problem;
    problem.queries = numbers.matrix(s.n, s.d_k);
    problem.wide_queries = numbers.matrix(s.n, s.d_q);
    problem.keys = numbers.matrix(s.m, s.d_k);
    problem.values = numbers.matrix(s.m, s.d_v);
    problem.additive.query = numbers.matrix(s.d_q, s.d_hidden);
    problem.additive.key = numbers.matrix(s.d_k, s.d_hidden);
    problem.additive.score = numbers.vector(s.d_hidden);
    problem.bilinear = numbers.matrix(s.d_q, s.d_k);
    problem.mask = numbers.mask(s.n, s.m);
    return problem;
}

/// The scoring functions, one of which each attention function has.
enum class Scoring { dot_product, scaled_dot_product, additive, concatenated, bilinear };

inline constexpr Scoring all_scorings[] = {Scoring::dot_product, Scoring::scaled_dot_product, Scoring::additive,
                                           Scoring::concatenated, Scoring::bilinear};

inline std::string to_string(Scoring scoring)
{
    constexpr const char* names[] = {"dot_product", "scaled_dot_product", "additive", "concatenated", "bilinear"};
    return names[static_cast<std::size_t>(scoring)];
}

/// Runs the attention function of that scoring. Scaled dot-product attention always normalises.
inline Attention attend(Scoring scoring, const Problem& p, const OptionalMask& mask = {},
                        const WeighingOptions& options = {}, const Trace& trace = {})
{
    switch (scoring) {
    case Scoring::dot_product:
        return dot_product_attention(p.queries, p.keys, p.values, masked(options, mask), trace);
    case Scoring::scaled_dot_product:
        return scaled_dot_product_attention(p.queries, p.keys, p.values, {.mask = mask, .causal = options.causal},
                                            trace);
    case Scoring::additive:
        return additive_attention(p.wide_queries, p.keys, p.values, p.additive, masked(options, mask), trace);
    case Scoring::concatenated:
        return concatenated_attention(p.wide_queries, p.keys, p.values, concatenate(p.additive), masked(options, mask),
                                      trace);
    case Scoring::bilinear:
        return bilinear_attention(p.wide_queries, p.keys, p.values, p.bilinear, masked(options, mask), trace);
    }
    return {};
}

} // namespace attn::test
