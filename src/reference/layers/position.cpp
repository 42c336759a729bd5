#include "attn/reference/layers/position.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <bit>
#include <cmath>
#include <string>

namespace attn {
namespace {

constexpr Choice<RotaryLayout> layouts[] = {{RotaryLayout::pairs, "pairs"}, {RotaryLayout::halves, "halves"}};

std::string text(std::size_t number) { return std::to_string(number); }

Vector counted_from(std::size_t first, std::size_t count)
{
    Vector numbers(Vector::shape_type{count});
    for (std::size_t i = 0; i < count; ++i)
        numbers(i) = static_cast<double>(first + i);
    return numbers;
}

/// The angles by which each pair of features is rotated at each position: (n, pairs).
Matrix angles_of(std::size_t n, std::size_t d, double base, std::size_t first, const Trace& trace)
{
    const std::size_t pairs = (d + 1) / 2;
    const Vector exponents = -2.0 * counted_from(0, pairs) / static_cast<double>(d);
    const Vector frequencies = trace(
        "frequencies[pairs]",
        [&] { return exact_text(base) + " ** (-2 * arange(" + text(pairs) + ") / " + text(d) + ")"; },
        Vector(xt::pow(base, exponents)));
    return trace(
        "angles[n, pairs]",
        [&] { return "outer(arange(" + text(n) + ")" + (first == 0 ? "" : " + " + text(first)) + ", frequencies)"; },
        outer(counted_from(first, n), frequencies));
}

std::string arranging(std::size_t d, SineLayout layout)
{
    const std::string pairs = text((d + 1) / 2);
    if (layout == SineLayout::halves)
        return d % 2 == 0 ? "concat(sin(angles), cos(angles), axis=1)"
                          : "concat(sin(angles), cos(angles), axis=1)[:, 0:" + text(d) + "]";
    return "interleave(sin(angles), cos(angles))" + (d % 2 == 0 ? "" : "[:, 0:" + text(d) + "]");
}

/// The features of the two members of a pair: its sine or first, and its cosine or second.
struct Pair {
    std::size_t first, second;
};

Pair pair_of(std::size_t pair, std::size_t d, bool halves)
{
    return halves ? Pair{pair, pair + (d + 1) / 2} : Pair{2 * pair, 2 * pair + 1};
}

void expect_pairs(std::string_view function, std::size_t d)
{
    if (d % 2 != 0)
        throw ShapeError(std::string(function) + ": " + text(d) +
                         " features do not make pairs, expected an even number");
}

} // namespace

Matrix sinusoidal_positions(std::size_t n, std::size_t d, const SinusoidalOptions& options, const Trace& trace)
{
    const Matrix angles = angles_of(n, d, options.base, options.first, trace);
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
    const Matrix angles = k * angles_of(2, d, options.base, 0, {}); // its second row: one place
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

Matrix learned_positions(const Matrix& table, std::size_t n, std::size_t first, const Trace& trace)
{
    if (first > table.shape(0) || n > table.shape(0) - first) // first + n could overflow
        throw ShapeError("learned_positions: table " + to_string(shape_of(table)) + " has no rows " + text(first) +
                         " to " + text(first + n) + ": it was learned for shorter sequences");
    const Matrix& rows = trace.input("table[n_max, d]", table);
    return trace(
        "positions[n, d]", [&] { return "table[" + text(first) + ":" + text(first + n) + "]"; },
        Matrix(xt::view(rows, xt::range(first, first + n), xt::all())));
}

namespace {

std::string rotation_formula(std::size_t d, RotaryLayout layout)
{
    const bool halves = layout == RotaryLayout::halves;
    const std::string a = halves ? "x[..., 0:" + text(d / 2) + "]" : "x[..., ::2]";
    const std::string b = halves ? "x[..., " + text(d / 2) + ":" + text(d) + "]" : "x[..., 1::2]";
    return std::string(halves ? "concat(" : "interleave(") + a + " * cos(angles) - " + b + " * sin(angles), " + a +
           " * sin(angles) + " + b + " * cos(angles)" + (halves ? ", axis=-1)" : ")");
}

/// Tokens of one or several sequences, one below the other; the angles begin again with each sequence.
Matrix rotate(const Matrix& tokens, const Matrix& angles, RotaryLayout layout)
{
    Matrix turned(tokens.shape());
    for (std::size_t token = 0; token < tokens.shape(0); ++token)
        for (std::size_t i = 0; i < angles.shape(1); ++i) {
            const auto [first, second] = pair_of(i, tokens.shape(1), layout == RotaryLayout::halves);
            const double cosine = std::cos(angles(token % angles.shape(0), i));
            const double sine = std::sin(angles(token % angles.shape(0), i));
            turned(token, first) = tokens(token, first) * cosine - tokens(token, second) * sine;
            turned(token, second) = tokens(token, first) * sine + tokens(token, second) * cosine;
        }
    return turned;
}

} // namespace

std::string_view name_of(RotaryLayout layout) { return row_for<layouts>(layout).name; }

template <Attending T>
T rotary(const T& tokens, const RotaryOptions& options, const Trace& caller)
{
    const std::size_t n = tokens.shape(token_axis<T>), d = tokens.shape(feature_axis<T>);
    expect_pairs("rotary", d);
    const Trace trace = caller.module("rotary", [&] {
        return StepOptions{{"base", exact_text(options.base)},
                           {"layout", std::string(name_of(options.layout))},
                           {"first", text(options.first)}};
    });
    const T& x = trace.input("x[(b,) n, d]", tokens);

    const Matrix angles = angles_of(n, d, options.base, options.first, trace);
    return trace(
        "output[(b,) n, d]", [&] { return rotation_formula(d, options.layout); },
        token_by_token(x, [&](const Matrix& rows) { return rotate(rows, angles, options.layout); }));
}

template Matrix rotary(const Matrix&, const RotaryOptions&, const Trace&);
template Tensor3 rotary(const Tensor3&, const RotaryOptions&, const Trace&);
template Tensor4 rotary(const Tensor4&, const RotaryOptions&, const Trace&);

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
