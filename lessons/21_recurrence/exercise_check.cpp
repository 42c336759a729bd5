// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/ops/random.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    RandomNumbers numbers(1997);
    for (const std::size_t d_hidden : {1, 3}) {
        const auto map = [&](std::size_t rows) {
            Matrix weight = numbers.matrix(rows, 4 * d_hidden);
            return LinearWeights{std::move(weight), numbers.vector(4 * d_hidden)};
        };
        const LinearWeights input = map(2);
        const RecurrentCellWeights weights{input, map(d_hidden)};
        const Vector x = numbers.vector(2), hidden = numbers.vector(d_hidden);
        const LstmStateOf<Vector> previous{hidden, numbers.vector(d_hidden)};
        const LstmStateOf<Vector> expected = lstm_cell(x, previous, weights);
        const LstmStateOf<Vector> found = my_lstm_step(x, previous, weights);
        const std::string size = ", for d_hidden = " + std::to_string(d_hidden);
        lesson.expect_equal("my_lstm_step gives the library's cell" + size, found.cell,
                            expected.cell);
        lesson.expect_equal("my_lstm_step gives the library's hidden state" + size,
                            found.hidden, expected.hidden);
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("21_recurrence", argc, argv, check);
}
