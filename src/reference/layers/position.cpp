#include "attn/reference/layers/position.hpp"

#include "pairs.hpp"

#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"

#include <bit>
#include <cmath>
#include <string>

namespace attn {
namespace {

std::string arranging(std::size_t d, SineLayout layout)
{
    const std::string pairs = text((d + 1) / 2);
    if (layout == SineLayout::halves)
        return d % 2 == 0 ? "concat(sin(angles), cos(angles), axis=1)"
                          : "concat(sin(angles), cos(angles), axis=1)[:, 0:" + text(d) + "]";
    return "interleave(sin(angles), cos(angles))" + (d % 2 == 0 ? "" : "[:, 0:" + text(d) + "]");
}

} // namespace

Matrix sinusoidal_positions(std::size_t n, std::size_t d, const SinusoidalOptions& options, const Trace& trace)
{
    const Matrix angles = angles_of(n, options.first, powers_of(options.base, d, "frequencies[pairs]", trace), trace);
    Matrix positions(Matrix::shape_type{n, d});
    for (std::size_t p = 0; p < n; ++p)
        for (std::size_t i = 0; i < angles.shape(1); ++i) {
            const Pair features = pair_of(i, d, options.layout == SineLayout::halves);
            positions(p, features.first) = std::sin(angles(p, i));
            if (features.second < d)
                positions(p, features.second) = std::cos(angles(p, i));
        }
    return trace(
        "positions[n, d]", [&] { return arranging(d, options.layout); }, std::move(positions));
}

Matrix position_shift(double k, std::size_t d, const SinusoidalOptions& options)
{
    expect_pairs("position_shift", d);
    const Matrix angles = k * angles_of(2, 0, powers_of(options.base, d, "", {}), {}); // its second row: one place
    Matrix shift = xt::zeros<double>({d, d});
    for (std::size_t i = 0; i < angles.shape(1); ++i) {
        const Pair features = pair_of(i, d, options.layout == SineLayout::halves);
        // sin(a + b) = sin(a) cos(b) + cos(a) sin(b), cos(a + b) = cos(a) cos(b) - sin(a) sin(b)
        shift(features.first, features.first) = shift(features.second, features.second) = std::cos(angles(1, i));
        shift(features.second, features.first) = std::sin(angles(1, i));
        shift(features.first, features.second) = -std::sin(angles(1, i));
    }
    return shift;
}

Term<Matrix> learned_positions(const Term<Matrix>& table, std::size_t n, std::size_t first, const Trace& trace)
{
    if (first > table.shape(0) || n > table.shape(0) - first) // first + n could overflow
        throw ShapeError("learned_positions: table " + to_string(shape_of(table)) + " has no rows " + text(first) +
                         " to " + text(first + n) + ": it was learned for shorter sequences");
    const Term rows = trace.input("table[n_max, d]", table);
    return trace("positions[n, d]", Term(Matrix(xt::view(*rows, xt::range(first, first + n), xt::all())),
                                         with_suffix(rows.wording(), "[" + text(first) + ":" + text(first + n) + "]")));
}

Matrix learned_positions(const Matrix& table, std::size_t n, std::size_t first, const Trace& trace)
{
    return Matrix(learned_positions(Term(table), n, first, trace));
}

Vector alibi_slopes(std::size_t heads)
{
    const std::size_t power = std::bit_floor(heads);
    const auto slope = [](double place, std::size_t of) { return std::exp2(-8.0 * place / static_cast<double>(of)); };
    Vector slopes(Vector::shape_type{heads});
    for (std::size_t head = 0; head < heads; ++head)
        slopes(head) = head < power ? slope(static_cast<double>(head + 1), power)
                                    : slope(static_cast<double>(2 * (head - power) + 1), 2 * power);
    return slopes;
}

Matrix alibi_bias(std::size_t n, std::size_t m, double slope, const Trace& trace)
{
    expect_memory("bias", {n, m});
    Matrix bias(Matrix::shape_type{n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j) {
            const double place = static_cast<double>(i) + static_cast<double>(m) - static_cast<double>(n);
            bias(i, j) = -slope * std::abs(place - static_cast<double>(j));
        }
    return trace(
        "bias[n, m]",
        [&] {
            return exact_text(-slope) + " * abs(arange(" + text(n) + ")[:, None] + (" + text(m) + " - " + text(n) +
                   ") - arange(" + text(m) + "))";
        },
        std::move(bias));
}

} // namespace attn
