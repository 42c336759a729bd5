#pragma once

#include "call.hpp"
#include "score_formulas.hpp"

#include "attn/core/trace.hpp"

#include <optional>
#include <string>
#include <vector>

namespace attn::fast {

/// Names what a tile of queries computes as steps, in a scope "tile.T" for each tile of keys that is met.
///
/// The steps hold the kernel's own numbers.
class TracedTile final : public TileListener {
public:
    /// @param trace     the scope of the tile of queries
    /// @param d_v       features of a value
    /// @param formulas  of the queries
    TracedTile(const Trace& trace, std::size_t d_v, const ScoreFormulas& formulas);

    /// How the context follows from the steps of the tiles that were met.
    std::string context_formula() const;

private:
    void on_products(const TileState& state) override;
    void on_scores(const TileState& state) override;
    void on_largest(const TileState& state) override;
    void on_correction(const TileState& state) override;
    void on_exponentials(const TileState& state) override;
    void on_sums(const TileState& state) override;
    void on_context(const TileState& state) override;

    void record_tile(std::string_view step, const std::string& formula, const float* numbers, std::size_t columns,
                     std::size_t stride) const;
    void record_rows(std::string_view step, const std::string& formula, const float* numbers) const;

    const Trace& around_;
    std::size_t rows_, d_v_;
    ScoreFormulas formulas_;
    std::optional<Trace> trace_;     ///< of the tile of keys
    std::vector<std::size_t> tiles_; ///< that were met
    std::string scores_;             ///< the step that the finished scores are
};

/// attention() with a listener: one tile after the other.
void attend_traced(const Call& call, const Trace& trace);

} // namespace attn::fast
