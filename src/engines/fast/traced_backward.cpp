// Gradients of attention by tiles while somebody listens.
#include "backward.hpp"
#include "record_layers.hpp"
#include "score_formulas.hpp"

#include <optional>

namespace attn::fast {
namespace {

/// Records m or l, (b, h, n), as an input.
void record_sums_input(const Trace& trace, std::string_view label, std::span<const float> sums, const Const& queries)
{
    Tensor3 all(Tensor3::shape_type{queries.batch(), queries.heads(), queries.rows()});
    std::ranges::copy(sums, all.begin());
    static_cast<void>(trace.input(label, all));
}

/// A tile of queries of one head.
struct QueryTile {
    std::size_t b, head, number;
};

/// The scopes of the tiles of queries and keys that met last; empty where there are none.
struct LastMet {
    std::string of_queries, of_keys;
};

/// Names what a tile of queries and a tile of keys compute as steps, in a scope "tile.T".
class TracedTiles final : public BackwardListener {
public:
    /// @param trace  the scope of the tile of queries; the steps go on with the sums of those that met last
    TracedTiles(const Trace& trace, const BackwardCall& call, const QueryTile& queries, LastMet before)
        : around_(trace),
          call_(call),
          formulas_(call.scoring, call.queries, call.keys, queries.b, queries.head, queries.number * tile_rows,
                    call.rows(queries.number)),
          queries_(queries),
          before_(std::move(before))
    {
    }

    /// Names the gradients of the queries so far.
    void on_grad_queries(const BackwardTile& tile) const
    {
        record(*trace_, "partial_grad_queries[rows, d_k]",
               summed("grad_queries", before_.of_queries, "grad_scores @ " + keys("keys", tile)),
               ConstView{call_.grad_queries.row(queries_.b, queries_.head, formulas_.first()), tile.rows, tile.d_k,
                         call_.grad_queries.strides[2]});
    }

private:
    void on_part(BackwardPart part, const BackwardTile& tile) override;
    void begin(const BackwardTile& tile);
    void record_scores(std::string_view step, const std::string& formula, const BackwardTile& tile,
                       const float* numbers) const;
    void record_partial(const std::string& name, const std::string& added, const float* sums, const BackwardTile& tile,
                        std::size_t features) const;

    std::string keys(std::string_view argument, const BackwardTile& tile) const
    {
        return std::string(argument) + "[" + text(queries_.b) + ", " + text(queries_.head / call_.heads_per_group()) +
               ", " + range(tile.first, tile.columns) + "]";
    }
    static std::string summed(const std::string& name, const std::string& before, const std::string& added)
    {
        return before.empty() ? added : "partial_" + name + "_before + " + added;
    }
    std::string weights_formula() const;

