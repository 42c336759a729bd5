#include "draw.hpp"

#include <algorithm>
#include <numeric>

namespace attn::vectors {
namespace {

double sixteenth(Draws& draws, int least, std::size_t count)
{
    return (least + static_cast<int>(draws.below(count))) / 16.0;
}

/// Booleans of which each row has one at least that is true, and all together one that is false, where there are two.
void fill_mask(Array& mask, Draws& draws)
{
    mask.type = ElementType::boolean;
    const std::size_t m = mask.shape.back();
    for (double& allowed : mask.values)
        allowed = draws.below(5) < 3 ? 1 : 0;
    for (std::size_t row = 0; row * m < mask.size(); ++row)
        mask.values[row * m + draws.below(m)] = 1;
    if (m > 1 && std::ranges::find(mask.values, 0) == mask.values.end())
        mask.values.back() = 0;
}

void fill_lengths(Array& lengths, std::size_t most, Draws& draws)
{
    lengths.type = ElementType::integer;
    for (double& length : lengths.values)
        length = static_cast<double>(1 + draws.below(most));
    lengths.values.front() = static_cast<double>(most);
    if (lengths.size() > 1)
        lengths.values.back() = static_cast<double>(1 + draws.below(most - 1));
}

/// Some of the numbers below a limit, in any order.
void fill_pages(Array& pages, std::size_t limit, Draws& draws)
{
    pages.type = ElementType::integer;
    std::vector<std::size_t> left(limit);
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (double& page : pages.values) {
        const auto taken = left.begin() + static_cast<std::ptrdiff_t>(draws.below(left.size()));
        page = static_cast<double>(*taken);
        left.erase(taken);
    }
}

/// True for tokens. The last row has no padding, each other one some, but for a limit of 0.
void fill_padding(Array& is_token, std::size_t most, bool is_before, Draws& draws)
{
    is_token.type = ElementType::boolean;
    std::ranges::fill(is_token.values, 1);
    const std::size_t n = is_token.shape.back();
    for (std::size_t row = 0; most > 0 && (row + 1) * n < is_token.size(); ++row) {
        const std::size_t padding = 1 + draws.below(most), first = row * n + (is_before ? 0 : n - padding);
        std::fill_n(is_token.values.begin() + static_cast<std::ptrdiff_t>(first), padding, 0);
    }
}

} // namespace

Draws::Draws(std::uint64_t seed, std::string_view name) : seed_(seed), state_(0xCBF29CE484222325u)
{
    for (const char c : name) // FNV-1a
        state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    state_ += seed * 0xD1342543DE82EF95u;
}

std::size_t Draws::below(std::size_t limit)
{
    std::uint64_t bits = state_ += 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return (bits ^ (bits >> 31)) % limit;
}

Array draw(const Drawn& input, const Sizes& sizes, Draws& draws)
{
    Array array;
    for (const std::string& axis : input.axes)
        array.shape.push_back(size_of(axis, sizes));
    array.values.resize(element_count(array.shape));
    const std::size_t limit = input.limit.empty() ? 0 : size_of(input.limit, sizes);
    const auto fill = [&](auto number) { std::ranges::generate(array.values, number); };
    switch (input.holds) {
    case Holds::numbers:
        fill([&] { return sixteenth(draws, -32, 65); });
        break;
    case Holds::gains:
        fill([&] { return sixteenth(draws, 8, 17); });
        break;
    case Holds::large:
        fill([&] { return 16 * sixteenth(draws, -32, 65); });
        break;
    case Holds::mask:
        fill_mask(array, draws);
        break;
    case Holds::mask_with_empty_row:
        fill_mask(array, draws);
        std::fill_n(array.values.begin(), array.shape.back(), 0);
        break;
    case Holds::lengths:
        fill_lengths(array, limit, draws);
        break;
    case Holds::ids:
        array.type = ElementType::integer;
        fill([&] { return static_cast<double>(draws.below(limit)); });
        array.values.back() = array.values.front();
        break;
    case Holds::pages:
        fill_pages(array, limit, draws);
        break;
    case Holds::padded_before:
    case Holds::padded_after:
        fill_padding(array, limit, input.holds == Holds::padded_before, draws);
        break;
    case Holds::targets:
        array.type = ElementType::integer;
        fill([&] { return static_cast<double>(draws.below(limit)); });
        array.values.back() = -100;
        break;
    case Holds::by_formula:
        for (std::size_t place = 0; place < array.size(); ++place)
            array.values[place] = place_formula(draws.seed(), input.name).at(place);
        break;
    }
    return array;
}

Arrays draw_all(const std::vector<Drawn>& inputs, const Sizes& sizes, Draws& draws)
{
    Arrays arrays;
    for (const Drawn& one : inputs)
        arrays.emplace_back(one.name, draw(one, sizes, draws));
    return arrays;
}

PlaceFormula place_formula(std::uint64_t seed, std::string_view input)
{
    Draws draws(seed, input);
    return {17 + draws.below(200), draws.below(PlaceFormula::modulus)};
}

} // namespace attn::vectors
