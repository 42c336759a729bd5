#include "traced_ring.hpp"

#include "attn/reference/attention/scale.hpp"

#include <algorithm>

namespace attn::mpi {
namespace {

std::string rank_step(std::size_t rank, const char* step) { return "rank." + std::to_string(rank) + "." + step; }

/// One number per query, key, head and sequence where the mask depends on it, else one for all.
HeadMask::shape_type mask_shape(const AttentionShape& shape, const fast::Scoring& scoring, std::size_t n, std::size_t m)
{
    const bool by_sequence = scoring.mask || !scoring.key_lengths.empty();
    return {by_sequence ? shape.b : 1, scoring.mask ? shape.h : 1, scoring.mask || scoring.causal ? n : 1, m};
}

} // namespace

std::string columns_of(const std::string& name, const std::vector<Chunk>& chunks)
{
    std::string parts;
    std::size_t count = 0;
    for (const Chunk& chunk : chunks)
        if (chunk.count != 0) {
            parts += (count++ == 0 ? "" : ", ") + name + "[..., " + std::to_string(chunk.first) + ":" +
                     std::to_string(chunk.first + chunk.count) + "]";
        }
    return count > 1 ? "concat(" + parts + ", axis=-1)" : parts;
}

HopFormulas formulas_of_hop(const Ring& ring, std::size_t source, const AttentionShape& shape,
                            const fast::Scoring& scoring)
{
    const auto per_head = [&](const std::string& name) {
        return shape.h == shape.g ? name : "repeat(" + name + ", " + std::to_string(shape.h / shape.g) + ", axis=1)";
    };
    std::string scores = scale_formula(scoring.scale, "queries @ " + per_head("keys") + ".T");
    if (scoring.softcap)
        scores = exact_text(*scoring.softcap) + " * tanh(" + scores + " / " + exact_text(*scoring.softcap) + ")";
    if (scoring.bias)
        scores += " + " + columns_of("bias", ring.layout.of_rank[source]);
    if (!mask_formula(ring, source, scoring).empty())
        scores = "where(mask, " + scores + ", -inf)";
    return {scores, per_head("values")};
}

std::string mask_formula(const Ring& ring, std::size_t source, const fast::Scoring& scoring)
{
    const std::string keys = rank_step(source, "positions");
    std::string formula;
    const auto add = [&](const std::string& part) { formula += (formula.empty() ? "" : " & ") + part; };
    if (scoring.causal)
        add("(" + keys + "[None, None, None, :] <= positions[:, None])");
    if (!scoring.key_lengths.empty())
        add("(" + keys + " < lengths[:, None, None, None])");
    if (scoring.mask)
        add(columns_of("given_mask", ring.layout.of_rank[source]));
    return formula;
}

HeadMask mask_of_hop(const Ring& ring, std::size_t source, const AttentionShape& shape, const fast::Scoring& scoring)
{
    HeadMask mask(mask_shape(shape, scoring, ring.layout.tokens(ring.rank), ring.layout.tokens(source)));
    std::ranges::fill(mask, false);
    std::vector<std::int64_t> lengths;
    for (const ChunkPair& pair : pairs_of(ring.layout, ring.rank, source, scoring)) {
        const fast::Scoring here = scoring_of(pair, scoring, lengths);
        const std::size_t rows = mask.shape(2) == 1 ? 1 : pair.queries.count;
        const std::size_t first = mask.shape(2) == 1 ? 0 : pair.query_row;
        for (std::size_t b = 0; b < mask.shape(0); ++b)
            for (std::size_t h = 0; h < mask.shape(1); ++h)
                for (std::size_t i = 0; i < rows; ++i)
                    for (std::size_t j = 0; j < pair.keys.count; ++j)
                        mask(b, h, first + i, pair.key_row + j) =
                            (!pair.is_diagonal || j <= i) &&
                            (lengths.empty() || static_cast<std::int64_t>(j) < lengths[b]) &&
                            (!here.mask || here.mask.row(b, h, i)[j]);
    }
    return mask;
}

Integers positions_of(const std::vector<Chunk>& chunks)
{
    std::vector<std::int64_t> positions;
    for (const Chunk& chunk : chunks)
        for (std::size_t i = 0; i < chunk.count; ++i)
            positions.push_back(static_cast<std::int64_t>(chunk.first + i));
    Integers all(Integers::shape_type{positions.size()});
    std::ranges::copy(positions, all.begin());
    return all;
}

StepOptions describe(const fast::Scoring& scoring, const Layout& layout)
{
    StepOptions options{
        {"type", "float32"}, {"ranks", std::to_string(layout.ranks())}, {"scale", describe_scale(scoring.scale)}};
    if (scoring.softcap)
        options.emplace_back("softcap", exact_text(*scoring.softcap));
    return options;
}

} // namespace attn::mpi