    const Trace& around_;
    const BackwardCall& call_;
    ScoreFormulas formulas_;
    QueryTile queries_;
    LastMet before_;
    std::optional<Trace> trace_; ///< of the tile of keys
    std::string scores_;         ///< the step that the finished scores are
};

void TracedTiles::begin(const BackwardTile& tile)
{
    trace_.emplace(around_.scope("tile", tile.first / tile_columns));
    if (!before_.of_queries.empty())
        trace_->alias("partial_grad_queries_before", before_.of_queries + "partial_grad_queries");
    if (before_.of_keys.empty())
        return;
    trace_->alias("partial_grad_keys_before", before_.of_keys + "partial_grad_keys");
    trace_->alias("partial_grad_values_before", before_.of_keys + "partial_grad_values");
}

void TracedTiles::record_scores(std::string_view step, const std::string& formula, const BackwardTile& tile,
                                const float* numbers) const
{
    record(*trace_, step, formula, ConstView{numbers, tile.rows, tile.columns, tile_columns});
}

/// The gradients of a tile of keys or values so far.
void TracedTiles::record_partial(const std::string& name, const std::string& added, const float* sums,
                                 const BackwardTile& tile, std::size_t features) const
{
    record(*trace_, "partial_" + name + "[columns, d]", summed(name, before_.of_keys, added),
           ConstView{sums, tile.columns, features, padded(features, panel_columns)});
}

std::string TracedTiles::weights_formula() const
{
    const std::string sum = formulas_.rows_of("sum") + "[:, None]";
    return "where(" + sum + " == 0, 0, exp(" + scores_ + " - " + formulas_.rows_of("largest") + "[:, None]) / " + sum +
           ")";
}

void TracedTiles::on_part(BackwardPart part, const BackwardTile& tile)
{
    switch (part) {
    case BackwardPart::products:
        begin(tile);
        return record_scores("scores[rows, columns]", formulas_.rows_of("queries") + " @ " + keys("keys", tile) + ".T",
                             tile, tile.weights);
    case BackwardPart::scores: {
        const auto [step, formula] = formulas_.finished(tile.first, tile.columns);
        scores_ = step;
        return record_scores(step + "[rows, columns]", formula, tile, tile.weights);
    }
    case BackwardPart::weights:
        return record_scores("weights[rows, columns]", weights_formula(), tile, tile.weights);
    case BackwardPart::grad_values:
        return record_partial("grad_values", "weights.T @ " + formulas_.rows_of("grad_context"), tile.grad_values, tile,
                              tile.d_v);
    case BackwardPart::grad_weights:
        return record_scores("grad_weights[rows, columns]",
                             formulas_.rows_of("grad_context") + " @ " + keys("values", tile) + ".T", tile,
                             tile.grad_scores);
    case BackwardPart::grad_scores:
        return record_scores("grad_scores[rows, columns]",
                             formulas_.derivative("weights * (grad_weights - D[:, None])"), tile, tile.grad_scores);
    case BackwardPart::grad_keys:
        return record_partial("grad_keys", "grad_scores.T @ " + formulas_.rows_of("queries"), tile.grad_keys, tile,
                              tile.d_k);
    }
}

/// One call, one tile after the other.
class TracedGradients {
public:
    TracedGradients(const Trace& trace, const BackwardCall& call)
        : trace_(trace),
          call_(call),
          D_(call.queries.batch() * call.queries.heads() * call.queries.rows()),
          numbers_(backward_tile_size(call.queries.features(), call.values.features())),
          tile_(backward_tile_in(numbers_.get(), call.queries.features(), call.values.features())),
          last_of_queries_(call.queries.batch() * call.queries.heads() * call.query_tiles())
    {
    }

    void run()
    {
        for (std::size_t i = 0; i < last_of_queries_.size(); ++i)
            begin_queries(query_tile(i));
        for (std::size_t i = 0; i < call_.keys.batch() * call_.keys.heads() * call_.key_tiles(); ++i)
            work_on_keys(i);
        record_gradients();
    }

private:
    QueryTile query_tile(std::size_t i) const
    {
        const std::size_t head = i / call_.query_tiles();
        return {head / call_.queries.heads(), head % call_.queries.heads(), i % call_.query_tiles()};
    }
    std::size_t number(const QueryTile& tile) const
    {
        return (tile.b * call_.queries.heads() + tile.head) * call_.query_tiles() + tile.number;
    }
    template <class Work>
    void in_scope(const QueryTile& queries, const Work& work) const;
    std::string scope_of(const QueryTile& queries) const;
    void begin_queries(const QueryTile& queries);
    void work_on_keys(std::size_t i);
    bool meet_queries(const QueryTile& queries, const std::string& last_of_keys);
    void record_gradients() const;

