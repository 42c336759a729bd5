#include "blocks.hpp"

#include "call.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>

namespace attn::fast {
namespace {

// -------------------------------------------------------------------------------------------------------- tiles of rows

constexpr std::size_t rows_together = 60, rows_apart = 12; // of a tile, and what its size is a multiple of

std::size_t rows_of_tile(std::size_t rows)
{
    const std::size_t of_thread = panels(rows, static_cast<std::size_t>(omp_get_max_threads()));
    return std::clamp(padded(of_thread, rows_apart), rows_apart, rows_together);
}

/// Calls work(first, count, thread) for tiles of rows, which threads share. A row's numbers do not depend on its tile.
template <class Work>
void for_tiles(std::size_t rows, const Work& work)
{
    const std::size_t size = rows_of_tile(rows), tiles = panels(rows, size);
    if (tiles <= 1)
        return work(std::size_t{0}, rows, std::size_t{0});
#pragma omp parallel for schedule(dynamic)
    for (std::size_t tile = 0; tile < tiles; ++tile)
        work(tile * size, std::min(size, rows - tile * size), static_cast<std::size_t>(omp_get_thread_num()));
}

void multiply_tiles(const ConstView& x, const LinearMaps& maps, const View& into)
{
    for_tiles(x.rows, [&](std::size_t first, std::size_t count, std::size_t) {
        multiply(x.row_range(first, count), maps, into.row_range(first, count));
    });
}

} // namespace

View matrix_in(Buffer& buffer, std::size_t rows, std::size_t columns)
{
    const std::size_t stride = padded(columns, LinearMaps::panel_columns);
    return {buffer.grow(rows * stride), rows, columns, stride};
}

void normalize(const View& x, const Norm& norm, float epsilon, const View& into, const Sequences& sequences,
               const Trace& trace)
{
    record_input(trace, norm);
    for_tiles(x.rows, [&](std::size_t first, std::size_t count, std::size_t) {
        normalize(x.row_range(first, count), norm, epsilon, into.row_range(first, count));
    });
    record(
        trace, "output[(b,) n, d_model]", [&] { return norm_formula(norm, epsilon); }, sequences, into);
}

// --------------------------------------------------------------------------------------------------------------- a layer

Stream::Stream(const View& tokens, const Sequences& sequences, std::size_t blocks, const Setting& setting,
               const Trace& trace)
    : tokens_(tokens),
      normalized_(matrix_in(setting.workspace.normalized, tokens.rows, tokens.columns)),
      result_(matrix_in(setting.workspace.result, tokens.rows, tokens.columns)),
      sequences_(sequences),
      setting_(setting),
      trace_(trace),
      blocks_(blocks)
{
}

void Stream::begin() { norm_scope_ = "norm" + std::to_string(++block_); }

void Stream::normalize_into(const Norm& norm, const View& into, const std::string& name) const
{
    const Trace inside = trace_.scope(norm_scope_, {{"x", name}});
    normalize(tokens_, norm, setting_.epsilon, into, sequences_, inside);
}

void Stream::sum(std::string_view scope)
{
    for_tiles(tokens_.rows, [&](std::size_t first, std::size_t count, std::size_t) {
        fast::add(result_.row_range(first, count), tokens_.row_range(first, count));
    });
    const bool is_last = setting_.placement == NormPlacement::pre && block_ == blocks_;
    const std::string sum = is_last ? "output" : "residual" + std::to_string(block_);
    record(
        trace_, sum + "[(b,) n, d_model]", [&] { return name_ + " + " + std::string(scope) + ".output"; }, sequences_,
        tokens_);
    name_ = sum;
}

void Stream::finish() const
{
    if (name_ != "output")
        trace_.alias("output", name_);
}

// ------------------------------------------------------------------------------------------------------------- attention

namespace {

/// The sizes of heads, which follow from the maps.
struct Heads {
    Heads(const AttentionMaps& maps, std::size_t heads)
        : h(heads), d_k(maps.query.d_out() / heads), g(maps.key_columns() / d_k), d_v(maps.value_columns() / g)
    {
    }
    std::size_t h, d_k, g, d_v;
};

/// Heads side by side in the rows of sequences.
HeadRows<float> heads_in(const View& rows, std::size_t first_column, std::size_t sequences, std::size_t heads,
                         std::size_t d)
{
    const std::size_t n = sequences == 0 ? 0 : rows.rows / sequences;
    return {rows.data + first_column, {sequences, heads, n, d}, {n * rows.stride, d, rows.stride}};
}

/// "reshape(query, 2, 3, 4, 8)": (b, n, h, d)
std::string split(std::string_view name, std::size_t b, std::size_t n, std::size_t heads, std::size_t d)
{
    std::string text = "reshape(" + std::string(name);
    for (const std::size_t size : {b, n, heads, d})
        text += ", " + std::to_string(size);
    return text + ")";
}

/// The name of the step that the packed queries or keys now are: rotated where there are positions.
std::string place(std::string name, const AttentionTask& task, const Sequences& sequences, const View& packed,
                  std::size_t d, const Trace& trace)
{
    if (task.rotation == nullptr)
        return name;
    for_tiles(packed.rows, [&](std::size_t first, std::size_t count, std::size_t) {
        rotate(*task.rotation, first, packed.row_range(first, count));
    });
    const std::string rotated = "rotated_" + name;
    record(
        trace, rotated + "[(b,) n, h_d_k]",
        [&] {
            const std::string x = split(name, sequences.count(), sequences.n, packed.columns / d, d),
                              half = std::to_string(d / 2);
            const bool halves = task.rotation->are_halves;
            const std::string first = x + (halves ? "[..., 0:" + half + "]" : "[..., ::2]");
            const std::string second = x + (halves ? "[..., " + half + ":" + std::to_string(d) + "]" : "[..., 1::2]");
            const std::string cosine = " * cosines[:, None]", sine = " * sines[:, None]";
            return std::string("reshape(") + (halves ? "concat(" : "interleave(") + first + cosine + " - " + second +
                   sine + ", " + first + sine + " + " + second + cosine + (halves ? ", axis=-1), " : "), ") +
                   sequences.text() + std::to_string(packed.columns) + ")";
        },
        sequences, packed);
    return rotated;
}

void record_heads(const Trace& trace, std::string_view label, const std::string& name, const HeadRows<float>& heads)
{
    record(
        trace, label,
        [&] {
            return "permute(" + split(name, heads.batch(), heads.rows(), heads.heads(), heads.features()) +
                   ", 0, 2, 1, 3)";
        },
        heads);
}

void record_maps(const Trace& trace, const AttentionMaps& maps, std::string_view memory_name)
{
    const std::string_view d_memory = memory_name == "x" ? "d_model" : "d_memory";
    record_input(trace, maps.query, {{"query", "d_model", "h_d_k"}});
    record_input(trace, maps.key_value, {{"key", d_memory, "h_d_k"}, {"value", d_memory, "h_d_v"}});
    record_input(trace, maps.output, {{"output", "h_d_v", "d_model"}});
}

/// What the packed keys and values of the past are called, where there are any, before the new ones.
std::string with_past(const std::string& name, std::string_view past_name, const View& past, const Trace& trace)
{
    if (past.rows == 0)
        return name;
    record(
        trace, std::string(past_name) + "[past, h_d_k]", [] { return std::string(); }, {past.rows}, past);
    return "concat(" + std::string(past_name) + ", " + name + ", axis=0)";
}

/// Whether there is one query per head, which can attend to all keys.
bool is_single(const Call& call)
{
    const Scoring& scoring = call.scoring;
    return call.queries.rows() == 1 && call.keys.rows() > 0 && !scoring.softcap && scoring.alibi_slopes.empty() &&
           !scoring.bias && !scoring.mask && scoring.causal != Causal::top_left && scoring.key_lengths.empty() &&
           !scoring.window.is_limited();
}

/// The attention of one query per head, as one step. Threads share the heads.
void attend_single(const Call& call, Buffer& memory, const Trace& trace)
{
    const Const &queries = call.queries, &keys = call.keys, &values = call.values;
    const float scale = call.scoring.scale.value_or(1 / std::sqrt(static_cast<float>(queries.features())));
    const std::size_t heads = queries.heads(), all = queries.batch() * heads, shared = call.heads_per_group();
    float* const scores = memory.grow(all * keys.rows());
    const auto rows_of = [](const Const& any, std::size_t b, std::size_t group) {
        return ConstView{any.row(b, group, 0), any.rows(), any.features(), any.strides[2]};
    };
    constexpr std::size_t worth_threads = std::size_t{1} << 17; // multiplications
#pragma omp parallel for schedule(static) if (all * keys.rows() * queries.features() >= worth_threads)
    for (std::size_t i = 0; i < all; ++i) {
        const std::size_t b = i / heads, head = i % heads, group = head / shared;
        attend_once(queries.row(b, head, 0), rows_of(keys, b, group), rows_of(values, b, group), scale,
                    scores + i * keys.rows(), call.context.row(b, head, 0));
    }
    record(
        trace, "context[b, h, n, d_v]",
        [&] {
            const auto repeated = [&](const char* name) {
                return shared == 1 ? std::string(name)
                                   : "repeat(" + std::string(name) + ", " + std::to_string(shared) + ", axis=1)";
            };
            return "softmax(queries @ " + repeated("keys") + ".T * " + exact_text(scale) + ") @ " + repeated("values");
        },
        call.context);
}

/// How one of several maps follows from its input.
auto formula_of(std::string_view input, const LinearMaps& maps, std::size_t part, const char* name)
{
    return [=, &maps] { return map_formula(input, maps, part, name); };
}

/// The queries, keys and values of the new tokens, the heads side by side.
struct Projected {
    View query, key, value;
};

Projected project(const ConstView& x, const ConstView& memory, std::string_view memory_name, const AttentionMaps& maps,
                  const AttentionTask& task, const Heads& sizes, Buffer& buffer, const Trace& trace)
{
    const View query = matrix_in(buffer, x.rows, sizes.h * sizes.d_k);
    const View added = task.key_value.row_range(task.past, memory.rows);
    const View key = added.column_range(0, sizes.g * sizes.d_k);
    const View value = added.column_range(key.columns, sizes.g * sizes.d_v);
    multiply_tiles(x, maps.query, query);
    multiply_tiles(memory, maps.key_value, added);
    record(trace, "query[(b,) n, h_d_k]", formula_of("x", maps.query, 0, "query"), task.queries, query);
    record(trace, "key[(b,) m, h_d_k]", formula_of(memory_name, maps.key_value, 0, "key"), task.keys, key);
    record(trace, "value[(b,) m, h_d_v]", formula_of(memory_name, maps.key_value, 1, "value"), task.keys, value);
    return {query, key, value};
}

/// Attends in each head, to the keys that are kept and the new ones.
/// @return the contexts, the heads side by side
View attend_by_heads(const Projected& projected, const AttentionTask& task, const Heads& sizes, Workspace& workspace,
                     const Trace& trace)
{
    // Rotate queries and keys by their positions.
    const auto& [query, key, value] = projected;
    const std::string queries_name = place("query", task, task.queries, query, sizes.d_k, trace);
    std::string keys_name = place("key", task, task.keys, key, sizes.d_k, trace), values_name = "value";
    if (trace.has_listener()) {
        const View past = task.key_value.row_range(0, task.past);
        keys_name = with_past(keys_name, "past_keys", past.column_range(0, key.columns), trace);
        values_name = with_past(values_name, "past_values", past.column_range(key.columns, value.columns), trace);
    }

    // See them as heads.
    const std::size_t b = task.queries.count();
    const View kept = task.key_value.row_range(0, b * (task.past + task.keys.n));
    const View context = matrix_in(workspace.context, query.rows, sizes.h * sizes.d_v);
    const HeadRows<float> queries = heads_in(query, 0, b, sizes.h, sizes.d_k);
    const HeadRows<float> keys = heads_in(kept, 0, b, sizes.g, sizes.d_k);
    const HeadRows<float> values = heads_in(kept, key.columns, b, sizes.g, sizes.d_v);
    const HeadRows<float> contexts = heads_in(context, 0, b, sizes.h, sizes.d_v);
    const Trace attention = trace.scope("attention");
    record_heads(attention, "queries[b, h, n, d_k]", queries_name, queries);
    record_heads(attention, "keys[b, g, m, d_k]", keys_name, keys);
    record_heads(attention, "values[b, g, m, d_v]", values_name, values);

    const Const constant_queries = queries, constant_keys = keys, constant_values = values;
    const SoftmaxSums no_sums;
    const Call call{constant_queries, constant_keys, constant_values, task.scoring, contexts, no_sums};
    (is_single(call) ? attend_single : attend_all)(call, workspace.attention, attention);
    return context;
}

} // namespace

void attend(const ConstView& x, const ConstView& memory, std::string_view memory_name, const AttentionMaps& maps,
            const AttentionTask& task, const View& result, Workspace& workspace, const Trace& trace)
{
    const Heads sizes(maps, task.heads);
    if (task.rotation != nullptr && task.rotation->d != sizes.d_k)
        throw ShapeError("fast: the heads of all layers must be of one size, found ", task.rotation->d, " and ",
                         sizes.d_k, " features");
    record_maps(trace, maps, memory_name);
    const Projected projected = project(x, memory, memory_name, maps, task, sizes, workspace.query, trace);
    const View context = attend_by_heads(projected, task, sizes, workspace, trace);
    const auto merged = [&] {
        return "reshape(permute(attention.context, 0, 2, 1, 3), " + task.queries.text() +
               std::to_string(context.columns) + ")";
    };
    record(trace, "merged[(b,) n, h_d_v]", merged, task.queries, context);

    // Mix the heads.
    multiply_tiles(context, maps.output, result);
    record(trace, "output[(b,) n, d_model]", formula_of("merged", maps.output, 0, "output"), task.queries, result);
}

// -------------------------------------------------------------------------------------------------- feed-forward network

namespace {

/// The hidden units of some rows, one to a column, in place of the maps' results.
void activate_units(const FeedForwardMaps& maps, Activation activation, const View& hidden, const Sequences& sequences,
                    const Trace& trace)
{
    const View units = hidden.column_range(0, maps.d_ff());
    const char* const name = maps.is_gated() ? "gate" : "hidden";
    record(
        trace, std::string(name) + "[(b,) n, d_ff]", [&] { return map_formula("x", maps.hidden, 0, name); }, sequences,
        units);
    find_kernel(activation)(units);
    record(
        trace, "activated[(b,) n, d_ff]", [&] { return formula_of(activation, name); }, sequences, units);
    if (!maps.is_gated())
        return;
    const View up = hidden.column_range(maps.d_ff(), maps.d_ff());
    record(
        trace, "up[(b,) n, d_ff]", [&] { return map_formula("x", maps.hidden, 1, "up"); }, sequences, up);
    scale_by(up, units);
    record(
        trace, "gated[(b,) n, d_ff]", [] { return std::string("activated * up"); }, sequences, units);
}

void record_maps(const Trace& trace, const FeedForwardMaps& maps)
{
    std::vector<MapNames> hidden{{"hidden", "d_model", "d_ff"}};
    if (maps.is_gated())
        hidden = {{"gate", "d_model", "d_ff"}, {"up", "d_model", "d_ff"}};
    record_input(trace, maps.hidden, hidden);
    record_input(trace, maps.output, {{maps.is_gated() ? "down" : "output", "d_ff", "d_model"}});
}

/// With a listener all rows are one tile.
void feed_all(const ConstView& x, const FeedForwardMaps& maps, Activation activation, const Sequences& sequences,
              const View& result, Workspace& workspace, const Trace& trace)
{
    record_maps(trace, maps);
    const View hidden = matrix_in(workspace.hidden, x.rows, maps.hidden.d_out());
    multiply(x, maps.hidden, hidden);
    activate_units(maps, activation, hidden, sequences, trace);
    multiply(hidden.column_range(0, maps.d_ff()), maps.output, result);
    const bool is_gated = maps.is_gated();
    record(
        trace, "output[(b,) n, d_model]",
        [&] { return map_formula(is_gated ? "gated" : "activated", maps.output, 0, is_gated ? "down" : "output"); },
        sequences, result);
}

} // namespace

void feed_forward(const ConstView& x, const FeedForwardMaps& maps, Activation activation, const Sequences& sequences,
                  const View& result, Workspace& workspace, const Trace& trace)
{
    if (trace.has_listener())
        return feed_all(x, maps, activation, sequences, result, workspace, trace);
    const std::size_t size = rows_of_tile(x.rows), threads = static_cast<std::size_t>(omp_get_max_threads());
    const View all = matrix_in(workspace.hidden, threads * size, maps.hidden.d_out());
    for_tiles(x.rows, [&](std::size_t first, std::size_t count, std::size_t thread) {
        const View hidden = all.row_range(thread * size, count);
        multiply(x.row_range(first, count), maps.hidden, hidden);
        activate_units(maps, activation, hidden, sequences, trace);
        multiply(hidden.column_range(0, maps.d_ff()), maps.output, result.row_range(first, count));
    });
}

} // namespace attn::fast
