#include "attn/reference/ops/band.hpp"

#include "attn/core/shape.hpp"

#include <string>

namespace attn {
namespace {

template <Sequence T>
void expect_fit(std::string_view function, std::string_view role, const T& tokens, const Band& band)
{
    expect_agreement(function, "n", {role, tokens, token_axis<T>}, {"the band's mask", band.mask, 0});
    if (band.mask.shape(1) != band.distances.size())
        throw ShapeError(function, ": a band of ", band.distances.size(), " distances has a mask ", shape_of(band.mask),
                         ", expected as many columns");
    if (band.neighbours && shape_of(*band.neighbours) != shape_of(band.mask))
        throw ShapeError(function, ": a band has neighbours ", shape_of(*band.neighbours), " and a mask ",
                         shape_of(band.mask), ", expected the same shape");
}

template <Sequence T>
void expect_same_batch(std::string_view function, const AxisOf& left, const AxisOf& right)
{
    if constexpr (std::same_as<T, Tensor3>)
        expect_agreement(function, "b", left, right);
}

/// Calls a function with each row of all sequences, one below the other, each column, and the row of the neighbour.
template <class Work>
void for_each_neighbour(std::string_view function, const Band& band, std::size_t rows, const Work& work)
{
    const std::size_t n = band.mask.shape(0), width = band.mask.shape(1);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t c = 0; c < width; ++c) {
            const std::size_t i = row % n;
            if (!band.mask(i, c))
                continue;
            const std::int64_t j =
                band.neighbours ? (*band.neighbours)(i, c) : static_cast<std::int64_t>(i) + band.distances(c);
            if (j < 0 || std::cmp_greater_equal(j, n))
                throw ShapeError(function, ": a neighbour of row ", i, " is row ", j, ", expected 0 to ", n - 1);
            work(row, c, row - i + static_cast<std::size_t>(j));
        }
}

} // namespace

template <Sequence T>
T banded_scores(const T& left, const T& right, const Band& band)
{
    constexpr std::string_view function = "banded_scores";
    constexpr std::size_t n = token_axis<T>, features = feature_axis<T>;
    expect_same_batch<T>(function, {"left", left, 0}, {"right", right, 0});
    expect_agreement(function, "n", {"left", left, n}, {"right", right, n});
    expect_agreement(function, "k", {"left", left, features}, {"right", right, features});
    expect_fit(function, "left", left, band);
    const std::size_t k = left.shape(features), width = band.distances.size();
    auto shape = left.shape();
    shape[features] = width;
    T scores = xt::zeros<double>(shape);
    for_each_neighbour(function, band, scores.size() / width, [&](std::size_t i, std::size_t c, std::size_t j) {
        const double *l = left.data() + i * k, *r = right.data() + j * k;
        double sum = 0;
        for (std::size_t feature = 0; feature < k; ++feature)
            sum += l[feature] * r[feature];
        scores.data()[i * width + c] = sum;
    });
    return scores;
}

template <Sequence T>
T sum_of_neighbours(const T& weights, const T& values, const Band& band)
{
    constexpr std::string_view function = "sum_of_neighbours";
    constexpr std::size_t n = token_axis<T>, features = feature_axis<T>;
    expect_same_batch<T>(function, {"weights", weights, 0}, {"values", values, 0});
    expect_agreement(function, "n", {"weights", weights, n}, {"values", values, n});
    expect_agreement(function, "width", {"weights", weights, features}, {"the band's mask", band.mask, 1});
    expect_fit(function, "values", values, band);
    const std::size_t d = values.shape(features), width = band.distances.size();
    T sums = xt::zeros<double>(values.shape());
    for_each_neighbour(function, band, weights.size() / width, [&](std::size_t i, std::size_t c, std::size_t j) {
        const double weight = weights.data()[i * width + c];
        const double* value = values.data() + j * d;
        double* sum = sums.data() + i * d;
        for (std::size_t feature = 0; feature < d; ++feature)
            sum[feature] += weight * value[feature];
    });
    return sums;
}

template Matrix banded_scores(const Matrix&, const Matrix&, const Band&);
template Tensor3 banded_scores(const Tensor3&, const Tensor3&, const Band&);
template Matrix sum_of_neighbours(const Matrix&, const Matrix&, const Band&);
template Tensor3 sum_of_neighbours(const Tensor3&, const Tensor3&, const Band&);

} // namespace attn
