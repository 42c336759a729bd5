#include "attn/reference/layers/embedding.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/terms.hpp"

#include <cmath>
#include <string>

namespace attn {

namespace {

template <Sequence T, class Ids>
Term<T> rows_of(const Term<Ids>& given, const EmbeddingWeights& weights, std::optional<double> scale,
                const Trace& trace)
{
    const Term ids = trace.input("ids[(b,) n]", given);
    const Term table = trace.input("table[vocabulary, d_model]", Term(weights.table));
    const Term rows(T(take_rows(*table, *ids)), with_suffix(table.wording(), "[" + trace.say(ids.wording()) + "]"));
    return trace("output[(b,) n, d_model]", scale ? rows * *scale : rows);
}

} // namespace

Term<Matrix> look_up(const Term<Integers>& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                     const Trace& trace)
{
    return rows_of<Matrix>(ids, weights, scale, trace);
}

Term<Tensor3> look_up(const Term<IntegerMatrix>& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                      const Trace& trace)
{
    return rows_of<Tensor3>(ids, weights, scale, trace);
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
    const Integers& ids = trace.input("ids[n]", words);
    const Matrix& table = trace.shared_input("table[vocabulary, d_model]", rows);
    const std::size_t d_model = table.shape(1);

    // Look each token up, and scale it to the size of its position.
    const Matrix tokens = trace("tokens[n, d_model]", "table[ids]", take_rows(table, ids));
    const double scale = options.scale.value_or(std::sqrt(static_cast<double>(d_model)));
    const Matrix scaled = trace(
        "scaled[n, d_model]",
        [&] { return options.scale ? "tokens * " + exact_text(scale) : std::string("tokens * sqrt(table.shape[1])"); },
        Matrix(tokens * scale));

    // Add its position.
    const Matrix positions = sinusoidal_positions(ids.size(), d_model, options.positions, trace);
    return trace("output[n, d_model]", "scaled + positions", Matrix(scaled + positions));
}

Matrix unembed(const Matrix& tokens, const Matrix& rows, const Trace& caller)
{
    expect_agreement("unembed", "d_model", {"x", tokens, 1}, {"table", rows, 1});
    const Trace trace = caller.module("unembed");
    const Matrix& x = trace.input("x[n, d_model]", tokens);
    const Matrix& table = trace.shared_input("table[vocabulary, d_model]", rows);
    return trace("logits[n, vocabulary]", "x @ table.T", matmul(x, transpose(table)));
}

} // namespace attn
