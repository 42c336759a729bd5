// Lesson 7: one function, three uses.
//
// Attention does not care where queries, keys and values come from. From one sequence all three: self-attention. Queries
// from one and the rest from another: cross-attention. And it does not care in which order the keys come.

#include "../lesson.hpp"

#include "attn/attention/dot_product.hpp"
#include "attn/layers/multi_head.hpp"
#include "attn/ops/concat.hpp"

using namespace attn;

namespace {

/// The last row first.
Integers backwards(std::size_t count)
{
    Integers order(Integers::shape_type{count});
    for (std::size_t i = 0; i < count; ++i)
        order(i) = static_cast<std::int64_t>(count - 1 - i);
    return order;
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. A passage of five tokens, and a question of three");
    const Matrix passage = lesson.input(
        "passage[n, d_k]", Matrix{{2, 0, 1}, {0, 1, 0}, {1, 2, 0}, {0, 0, 3}, {1, 1, 1}});
    const Matrix question =
        lesson.input("question[m, d_k]", Matrix{{1, 0, 2}, {0, 3, 0}, {2, 1, 0}});

    //! [self]
    lesson.heading("2. Self-attention: the passage asks itself; n by n");
    const Trace self = trace.scope(
        "self", {{"queries", "passage"}, {"keys", "passage"}, {"values", "passage"}});
    scaled_dot_product_attention(passage, passage, passage, {}, {}, {}, self);
    //! [self]

    //! [cross]
    lesson.heading("3. Cross-attention: the passage asks the question; n by m. The "
                   "aligned question embedding");
    const Trace cross = trace.scope(
        "cross", {{"queries", "passage"}, {"keys", "question"}, {"values", "question"}});
    const Attention aligned =
        scaled_dot_product_attention(passage, question, question, {}, {}, {}, cross);
    lesson.expect("every token of the passage gets a mean of the question's tokens",
                  aligned.context.shape(0) == passage.shape(0) &&
                      aligned.context.shape(1) == question.shape(1));
    //! [cross]

    //! [sizes]
    lesson.heading(
        "4. Values of another size than keys: only n, m and d_k have to agree");
    const Matrix answers =
        lesson.input("answers[m, d_answer]", Matrix{{1, 0}, {0, 1}, {1, 1}});
    const Trace sizes = trace.scope(
        "sizes", {{"queries", "passage"}, {"keys", "question"}, {"values", "answers"}});
    const Attention told =
        scaled_dot_product_attention(passage, question, answers, {}, {}, {}, sizes);
    lesson.expect_equal("the weights are the same: they depend on queries and keys only",
                        told.weights, aligned.weights);
    //! [sizes]

    //! [set]
    lesson.heading("5. Keys and values backwards, together: the same output. They are a "
                   "set, not a sequence");
    const Trace shuffled = trace.scope("shuffled", {{"queries", "passage"}});
    const std::size_t m = question.shape(0);
    const Integers order = shuffled(
        "order[m]", std::to_string(m - 1) + " - arange(question.shape[0])", backwards(m));
    const Matrix keys =
        shuffled("keys[m, d_k]", "question[order]", take_rows(question, order));
    const Matrix values =
        shuffled("values[m, d_v]", "question[order]", take_rows(question, order));
    const Attention same =
        scaled_dot_product_attention(passage, keys, values, {}, {}, {}, shuffled);
    lesson.expect_equal("the context does not change", same.context, aligned.context);
    //! [set]

    //! [apart]
    lesson.heading("6. Keys alone backwards: now each key answers with another's value");
    const Trace apart = trace.scope(
        "apart",
        {{"queries", "passage"}, {"keys", "shuffled.keys"}, {"values", "question"}});
    const Attention other =
        scaled_dot_product_attention(passage, keys, question, {}, {}, {}, apart);
    if (lesson.is_example())
        lesson.expect("the context changes", other.context != aligned.context);
    //! [apart]

    //! [heads]
    lesson.heading("7. With several heads it is the same function: "
                   "multi_head_attention(x, memory, weights)");
    const Matrix identity = xt::eye<double>(passage.shape(1));
    const MultiHeadWeights one_head{{identity}, {identity}, {identity}};
    lesson.expect_equal("one head that changes nothing gives the aligned question again",
                        multi_head_attention(passage, question, {}, {}, one_head).output,
                        aligned.context);
    //! [heads]
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("07_self_and_cross", argc, argv, teach);
}
