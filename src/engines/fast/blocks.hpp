#pragma once

#include "rows.hpp"
#include "record_layers.hpp"

#include "attn/engines/fast/attention.hpp"

#include <string>
#include <string_view>

/// @file
/// The blocks of layers: what they compute is added to the tokens.

namespace attn::fast {

/// What the calls of one function have in common.
struct Setting {
    Workspace& workspace;
    float epsilon; ///< of the norms
    NormPlacement placement;
};

/// Normalises rows, as the step `output` in a scope of the norm, in which the rows are called x.
void normalize(const View& x, const Norm& norm, float epsilon, const View& into, const Sequences& sequences,
               const Trace& trace);

/// The tokens of one layer on their way through its blocks, changed in place, and the name of the step that they are.
///
/// The names of the steps are those of the reference's layers.
class Stream {
public:
    /// @param tokens  the step x of the layer's scope
    /// @param blocks  how many there will be; without a norm after it, the last sum is the layer's output
    Stream(const View& tokens, const Sequences& sequences, std::size_t blocks, const Setting& setting,
           const Trace& trace);

    /// Adds the result of a sublayer.
    /// @param scope     of the sublayer: "self_attn"
    /// @param sublayer  computes from a view of its input, called x, into another view
    template <class Sublayer>
    void add(std::string_view scope, const Norm& norm, const Sublayer& sublayer)
    {
        const bool is_pre = setting_.placement == NormPlacement::pre;
        begin();
        if (is_pre)
            normalize_into(norm, normalized_, name_);
        {
            const Trace inside = trace_.scope(scope, {{"x", is_pre ? norm_scope_ + ".output" : name_}});
            sublayer(is_pre ? normalized_ : tokens_, result_, inside);
        }
        sum(scope);
        if (!is_pre) {
            normalize_into(norm, tokens_, name_);
            name_ = norm_scope_ + ".output";
        }
    }

    /// Gives the tokens after the last block the name output.
    void finish() const;

private:
    void begin();
    void normalize_into(const Norm& norm, const View& into, const std::string& name) const;
    void sum(std::string_view scope);

    View tokens_, normalized_, result_;
    Sequences sequences_;
    const Setting& setting_;
    const Trace& trace_;
    std::string name_ = "x", norm_scope_;
    std::size_t blocks_, block_ = 0;
};

/// Which keys tokens attend to, and with which weights.
struct AttentionTask {
    std::size_t heads;
    Scoring scoring;
    const Rotation* rotation = nullptr; ///< of queries and keys; none: their positions play no part
    Sequences queries, keys;            ///< the new tokens; the tokens that are new keys
    View key_value;                     ///< (b m, columns of the map): keys and values; the new ones are computed
    std::size_t past = 0;               ///< how many rows of them are there already, of a single sequence
};

/// Multi-head attention of x to the memory, which can be x.
void attend(const ConstView& x, const ConstView& memory, std::string_view memory_name, const AttentionMaps& maps,
            const AttentionTask& task, const View& result, Workspace& workspace, const Trace& trace);

/// A feed-forward network, gated or not.
void feed_forward(const ConstView& x, const FeedForwardMaps& maps, Activation activation, const Sequences& sequences,
                  const View& result, Workspace& workspace, const Trace& trace);

/// Buffer for a matrix whose rows are whole panels apart.
View matrix_in(Buffer& buffer, std::size_t rows, std::size_t columns);

} // namespace attn::fast
