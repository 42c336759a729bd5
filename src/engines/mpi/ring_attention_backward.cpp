#include "attn/engines/mpi/ring_attention_backward.hpp"

#include "attn/engines/fast/merge.hpp"
#include "communicator.hpp"
#include "ring.hpp"

#include <algorithm>

namespace attn::mpi {
namespace {

constexpr std::string_view backward_function = "mpi::ring_attention_backward";

/// Numbers per query of a rank, chunk by chunk: the kernel wants those of one chunk side by side.
std::vector<float> by_chunks(std::span<const float> sums, const AttentionShape& shape, const std::vector<Chunk>& chunks)
{
    const std::size_t heads = shape.b * shape.h, n = heads == 0 ? 0 : sums.size() / heads;
    std::vector<float> all;
    all.reserve(sums.size());
    std::size_t row = 0;
    for (const Chunk& chunk : chunks) {
        for (std::size_t head = 0; head < heads; ++head) {
            const auto first = sums.begin() + static_cast<std::ptrdiff_t>(head * n + row);
            all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(chunk.count));
        }
        row += chunk.count;
    }
    return all;
}

/// What one rank's queries contribute.
class Contributions {
public:
    Contributions(const Ring& ring, const AttentionShape& shape, const fast::Scoring& scoring, const Const& queries,
                  const Const& context, const fast::SoftmaxSumsView& sums, const Const& grad_context,
                  const HeadRows<float>& grad_queries)
        : ring_(ring),
          shape_(shape),
          scoring_(scoring),
          queries_(queries),
          context_(context),
          grad_context_(grad_context),
          grad_queries_(grad_queries),
          largest_(by_chunks(sums.largest, shape, ring.layout.of_rank[ring.rank])),
          sum_(by_chunks(sums.sum, shape, ring.layout.of_rank[ring.rank])),
          of_queries_(shape.b * shape.h * ring.layout.largest_chunk(ring.rank) * shape.d_k),
          of_keys_(shape, ring.layout.largest_chunk())
    {
        set_zero(grad_queries);
    }

    /// To the gradients of one block, which is written, and to those of the queries, to which it is added.
    void find(std::size_t source, Block& keys_and_values, Block& gradients)
    {
        gradients.resize(keys_and_values.tokens());
        set_zero(gradients.keys());
        set_zero(gradients.values());
        for (const ChunkPair& pair : pairs_of(ring_.layout, ring_.rank, source, scoring_))
            find_of_pair(pair, keys_and_values, gradients);
    }

private:
    void find_of_pair(const ChunkPair& pair, Block& block, Block& gradients)
    {
        const std::size_t rows = pair.queries.count, all = shape_.b * shape_.h * rows;
        const std::size_t first = shape_.b * shape_.h * pair.query_row;
        const auto of_queries = [&](const auto& every) { return fast::rows_of(every, pair.query_row, rows); };
        const auto of_keys = [&](const auto& every) { return fast::rows_of(every, pair.key_row, pair.keys.count); };
        const HeadRows<float> found = fast::head_rows(of_queries_.data(), {shape_.b, shape_.h, rows, shape_.d_k});
        of_keys_.resize(pair.keys.count);
        fast::attention_backward(of_queries(queries_), of_keys(block.keys()), of_keys(block.values()),
                                 scoring_of(pair, scoring_, lengths_), of_queries(context_),
                                 {{&largest_[first], all}, {&sum_[first], all}}, of_queries(grad_context_), found,
                                 of_keys_.keys(), of_keys_.values());
        add_rows(found, of_queries(grad_queries_));
        add_rows(of_keys_.keys(), of_keys(gradients.keys()));
        add_rows(of_keys_.values(), of_keys(gradients.values()));
    }

    const Ring& ring_;
    AttentionShape shape_;
    const fast::Scoring& scoring_;
    Const queries_, context_, grad_context_;
    HeadRows<float> grad_queries_;
    std::vector<float> largest_, sum_, of_queries_;
    Block of_keys_;
    std::vector<std::int64_t> lengths_;
};

/// The blocks on their way, with their gradients one hop after them.
class BackwardRing {
public:
    BackwardRing(const Ring& ring, const AttentionShape& shape)
        : ring_(ring),
          here_(shape, ring.layout.most_tokens()),
          found_(shape, ring.layout.most_tokens()),
          next_(shape, if_several(ring)),
          sent_(shape, if_several(ring)),
          arriving_(shape, if_several(ring))
    {
    }

