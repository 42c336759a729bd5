#include "attn/reference/layers/embedding.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>

namespace attn {

namespace {

template <class Ids>
auto rows_of(const Term<Ids>& given, const EmbeddingWeights& weights, std::optional<double> scale, const Trace& trace)
{
    const Term ids = trace.input("ids[(b,) n]", given);
    const Term table = trace.input("table[vocabulary, d_model]", Term(weights.table));
    const Term rows = take_rows(table, ids);
    return trace("output[(b,) n, d_model]", scale ? rows * *scale : rows);
}

} // namespace

Term<Matrix> look_up(const Term<Integers>& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                     const Trace& trace)
{
    return rows_of(ids, weights, scale, trace);
}

Term<Tensor3> look_up(const Term<IntegerMatrix>& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                      const Trace& trace)
{
    return rows_of(ids, weights, scale, trace);
}

Matrix look_up(const Integers& ids, const EmbeddingWeights& weights, std::optional<double> scale, const Trace& trace)
{
    return Matrix(look_up(Term(ids), weights, scale, trace));
}

Tensor3 look_up(const IntegerMatrix& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                const Trace& trace)
{
    return Tensor3(look_up(Term(ids), weights, scale, trace));
}

Matrix embed(const Integers& words, const Matrix& rows, const EmbeddingOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("embed", [&] {
        return StepOptions{{"scale", options.scale ? exact_text(*options.scale) : "sqrt(d_model)"}};
    });
    const Term ids = trace.input("ids[n]", Term(words));
    const Term table = trace.shared_input("table[vocabulary, d_model]", Term(rows));

    // Look each token up, and scale it to the size of its position.
    const Term tokens = trace("tokens[n, d_model]", take_rows(table, ids));
    const Term scaled =
        trace("scaled[n, d_model]", options.scale ? tokens * *options.scale : tokens * sqrt(size_along(table, 1)));

    // Add its position.
    const Matrix positions = sinusoidal_positions(ids.size(), table.shape(1), options.positions, trace);
    return Matrix(trace("output[n, d_model]", scaled + named(positions, "positions", trace)));
}

Matrix unembed(const Matrix& tokens, const Matrix& rows, const Trace& caller)
{
    expect_agreement("unembed", "d_model", {"x", tokens, 1}, {"table", rows, 1});
    const Trace trace = caller.module("unembed");
    const Term x = trace.input("x[n, d_model]", Term(tokens));
    const Term table = trace.shared_input("table[vocabulary, d_model]", Term(rows));
    return Matrix(trace("logits[n, vocabulary]", matmul(x, transpose(table))));
}

} // namespace attn
