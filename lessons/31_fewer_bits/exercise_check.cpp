// Compares exercise 31 with limits, scales and codes, step by step.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/quantize.hpp"
#include "attn/reference/ops/random.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_keys(Exercise& exercise, const Matrix& keys, double largest_code)
{
    Recorder run;
    const Trace trace(run);
    const Term given = trace.given("keys[m, d_k]", keys);
    const Term largest = trace.given("largest_code", largest_code);
    const Term limit = trace("limit[one, d_k]", max_along(abs(given), 0, keepdims));
    const Term scale = trace("scale[one, d_k]", limit / largest);
    const Term codes = trace("codes[m, d_k]", rounded(given / scale));
    std::ignore = trace("stored[m, d_k]", codes * scale);
    exercise.expect({"my_stored_keys", {{"keys", keys}, {"largest_code", largest_code}}},
                    run, "stored", [&] { return my_stored_keys(keys, largest_code); });
}

void check(Exercise& exercise)
{
    expect_keys(exercise, {{1, -20}, {0.4, 7}, {-0.9, 13}}, 7);
    expect_keys(exercise, {{0.3, 40, -2}, {-0.6, -31, 1.1}}, 3);
    RandomNumbers numbers(31);
    expect_keys(exercise, numbers.matrix(5, 4), 127);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("31_fewer_bits", argc, argv, check);
}
