// Lesson 6: several heads.
//
// One head gives each query one row of weights, and the row sums to 1. A token that has
// to use several other tokens for several reasons needs several rows. Multi-head
// attention computes h attentions side by side, each with its own small queries, keys and
// values, concatenates their contexts, and multiplies the result by one more matrix, W^O.

#include "cost.hpp"

#include "../lesson.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

/// The weights of all heads, packed: head i has the columns from i d_k up to (i + 1) d_k.
struct Weights {
    Matrix query, key, value, output;
};

/// Cuts one head's columns out of packed weights.
/// @param step  name and axes; the name is that of the packed weights, too
Matrix share(const Trace& trace, std::string_view step, const Matrix& packed,
             std::size_t head)
{
    const std::size_t width = packed.shape(1) / heads;
    const std::size_t begin = head * width, end = begin + width;
    const std::string name(step.substr(0, step.find('[')));
    return trace(step,
                 name + "[:, " + std::to_string(begin) + ":" + std::to_string(end) + "]",
                 columns(packed, begin, end));
}

/// One head: scaled dot-product attention with this head's columns of the weights.
Matrix attend_as(std::size_t head, const Trace& trace, const Matrix& inputs,
                 const Weights& weights)
{
    //! [share]
    const Matrix query_weights =
        share(trace, "query_weights[d_model, d_k]", weights.query, head);
    const Matrix key_weights =
        share(trace, "key_weights[d_model, d_k]", weights.key, head);
    const Matrix value_weights =
        share(trace, "value_weights[d_model, d_v]", weights.value, head);
    //! [share]

    //! [one_head]
    const Matrix queries =
        trace("queries[n, d_k]", "inputs @ query_weights", matmul(inputs, query_weights));
    const Matrix keys =
        trace("keys[m, d_k]", "inputs @ key_weights", matmul(inputs, key_weights));
    const Matrix values =
        trace("values[m, d_v]", "inputs @ value_weights", matmul(inputs, value_weights));
    return scaled_dot_product_attention(queries, keys, values, {}, trace).context;
    //! [one_head]
}

/// The output as a sum: each head's context times this head's rows of W^O.
Matrix part_of_output(const Trace& trace, std::size_t head, const Matrix& context,
                      const Matrix& output_weights)
{
    const std::size_t begin = head * context.shape(1), end = begin + context.shape(1);
    const std::string formula = "head." + std::to_string(head) +
                                ".context @ output_weights[" + std::to_string(begin) +
                                ":" + std::to_string(end) + "]";
    const Trace heard = trace.scope("heard", head);
    //! [parts]
    const Matrix rows = xt::view(output_weights, xt::range(begin, end), xt::all());
    return heard("output[n, d_out]", formula, matmul(context, rows));
    //! [parts]
}

//! [split]
/// From (n, h d) to (h, n, d): each row is cut into h pieces.
Tensor3 split(const Matrix& packed)
{
    const std::size_t n = packed.shape(0), d = packed.shape(1) / heads;
    Tensor3 apart(Tensor3::shape_type{heads, n, d});
    for (std::size_t head = 0; head < heads; ++head)
        xt::view(apart, head, xt::all(), xt::all()) =
            columns(packed, head * d, (head + 1) * d);
    return apart;
}
//! [split]

//! [merge]
/// From (h, n, d) to (n, h d): each token's pieces are joined again.
Matrix merge(const Tensor3& apart)
{
    std::vector<Matrix> parts;
    for (std::size_t head = 0; head < heads; ++head)
        parts.emplace_back(xt::view(apart, head, xt::all(), xt::all()));
    return concat_columns(parts);
}
//! [merge]

/// The formula of split(), for n tokens and d features per head.
std::string splitting(std::string_view packed, std::size_t n, std::size_t d)
{
    return "permute(reshape(" + std::string(packed) + ", " + std::to_string(n) + ", " +
           std::to_string(heads) + ", " + std::to_string(d) + "), 1, 0, 2)";
}

/// The formula of merge(), for n tokens and a width of h d_v.
std::string merging(std::size_t n, std::size_t width)
{
    return "reshape(permute(context, 1, 0, 2), " + std::to_string(n) + ", " +
           std::to_string(width) + ")";
}

