// Lesson 6: several heads.
//
// Tokens are related in several ways at once, but one query finds only one kind of relation: softmax gives one set of
// weights. So each token asks several questions. Each head has small queries, keys and values of its own, and what all
// heads found is laid side by side and mixed.

#include "../lesson.hpp"

#include "attn/layers/multi_head.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <cmath>

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

/// Every head's weights, packed: head i has the columns from i d_k on.
struct Weights {
    Matrix query, key, value, output;
};

std::string slice_of(std::string_view packed, std::size_t begin, std::size_t end)
{
    return std::string(packed) + "[:, " + std::to_string(begin) + ":" +
           std::to_string(end) + "]";
}

//! [one_head]
/// One head: attention as in the lessons before, with a head's own share of the weights.
Matrix attend_as(std::size_t head, const Trace& trace, const Matrix& inputs,
                 const Weights& weights)
{
    const auto share = [&](std::string_view step, std::string_view packed,
                           const Matrix& of) {
        const std::size_t width = of.shape(1) / heads, begin = head * width,
                          end = begin + width;
        return trace(step, slice_of(packed, begin, end), columns(of, begin, end));
    };
    const Matrix query_weights =
        share("query_weights[d_model, d_k]", "query_weights", weights.query);
    const Matrix key_weights =
        share("key_weights[d_model, d_k]", "key_weights", weights.key);
    const Matrix value_weights =
        share("value_weights[d_model, d_v]", "value_weights", weights.value);

    const Matrix queries =
        trace("queries[n, d_k]", "inputs @ query_weights", matmul(inputs, query_weights));
    const Matrix keys =
        trace("keys[m, d_k]", "inputs @ key_weights", matmul(inputs, key_weights));
    const Matrix values =
        trace("values[m, d_v]", "inputs @ value_weights", matmul(inputs, value_weights));
    return scaled_dot_product_attention(queries, keys, values, {}, {}, {}, trace).context;
}
//! [one_head]

//! [packed]
/// From (n, h d) to (h, n, d): cut each row into heads, then bring the heads to the front.
Tensor3 split(const Matrix& packed)
{
    const std::size_t n = packed.shape(0), d = packed.shape(1) / heads;
    Tensor3 apart(Tensor3::shape_type{heads, n, d});
    for (std::size_t head = 0; head < heads; ++head)
        xt::view(apart, head, xt::all(), xt::all()) =
            columns(packed, head * d, (head + 1) * d);
    return apart;
}

/// From (h, n, d) to (n, h d): tokens to the front again, then each token's heads side by side.
Matrix merge(const Tensor3& apart)
{
    std::vector<Matrix> parts;
    for (std::size_t head = 0; head < heads; ++head)
        parts.emplace_back(xt::view(apart, head, xt::all(), xt::all()));
    return concat_columns(parts);
}

/// The formulas of both, for n tokens and d features a head.
std::string splitting(std::string_view packed, std::size_t n, std::size_t d)
{
    return "permute(reshape(" + std::string(packed) + ", " + std::to_string(n) + ", " +
           std::to_string(heads) + ", " + std::to_string(d) + "), 1, 0, 2)";
}

/// All heads at once: as many products as one head takes, on tensors with an axis h.
Tensor3 attend_packed(const Trace& trace, const Matrix& inputs, const Weights& weights)
{
    const std::size_t n = inputs.shape(0), d_k = weights.query.shape(1) / heads,
                      d_v = weights.value.shape(1) / heads;
    const Matrix query =
        trace("query[n, h_d_k]", "inputs @ query_weights", matmul(inputs, weights.query));
    const Matrix key =
        trace("key[m, h_d_k]", "inputs @ key_weights", matmul(inputs, weights.key));
    const Matrix value =
        trace("value[m, h_d_v]", "inputs @ value_weights", matmul(inputs, weights.value));

    const Tensor3 queries =
        trace("queries[h, n, d_k]", splitting("query", n, d_k), split(query));
    const Tensor3 keys = trace("keys[h, m, d_k]", splitting("key", n, d_k), split(key));
    const Tensor3 values =
        trace("values[h, m, d_v]", splitting("value", n, d_v), split(value));

    const Tensor3 scores =
        trace("scores[h, n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const Tensor3 scaled = trace("scaled[h, n, m]", "scores / sqrt(keys.shape[2])",
                                 Tensor3(scores / std::sqrt(static_cast<double>(d_k))));
    const Tensor3 attention =
        trace("weights[h, n, m]", "softmax(scaled)", softmax(scaled));
    return trace("context[h, n, d_v]", "weights @ values", matmul(attention, values));
}

/// The formula of the merge, for n tokens and a width of h d_v.
std::string merging(std::size_t n, std::size_t width)
{
    return "reshape(permute(context, 1, 0, 2), " + std::to_string(n) + ", " +
           std::to_string(width) + ")";
}
//! [packed]

//! [unmerged]
/// The same numbers in the same shape without the transpose: a token's row is filled from other tokens.
void merge_without_transpose(Lesson& lesson, const Trace& packed, const Tensor3& context,
                             const Matrix& right)
{
    Matrix reshaped(right.shape());
    std::copy(context.begin(), context.end(), reshaped.begin());
    const std::string formula = "reshape(context, " + std::to_string(right.shape(0)) +
                                ", " + std::to_string(right.shape(1)) + ")";
    const Matrix wrong = packed("reshaped[n, h_d_v]", formula, reshaped);
    if (lesson.is_example())
        lesson.expect("the shape is right, the numbers are not", wrong != right);
}
//! [unmerged]

