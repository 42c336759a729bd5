// Attention by tiles while somebody listens.
#include "record_layers.hpp"
#include "score_formulas.hpp"
#include "traced.hpp"

namespace attn::fast {
namespace {

/// Records one head of queries, keys or values: "queries[0, 1]".
void record_head(const Trace& trace, std::string_view label, const std::string& name, const Const& all, std::size_t b,
                 std::size_t head)
{
    record(trace, label, name + "[" + text(b) + ", " + text(head) + "]",
           ConstView{all.row(b, head, 0), all.rows(), all.features(), all.strides[2]});
}

/// One head, whose keys and values are packed.
void attend_head(const Call& call, const Packed& packed, std::size_t b, std::size_t head, const Trace& trace)
{
    Buffer memory;
    float* const scratch = memory.grow(call.scratch());
    const auto context = [&](std::size_t first, std::size_t rows) {
        return ConstView{call.context.row(b, head, first), rows, call.values.features(), call.context.strides[2]};
    };
    std::string contexts;
    for (std::size_t tile = 0; tile < call.query_tiles(); ++tile) {
        const std::size_t first = tile * tile_rows, rows = std::min(tile_rows, call.queries.rows() - first);
        const Trace of_rows = trace.scope("rows", tile);
        const ScoreFormulas formulas(call.scoring, call.queries, call.keys, b, head, first, rows);
        TracedTile listener(of_rows, call.values.features(), formulas);
        call.attend(packed, 0, b, head, tile, scratch, &listener);
        record(of_rows, "context[rows, d_v]", listener.context_formula(), context(first, rows));
        contexts += "rows." + text(tile) + ".context, ";
    }
    record(trace, "context[n, d_v]", "concat(" + contexts + "axis=0)", context(0, call.queries.rows()));
}

} // namespace

void attend_traced(const Call& call, const Trace& caller)
{
    const auto& [queries, keys, values, scoring, context, sums] = call;
    const Trace trace = caller.observing().module("fast::attention", [&] { return describe(call.scoring); });
    record_input(trace, "queries[b, h, n, d_k]", queries);
    record_input(trace, "keys[b, g, m, d_k]", keys);
    record_input(trace, "values[b, g, m, d_v]", values);
    record_input(trace, "bias[b, h, n, m]", scoring.bias, score_shape(queries, keys));
    record_input(trace, "mask[b, h, n, m]", scoring.mask, score_shape(queries, keys));

    Buffer memory;
    std::vector<std::string> contexts;
    for (std::size_t b = 0; b < queries.batch(); ++b) {
        const bool is_batch = queries.batch() > 1;
        const Trace sequence = is_batch ? trace.scope("sequence", b) : trace;
        for (std::size_t head = 0; head < queries.heads(); ++head) {
            const Trace of_head = sequence.scope("head", head);
            const std::size_t group = head / call.heads_per_group();
            record_head(of_head, "queries[n, d_k]", "queries", queries, b, head);
            record_head(of_head, "keys[m, d_k]", "keys", keys, b, group);
            record_head(of_head, "values[m, d_v]", "values", values, b, group);
            const Packed packed(keys, values, memory.grow(Packed::size(keys, values)));
            for (std::size_t tile = 0; tile < packed.tiles(); ++tile)
                packed.pack(0, b, group, tile);
            attend_head(call, packed, b, head, of_head);
            contexts.push_back((is_batch ? "sequence." + text(b) + "." : "") + "head." + text(head) + ".context");
        }
    }

    record(trace, "context[b, h, n, d_v]", joined_formula(contexts, context), context);
}

} // namespace attn::fast