/// All heads at once: as many products as one head takes, on tensors with an axis h.
Tensor3 attend_packed(const Trace& trace, const Matrix& inputs, const Weights& weights)
{
    const std::size_t n = inputs.shape(0), d_k = weights.query.shape(1) / heads,
                      d_v = weights.value.shape(1) / heads;
    //! [packed_maps]
    const Matrix query =
        trace("query[n, h_d_k]", "inputs @ query_weights", matmul(inputs, weights.query));
    const Matrix key =
        trace("key[m, h_d_k]", "inputs @ key_weights", matmul(inputs, weights.key));
    const Matrix value =
        trace("value[m, h_d_v]", "inputs @ value_weights", matmul(inputs, weights.value));
    //! [packed_maps]

    //! [packed_split]
    const Tensor3 queries =
        trace("queries[h, n, d_k]", splitting("query", n, d_k), split(query));
    const Tensor3 keys = trace("keys[h, m, d_k]", splitting("key", n, d_k), split(key));
    const Tensor3 values =
        trace("values[h, m, d_v]", splitting("value", n, d_v), split(value));
    //! [packed_split]

    //! [packed_attention]
    const Tensor3 scores =
        trace("scores[h, n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const Tensor3 scaled = trace("scaled[h, n, m]", "scores / sqrt(keys.shape[2])",
                                 Tensor3(scores / std::sqrt(static_cast<double>(d_k))));
    const Tensor3 attention =
        trace("weights[h, n, m]", "softmax(scaled)", softmax(scaled));
    return trace("context[h, n, d_v]", "weights @ values", matmul(attention, values));
    //! [packed_attention]
}

/// The same numbers in the same shape, but reshaped without the transpose: rows mix
/// several tokens.
void merge_without_transpose(Lesson& lesson, const Trace& packed, const Tensor3& context,
                             const Matrix& right)
{
    const std::string formula = "reshape(context, " + std::to_string(right.shape(0)) +
                                ", " + std::to_string(right.shape(1)) + ")";
    //! [unmerged]
    Matrix reshaped(right.shape());
    std::copy(context.begin(), context.end(), reshaped.begin());
    const Matrix wrong = packed("reshaped[n, h_d_v]", formula, reshaped);
    //! [unmerged]
    if (lesson.is_example())
        lesson.expect("the shape is right, the numbers are wrong", wrong != right);
}

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
        throw ShapeError("the columns of query_weights and value_weights must divide "
                         "into 2 heads of equal width");

    lesson.heading("2. Each head in turn; the scopes head.0 and head.1 name their steps");
    //! [loop]
    std::vector<Matrix> contexts;
    for (std::size_t head = 0; head < heads; ++head)
        contexts.push_back(attend_as(head, trace.scope("head", head), inputs, weights));
    const Matrix merged =
        trace("merged[n, h_d_v]", "concat(head.0.context, head.1.context, axis=-1)",
              concat_columns(contexts));
    //! [loop]

    lesson.heading("3. W^O: each feature of the output is a sum over all heads");
    //! [output]
    const Matrix output = trace("output[n, d_out]", "merged @ output_weights",
                                matmul(merged, weights.output));
    //! [output]
    const Matrix of_0 = part_of_output(trace, 0, contexts[0], weights.output);
    const Matrix of_1 = part_of_output(trace, 1, contexts[1], weights.output);
    lesson.expect_equal(
        "the output is the sum of each head's context times its rows of W^O",
        Matrix(of_0 + of_1), output);

    lesson.heading("4. All heads in the same products, with an axis h");
    const Trace packed = trace.scope("packed");
    const Tensor3 context = attend_packed(packed, inputs, weights);
    const Matrix merged_at_once =
        packed("merged[n, h_d_v]", merging(inputs.shape(0), weights.value.shape(1)),
               merge(context));
    lesson.expect_equal("packed heads give what the loop gave", merged_at_once, merged);

    lesson.heading("5. A mistake: merging without the transpose");
    merge_without_transpose(lesson, packed, context, merged_at_once);

    lesson.heading("6. What heads cost: this example, then 100 tokens of 512 features");
    count_cost(lesson, heads, inputs.shape(0), inputs.shape(1));

    lesson.heading("7. The library's multi_head_attention, with and without W^O");
    //! [library]
    const MultiHeadWeights learned{
        {weights.query}, {weights.key}, {weights.value}, LinearWeights{weights.output}};
    const Matrix same = multi_head_attention(inputs, learned, {heads}).output;
    //! [library]
    lesson.expect_equal("multi_head_attention gives the same output", same, output);
    const MultiHeadWeights without{{weights.query}, {weights.key}, {weights.value}};
    lesson.expect_equal("without W^O it gives the concatenated contexts",
                        multi_head_attention(inputs, without, {heads}).output, merged);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("06_multi_head", argc, argv, teach);
}
