// Attention by tiles while somebody listens. What a listener answers is what the kernel goes on with.
#include "score_formulas.hpp"
#include "told.hpp"
#include "traced.hpp"

namespace attn::fast {
namespace {

/// Names the contexts of some rows, and writes the answer back.
void tell_context(const Trace& trace, std::string_view step, const std::string& formula, const Call& call,
                  std::size_t b, std::size_t head, std::size_t first, std::size_t rows)
{
    tell_matrix(trace, step, formula, call.context.row(b, head, first), rows, call.values.features(),
                call.context.strides[2]);
}

/// One head, whose keys and values are packed.
void attend_head(const Call& call, const Packed& packed, std::size_t b, std::size_t head, const Trace& trace)
{
    Room memory;
    float* const scratch = memory.of(call.scratch());
    std::string contexts;
    for (std::size_t tile = 0; tile < call.query_tiles(); ++tile) {
        const std::size_t first = tile * tile_rows, rows = std::min(tile_rows, call.queries.rows() - first);
        const Trace of_rows = trace.scope("rows", tile);
        const ScoreFormulas formulas(call.scoring, call.queries, call.keys, b, head, first, rows);
        TracedTile listener(of_rows, call.values.features(), formulas);
        call.attend(packed, 0, b, head, tile, scratch, &listener);
        tell_context(of_rows, "context[rows, d_v]", listener.context_formula(), call, b, head, first, rows);
        contexts += "rows." + text(tile) + ".context, ";
    }
    tell_context(trace, "context[n, d_v]", "concat(" + contexts + "axis=0)", call, b, head, 0, call.queries.rows());
}

} // namespace

void attend_traced(const Call& given, const Trace& caller)
{
    const Trace trace = caller.module("fast::attention", [&] { return options_of(given.scoring); });
    ToldRows queries(trace, "queries[b, h, n, d_k]", "", given.queries);
    ToldRows keys(trace, "keys[b, g, m, d_k]", "", given.keys);
    ToldRows values(trace, "values[b, g, m, d_v]", "", given.values);
    const auto per_score = score_shape(given.queries, given.keys);
    const ToldPerScore<float, Tensor4> bias(trace, "bias[b, h, n, m]", given.scoring.bias, per_score);
    const ToldPerScore<bool, HeadMask> mask(trace, "mask[b, h, n, m]", given.scoring.mask, per_score);
    Scoring scoring = given.scoring;
    scoring.bias = bias.get();
    scoring.mask = mask.get();
    const Const all_queries = queries.rows(), all_keys = keys.rows(), all_values = values.rows();
    const Call call{all_queries, all_keys, all_values, scoring, given.context, given.sums};

    Room memory;
    std::vector<std::string> contexts;
    for (std::size_t b = 0; b < all_queries.batch(); ++b) {
        const bool is_batch = all_queries.batch() > 1;
        const Trace sequence = is_batch ? trace.scope("sequence", b) : trace;
        for (std::size_t head = 0; head < all_queries.heads(); ++head) {
            const Trace of_head = sequence.scope("head", head);
            const std::size_t group = head / call.heads_per_group();
            queries.tell_head(of_head, "queries[n, d_k]", "queries", b, head);
            keys.tell_head(of_head, "keys[m, d_k]", "keys", b, group);
            values.tell_head(of_head, "values[m, d_v]", "values", b, group);
            const Packed packed(all_keys, all_values, memory.of(Packed::size(all_keys, all_values)));
            for (std::size_t tile = 0; tile < packed.tiles(); ++tile)
                packed.pack(0, b, group, tile);
            attend_head(call, packed, b, head, of_head);
            contexts.push_back((is_batch ? "sequence." + text(b) + "." : "") + "head." + text(head) + ".context");
        }
    }

    tell_rows(trace, "context[b, h, n, d_v]", joined(contexts, call.context), call.context);
}

} // namespace attn::fast
