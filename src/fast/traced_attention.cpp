// Attention by tiles while somebody listens. What a listener answers is what the kernel goes on with.
#include "told.hpp"
#include "traced.hpp"

#include <array>
#include <cmath>

namespace attn::fast {
namespace {

std::string text(std::size_t number) { return std::to_string(number); }
std::string range(std::size_t first, std::size_t count) { return text(first) + ":" + text(first + count); }

/// An argument as a listener has it, and gives it back.
class Told {
public:
    Told(const Trace& trace, std::string_view step, std::string name, const Const& rows)
        : name_(std::move(name)), all_(trace.input(step, container_of(rows)))
    {
        floats_.assign(all_.begin(), all_.end());
    }

    /// What the kernel computes with.
    Const rows() const
    {
        return head_rows<const float>(floats_.data(), {all_.shape(0), all_.shape(1), all_.shape(2), all_.shape(3)});
    }

    /// Names the part of one head; what is answered is in rows() from now on.
    void tell_head(const Trace& trace, std::string_view step, std::size_t b, std::size_t h)
    {
        const auto formula = [&] { return name_ + "[" + text(b) + ", " + text(h) + "]"; };
        const Matrix answer = trace(step, formula, Matrix(xt::view(all_, b, h, xt::all(), xt::all())));
        std::copy(answer.begin(), answer.end(), const_cast<float*>(rows().row(b, h, 0)));
    }

private:
    static Tensor4 container_of(const Const& rows)
    {
        Tensor4 all(Tensor4::shape_type{rows.batch(), rows.heads(), rows.rows(), rows.features()});
        double* to = all.data();
        for (std::size_t b = 0; b < rows.batch(); ++b)
            for (std::size_t h = 0; h < rows.heads(); ++h)
                for (std::size_t i = 0; i < rows.rows(); ++i, to += rows.features())
                    std::copy_n(rows.row(b, h, i), rows.features(), to);
        return all;
    }

