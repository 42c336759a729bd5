#pragma once

#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/layout.hpp"
#include "attn/engines/mpi/traffic.hpp"

#include <mpi.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace attn::mpi {

using fast::HeadRows;
using Const = HeadRows<const float>;

/// A chunk of queries and a chunk of keys, some of which the queries can attend to.
struct ChunkPair {
    Chunk queries, keys;                    ///< in the sequence
    std::size_t query_row = 0, key_row = 0; ///< where they begin among the rows of their ranks
    bool is_diagonal = false;               ///< it is one chunk, of which the causal mask allows the lower triangle
};

/// The pairs of one hop, but for those that a causal mask or the lengths empty.
std::vector<ChunkPair> pairs_of(const Layout& layout, std::size_t query_rank, std::size_t key_rank,
                                const fast::Scoring& scoring);

/// The scoring of one pair.
/// @param whole    of this rank's queries and all keys
/// @param lengths  (b), is written: how many keys of the chunk are real
fast::Scoring scoring_of(const ChunkPair& pair, const fast::Scoring& whole, std::vector<std::int64_t>& lengths);

/// Keys and values of some tokens, in one piece that can be sent.
class Block {
public:
    Block(const AttentionShape& shape, std::size_t most_tokens) : shape_(shape), numbers_(size_of(shape, most_tokens))
    {
    }

    static std::size_t size_of(const AttentionShape& shape, std::size_t tokens)
    {
        return shape.b * shape.g * tokens * (shape.d_k + shape.d_v);
    }

    /// Makes it the block of so many tokens, whose numbers are unknown yet.
    void resize(std::size_t tokens) { tokens_ = tokens; }
    std::size_t tokens() const { return tokens_; }
    std::size_t size() const { return size_of(shape_, tokens_); }
    float* data() { return numbers_.data(); }

    HeadRows<float> keys() { return fast::head_rows(data(), {shape_.b, shape_.g, tokens_, shape_.d_k}); }
    HeadRows<float> values()
    {
        return fast::head_rows(data() + shape_.b * shape_.g * tokens_ * shape_.d_k,
                               {shape_.b, shape_.g, tokens_, shape_.d_v});
    }

private:
    AttentionShape shape_;
    std::size_t tokens_ = 0;
    std::vector<float> numbers_;
};

/// The numbers of rows go to other rows of the same shape.
void copy_rows(const Const& from, const HeadRows<float>& to);

struct Ring {
    MPI_Comm comm;
    const Layout& layout;
    std::size_t rank, ranks;

    Ring(MPI_Comm comm, const Layout& layout);
    std::size_t next() const { return (rank + 1) % ranks; }
    std::size_t previous() const { return (rank + ranks - 1) % ranks; }
    /// The rank whose keys and values are here at a hop.
    std::size_t source(std::size_t hop) const { return (rank + ranks - hop) % ranks; }
};

/// Blocks on their way: one goes to the next rank while that of the rank before arrives. Both can be waited for alone.
class Transfer {
public:
    explicit Transfer(int tag) : tag_(tag) {}
    void send(const Ring& ring, Block& block);
    /// @param tokens  of the block that is to arrive
    void receive(const Ring& ring, Block& block, std::size_t tokens);
    void wait_sent() { MPI_Wait(&sent_, MPI_STATUS_IGNORE); }
    void wait_received() { MPI_Wait(&received_, MPI_STATUS_IGNORE); }

private:
    int tag_;
    MPI_Request sent_ = MPI_REQUEST_NULL, received_ = MPI_REQUEST_NULL;
};

inline constexpr int key_value_tag = 1701;

/// One argument or result, for errors.
struct Named {
    std::string_view name;
    std::array<std::size_t, 4> shape;
    std::array<std::size_t, 4> expected;
};

/// @throws ShapeError where a tensor has another shape than expected
void expect_shapes(const std::vector<Named>& all);

/// Checks the arguments of attention on all ranks: the layout, the shapes, the lengths.
/// @param further  checks of this function's own
void agree_on_attention(MPI_Comm comm, std::string_view function, const Layout& layout, const Const& queries,
                        const Const& keys, const Const& values, const fast::Scoring& scoring,
                        const std::function<void()>& further);

/// Checks that the scoring can be computed around a ring.
/// @throws Error where it can't
void expect_ring_scoring(const fast::Scoring& scoring);

AttentionShape attention_shape(const Const& queries, const Const& keys, const Const& values);

} // namespace attn::mpi
