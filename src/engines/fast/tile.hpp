#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

/// @file
/// What is compiled for each instruction set: tile.cpp, once per set, chosen at run time.

namespace attn::fast {

/// Keys and values are packed in panels of so many columns, each (rows, panel_columns), zeros where there are none.
inline constexpr std::size_t panel_columns = 32;
/// Products are computed so many rows at a time.
inline constexpr std::size_t block_rows = 12;
/// The sizes of a tile of scores.
inline constexpr std::size_t tile_rows = 5 * block_rows, tile_columns = 4 * panel_columns;

constexpr std::size_t panels(std::size_t count, std::size_t size) { return (count + size - 1) / size; }
constexpr std::size_t padded(std::size_t count, std::size_t size) { return panels(count, size) * size; }

inline constexpr float no_score = -std::numeric_limits<float>::infinity();

/// The keys that one query can attend to, but for a mask: first to last, last excluded.
struct KeyRange {
    std::size_t first = 0, last = 0;
};

/// The state of a tile of queries after a part of the work with one tile of keys.
struct TileState {
    std::size_t first = 0, columns = 0;       ///< the keys
    float* scores = nullptr;                  ///< (rows, tile_columns): raw, then finished, then their exponentials
    float* context = nullptr;                 ///< (rows, padded d_v): not yet divided by the sum
    float *largest = nullptr, *sum = nullptr; ///< of each row
    float* before = nullptr;                  ///< of each row: the largest before these keys
    float* correction = nullptr;              ///< of each row: what the earlier sum and context are multiplied by
};

/// Sees each part of the work, in this order, for each tile of keys that is met.
class TileListener {
public:
    virtual ~TileListener() = default;
    virtual void on_products(const TileState& state) = 0;     ///< scores are the products of queries and keys
    virtual void on_scores(const TileState& state) = 0;       ///< they are scaled, and masked
    virtual void on_largest(const TileState& state) = 0;      ///< largest is that of all keys so far
    virtual void on_correction(const TileState& state) = 0;   ///< correction is known
    virtual void on_exponentials(const TileState& state) = 0; ///< scores are the exponentials
    virtual void on_sums(const TileState& state) = 0;         ///< sum has those of these keys
    virtual void on_context(const TileState& state) = 0;      ///< the values are added
};

/// What makes finished scores of the products of a tile of queries.
struct TileScoring {
    float scale;
    float softcap;         ///< 0: none
    float slope;           ///< of ALiBi; 0: none
    const KeyRange* keys;  ///< of each row
    const long* positions; ///< of each row among the keys
    const float* bias;     ///< of the first row; nullptr: none
    std::size_t bias_stride;
    const bool* mask; ///< of the first row; nullptr: none
    std::size_t mask_stride;
};

/// The keys that any row of a tile can attend to lie in these, but for a mask; first > last where there are none.
inline KeyRange keys_of_all(const TileScoring& scoring, std::size_t rows)
{
    KeyRange all{~std::size_t{0}, 0};
    for (std::size_t i = 0; i < rows; ++i)
        if (scoring.keys[i].first < scoring.keys[i].last)
            all = {std::min(all.first, scoring.keys[i].first), std::max(all.last, scoring.keys[i].last)};
    return all;
}

/// False where the mask forbids all keys [first, first + columns) to all rows.
inline bool mask_allows_any(const TileScoring& scoring, std::size_t rows, std::size_t first, std::size_t columns)
{
    if (scoring.mask == nullptr)
        return true;
    for (std::size_t row = 0; row < rows; ++row) {
        const bool* mask = scoring.mask + row * scoring.mask_stride + first;
        if (std::find(mask, mask + columns, true) != mask + columns)
            return true;
    }
    return false;
}

/// A tile of queries of one head, and all keys.
struct TileTask {
    const float* queries;     ///< row by row
    std::size_t query_stride; ///< from row to row
    std::size_t rows;         ///< at most tile_rows
    std::size_t d_k, d_v;
    const float* packed_keys;   ///< per tile of keys: panels of keys, (d_k, panel_columns) each
    const float* packed_values; ///< per tile of keys: panels of features, (tile_columns, panel_columns) each
    TileScoring scoring;
    float* context; ///< row by row
    std::size_t context_stride;
    float *largest, *sum;   ///< of each row; nullptr: not wanted
    TileListener* listener; ///< nullptr: none
};

/// How many numbers attend_tile() needs to work with.
constexpr std::size_t scratch_size(std::size_t d_k, std::size_t d_v)
{
    return tile_rows * d_k + tile_rows * tile_columns + tile_rows * padded(d_v, panel_columns) + 4 * tile_rows;
}

/// How many numbers the packed keys of a head have.
constexpr std::size_t packed_keys_size(std::size_t m, std::size_t d_k) { return padded(m, tile_columns) * d_k; }

/// How many numbers the packed values of a head have.
constexpr std::size_t packed_values_size(std::size_t m, std::size_t d_v)
{
    return padded(m, tile_columns) * padded(d_v, panel_columns);
}

/// Packs one tile of keys, rows [first, first + tile_columns) of m.
void pack_keys(const float* keys, std::size_t stride, std::size_t first, std::size_t m, std::size_t d_k, float* packed);

void pack_values(const float* values, std::size_t stride, std::size_t first, std::size_t m, std::size_t d_v,
                 float* packed);

/// The contexts of a tile of queries.
/// @param scratch  scratch_size() numbers, aligned to 64 bytes
void attend_tile(const TileTask& task, float* scratch);

} // namespace attn::fast