    std::string name_;
    Tensor4 all_;
    std::vector<float> floats_;
};

/// The formulas of a tile of queries [first, first + rows) of one head.
TileFormulas formulas_of(const Call& call, std::size_t b, std::size_t head, std::size_t first, std::size_t rows)
{
    const Scoring& scoring = call.scoring;
    const Positions positions(scoring, b, call.queries.rows(), call.keys.rows());
    const std::string each_row = "arange(" + text(rows) + ")[:, None] + ";
    const auto keys = [](std::size_t from, std::size_t columns) {
        return "arange(" + text(columns) + ") + " + text(from);
    };
    const auto part = [=](std::string_view name, std::size_t from, std::size_t columns) {
        return std::string(name) + "[" + text(b) + ", " + text(head) + ", " + range(first, rows) + ", " +
               range(from, columns) + "]";
    };
    TileFormulas formulas;
    formulas.queries = "queries[" + range(first, rows) + "]";
    formulas.finished = [=, &scoring](std::size_t from, std::size_t columns) {
        std::string formula =
            scoring.scale ? "scores * " + exact_text(*scoring.scale) : "scores / sqrt(keys.shape[-1])";
        if (scoring.softcap)
            formula = exact_text(*scoring.softcap) + " * tanh(" + formula + " / " + exact_text(*scoring.softcap) + ")";
        if (!scoring.alibi_slopes.empty())
            formula += " - " + exact_text(scoring.alibi_slopes[head]) + " * abs(" + each_row +
                       std::to_string(positions.of_alibi(first)) + " - (" + keys(from, columns) + "))";
        if (scoring.bias)
            formula += " + " + part("bias", from, columns);
        return formula;
    };
    const bool has_mask = scoring.mask || scoring.causal || scoring.window.is_limited();
    if (!has_mask)
        return formulas;
    formulas.mask = [=, &scoring](std::size_t from, std::size_t columns) {
        std::string formula;
        const auto add = [&](const std::string& allowed) { formula += (formula.empty() ? "" : " & ") + allowed; };
        const auto limit = [&](const char* comparison, long moved) {
            add("(" + keys(from, columns) + " " + comparison + " " + each_row +
                std::to_string(positions.of_mask(first) + moved) + ")");
        };
        if (scoring.causal)
            limit("<=", 0);
        if (scoring.window.left)
            limit(">=", -static_cast<long>(*scoring.window.left));
        if (scoring.window.right)
            limit("<=", static_cast<long>(*scoring.window.right));
        if (scoring.mask)
            add(part("mask", from, columns));
        return formula;
    };
    return formulas;
}

/// Names the contexts of some rows, and writes the answer back.
void tell_context(const Trace& trace, std::string_view step, const std::string& formula, const Call& call,
                  std::size_t b, std::size_t head, std::size_t first, std::size_t rows)
{
    Matrix value(Matrix::shape_type{rows, call.values.features()});
    for (std::size_t i = 0; i < rows; ++i)
        std::copy_n(call.context.row(b, head, first + i), value.shape(1), &value(i, 0));
    const Matrix answer = trace(step, formula, std::move(value));
    for (std::size_t i = 0; i < rows; ++i)
        std::copy_n(&answer(i, 0), answer.shape(1), call.context.row(b, head, first + i));
}

/// One head, whose keys and values are packed.
void attend_head(const Call& call, const Packed& packed, std::size_t b, std::size_t head, const Trace& trace)
{
    const Buffer scratch(call.scratch());
    std::string contexts;
    for (std::size_t tile = 0; tile < call.query_tiles(); ++tile) {
        const std::size_t first = tile * tile_rows, rows = std::min(tile_rows, call.queries.rows() - first);
        const Trace of_rows = trace.scope("rows", tile);
        TracedTile listener(of_rows, rows, call.values.features(), formulas_of(call, b, head, first, rows));
        call.attend(packed, 0, b, head, tile, scratch.get(), &listener);
        tell_context(of_rows, "context[rows, d_v]", listener.context_formula(), call, b, head, first, rows);
        contexts += "rows." + text(tile) + ".context, ";
    }
    tell_context(trace, "context[n, d_v]", "concat(" + contexts + "axis=0)", call, b, head, 0, call.queries.rows());
}

StepOptions options_of(const Scoring& scoring)
{
    StepOptions options{{"type", "float32"}, {"scale", scoring.scale ? exact_text(*scoring.scale) : "1/sqrt(d_k)"}};
    if (scoring.softcap)
        options.emplace_back("softcap", exact_text(*scoring.softcap));
    return options;
}

} // namespace

void attend_traced(const Call& given, const Trace& caller)
{
    const Trace trace = caller.module("fast::attention", [&] { return options_of(given.scoring); });
    Told queries(trace, "queries[b, h, n, d_k]", "queries", given.queries);
    Told keys(trace, "keys[b, g, m, d_k]", "keys", given.keys);
    Told values(trace, "values[b, g, m, d_v]", "values", given.values);
    const std::array<std::size_t, 4> per_score{given.queries.batch(), given.queries.heads(), given.queries.rows(),
                                               given.keys.rows()};
    const ToldPerScore<float, Tensor4> bias(trace, "bias[b, h, n, m]", given.scoring.bias, per_score);
    const ToldPerScore<bool, HeadMask> mask(trace, "mask[b, h, n, m]", given.scoring.mask, per_score);
    Scoring scoring = given.scoring;
    scoring.bias = bias.get();
    scoring.mask = mask.get();
    const Const all_queries = queries.rows(), all_keys = keys.rows(), all_values = values.rows();
    const Call call{all_queries, all_keys, all_values, scoring, given.context, given.sums};

    std::string contexts;
    for (std::size_t b = 0; b < all_queries.batch(); ++b) {
        const bool is_batch = all_queries.batch() > 1;
        const Trace sequence = is_batch ? trace.scope("sequence", b) : trace;
        for (std::size_t head = 0; head < all_queries.heads(); ++head) {
            const Trace of_head = sequence.scope("head", head);
            const std::size_t group = head / call.heads_per_group();
            queries.tell_head(of_head, "queries[n, d_k]", b, head);
            keys.tell_head(of_head, "keys[m, d_k]", b, group);
            values.tell_head(of_head, "values[m, d_v]", b, group);
            const Packed packed(all_keys, all_values, 1);
            for (std::size_t tile = 0; tile < packed.tiles(); ++tile)
                packed.pack(0, b, group, tile);
            attend_head(call, packed, b, head, of_head);
            contexts += (is_batch ? "sequence." + text(b) + "." : "") + "head." + text(head) + ".context, ";
        }
    }

    Tensor4 context(
        Tensor4::shape_type{all_queries.batch(), all_queries.heads(), all_queries.rows(), all_values.features()});
    for (std::size_t b = 0; b < context.shape(0); ++b)
        for (std::size_t h = 0; h < context.shape(1); ++h)
            for (std::size_t i = 0; i < context.shape(2); ++i)
                std::copy_n(call.context.row(b, h, i), context.shape(3), &context(b, h, i, 0));
    const auto formula = [&] {
        std::string shape;
        for (const std::size_t size : context.shape())
            shape += ", " + text(size);
        return "reshape(concat(" + contexts + "axis=0)" + shape + ")";
    };
    const Tensor4 answer = trace("context[b, h, n, d_v]", formula, std::move(context));
    for (std::size_t b = 0; b < answer.shape(0); ++b)
        for (std::size_t h = 0; h < answer.shape(1); ++h)
            for (std::size_t i = 0; i < answer.shape(2); ++i)
                std::copy_n(&answer(b, h, i, 0), answer.shape(3), call.context.row(b, h, i));
}

} // namespace attn::fast
