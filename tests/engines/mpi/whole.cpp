#include "whole.hpp"

#include "attn/core/number_type.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::test {
namespace {

std::vector<float> drawn(std::mt19937_64& engine, std::size_t count, float size)
{
    std::vector<float> all(count);
    for (float& number : all)
        number = size * (static_cast<float>(engine() >> 40) * 0x1p-23F - 1);
    return all;
}

Array part_of(const std::vector<float>& numbers, std::size_t block, std::size_t rows, std::size_t columns)
{
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(block * rows * columns);
    return {{rows, columns}, {first, first + static_cast<std::ptrdiff_t>(rows * columns)}};
}

} // namespace

std::size_t this_rank()
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return static_cast<std::size_t>(rank);
}

std::size_t all_ranks()
{
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return static_cast<std::size_t>(ranks);
}

Whole::Whole(std::size_t tokens, const Drawing& drawing, std::uint64_t seed)
    : n(tokens), shape(drawing.shape), lengths_(drawing.lengths)
{
    std::mt19937_64 engine(seed);
    const std::size_t of_queries = shape.b * shape.h * n, of_keys = shape.b * shape.g * n;
    queries = drawn(engine, of_queries * shape.d_k, 3);
    keys = drawn(engine, of_keys * shape.d_k, 3);
    values = drawn(engine, of_keys * shape.d_v, 1);
    grad_context = drawn(engine, of_queries * shape.d_v, 1);
    scoring_ = {.scale = drawing.scale, .softcap = drawing.softcap, .key_lengths = lengths_};
    if (drawing.is_causal)
        scoring_.causal = Causal::bottom_right;
    if (drawing.has_bias) {
        bias_ = drawn(engine, shape.h * n * n, 2);
        scoring_.bias = {bias_.data(), {0, n * n, n}};
    }
    if (drawing.has_mask) {
        mask_ = std::make_unique<bool[]>(shape.b * n * n);
        for (std::size_t i = 0; i < shape.b * n * n; ++i)
            mask_[i] = i % (n * n) == 0 || engine() % 3 != 0; // the first query has a key
        scoring_.mask = {mask_.get(), {n * n, 0, n}};
    }
}

/// By the definitions of masks, pair by pair.
bool Whole::is_allowed(std::size_t b, std::size_t i, std::size_t j) const
{
    return (!scoring_.causal || j <= i) && (lengths_.empty() || static_cast<std::int64_t>(j) < lengths_[b]) &&
           (!mask_ || mask_[(b * n + i) * n + j]);
}

std::string Whole::weights() const
{
    std::string scores = "queries @ keys.T * scale";
    if (scoring_.softcap)
        scores = "cap * tanh(" + scores + " / cap)";
    return "softmax(where(mask, " + scores + " + bias, -inf))";
}

std::string Whole::grad_scores() const
{
    const std::string arrived = "(grad_context @ values.T)", p = weights();
    std::string grad = p + " * (" + arrived + " - sum(" + p + " * " + arrived + ", axis=-1, keepdims=True)) * scale";
    if (scoring_.softcap)
        grad += " * (1 - tanh(queries @ keys.T * scale / cap) ** 2)";
    return "(" + grad + ")";
}

formula::Evaluated Whole::evaluated(const std::string& formula, std::size_t b, std::size_t head) const
{
    const std::size_t group = b * shape.g + head / (shape.h / shape.g);
    const double scale = scoring_.scale.value_or(1 / std::sqrt(static_cast<float>(shape.d_k)));
    Array mask{{n, n}, {}, ElementType::boolean}, bias{{n, n}, std::vector<double>(n * n)};
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
            mask.values.push_back(is_allowed(b, i, j) ? 1 : 0);
    if (!bias_.empty())
        bias = part_of(bias_, head, n, n);
    const std::map<std::string, Array, std::less<>> given{
        {"queries", part_of(queries, b * shape.h + head, n, shape.d_k)},
        {"keys", part_of(keys, group, n, shape.d_k)},
        {"values", part_of(values, group, n, shape.d_v)},
        {"grad_context", part_of(grad_context, b * shape.h + head, n, shape.d_v)},
        {"mask", mask},
        {"bias", bias},
        {"scale", {{}, {scale}}},
        {"cap", {{}, {scoring_.softcap.value_or(1)}}}};
    const double roundoff = roundoff_of(NumberType::float32);
    return formula::evaluate(formula, [&](std::string_view name) { return &given.find(name)->second; },
                             {.roundoff = roundoff, .stored_roundoff = roundoff});
}

formula::Evaluated Whole::summed(const std::string& formula, std::size_t b, std::size_t group) const
{
    const std::size_t heads = shape.h / shape.g;
    formula::Evaluated sum = evaluated(formula, b, group * heads);
    for (std::size_t head = group * heads + 1; head < (group + 1) * heads; ++head) {
        const formula::Evaluated more = evaluated(formula, b, head);
        for (std::size_t i = 0; i < sum.error.size(); ++i) {
            sum.value.values[i] += more.value.values[i];
            sum.error[i] += more.error[i];
        }
    }
    return sum;
}

formula::Evaluated Whole::context(std::size_t b, std::size_t head) const
{
    return evaluated(weights() + " @ values", b, head);
}

formula::Evaluated Whole::grad_queries(std::size_t b, std::size_t head) const
{
    return evaluated(grad_scores() + " @ keys", b, head);
}

