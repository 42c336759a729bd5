// Lesson 7: self-attention and cross-attention.
//
// Attention is one function of queries, keys and values. In self-attention all three are
// computed from one sequence. In cross-attention the queries are computed from one
// sequence, and the keys and values from another. In both, the order of the keys does not
// matter.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/layers/multi_head.hpp"

#include <numeric>

using namespace attn;

namespace {

Integers backwards(std::size_t count);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A passage of five tokens, and a question of three");
    const Term passage = lesson.input(
        "passage[n, d_k]", Matrix{{2, 0, 1}, {0, 1, 0}, {1, 2, 0}, {0, 0, 3}, {1, 1, 1}});
    const Term question =
        lesson.input("question[m, d_k]", Matrix{{1, 0, 2}, {0, 3, 0}, {2, 1, 0}});

    lesson.heading("2. Self-attention: queries, keys and values are the passage; 5 by 5");
    const Trace self = trace.scope("self");
    //! [self]
    scaled_dot_product_attention(passage, passage, passage, {}, self);
    //! [self]

    lesson.heading("3. Cross-attention: queries are the passage, keys and values the "
                   "question; 5 by 3");
    const Trace cross = trace.scope("cross");
    //! [cross]
    const auto aligned =
        scaled_dot_product_attention(passage, question, question, {}, cross);
    //! [cross]
    lesson.expect("each token of the passage gets a mean of the question's tokens",
                  aligned.context.shape(0) == passage.shape(0) &&
                      aligned.context.shape(1) == question.shape(1));

    lesson.heading(
        "4. Values of another size than the keys: only n, m and d_k must agree");
    const Trace sizes = trace.scope("sizes");
    //! [sizes]
    const Term answers =
        lesson.input("answers[m, d_answer]", Matrix{{1, 0}, {0, 1}, {1, 1}});
    const auto other_values =
        scaled_dot_product_attention(passage, question, answers, {}, sizes);
    //! [sizes]
    lesson.expect_equal("the weights are the same: they depend on queries and keys only",
                        other_values.weights, aligned.weights);

    lesson.heading("5. Keys and values in reverse order, together: the same context");
    const Trace shuffled = trace.scope("shuffled");
    const std::size_t m = question.shape(0);
    const Term order =
        shuffled("order[m]", std::to_string(m - 1) + " - arange(question.shape[0])",
                 Term(backwards(m)));
    //! [set]
    const Term keys = shuffled("keys[m, d_k]", take_rows(question, order));
    const Term values = shuffled("values[m, d_v]", take_rows(question, order));
    const auto same = scaled_dot_product_attention(passage, keys, values, {}, shuffled);
    //! [set]
    lesson.expect_equal("the context does not change", same.context, aligned.context);

    lesson.heading("6. A mistake: only the keys in reverse order");
    const Trace apart = trace.scope("apart");
    //! [apart]
    const auto other = scaled_dot_product_attention(passage, keys, question, {}, apart);
    //! [apart]
    if (lesson.is_example())
        lesson.expect("the context changes", *other.context != *aligned.context);

    lesson.heading("7. With heads: multi_head_attention(Sources(x, memory), weights)");
    //! [heads]
    const Matrix identity = xt::eye<double>(passage.shape(1));
    const MultiHeadWeights one_head{{identity}, {identity}, {identity}};
    const Term by_heads =
        multi_head_attention(Sources(passage, question), one_head).output;
    //! [heads]
    lesson.expect_equal("one head with identity matrices gives the same context",
                        by_heads, aligned.context);
}

/// The last row first.
Integers backwards(std::size_t count)
{
    Integers order(Integers::shape_type{count});
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("07_self_and_cross", argc, argv, teach);
}
