#include "attn/engines/train/batches.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/train/loss.hpp"
#include "attn/reference/ops/random.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace attn::train {
namespace {

std::uint64_t mixed(std::uint64_t z) // the last steps of SplitMix64
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

/// From 0 to below 1.
double fraction(RandomNumbers& numbers) { return (numbers.next() + 1) / 2; }

} // namespace

TextExample example_of(const Text& text)
{
    if (text.empty())
        return {};
    return {{text.begin(), text.end() - 1}, {text.begin() + 1, text.end()}};
}

std::vector<TextExample> examples_of(std::span<const Text> texts)
{
    std::vector<TextExample> examples(texts.size());
    std::ranges::transform(texts, examples.begin(), example_of);
    return examples;
}

TextBatch batch_of(std::span<const Text> texts, std::int64_t padding)
{
    std::size_t longest = 0;
    for (const Text& text : texts)
        longest = std::max(longest, text.size());
    const IntegerMatrix::shape_type shape{texts.size(), longest};
    TextBatch batch{IntegerMatrix(shape, padding), IntegerMatrix(shape, ignored_target)};
    for (std::size_t i = 0; i < texts.size(); ++i)
        for (std::size_t j = 0; j < texts[i].size(); ++j) {
            batch.ids(i, j) = texts[i][j];
            if (j > 0)
                batch.targets(i, j - 1) = texts[i][j];
        }
    return batch;
}

std::uint64_t seed_of(std::uint64_t seed, Purpose purpose, std::uint64_t index)
{
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
    return mixed(mixed(mixed(seed + golden) + static_cast<std::uint64_t>(purpose) + golden) + index + golden);
}

std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed, std::uint64_t epoch)
{
    RandomNumbers numbers(seed_of(seed, Purpose::order, epoch));
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t left = n; left > 1; --left) {
        const auto drawn = static_cast<std::size_t>(fraction(numbers) * static_cast<double>(left));
        std::swap(order[left - 1], order[drawn]);
    }
    return order;
}

Matrix dropout_mask(std::size_t b, std::size_t d, double rate, std::uint64_t seed, std::uint64_t step)
{
    if (!(rate >= 0 && rate < 1))
        throw Error("dropout_mask: the rate is ", exact_text(rate), ", expected one from 0 to below 1");
    RandomNumbers numbers(seed_of(seed, Purpose::dropout, step));
    Matrix mask(Matrix::shape_type{b, d});
    for (double& number : mask)
        number = fraction(numbers) < rate ? 0 : 1 / (1 - rate);
    return mask;
}

} // namespace attn::train
