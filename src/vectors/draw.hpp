#pragma once

#include "plan.hpp"

#include "attn/core/array.hpp"

#include <cstdint>

namespace attn::vectors {

/// Random numbers that are the same on every machine: SplitMix64.
/// @see Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators
class Draws {
public:
    /// @param name  other draws for another name
    Draws(std::uint64_t seed, std::string_view name);

    std::uint64_t seed() const { return seed_; }

    std::size_t below(std::size_t limit);

private:
    std::uint64_t seed_, state_;
};

/// An input with numbers that bfloat16 holds exactly.
/// @param sizes  of the axes
Array draw(const Drawn& input, const Sizes& sizes, Draws& draws);
Arrays draw_all(const std::vector<Drawn>& inputs, const Sizes& sizes, Draws& draws);

/// The number at a place of an input that is given by a formula: ((multiplier * place + offset) mod 251 - 125) / 64.
struct PlaceFormula {
    std::size_t multiplier, offset;
    double at(std::size_t place) const
    {
        return (static_cast<double>((multiplier * place + offset) % modulus) - 125) / 64;
    }
    static constexpr std::size_t modulus = 251;
};

/// The formula of the input of that name, another one for another seed.
PlaceFormula place_formula(std::uint64_t seed, std::string_view input);

} // namespace attn::vectors
