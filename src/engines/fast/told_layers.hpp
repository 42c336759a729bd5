#pragma once

#include "attn/reference/ops/float_product.hpp"

#include "attn/engines/fast/attention.hpp"
#include "attn/engines/fast/weights.hpp"

#include "attn/core/trace.hpp"

#include <string>
#include <string_view>
#include <vector>

/// @file
/// The kernels' numbers as steps. What a listener answers is written back, so that the kernels go on with it. With nobody
/// listening nothing is done.

namespace attn::fast {

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

/// A function that makes a formula, which outlives the call; it is called only where somebody listens.
class FormulaText {
public:
    template <class Make>
    FormulaText(const Make& make)
        : make_(&make), call_([](const void* any) { return std::string((*static_cast<const Make*>(any))()); })
    {
    }
    std::string operator()() const { return call_(make_); }

private:
    const void* make_;
    std::string (*call_)(const void*);
};

/// A matrix, as the step of that label: "residual1[(b,) n, d_model]".
void tell(const Trace& trace, std::string_view label, const FormulaText& formula, const Sequences& sequences,
          const View& rows);

/// A matrix that a function is given, unless the scope has a name for it already.
void tell_input(const Trace& trace, std::string_view label, const Sequences& sequences, const View& rows);

/// The vectors of all heads, (b, h, n, d).
void tell(const Trace& trace, std::string_view label, const FormulaText& formula, const HeadRows<float>& heads);

/// The names of one of several linear maps: those of LinearSteps.
struct MapNames {
    std::string_view name, d_in, d_out;
};

/// The weights of maps, as inputs: "query_weights" and "query_bias".
/// @return maps of what was answered
LinearMaps told(const Trace& trace, const LinearMaps& maps, const std::vector<MapNames>& names);

/// "x @ query_weights + query_bias"
std::string map_formula(std::string_view input, const LinearMaps& maps, std::size_t part, std::string_view name);

/// The gain and the bias of a norm, as inputs.
Norm told(const Trace& trace, const Norm& norm);

/// "(x - mean(x, axis=-1)[..., None]) / … * gain + bias"
std::string norm_formula(const Norm& norm, float epsilon);

} // namespace attn::fast
