// Compares exercise 7 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/dot_product.hpp"

using namespace attn;

namespace {

void expect_aligned(Exercise& exercise, const Matrix& passage, const Matrix& question)
{
    Recorder run;
    scaled_dot_product_attention(passage, question, question, {}, Trace(run));
    exercise.expect(
        {"my_aligned_question", {{"passage", passage}, {"question", question}}}, run,
        "context", [&] { return my_aligned_question(passage, question); });
}

void check(Exercise& exercise)
{
    const Matrix passage{{2, 0, 1}, {0, 1, 0}, {1, 2, 0}, {0, 0, 3}, {1, 1, 1}};
    const Matrix question{{1, 0, 2}, {0, 3, 0}};
    expect_aligned(exercise, passage, question);
    expect_aligned(exercise, question, passage);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("07_self_and_cross", argc, argv, check);
}
