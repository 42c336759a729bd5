// Holds exercise.cpp against the numbers of lesson 1.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const Vector query{1, 0, 2};
    const Matrix keys{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}};
    const Matrix values{{1, 2, 3}, {2, 8, 0}, {2, 6, 3}};
    const Vector scores = matmul(keys, query);
    const Vector weights = softmax(scores);

    lesson.expect_equal("my_scores gives 2, 4 and 4", my_scores(query, keys), scores);
    lesson.expect_equal("my_weights gives 0.063, 0.468 and 0.468", my_weights(scores),
                        weights);
    lesson.expect_equal("my_output gives 1.937, 6.683 and 1.595",
                        my_output(weights, values), matmul(weights, values));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("01_single_query", argc, argv, check);
}
