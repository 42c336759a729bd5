#include "attn/reference/layers/position.hpp"

#include "pairs.hpp"

#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"

#include <bit>
#include <cmath>
#include <string>

namespace attn {

Matrix sinusoidal_positions(std::size_t n, std::size_t d, const SinusoidalOptions& options, const Trace& trace)
{
    const Term frequencies = powers_of(number(options.base, trace), d, "frequencies[pairs]", trace);
    const Term angles = angles_of(positions_from(options.first, n, trace), frequencies, trace);
    const Term sines = sin(angles), cosines = cos(angles);
    Term both =
        options.layout == SineLayout::halves ? concat(std::vector{sines, cosines}, 1) : interleave(sines, cosines);
    if (d % 2 != 0) // the last cosine has no place
        both = {columns(*both, 0, d), with_suffix(both.wording(), "[:, 0:" + text(d) + "]")};
    return Matrix(trace("positions[n, d]", std::move(both)));
}

Matrix position_shift(double k, std::size_t d, const SinusoidalOptions& options)
{
    expect_pairs("position_shift", d);
    const Term angles = k * powers_of(number(options.base, {}), d, "", {});
    Matrix shift = xt::zeros<double>({d, d});
    for (std::size_t i = 0; i < angles.size(); ++i) {
        const bool halves = options.layout == SineLayout::halves;
        const std::size_t sine = halves ? i : 2 * i, cosine = halves ? i + d / 2 : 2 * i + 1;
        // sin(a + b) = sin(a) cos(b) + cos(a) sin(b), cos(a + b) = cos(a) cos(b) - sin(a) sin(b)
        shift(sine, sine) = shift(cosine, cosine) = std::cos((*angles)(i));
        shift(cosine, sine) = std::sin((*angles)(i));
        shift(sine, cosine) = -std::sin((*angles)(i));
    }
    return shift;
}

Term<Matrix> learned_positions(const Term<Matrix>& table, std::size_t n, std::size_t first, const Trace& trace)
{
    if (first > table.shape(0) || n > table.shape(0) - first) // first + n could overflow
        throw ShapeError("learned_positions: table ", shape_of(table), " has no rows ", text(first), " to ",
                         text(first + n), ": it was learned for shorter sequences");
    const Term rows = trace.input("table[n_max, d]", table);
    return trace("positions[n, d]", slice(rows, first, first + n));
}

Matrix learned_positions(const Matrix& table, std::size_t n, std::size_t first, const Trace& trace)
{
    return Matrix(learned_positions(Term(table), n, first, trace));
}

namespace {

/// How much each of so many positions along a side takes of each that was learned.
Matrix shares_of(const std::string& side, std::size_t count, std::size_t learned, const Trace& trace)
{
    const double step = static_cast<double>(learned) / static_cast<double>(count);
    Matrix nearness(Matrix::shape_type{count, learned});
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < learned; ++j) {
            const double apart =
                std::abs(static_cast<double>(j) + 0.5 - (static_cast<double>(i) + 0.5) * step) / std::max(step, 1.0);
            nearness(i, j) = std::max(1 - apart, 0.0);
        }
    const std::string g = text(learned), ratio = g + " / " + text(count);
    const Term near = trace(side + "_nearness[" + side + "s, g]",
                            "maximum(1 - abs(arange(" + g + ") + 0.5 - (arange(" + text(count) +
                                ")[:, None] + 0.5) * (" + ratio + ")) / maximum(" + ratio + ", 1), 0)",
                            Term(std::move(nearness)));
    return Matrix(trace(side + "_weights[" + side + "s, g]", near / sum_along(near, -1, keepdims)));
}

} // namespace

Term<Matrix> resized_positions(const Term<Matrix>& table, std::size_t rows, std::size_t columns, const Trace& trace)
{
    const std::size_t d = table.shape(1);
    const auto g = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(table.shape(0)))));
    if (g * g != table.shape(0) || rows == 0 || columns == 0)
        throw ShapeError("resized_positions: table ", shape_of(table), " to ", text(rows), " rows and ", text(columns),
                         " columns, expected that of a square, and one of each at least");
    const Term learned = trace.input("table[n_max, d]", table);
    const Matrix down = shares_of("row", rows, g, trace), right = shares_of("column", columns, g, trace);

    Matrix positions = xt::zeros<double>({rows * columns, d});
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < g; ++i)
            for (std::size_t c = 0; c < columns && down(r, i) != 0; ++c)
                for (std::size_t j = 0; j < g; ++j)
                    for (std::size_t k = 0; k < d && right(c, j) != 0; ++k)
                        positions(r * columns + c, k) += down(r, i) * right(c, j) * (*learned)(i * g + j, k);
    const std::string side = text(g), width = text(d);
    return trace("positions[n, d]",
                 "reshape(column_weights @ reshape(row_weights @ reshape(table, " + side + ", " + text(g * d) + "), " +
                     text(rows) + ", " + side + ", " + width + "), " + text(rows * columns) + ", " + width + ")",
                 Term(std::move(positions)));
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

