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

/// Numbers that are made room for once and used again, aligned to 64 bytes.
class Room {
public:
    Room() = default;
    explicit Room(std::size_t count) { of(count); }

    /// Room for so many numbers. What was in it is lost where there has to be more than before.
    float* of(std::size_t count);
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
    Room tokens;     ///< where the output is not tokens
    Room normalized; ///< of a sublayer's input
    Room result;     ///< of a sublayer
    Room query;
    Room key_value;
    Room context;
    Room hidden;    ///< of each thread's tile of rows
    Room positions; ///< cosines and sines, or slopes
    Room attention; ///< packed keys and values, and each thread's tile of scores
};

} // namespace attn::fast
