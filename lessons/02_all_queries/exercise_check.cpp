// Compares exercise 2 with the library. There are fewer queries than keys, so that a
// wrong axis shows in the shape.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <tuple>

using namespace attn;

namespace {

void check(Exercise& exercise)
{
    const Matrix queries{{1, 0, 2}, {2, 1, 3}};
    const Matrix keys{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}};
    const Matrix values{{1, 2}, {2, 8}, {2, 6}};
    Recorder run;
    const Trace trace(run);
    const Matrix context =
        dot_product_attention(queries, keys, values, {}, trace).context;
    std::ignore = trace("output[d_v, n]", "context.T", transpose(context));

    exercise.expect(
        {"my_attention", {{"queries", queries}, {"keys", keys}, {"values", values}}}, run,
        "context", [&] { return my_attention(queries, keys, values); });
    const Matrix Q = transpose(queries), K = transpose(keys), V = transpose(values);
    exercise.expect({"my_attention_in_columns", {{"Q", Q}, {"K", K}, {"V", V}}}, run,
                    "output", [&] { return my_attention_in_columns(Q, K, V); });
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("02_all_queries", argc, argv, check);
}