namespace {

Matrix bias_of(const Term<Matrix>& ahead, double slope, const Trace& trace)
{
    return Matrix(trace("bias[n, m]", number(-slope, trace) * abs(ahead)));
}

} // namespace

Matrix alibi_bias(std::size_t n, std::size_t m, double slope, const Trace& trace)
{
    expect_memory("bias", {n, m});
    const Term queries = arange(number(n, trace)), keys = arange(number(m, trace));
    return bias_of(each_row(queries) + (number(m, trace) - number(n, trace)) - keys, slope, trace);
}

Matrix alibi_bias(const Integers& queries, const Integers& keys, double slope, const Trace& trace)
{
    expect_memory("bias", {queries.size(), keys.size()});
    const Term of_queries = trace.shared_input("positions[n]", Term(queries));
    const Term of_keys = trace.shared_input("key_positions[m]", Term(keys));
    return bias_of(each_row(numbers_of(of_queries)) - numbers_of(of_keys), slope, trace);
}

namespace {

Tensor4 bias_of_buckets(const Term<Matrix>& given, const Matrix& given_table, const DistanceBuckets& options,
                        const Trace& trace)
{
    const Term table = trace.input("table[buckets, h]", Term(given_table));
    const std::size_t all = table.shape(0), heads = table.shape(1), n = given.shape(0), m = given.shape(1);
    const std::size_t count = options.is_bidirectional ? all / 2 : all, exact = count / 2;
    if (exact == 0 || all % (options.is_bidirectional ? 2 : 1) != 0 || options.farthest <= exact)
        throw ShapeError("bucket_bias: " + text(all) + " buckets up to a distance of " + text(options.farthest) +
                         " are not divided into those of one distance and farther ones");
    attn::expect_memory("bias", {heads, n, m});
    const auto first = static_cast<double>(exact), last = static_cast<double>(count);

    // Near keys have a bucket for each distance, farther ones share one with all that are about as far.
    const Term ahead = trace("ahead[n, m]", given);
    const Term distances = trace("distances[n, m]", options.is_bidirectional ? abs(ahead) : maximum(-ahead, 0.0));
    const Term ratio = log(maximum(distances, first) / first) / std::log(static_cast<double>(options.farthest) / first);
    const Term far = trace("far[n, m]", first + floor(ratio * (last - first)));
    const Term near = trace("near[n, m]", where(distances < first, distances, minimum(far, last - 1)));
    const Term buckets = options.is_bidirectional ? trace("buckets[n, m]", where(ahead > 0.0, near + last, near))
                                                  : trace.alias("buckets", near);

    // Each head has a number of its own for each bucket.
    const auto row_of = [&](double bucket) { // a listener can have replaced it
        if (!(bucket >= 0 && bucket < static_cast<double>(all) && bucket == std::floor(bucket)))
            throw ShapeError("bucket_bias: there is no bucket ", exact_text(bucket), " of ", text(all));
        return static_cast<std::size_t>(bucket);
    };
    Tensor4 bias(Tensor4::shape_type{1, heads, n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            for (std::size_t head = 0; head < heads; ++head)
                bias(0, head, i, j) = (*table)(row_of((*buckets)(i, j)), head);
    return trace("bias[one, h, n, m]", "permute(table[buckets], 2, 0, 1)[None]", std::move(bias));
}

} // namespace

Tensor4 bucket_bias(std::size_t n, std::size_t m, const Matrix& table, const DistanceBuckets& options,
                    const Trace& trace)
{
    const Term queries = arange(number(n, trace)), keys = arange(number(m, trace));
    return bias_of_buckets(keys - (each_row(queries) + (number(m, trace) - number(n, trace))), table, options, trace);
}

Tensor4 bucket_bias(const Integers& queries, const Integers& keys, const Matrix& table, const DistanceBuckets& options,
                    const Trace& trace)
{
    const Term of_queries = trace.shared_input("positions[n]", Term(queries));
    const Term of_keys = trace.shared_input("key_positions[m]", Term(keys));
    return bias_of_buckets(numbers_of(of_keys) - each_row(numbers_of(of_queries)), table, options, trace);
}

} // namespace attn
