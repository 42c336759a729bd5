#include "attn/ops/band.hpp"

#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

void expect_fit(std::string_view function, const AxisOf& tokens, const Band& band)
{
    expect_agreement(function, "n", tokens, {"the band's mask", band.mask, 0});
    if (band.mask.shape(1) != band.distances.size())
        throw ShapeError(std::string(function) + ": a band of " + std::to_string(band.distances.size()) +
                         " distances has a mask " + to_string(shape_of(band.mask)) + ", expected as many columns");
}

/// Calls a function with each row, column, and the row that stands there.
template <class Work>
void for_each_neighbour(std::string_view function, const Band& band, const Work& work)
{
    const std::size_t n = band.mask.shape(0), width = band.mask.shape(1);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < width; ++c) {
            if (!band.mask(i, c))
                continue;
            const std::size_t j = i + static_cast<std::size_t>(band.distances[c]); // wraps where it is negative
            if (j >= n)
                throw ShapeError(std::string(function) + ": the band has a neighbour of row " + std::to_string(i) +
                                 " at the distance " + std::to_string(band.distances[c]) + ", there are only " +
                                 std::to_string(n) + " rows");
            work(i, c, j);
        }
}

} // namespace

Matrix banded_scores(const Matrix& left, const Matrix& right, const Band& band)
{
    constexpr std::string_view function = "banded_scores";
    expect_agreement(function, "n", {"left", left, 0}, {"right", right, 0});
    expect_agreement(function, "k", {"left", left, 1}, {"right", right, 1});
    expect_fit(function, {"left", left, 0}, band);
    const std::size_t k = left.shape(1);
    Matrix dots = xt::zeros<double>({left.shape(0), band.distances.size()});
    for_each_neighbour(function, band, [&](std::size_t i, std::size_t c, std::size_t j) {
        const double* l = left.data() + i * k;
        const double* r = right.data() + j * k;
        double sum = 0;
        for (std::size_t feature = 0; feature < k; ++feature)
            sum += l[feature] * r[feature];
        dots(i, c) = sum;
    });
    return dots;
}

Matrix sum_of_neighbours(const Matrix& weights, const Matrix& values, const Band& band)
{
    constexpr std::string_view function = "sum_of_neighbours";
    expect_agreement(function, "n", {"weights", weights, 0}, {"values", values, 0});
    expect_agreement(function, "width", {"weights", weights, 1}, {"the band's mask", band.mask, 1});
    expect_fit(function, {"values", values, 0}, band);
    const std::size_t d = values.shape(1);
    Matrix sums = xt::zeros<double>({values.shape(0), d});
    for_each_neighbour(function, band, [&](std::size_t i, std::size_t c, std::size_t j) {
        const double weight = weights(i, c);
        const double* value = values.data() + j * d;
        double* sum = sums.data() + i * d;
        for (std::size_t feature = 0; feature < d; ++feature)
            sum[feature] += weight * value[feature];
    });
    return sums;
}

} // namespace attn
