#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace attn::diff {
namespace {

// By how many roundings of a shift a score can be off; by more than this, the weights are others.
constexpr double roundings_of_shift = 4, most_of_shift = 0x1p-4;

double sum_of(std::span<const double> row) { return std::accumulate(row.begin(), row.end(), 0.0); }

/// Makes a row of expected scores what MINE has, but for noise and the roundings of a shift.
/// @return false where more differs than a shift and what stands for minus infinity
bool fill_and_shift(std::span<double> row, std::span<const double> found, const auto& tolerance, double roundoff)
{
    const bool can_be_nan = std::ranges::count(row, minus_infinity) == std::ssize(row);
    std::optional<double> shift;
    for (std::size_t i = 0; i < row.size(); ++i) {
        const double right = row[i], number = found[i];
        if (can_be_nan && std::isnan(number))
            continue;
        if (!(number < -minus_infinity))
            return false;
        if (right == minus_infinity) {
            row[i] = number;
            continue;
        }
        const double size = std::max({std::abs(number), std::abs(right), std::abs(shift.value_or(0))});
        const double noise = 2 * tolerance(i) + std::min(roundings_of_shift * roundoff * size, most_of_shift);
        shift = shift.value_or(number - right);
        if (!(std::abs(number - right - *shift) <= noise))
            return false;
        row[i] = right + *shift;
    }
    return true;
}

} // namespace

bool is_softmax(const Step& step) { return step.formula.starts_with("softmax("); }

std::optional<std::string> scores_of_softmax(std::string_view formula)
{
    constexpr std::string_view softmax = "softmax(";
    if (!formula.starts_with(softmax))
        return std::nullopt;
    const std::string_view scores = formula.substr(softmax.size(), formula.size() - softmax.size() - 1);
    return is_step_path(scores) ? std::optional(std::string(scores)) : std::nullopt;
}

bool has_other_row_sums(const Array& found, const Array& right)
{
    const std::size_t length = row_length(right);
    if (found.shape != right.shape)
        return false;
    for (std::size_t begin = 0; begin < right.size(); begin += length) {
        const auto sum = [&](const Array& array) { return sum_of(std::span(array.values).subspan(begin, length)); };
        if (std::abs(sum(found) - sum(right)) > most_relative)
            return true;
    }
    return false;
}

Array with_normalised_rows(Array weights)
{
    const std::size_t length = row_length(weights);
    for (std::size_t begin = 0; begin < weights.size(); begin += length) {
        const auto row = std::span(weights.values).subspan(begin, length);
        const double sum = sum_of(row);
        if (std::isfinite(sum) && sum != 0)
            std::ranges::for_each(row, [&](double& weight) { weight /= sum; });
    }
    return weights;
}

bool is_masked(const Array& array) { return std::ranges::find(array.values, minus_infinity) != array.values.end(); }

Array zeros_in_empty_rows(Array found, const Array& right)
{
    const std::size_t length = row_length(right);
    for (std::size_t i = 0; i < right.size(); ++i)
        if (std::isnan(found.values[i]) && is_empty_row(right, i / length * length))
            found.values[i] = 0;
    return found;
}

Array shifted(Array scores, const Array* like)
{
    const std::size_t length = row_length(scores);
    for (std::size_t begin = 0; begin < scores.size(); begin += length) {
        const auto row = std::span(scores.values).subspan(begin, length);
        const double wanted = like == nullptr ? 0 : std::ranges::max(std::span(like->values).subspan(begin, length));
        const double shift = wanted - std::ranges::max(row);
        if (std::isfinite(shift))
            std::ranges::for_each(row, [&](double& score) { score += shift; });
    }
    return scores;
}

std::optional<Array> filled_and_shifted(Array expected, const Array& found, const Tolerance& tolerance, double roundoff)
{
    const std::size_t length = row_length(expected);
    for (std::size_t begin = 0; begin < expected.size(); begin += length) {
        const auto of_row = [&](std::size_t i) { return tolerance.at(begin + i); };
        if (!fill_and_shift(std::span(expected.values).subspan(begin, length),
                            std::span(found.values).subspan(begin, length), of_row, roundoff))
            return std::nullopt;
    }
    return expected;
}

} // namespace attn::diff
