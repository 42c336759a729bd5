#pragma once

#include "attn/engines/fast/attention.hpp"

#include "attn/core/array.hpp"
#include "attn/formula/evaluate.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace attn::test {

/// A matrix of a contiguous tensor (..., rows, columns), as an array.
Array matrix_of(const std::vector<float>& numbers, std::size_t block, std::size_t rows, std::size_t columns);

/// A program that computes in float32.
extern const formula::ErrorModel in_float32;

/// The largest error, as a multiple of what float32 can be off by; infinite where a number is not finite.
double worst_error(const Array& found, const formula::Evaluated& expected);

/// One attention in float32, drawn from a seed: sizes that are prime or one, and everything that can decide a score.
class DrawnAttention {
public:
    explicit DrawnAttention(std::uint64_t seed);

    /// Computes it into `context`, `largest` and `sum`.
    void run(const Trace& trace = {});

    /// What is drawn, as kernels have it.
    fast::HeadRows<const float> queries() const { return fast::head_rows(queries_.data(), {b, h, n, d_k}); }
    fast::HeadRows<const float> keys() const { return fast::head_rows(keys_.data(), {b, g, m, d_k}); }
    fast::HeadRows<const float> values() const { return fast::head_rows(values_.data(), {b, g, m, d_v}); }

    /// The same, as the formula language has it: of one head of one sequence.
    Array queries_of(std::size_t sequence, std::size_t head) const;
    Array keys_of(std::size_t sequence, std::size_t head) const;
    Array values_of(std::size_t sequence, std::size_t head) const;
    Array context_of(std::size_t sequence, std::size_t head) const;
    Array bias_of(std::size_t head) const;     ///< (n, m), with that of ALiBi; zeros where there is none
    Array mask_of(std::size_t sequence) const; ///< (n, m), true where a query can attend

    /// The scores in terms of queries, keys and bias, but for the mask.
    std::string scores_formula() const;

    /// More numbers from the same seed, from -size to size.
    std::vector<float> numbers(std::size_t count, float size);

    std::size_t b, g, h, n, m, d_k, d_v;
    fast::Scoring scoring;
    std::vector<float> context, largest, sum;

private:
    std::size_t draw(std::size_t count) { return engine_() % count; }
    template <class T>
    T one_of(std::initializer_list<T> all)
    {
        return all.begin()[draw(all.size())];
    }
    void draw_scoring();
    bool is_allowed(std::size_t sequence, std::size_t i, std::size_t j) const;

    std::mt19937_64 engine_;
    std::vector<float> queries_, keys_, values_, slopes_, bias_;
    std::unique_ptr<bool[]> mask_;
    std::vector<std::int64_t> lengths_;
};

} // namespace attn::test
