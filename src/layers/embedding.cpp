#include "attn/layers/embedding.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <cmath>
#include <string>

namespace attn {

Matrix embed(const Vector& ids, const Matrix& table, const EmbeddingOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("embed", [&] {
        return StepOptions{{"scale", options.scale ? exact_text(*options.scale) : "sqrt(d_model)"}};
    });
    trace.input("ids[n]", ids);
    trace.shared_input("table[vocabulary, d_model]", table);
    const std::size_t d_model = table.shape(1);

    // Look each token up, as large as its place will be.
    const Matrix tokens = trace("tokens[n, d_model]", "table[ids]", take_rows(table, ids));
    const double scale = options.scale.value_or(std::sqrt(static_cast<double>(d_model)));
    const Matrix scaled = trace(
        "scaled[n, d_model]",
        [&] { return options.scale ? "tokens * " + exact_text(scale) : std::string("tokens * sqrt(table.shape[1])"); },
        Matrix(tokens * scale));

    // Say where it stands.
    const Matrix positions = sinusoidal_positions(ids.size(), d_model, options.positions, trace);
    return trace("output[n, d_model]", "scaled + positions", Matrix(scaled + positions));
}

Matrix unembed(const Matrix& x, const Matrix& table, const Trace& caller)
{
    expect_agreement("unembed", "d_model", {"x", x, 1}, {"table", table, 1});
    const Trace trace = caller.module("unembed");
    trace.input("x[n, d_model]", x);
    trace.shared_input("table[vocabulary, d_model]", table);
    return trace("logits[n, vocabulary]", "x @ table.T", matmul(x, transpose(table)));
}

} // namespace attn
