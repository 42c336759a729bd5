#pragma once

#include "attn/reference/ops/float_product.hpp"

#include "attn/engines/fast/record.hpp"
#include "attn/engines/fast/weights.hpp"

#include "attn/core/trace.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The matrices of tiles and layers as steps of a trace, and the formulas that their weights have in common. With nobody
/// listening nothing is done.

namespace attn::fast {

/// Records a matrix: "scores[rows, columns]".
void record(const Trace& trace, std::string_view label, const FormulaText& formula, const ConstView& rows);

/// Records one number per row: "largest[rows]".
void record(const Trace& trace, std::string_view label, const FormulaText& formula, std::span<const float> numbers);

/// How rows are divided among sequences: (n, d), or (b, n, d).
struct Sequences {
    std::size_t n = 0;
    std::optional<std::size_t> batch = {};

    std::size_t count() const { return batch.value_or(1); }
    std::size_t rows() const { return count() * n; }
    /// "2, 3, ": for a reshape of tokens
    std::string text() const
    {
        return (batch ? std::to_string(*batch) + ", " : std::string()) + std::to_string(n) + ", ";
    }
};

/// Records the rows of sequences: "residual1[(b,) n, d_model]".
void record(const Trace& trace, std::string_view label, const FormulaText& formula, const Sequences& sequences,
            const ConstView& rows);

/// Records rows that a function is given, unless the scope has a name for them already.
void record_input(const Trace& trace, std::string_view label, const Sequences& sequences, const ConstView& rows);

/// The names of one of several linear maps: those of LinearSteps.
struct MapNames {
    std::string_view name, d_in, d_out;
};

/// Records the weights of maps, as inputs: "query_weights" and "query_bias".
void record_input(const Trace& trace, const LinearMaps& maps, const std::vector<MapNames>& names);

/// "x @ query_weights + query_bias"
std::string map_formula(std::string_view input, const LinearMaps& maps, std::size_t part, std::string_view name);

/// Records the gain and the bias of a norm, as inputs.
void record_input(const Trace& trace, const Norm& norm);

/// "(x - mean(x, axis=-1)[..., None]) / … * gain + bias"
std::string norm_formula(const Norm& norm, float epsilon);

} // namespace attn::fast