    void run(const Const& keys, const Const& values, Contributions& contributions, Traffic& traffic)
    {
        here_.resize(keys.rows());
        copy_rows(keys, here_.keys());
        copy_rows(values, here_.values());
        for (std::size_t k = 0; k < ring_.ranks; ++k) {
            start(k);
            contributions.find(ring_.source(k), here_, found_);
            traffic.sent.push_back(finish(k));
        }
        if (ring_.ranks == 1) {
            traffic.sent.clear();
            return;
        }
        gradients_.receive(ring_, arriving_, ring_.layout.tokens(ring_.rank));
        gradients_.wait_received();
        gradients_.wait_sent();
        std::swap(found_, arriving_);
    }

    /// Of this rank's own keys and values.
    Block& gradients() { return found_; }

private:
    static std::size_t if_several(const Ring& ring) { return ring.ranks > 1 ? ring.layout.most_tokens() : 0; }
    bool is_last(std::size_t k) const { return k + 1 == ring_.ranks; }

    /// Sends on what is at hand.
    void start(std::size_t k)
    {
        if (!is_last(k)) {
            keys_and_values_.receive(ring_, next_, ring_.layout.tokens(ring_.source(k + 1)));
            keys_and_values_.send(ring_, here_);
        }
        if (k != 0)
            gradients_.receive(ring_, arriving_, here_.tokens());
    }

    /// Adds what the ranks before have contributed, and sends it on.
    /// @return the bytes sent in this hop
    std::size_t finish(std::size_t k)
    {
        if (k != 0) {
            gradients_.wait_received();
            add_rows(arriving_.keys(), found_.keys());
            add_rows(arriving_.values(), found_.values());
            gradients_.wait_sent();
        }
        const std::size_t bytes = (is_last(k) ? 1 : 2) * found_.size() * sizeof(float);
        if (ring_.ranks > 1) {
            std::swap(found_, sent_);
            gradients_.send(ring_, sent_);
        }
        if (!is_last(k)) {
            keys_and_values_.wait_sent();
            keys_and_values_.wait_received();
            std::swap(here_, next_);
        }
        return bytes;
    }

    const Ring& ring_;
    Block here_, found_, next_, sent_, arriving_;
    Transfer keys_and_values_{key_value_tag}, gradients_{gradient_tag};
};

} // namespace

void ring_attention_backward(const Const& queries, const Const& keys, const Const& values, const Layout& layout,
                             const fast::Scoring& scoring, const Const& context, const fast::SoftmaxSumsView& sums,
                             const Const& grad_context, const HeadRows<float>& grad_queries,
                             const HeadRows<float>& grad_keys, const HeadRows<float>& grad_values, MPI_Comm comm,
                             Traffic* traffic)
{
    const AttentionShape shape = attention_shape(queries, keys, values);
    agree_on_attention(comm, backward_function, layout, queries, keys, values, scoring, [&] {
        const std::size_t n = queries.rows(), all = shape.b * shape.h * n;
        const std::array<std::size_t, 4> of_context{shape.b, shape.h, n, shape.d_v};
        expect_ring_scoring(scoring);
        expect_shapes({{"context", context.shape, of_context},
                       {"grad_context", grad_context.shape, of_context},
                       {"largest", {sums.largest.size(), 1, 1, 1}, {all, 1, 1, 1}},
                       {"sum", {sums.sum.size(), 1, 1, 1}, {all, 1, 1, 1}},
                       {"grad_queries", grad_queries.shape, queries.shape},
                       {"grad_keys", grad_keys.shape, keys.shape},
                       {"grad_values", grad_values.shape, values.shape}});
        message_size(backward_function, Block::size_of(shape, layout.most_tokens()));
    });
    abort_on_error(comm, backward_function, [&] {
        const Ring ring(comm, layout);
        Contributions contributions(ring, shape, scoring, queries, context, sums, grad_context, grad_queries);
        BackwardRing around(ring, shape);
        Traffic counted;
        around.run(keys, values, contributions, counted);
        copy_rows(around.gradients().keys(), grad_keys);
        copy_rows(around.gradients().values(), grad_values);
        if (traffic != nullptr)
            *traffic = counted;
    });
}

Traffic predicted_ring_backward_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    Traffic traffic;
    for (std::size_t k = 0; layout.ranks() > 1 && k < layout.ranks(); ++k) {
        const std::size_t source = (rank + layout.ranks() - k) % layout.ranks();
        const std::size_t blocks = k + 1 == layout.ranks() ? 1 : 2;
        traffic.sent.push_back(sizeof(float) * blocks * Block::size_of(shape, layout.tokens(source)));
    }
    return traffic;
}

std::size_t predicted_ring_backward_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    const std::size_t n = layout.tokens(rank), blocks = layout.ranks() > 1 ? 5 : 2;
    const std::size_t of_pair =
        shape.b * shape.h * layout.largest_chunk(rank) * shape.d_k + Block::size_of(shape, layout.largest_chunk());
    return sizeof(float) * (blocks * Block::size_of(shape, layout.most_tokens()) + of_pair + 2 * shape.b * shape.h * n);
}

} // namespace attn::mpi
