#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>

namespace attn::fast {

/// Tokens in memory of somebody else's, contiguous: of one sequence, (n, d), unless there is a batch of them, (b, n, d).
template <class Number>
struct Tokens {
    Number* numbers = nullptr;
    std::size_t n = 0, d = 0;
    std::optional<std::size_t> batch = {}; ///< b; none: one sequence

    std::size_t sequences() const { return batch.value_or(1); }
    std::size_t rows() const { return sequences() * n; } ///< of all sequences, one after the other
    operator Tokens<const Number>() const requires(!std::is_const_v<Number>) { return {numbers, n, d, batch}; }
};

/// Memory for numbers that is allocated once and used again, aligned to 64 bytes.
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t count) { grow(count); }

    /// Makes it at least so large; where it has to grow, what was in it is lost.
    /// @return its numbers
    float* grow(std::size_t count);
    float* get() const { return numbers_.get(); }

private:
    struct Free {
        void operator()(float* numbers) const;
    };
    std::unique_ptr<float[], Free> numbers_;
    std::size_t size_ = 0;
};

/// The memory that a call works in. Given again, it is allocated once: it grows to what the largest call needs.
///
/// It keeps nothing from one call to the next, and serves one call at a time.
struct Workspace {
    Buffer tokens;     ///< where the output is not tokens
    Buffer normalized; ///< of a sublayer's input
    Buffer result;     ///< of a sublayer
    Buffer query;
    Buffer key_value;
    Buffer context;
    Buffer hidden;    ///< of each thread's tile of rows
    Buffer positions; ///< cosines and sines, or slopes
    Buffer attention; ///< packed keys and values, and each thread's tile of scores
};

} // namespace attn::fast