//! [count]
/// Products and multiplications: a loop of heads does the same work in more and smaller pieces.
void count(Lesson& lesson, std::size_t n, std::size_t d_model)
{
    const Trace cost = lesson.trace().scope("cost");
    const auto number = [&](std::string_view step, std::string_view formula,
                            std::size_t value) {
        return static_cast<double>(cost(step, formula, static_cast<std::int64_t>(value)));
    };
    const double h = number("h", "", heads);
    const double loop = number("loop_products", "h * (3 + 2) + 1", heads * (3 + 2) + 1);
    const double packed = number("packed_products", "3 + 2 + 1", 3 + 2 + 1);
    number("multiplications",
           "4 * inputs.shape[0] * inputs.shape[1] ** 2 + 2 * inputs.shape[0] ** 2 * "
           "inputs.shape[1]",
           4 * n * d_model * d_model + 2 * n * n * d_model);
    lesson.table({"heads", "products: in a loop", "packed"}, {{h, loop, packed}});
    lesson.say("The multiplications are the same. Fewer and larger products keep a "
               "machine busier.");
}
//! [count]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading(
        "1. The tokens of lesson 1, and weights for two heads of two features each");
    const Matrix inputs = lesson.input("inputs[n, d_model]",
                                       Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Weights weights{
        lesson.input("query_weights[d_model, h_d_k]",
                     Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 2, 1, 2}}),
        lesson.input("key_weights[d_model, h_d_k]",
                     Matrix{{0, 1, 1, 0}, {1, 0, -1, 1}, {0, 1, 1, 0}, {1, 1, 0, -1}}),
        lesson.input("value_weights[d_model, h_d_v]",
                     Matrix{{0, 2, 1, 0}, {0, 3, 0, 1}, {1, 0, 3, 0}, {1, 1, 0, 2}}),
        lesson.input(
            "output_weights[h_d_v, d_out]",
            Matrix{{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, 1, 0}, {0, -0.5, 0, 1}})};
    if (weights.query.shape(1) % heads != 0 || weights.value.shape(1) % heads != 0)
        throw ShapeError("the columns of query_weights and value_weights can't be shared "
                         "out to 2 heads");

    //! [loop]
    lesson.heading("2. One head after the other; the scopes say which");
    std::vector<Matrix> contexts;
    for (std::size_t head = 0; head < heads; ++head)
        contexts.push_back(attend_as(head, trace.scope("head", head), inputs, weights));
    const Matrix merged =
        trace("merged[n, h_d_v]", "concat(head.0.context, head.1.context, axis=-1)",
              concat_columns(contexts));
    //! [loop]

    //! [output]
    lesson.heading(
        "3. What W^o is for: every feature of the output hears from every head");
    const Matrix output = trace("output[n, d_out]", "merged @ output_weights",
                                matmul(merged, weights.output));
    std::vector<Matrix> heard;
    for (std::size_t head = 0; head < heads; ++head) {
        const std::size_t d_v = weights.value.shape(1) / heads;
        const std::string rows =
            std::to_string(head * d_v) + ":" + std::to_string((head + 1) * d_v);
        const Matrix part =
            xt::view(weights.output, xt::range(head * d_v, (head + 1) * d_v), xt::all());
        heard.push_back(trace.scope("heard", head)(
            "output[n, d_out]",
            "head." + std::to_string(head) + ".context @ output_weights[" + rows + "]",
            matmul(contexts[head], part)));
    }
    lesson.expect_equal(
        "the output is the sum of what each head says through its rows of W^o",
        Matrix(heard[0] + heard[1]), output);
    //! [output]

    lesson.heading("4. All heads in the same three products; a loop is how it reads, not "
                   "how it should run");
    const Trace packed = trace.scope("packed");
    const Tensor3 context = attend_packed(packed, inputs, weights);
    const Matrix merged_at_once =
        packed("merged[n, h_d_v]", merging(inputs.shape(0), weights.value.shape(1)),
               merge(context));
    lesson.expect_equal("packed heads give what the loop gave", merged_at_once, merged);

    lesson.heading("5. Merging without the transpose");
    merge_without_transpose(lesson, packed, context, merged_at_once);

    lesson.heading("6. Counted");
    count(lesson, inputs.shape(0), inputs.shape(1));

    //! [library]
    lesson.heading("7. The library's multi_head_attention, with and without W^o");
    const MultiHeadWeights learned{
        {weights.query}, {weights.key}, {weights.value}, LinearWeights{weights.output}};
    lesson.expect_equal("multi_head_attention gives the same output",
                        multi_head_attention(inputs, {}, {}, learned, {heads}).output,
                        output);
    const MultiHeadWeights without{{weights.query}, {weights.key}, {weights.value}};
    lesson.expect_equal("without an output map it gives the heads side by side",
                        multi_head_attention(inputs, {}, {}, without, {heads}).output,
                        merged);
    //! [library]
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("06_multi_head", argc, argv, teach);
}
