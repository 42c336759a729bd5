#include "ring.hpp"

#include "attn/core/shape.hpp"
#include "communicator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::mpi {
namespace {

bool has_real_keys(const Chunk& keys, const fast::Scoring& scoring)
{
    return scoring.key_lengths.empty() ||
           static_cast<std::int64_t>(keys.first) < *std::ranges::max_element(scoring.key_lengths);
}

std::string text_of(const std::array<std::size_t, 4>& shape) { return to_string(Shape(shape.begin(), shape.end())); }

void expect_lengths(const fast::Scoring& scoring, std::size_t b, std::size_t tokens)
{
    if (scoring.causal == Causal::by_length && scoring.key_lengths.empty() && b != 0)
        throw Error("it is causal by length, and there are no key_lengths");
    if (!scoring.key_lengths.empty() && scoring.key_lengths.size() != b)
        throw ShapeError(scoring.key_lengths.size(), " lengths for ", b, " sequences");
    for (const std::int64_t length : scoring.key_lengths)
        if (length < 0 || static_cast<std::size_t>(length) > tokens)
            throw ShapeError("a length is ", length, ", expected 0 to ", tokens, " keys");
}

/// Where there is none, a number that is not NaN, so that none equals none.
double value_or_none(const std::optional<float>& given)
{
    return given ? *given : std::numeric_limits<double>::infinity();
}

double checksum(std::span<const std::int64_t> lengths)
{
    double sum = static_cast<double>(lengths.size());
    for (const std::int64_t length : lengths)
        sum = std::fmod(sum * 31 + static_cast<double>(length), 0x1p31);
    return sum;
}

} // namespace

void expect_shapes(const std::vector<Named>& all)
{
    for (const Named& tensor : all)
        if (tensor.shape != tensor.expected)
            throw ShapeError(tensor.name, " ", text_of(tensor.shape), ", expected ", text_of(tensor.expected));
}

void expect_ring_scoring(const fast::Scoring& scoring)
{
    const auto refuse = [](const char* what) { throw Error(what, " can't be computed around a ring"); };
    if (!scoring.alibi_slopes.empty())
        refuse("ALiBi");
    if (scoring.window.is_limited())
        refuse("a window");
    if (scoring.past != 0)
        refuse("a past");
    if (scoring.causal == Causal::by_length)
        refuse("a mask that is causal by length");
}

std::vector<ChunkPair> pairs_of(const Layout& layout, std::size_t query_rank, std::size_t key_rank,
                                const fast::Scoring& scoring)
{
    std::vector<ChunkPair> pairs;
    std::size_t query_row = 0;
    for (const Chunk& queries : layout.of_rank[query_rank]) {
        std::size_t key_row = 0;
        for (const Chunk& keys : layout.of_rank[key_rank]) {
            const bool is_empty = queries.count == 0 || keys.count == 0 || !has_real_keys(keys, scoring) ||
                                  (scoring.causal && keys.first > queries.first);
            if (!is_empty)
                pairs.push_back({queries, keys, query_row, key_row, scoring.causal && keys.first == queries.first});
            key_row += keys.count;
        }
        query_row += queries.count;
    }
    return pairs;
}

fast::Scoring scoring_of(const ChunkPair& pair, const fast::Scoring& whole, std::vector<std::int64_t>& lengths)
{
    fast::Scoring scoring = whole;
    scoring.causal.reset();
    if (pair.is_diagonal)
        scoring.causal = Causal::bottom_right;
    const auto first = static_cast<std::int64_t>(pair.keys.first), count = static_cast<std::int64_t>(pair.keys.count);
    lengths.clear();
    for (const std::int64_t length : whole.key_lengths)
        lengths.push_back(std::clamp<std::int64_t>(length - first, 0, count));
    scoring.key_lengths = lengths;
    if (scoring.mask)
        scoring.mask.numbers += pair.query_row * scoring.mask.strides[2] + pair.keys.first;
    if (scoring.bias)
        scoring.bias.numbers += pair.query_row * scoring.bias.strides[2] + pair.keys.first;
    return scoring;
}

void copy_rows(const Const& from, const HeadRows<float>& to)
{
    for (std::size_t b = 0; b < to.batch(); ++b)
        for (std::size_t h = 0; h < to.heads(); ++h)
            for (std::size_t i = 0; i < to.rows(); ++i)
                std::copy_n(from.row(b, h, i), to.features(), to.row(b, h, i));
}

Ring::Ring(MPI_Comm communicator, const Layout& given)
    : comm(communicator), layout(given), rank(rank_in(communicator)), ranks(ranks_in(communicator))
{
}

void Transfer::send(const Ring& ring, Block& block)
{
    MPI_Isend(block.data(), static_cast<int>(block.size()), MPI_FLOAT, static_cast<int>(ring.next()), tag_, ring.comm,
              &sent_);
}

void Transfer::receive(const Ring& ring, Block& block, std::size_t tokens)
{
    block.resize(tokens);
    MPI_Irecv(block.data(), static_cast<int>(block.size()), MPI_FLOAT, static_cast<int>(ring.previous()), tag_,
              ring.comm, &received_);
}

AttentionShape attention_shape(const Const& queries, const Const& keys, const Const& values)
{
    return {queries.batch(), queries.heads(), keys.heads(), queries.features(), values.features()};
}

void agree_on_attention(MPI_Comm comm, std::string_view function, const Layout& layout, const Const& queries,
                        const Const& keys, const Const& values, const fast::Scoring& scoring,
                        const std::function<void()>& further)
{
    const AttentionShape shape = attention_shape(queries, keys, values);
    const auto number = [](std::size_t count) { return static_cast<double>(count); };
    const std::vector<Fact> facts{{"b", number(shape.b)},
                                  {"h", number(shape.h)},
                                  {"g", number(shape.g)},
                                  {"d_k", number(shape.d_k)},
                                  {"d_v", number(shape.d_v)},
                                  {"the layout's checksum", checksum(layout)},
                                  {"causal", scoring.causal ? 1. : 0.},
                                  {"scale", value_or_none(scoring.scale)},
                                  {"softcap", value_or_none(scoring.softcap)},
                                  {"the lengths' checksum", checksum(scoring.key_lengths)}};
    agree(comm, function, facts, [&] {
        if (layout.ranks() != ranks_in(comm))
            throw Error("a layout of ", layout.ranks(), " ranks for ", ranks_in(comm), " ranks");
        expect_each_token_once(layout);
        const std::size_t n = layout.tokens(rank_in(comm));
        expect_shapes({{"queries", queries.shape, {shape.b, shape.h, n, shape.d_k}},
                       {"keys", keys.shape, {shape.b, shape.g, n, shape.d_k}},
                       {"values", values.shape, {shape.b, shape.g, n, shape.d_v}}});
        if (shape.g == 0 || shape.h % shape.g != 0)
            throw ShapeError(shape.h, " query heads can't be divided evenly among ", shape.g, " key/value heads");
        expect_lengths(scoring, shape.b, layout.tokens());
        further();
    });
}

} // namespace attn::mpi
