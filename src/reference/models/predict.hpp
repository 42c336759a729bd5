#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The end of a decoder: from its normalised tokens to logits, and from logits to the next token.
namespace attn {

/// The logits of what comes next, by an output map of their own or by an embedding's transpose (tied weights).
/// @param function   for errors: "llama"
/// @param tokens     ((b,) n, d_model)
/// @param embedding  (vocabulary, d_model); not looked at where there is an output map
/// @param given      (d_model, vocabulary); optional
/// @param label      of the result
template <Sequence T>
Term<T> predict(std::string_view function, const Term<T>& tokens, const Term<Matrix>& embedding,
                const std::optional<Matrix>& given, const Trace& trace,
                std::string_view label = "logits[(b,) n, vocabulary]")
{
    if (!given) {
        expect_agreement(function, "d_model", {"the last tokens", tokens, feature_axis<T>},
                         {"embedding", embedding, 1});
        return trace(label, matmul(tokens, transpose(embedding)));
    }
    expect_agreement(function, "d_model", {"the last tokens", tokens, feature_axis<T>}, {"output weights", *given, 0});
    return trace(label, matmul(tokens, trace.input("output_weights[d_model, vocabulary]", Term(*given))));
}

inline Matrix last_row(const Matrix& rows)
{
    return xt::view(rows, xt::range(rows.shape(0) - 1, rows.shape(0)), xt::all());
}

/// The id of the largest logit of the last token, as the step next_id; the lowest of several.
/// @param name  the logits' step
inline std::int64_t likeliest_next(const Matrix& logits, const std::string& name, const Trace& trace)
{
    const Matrix last = last_row(logits);
    const std::int64_t next = std::max_element(last.begin(), last.end()) - last.begin();
    return trace(
        "next_id",
        [&] { return "min(where(" + name + "[-1] == max(" + name + "[-1]), arange(" + name + ".shape[1]), inf))"; },
        next);
}

} // namespace attn
