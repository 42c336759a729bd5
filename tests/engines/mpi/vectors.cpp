#include "attn/engines/mpi/ring_attention.hpp"

#include "test.hpp"
#include "vectors/fast_case.hpp"
#include "whole.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// The rows of this rank's tokens, of each head.
std::vector<float> rows_here(const std::vector<float>& all, const mpi::Layout& layout,
                             const std::array<std::size_t, 4>& of)
{
    return rows_of_rank(all, layout, this_rank(), of[0] * of[1], of[3]);
}

/// Each rank has some of the tokens; all get the whole result.
int ring_attention(const attn_case* one, double** outputs)
{
    const auto given = fast_case(*one);
    if (!given || given->of_queries[2] != given->of_keys[2] || given->scoring.past > 0 ||
        given->scoring.window.is_limited() || given->scoring.mask || given->scoring.bias)
        return 1;
    const mpi::Layout layout = mpi::zigzag_layout(given->of_queries[2], all_ranks());
    const std::size_t here = layout.tokens(this_rank());
    const auto part = [&](std::array<std::size_t, 4> of) {
        of[2] = here;
        return of;
    };
    const std::vector<float> queries = rows_here(given->queries, layout, given->of_queries),
                             keys = rows_here(given->keys, layout, given->of_keys),
                             values = rows_here(given->values, layout, given->of_values);
    const std::array<std::size_t, 4> of_context = part(given->of_context);
    const auto& [b, h, n, d_v] = of_context;
    std::vector<float> context(b * h * n * d_v), largest(b * h * n), sum(b * h * n);
    mpi::ring_attention(fast::head_rows<const float>(queries.data(), part(given->of_queries)),
                        fast::head_rows<const float>(keys.data(), part(given->of_keys)),
                        fast::head_rows<const float>(values.data(), part(given->of_values)), layout, given->scoring,
                        fast::head_rows(context.data(), of_context), {largest, sum}, MPI_COMM_WORLD);

    const std::size_t tokens = given->of_context[2];
    std::vector<double> whole(b * h * tokens * d_v);
    std::size_t at = 0;
    for (std::size_t head = 0; head < b * h; ++head)
        for (const mpi::Chunk& chunk : layout.of_rank[this_rank()])
            for (std::size_t i = chunk.first * d_v; i < (chunk.first + chunk.count) * d_v; ++i)
                whole[head * tokens * d_v + i] = context[at++];
    MPI_Allreduce(whole.data(), outputs[0], static_cast<int>(whole.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

} // namespace

TEST_CASE("ring attention passes the vectors in float32, whatever the number of ranks", "[mpi][ring][vectors]")
{
    CHECK(attn_check(ring_attention, ATTN_FLOAT32) == 0);
}
