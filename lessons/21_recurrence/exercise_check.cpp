// Compares exercise 21 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/random.hpp"

using namespace attn;

namespace {

void expect_step(Exercise& exercise, const Vector& x, const LstmStateOf<Vector>& previous,
                 const RecurrentCellWeights& weights)
{
    Recorder run;
    lstm_cell(x, previous, weights, Trace(run));
    const auto call = [&](const std::string& result, std::size_t place) {
        return Call{"my_lstm_step",
                    {{"x", x},
                     {"hidden", previous.hidden},
                     {"cell", previous.cell},
                     {"input_weights", weights.input.weight},
                     {"input_bias", *weights.input.bias},
                     {"recurrent_weights", weights.recurrent.weight},
                     {"recurrent_bias", *weights.recurrent.bias}},
                    result,
                    place};
    };
    exercise.expect(call("cell", 1), run, "cell",
                    [&] { return my_lstm_step(x, previous, weights).cell; });
    exercise.expect(call("hidden state", 0), run, "hidden",
                    [&] { return my_lstm_step(x, previous, weights).hidden; });
}

void check(Exercise& exercise)
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
        expect_step(exercise, x, {hidden, numbers.vector(d_hidden)}, weights);
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("21_recurrence", argc, argv, check);
}
