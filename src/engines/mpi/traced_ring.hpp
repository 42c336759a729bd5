#pragma once

#include "ring.hpp"

#include "attn/core/trace.hpp"
#include "attn/engines/fast/record.hpp"

#include <string>

namespace attn::mpi {

/// What a hop's scores are made of, as formulas in the scope of the hop.
struct HopFormulas {
    std::string masked; ///< the scores that softmax takes
    std::string values; ///< per query head

    std::string largest() const { return "max(" + masked + ", axis=-1)"; }
    std::string sum() const
    {
        return "sum(where(largest[..., None] == -inf, 0, exp(" + masked + " - largest[..., None])), axis=-1)";
    }
    std::string context() const { return "softmax(" + masked + ") @ " + values; }
};

HopFormulas formulas_of_hop(const Ring& ring, std::size_t source, const AttentionShape& shape,
                            const fast::Scoring& scoring);

/// The formula of a hop's mask; empty where every query can attend to every key.
std::string mask_formula(const Ring& ring, std::size_t source, const fast::Scoring& scoring);

/// Which queries of this rank can attend to which keys of a hop, as the pairs say: shaped as mask_formula() gives it.
HeadMask mask_of_hop(const Ring& ring, std::size_t source, const AttentionShape& shape, const fast::Scoring& scoring);

/// The positions of a rank's tokens in the sequence.
Integers positions_of(const std::vector<Chunk>& chunks);

/// Columns of the whole sequence that are a rank's keys: "bias[..., 0:3]".
std::string columns_of(const std::string& name, const std::vector<Chunk>& chunks);

/// What a function on a ring ran with.
StepOptions describe(const fast::Scoring& scoring, const Layout& layout);

} // namespace attn::mpi
