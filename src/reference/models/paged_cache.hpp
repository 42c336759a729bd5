#pragma once

#include "attn/reference/layers/pages.hpp"
#include "attn/reference/models/language_model.hpp"
#include "attn/reference/models/schedule.hpp"

#include <array>
#include <vector>

namespace attn {

/// A cache whose keys and values are in the blocks of a pool, for run_schedule().
class PagedCache {
public:
    /// @param lengths      of the sequences, which a pool has room for unless its blocks are counted
    /// @param first_layer  the number of the first layer, in its scope
    PagedCache(const PagePool& pool, const std::vector<std::size_t>& lengths, std::size_t first_layer);

    /// How many tokens it has of a sequence.
    std::size_t tokens_of(std::size_t sequence) const { return pages_.tables[sequence].tokens; }

    /// The tokens before a call's segments, gathered from the pool.
    /// @param call   whose segments begin where the cache has tokens
    /// @param trace  of the call
    PlacedCache before(const std::vector<Segment>& call, const Trace& trace);

    /// Writes a call's new tokens into the pool.
    /// @param after  those that before() gave, and the new ones after them
    void keep(const std::vector<Segment>& call, const PlacedCache& after, const Trace& trace);

    /// Gives back the blocks of a sequence that no later call has.
    void leave(std::size_t sequence) { pages_.tables[sequence] = {}; }

private:
    /// Of each layer the rows of all blocks, (slots, features): keys and values, or latents and shared keys.
    using PoolOfLayer = std::array<Term<Matrix>, 2>;

    Integers written(const std::vector<Segment>& call, std::size_t past);

    Pages pages_;
    std::size_t first_layer_;
    LanguageModelCache<Matrix> kinds_; ///< of which kind each layer's cache is; none before the first call
    std::vector<PoolOfLayer> pools_;
};

} // namespace attn
