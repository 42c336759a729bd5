#include "classifier.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <string>

namespace attn {
namespace {

/// The mean over the words of each text.
Matrix pool(const Tensor3& words)
{
    Matrix pooled = xt::zeros<double>({words.shape(0), words.shape(2)});
    const std::size_t n = words.shape(1), features = words.shape(2);
    for (std::size_t i = 0; i < words.size(); ++i)
        pooled.data()[i / (n * features) * features + i % features] += words.data()[i] / static_cast<double>(n);
    return pooled;
}

Vector first_column(const Matrix& matrix) { return xt::view(matrix, xt::all(), 0); }

} // namespace

Vector review_classifier(const IntegerMatrix& given_ids, const std::optional<Matrix>& dropout_mask,
                         const ReviewClassifierWeights& weights, const ReviewClassifierOptions& options,
                         const Trace& caller)
{
    const Trace trace = caller.module("review_classifier", [&] {
        return StepOptions{{"heads", std::to_string(options.heads)},
                           {"positions", options.has_positions ? "true" : "false"}};
    });
    const IntegerMatrix& ids = trace.input("ids[b, n]", given_ids);
    const Matrix& table = trace.input("table[vocabulary, d_model]", weights.embedding.table);

    // Look the words up, and add their positions where they are asked for.
    Tensor3 words = trace("tokens[b, n, d_model]", "table[ids]", take_rows(table, ids));
    if (options.has_positions) {
        const Matrix positions = sinusoidal_positions(ids.shape(1), table.shape(1), {}, trace);
        words = trace("placed[b, n, d_model]", "tokens + positions", Tensor3(words + positions));
    }

    // Attend, and take the mean over all words.
    const std::string_view name = options.has_positions ? "placed" : "tokens";
    const Trace inside = trace.scope("attention", {{"x", name}, {"memory", name}, {"value_memory", name}});
    const Tensor3 attended =
        keras_attention(words, words, words, {}, weights.attention, {.heads = options.heads}, inside).output;
    Matrix pooled = trace("pooled[b, h_d_v]", "mean(attention.output, axis=1)", pool(attended));

    // While it is trained, drop features at random.
    if (dropout_mask) {
        const Matrix& mask = trace.input("dropout_mask[b, h_d_v]", *dropout_mask);
        expect_agreement("review_classifier", "b", {"dropout mask", mask, 0}, {"ids", ids, 0});
        expect_agreement("review_classifier", "h d_v", {"dropout mask", mask, 1}, {"pooled", pooled, 1});
        pooled = trace("dropped[b, h_d_v]", "pooled * dropout_mask", Matrix(pooled * mask));
    }

    // One number per text.
    const LinearSteps steps{dropout_mask ? "dropped" : "pooled", "output", "h_d_v", "d_out", "b"};
    const Matrix output = linear(pooled, weights.output, steps, trace);
    return trace("logits[b]", "output[:, 0]", first_column(output));
}

} // namespace attn
