// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/attention/dot_product.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const Matrix passage{{2, 0, 1}, {0, 1, 0}, {1, 2, 0}, {0, 0, 3}, {1, 1, 1}};
    const Matrix question{{1, 0, 2}, {0, 3, 0}};
    lesson.expect_equal(
        "my_aligned_question is cross-attention", my_aligned_question(passage, question),
        scaled_dot_product_attention(passage, question, question).context);
    lesson.expect_equal("my_aligned_question the other way round",
                        my_aligned_question(question, passage),
                        scaled_dot_product_attention(question, passage, passage).context);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("07_self_and_cross", argc, argv, check);
}