    const Trace& trace_;
    const BackwardCall& call_;
    Buffer D_, numbers_;
    BackwardTile tile_;
    std::vector<std::string> last_of_queries_, last_of_keys_; ///< per tile, the scope in which it met another last
};

std::string TracedGradients::scope_of(const QueryTile& queries) const
{
    return (call_.queries.batch() > 1 ? "sequence." + text(queries.b) + "." : "") + "head." + text(queries.head) +
           ".rows." + text(queries.number) + ".";
}

template <class Work>
void TracedGradients::in_scope(const QueryTile& queries, const Work& work) const
{
    const Trace sequence = call_.queries.batch() > 1 ? trace_.scope("sequence", queries.b) : trace_;
    const Trace of_head = sequence.scope("head", queries.head);
    const Trace of_rows = of_head.scope("rows", queries.number);
    work(of_rows);
}

void TracedGradients::begin_queries(const QueryTile& queries)
{
    const std::size_t b = queries.b, head = queries.head,
                      number = queries.number; // not bound: clang 14 captures no bindings
    call_.begin_queries(b, head, number, D_.get());
    const ScoreFormulas formulas(call_.scoring, call_.queries, call_.keys, b, head, number * tile_rows,
                                 call_.rows(number));
    in_scope(queries, [&](const Trace& trace) {
        record(trace, "D[rows]",
               "sum(" + formulas.rows_of("grad_context") + " * " + formulas.rows_of("context") + ", axis=-1)",
               std::span<const float>(D_.get() + call_.place(b, head, number), formulas.rows()));
    });
}

void TracedGradients::work_on_keys(std::size_t i)
{
    const std::size_t group = i / call_.key_tiles(), b = group / call_.keys.heads();
    const std::size_t in_sequence = group % call_.keys.heads();
    call_.load_keys(tile_, b, in_sequence, i % call_.key_tiles());
    std::string last_of_keys;
    for (std::size_t j = 0; j < call_.heads_per_group() * call_.query_tiles(); ++j) {
        const std::size_t head = in_sequence * call_.heads_per_group() + j / call_.query_tiles();
        const QueryTile queries{b, head, j % call_.query_tiles()};
        if (meet_queries(queries, last_of_keys))
            last_of_keys = last_of_queries_[number(queries)];
    }
    call_.store_keys(tile_, b, in_sequence);
    last_of_keys_.push_back(std::move(last_of_keys));
}

bool TracedGradients::meet_queries(const QueryTile& queries, const std::string& last_of_keys)
{
    const std::size_t b = queries.b, head = queries.head, number_in_head = queries.number;
    std::string& last = last_of_queries_[number(queries)];
    bool meets = false;
    in_scope(queries, [&](const Trace& trace) {
        TracedTiles listener(trace, call_, queries, {last, last_of_keys});
        meets = call_.meet_queries(tile_, b, head, number_in_head, D_.get(), &listener);
        if (!meets)
            return;
        call_.add_grad_queries(tile_, b, head, number_in_head);
        listener.on_grad_queries(tile_);
        last = scope_of(queries) + "tile." + text(tile_.first / tile_columns) + ".";
    });
    return meets;
}

void TracedGradients::record_gradients() const
{
    std::vector<std::string> of_queries, of_keys, of_values;
    for (std::size_t i = 0; i < last_of_queries_.size(); ++i)
        of_queries.push_back(last_of_queries_[i].empty() ? zeros_formula(call_.rows(query_tile(i).number), tile_.d_k)
                                                         : last_of_queries_[i] + "partial_grad_queries");
    for (std::size_t i = 0; i < last_of_keys_.size(); ++i) {
        const std::size_t first = i % call_.key_tiles() * tile_columns;
        const std::size_t columns = std::min(tile_columns, call_.keys.rows() - first);
        const std::string& last = last_of_keys_[i];
        of_keys.push_back(last.empty() ? zeros_formula(columns, tile_.d_k) : last + "partial_grad_keys");
        of_values.push_back(last.empty() ? zeros_formula(columns, tile_.d_v) : last + "partial_grad_values");
    }
    record(trace_, "grad_queries[b, h, n, d_k]", joined_formula(of_queries, call_.grad_queries), call_.grad_queries);
    record(trace_, "grad_keys[b, g, m, d_k]", joined_formula(of_keys, call_.grad_keys), call_.grad_keys);
    record(trace_, "grad_values[b, g, m, d_v]", joined_formula(of_values, call_.grad_values), call_.grad_values);
}

} // namespace

void backward_traced(const BackwardCall& call, const Trace& caller)
{
    const Trace trace = caller.observing().module("fast::attention_backward", [&] { return describe(call.scoring); });
    record_input(trace, "queries[b, h, n, d_k]", call.queries);
    record_input(trace, "keys[b, g, m, d_k]", call.keys);
    record_input(trace, "values[b, g, m, d_v]", call.values);
    record_input(trace, "bias[b, h, n, m]", call.scoring.bias, score_shape(call.queries, call.keys));
    record_input(trace, "mask[b, h, n, m]", call.scoring.mask, score_shape(call.queries, call.keys));
    record_input(trace, "context[b, h, n, d_v]", call.context);
    record_sums_input(trace, "largest[b, h, n]", call.sums.largest, call.queries);
    record_sums_input(trace, "sum[b, h, n]", call.sums.sum, call.queries);
    record_input(trace, "grad_context[b, h, n, d_v]", call.grad_context);
    TracedGradients(trace, call).run();
}

} // namespace attn::fast