formula::Evaluated Whole::grad_keys(std::size_t b, std::size_t group) const
{
    return summed(grad_scores() + ".T @ queries", b, group);
}

formula::Evaluated Whole::grad_values(std::size_t b, std::size_t group) const
{
    return summed(weights() + ".T @ grad_context", b, group);
}

std::vector<float> rows_of_rank(const std::vector<float>& all, const mpi::Layout& layout, std::size_t rank,
                                std::size_t blocks, std::size_t features)
{
    std::vector<float> rows;
    for (std::size_t block = 0; block < blocks; ++block)
        for (const mpi::Chunk& chunk : layout.of_rank[rank]) {
            const auto first =
                all.begin() + static_cast<std::ptrdiff_t>((block * layout.tokens() + chunk.first) * features);
            rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(chunk.count * features));
        }
    return rows;
}

Shard::Shard(const Whole& whole, const mpi::Layout& given) : layout(given), scoring(whole.scoring())
{
    const mpi::AttentionShape& shape = whole.shape;
    const std::size_t rank = this_rank(), n = layout.tokens(rank), m = whole.n;
    of_queries = {shape.b, shape.h, n, shape.d_k};
    of_keys = {shape.b, shape.g, n, shape.d_k};
    of_values = {shape.b, shape.g, n, shape.d_v};
    of_context = {shape.b, shape.h, n, shape.d_v};
    const auto cut = [&](const std::vector<float>& all, const std::array<std::size_t, 4>& of) {
        return rows_of_rank(all, layout, rank, of[0] * of[1], of[3]);
    };
    queries = cut(whole.queries, of_queries);
    keys = cut(whole.keys, of_keys);
    values = cut(whole.values, of_values);
    grad_context = cut(whole.grad_context, of_context);
    context.assign(grad_context.size(), -7); // is to be overwritten
    largest.assign(shape.b * shape.h * n, -7);
    sum.assign(largest.size(), -7);
    if (scoring.bias) {
        const std::vector<float> all(scoring.bias.numbers, scoring.bias.numbers + shape.h * m * m);
        bias_ = rows_of_rank(all, layout, rank, shape.h, m);
        scoring.bias = {bias_.data(), {0, n * m, m}};
    }
    if (scoring.mask) {
        const std::vector<float> all(scoring.mask.numbers, scoring.mask.numbers + shape.b * m * m);
        const std::vector<float> rows = rows_of_rank(all, layout, rank, shape.b, m);
        mask_ = std::make_unique<bool[]>(rows.size());
        std::ranges::transform(rows, mask_.get(), [](float number) { return number != 0; });
        scoring.mask = {mask_.get(), {n * m, 0, m}};
    }
}

Verdict over_all_ranks(Verdict mine)
{
    MPI_Allreduce(MPI_IN_PLACE, &mine.worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &mine.largest_expected, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &mine.largest_found, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return mine;
}

void judge(Verdict& verdict, double found, double expected, double error)
{
    const double off = std::abs(found - expected);
    if (!(off <= 0))
        verdict.worst =
            std::max(verdict.worst, std::isfinite(off) ? off / error : std::numeric_limits<double>::infinity());
    verdict.largest_expected = std::max(verdict.largest_expected, std::abs(expected));
    verdict.largest_found = std::max(verdict.largest_found, std::abs(found));
}

std::vector<Drawing> drawings(std::size_t n)
{
    const auto length = static_cast<std::int64_t>(n);
    const std::int64_t few = std::max<std::int64_t>(1, length / 4); // whole blocks are padding
    return {{},
            {.is_causal = true},
            {.shape = {2, 4, 2, 7, 4}, .is_causal = true, .scale = 0.3F},
            {.shape = {2, 3, 1, 4, 5}, .lengths = {few, length}},
            {.shape = {2, 2, 2, 4, 4}, .is_causal = true, .lengths = {few, length - few / 2}},
            {.shape = {2, 2, 1, 3, 3}, .has_mask = true, .softcap = 2.F},
            {.shape = {1, 3, 3, 3, 1}, .is_causal = true, .has_mask = true, .has_bias = true}};
}

std::vector<mpi::Layout> layouts()
{
    const std::size_t ranks = all_ranks();
    std::vector<std::size_t> uneven, none_first(ranks, 3), none_last(ranks, 2);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        uneven.push_back(1 + 5 * rank % 4);
    if (ranks > 1)
        none_first.front() = none_last.back() = 0;
    mpi::Layout backwards = mpi::contiguous_layout(uneven);
    std::ranges::reverse(backwards.of_rank);
    return {mpi::contiguous_layout(11, ranks), mpi::contiguous_layout(uneven),       mpi::contiguous_layout(none_first),
            mpi::contiguous_layout(none_last), mpi::contiguous_layout(ranks, ranks), mpi::contiguous_layout(1, ranks),
            mpi::zigzag_layout(17, ranks),     mpi::zigzag_layout(ranks + 1, ranks), backwards};
}

std::string to_text(const mpi::Layout& layout)
{
    std::string text;
    for (const std::vector<mpi::Chunk>& chunks : layout.of_rank) {
        for (const mpi::Chunk& chunk : chunks)
            text += std::to_string(chunk.first) + "+" + std::to_string(chunk.count) + " ";
        text += "| ";
    }
    return text;
}

} // namespace attn::test
