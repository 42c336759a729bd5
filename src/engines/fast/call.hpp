#pragma once

#include "attn/engines/fast/attention.hpp"
#include "attn/engines/fast/tokens.hpp"
#include "tile.hpp"

#include <algorithm>
#include <cmath>

namespace attn::fast {

using Const = HeadRows<const float>;

/// How many scores there are: b, h, n, m.
inline std::array<std::size_t, 4> score_shape(const Const& queries, const Const& keys)
{
    return {queries.batch(), queries.heads(), queries.rows(), keys.rows()};
}

/// Where queries stand among the keys, and which keys they can attend to, but for a mask.
struct Positions {
    Positions(const Scoring& scoring, std::size_t b, std::size_t n, std::size_t m)
        : n_(static_cast<long>(n)), m_(static_cast<long>(m)), length_(m_), scoring_(scoring)
    {
        if (!scoring.key_lengths.empty())
            length_ = static_cast<long>(scoring.key_lengths[b]);
        const Causal alignment = scoring.causal.value_or(scoring.window.alignment);
        first_ = alignment == Causal::top_left ? static_cast<long>(scoring.past)
                                               : (alignment == Causal::by_length ? length_ : m_) - n_;
    }

    /// By ALiBi the last query always stands where the last key does.
    long of_alibi(std::size_t i) const { return static_cast<long>(i) + m_ - n_; }

    std::size_t length() const { return static_cast<std::size_t>(length_); }

    /// By the causal mask and the window.
    long of_mask(std::size_t i) const { return first_ + static_cast<long>(i); }

    KeyRange keys(std::size_t i) const
    {
        const long position = of_mask(i);
        long from = 0, to = length_;
        if (scoring_.causal)
            to = std::min(to, position + 1);
        if (scoring_.window.left)
            from = std::max(from, position - static_cast<long>(*scoring_.window.left));
        if (scoring_.window.right)
            to = std::min(to, position + static_cast<long>(*scoring_.window.right) + 1);
        return from < to ? KeyRange{static_cast<std::size_t>(from), static_cast<std::size_t>(to)} : KeyRange{};
    }

private:
    long n_, m_, length_, first_ = 0;
    const Scoring& scoring_;
};

/// How the scores of a tile of queries are made, rows [first, first + rows) of one head.
class ScoredRows {
public:
    ScoredRows(const Scoring& scoring, const Const& queries, const Const& keys, std::size_t b, std::size_t head,
               std::size_t first, std::size_t rows)
        : tile_{.scale = scoring.scale.value_or(1 / std::sqrt(static_cast<float>(queries.features()))),
                .softcap = scoring.softcap.value_or(0),
                .slope = scoring.alibi_slopes.empty() ? 0 : scoring.alibi_slopes[head],
                .keys = keys_,
                .positions = positions_,
                .bias = scoring.bias ? scoring.bias.row(b, head, first) : nullptr,
                .bias_stride = scoring.bias.strides[2],
                .mask = scoring.mask ? scoring.mask.row(b, head, first) : nullptr,
                .mask_stride = scoring.mask.strides[2]}
    {
        const Positions positions(scoring, b, queries.rows(), keys.rows());
        for (std::size_t i = 0; i < rows; ++i) {
            keys_[i] = positions.keys(first + i);
            positions_[i] = positions.of_alibi(first + i);
        }
    }
    ScoredRows(const ScoredRows&) = delete; // it points into itself
    ScoredRows& operator=(const ScoredRows&) = delete;

    const TileScoring& get() const { return tile_; }

private:
    KeyRange keys_[tile_rows];
    long positions_[tile_rows];
    TileScoring tile_;
};

/// The packed keys and values of some heads, and who works with them.
class Packed {
public:
    /// @param memory  size() numbers for each head
    Packed(const Const& keys, const Const& values, float* memory)
        : keys_(keys),
          values_(values),
          keys_size_(packed_keys_size(keys.rows(), keys.features())),
          values_size_(packed_values_size(values.rows(), values.features())),
          packed_(memory)
    {
    }

    /// How many numbers those of a head are.
    static std::size_t size(const Const& keys, const Const& values)
    {
        return packed_keys_size(keys.rows(), keys.features()) + packed_values_size(values.rows(), values.features());
    }

    std::size_t tiles() const { return panels(keys_.rows(), tile_columns); }

    void pack(std::size_t slot, std::size_t b, std::size_t group, std::size_t tile) const
    {
        const std::size_t first = tile * tile_columns, m = keys_.rows();
        pack_keys(keys_.row(b, group, 0), keys_.strides[2], first, m, keys_.features(),
                  const_cast<float*>(keys(slot)) + first * keys_.features());
        pack_values(values_.row(b, group, 0), values_.strides[2], first, m, values_.features(),
                    const_cast<float*>(values(slot)) + first * padded(values_.features(), panel_columns));
    }

    const float* keys(std::size_t slot) const { return packed_ + slot * (keys_size_ + values_size_); }
    const float* values(std::size_t slot) const { return keys(slot) + keys_size_; }

private:
    const Const &keys_, &values_;
    std::size_t keys_size_, values_size_;
    float* packed_;
};

struct Call {
    const Const &queries, &keys, &values;
    const Scoring& scoring;
    const HeadRows<float>& context;
    const SoftmaxSums& sums;

    std::size_t heads_per_group() const { return queries.heads() / keys.heads(); }
    std::size_t query_tiles() const { return panels(queries.rows(), tile_rows); }
    std::size_t scratch() const { return padded(scratch_size(queries.features(), values.features()), 16); }

    /// Computes the contexts of one tile of queries.
    /// @param slot  of the head's keys and values in packed
    void attend(const Packed& packed, std::size_t slot, std::size_t b, std::size_t head, std::size_t tile,
                float* scratch, TileListener* listener = nullptr) const;
};

/// attention() in memory that the caller keeps.
void attend_all(const Call& call, Buffer& memory, const Trace& trace);

} // namespace attn::fast
