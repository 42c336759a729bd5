// Compares exercise 28 with one call of attention, where positions say what is seen.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/terms.hpp"

using namespace attn;

namespace {

/// @param stored  the positions of stored tokens, in the order in which they are stored
void expect_call(Exercise& exercise, const Vector& positions, const Vector& stored,
                 std::size_t width, std::size_t d_k, std::size_t d_v,
                 RandomNumbers& numbers)
{
    const std::size_t n = positions.size(), p = stored.size();
    const Matrix queries = numbers.matrix(n, d_k, 2),
                 new_keys = numbers.matrix(n, d_k, 2),
                 new_values = numbers.matrix(n, d_v),
                 past_keys = numbers.matrix(p, d_k, 2),
                 past_values = numbers.matrix(p, d_v);
    Recorder run;
    const Trace trace(run);
    const Term old_keys = trace.given("past_keys[p, d_k]", past_keys),
               keys_now = trace.given("new_keys[n, d_k]", new_keys),
               old_values = trace.given("past_values[p, d_v]", past_values),
               values_now = trace.given("new_values[n, d_v]", new_values);
    const Term own = trace.given("positions[n]", positions),
               old = trace.given("past_positions[p]", stored);
    const Term keys = trace("keys[m, d_k]", concat(std::vector{old_keys, keys_now}, 0));
    const Term values =
        trace("values[m, d_v]", concat(std::vector{old_values, values_now}, 0));
    const Term places = trace("key_positions[m]", concat(std::vector{old, own}, 0));
    const Term causal = trace("causal[n, m]", places <= each_row(own));
    const Term window =
        trace("window[n, m]", places >= each_row(own) - (static_cast<double>(width) - 1));
    const Term mask = trace("mask[n, m]", causal & window);
    const Term given = trace.given("queries[n, d_k]", queries);
    scaled_dot_product_attention(given, keys, values, {.mask = *mask}, trace);
    exercise.expect({"my_call",
                     {{"queries", queries},
                      {"new_keys", new_keys},
                      {"new_values", new_values},
                      {"positions", positions},
                      {"past_keys", past_keys},
                      {"past_values", past_values},
                      {"past_positions", stored},
                      {"width", width}}},
                    run, "context", [&] {
                        return my_call(queries, new_keys, new_values, positions,
                                       past_keys, past_values, stored, width);
                    });
}

void check(Exercise& exercise)
{
    RandomNumbers numbers(28);
    expect_call(exercise, {3, 4, 5}, {0, 1, 2}, 8, 2, 3, numbers);    // a chunk
    expect_call(exercise, {4}, {0, 1, 2, 3}, 8, 2, 2, numbers);       // one token
    expect_call(exercise, {6, 7}, {4, 5, 2, 3}, 4, 3, 2, numbers);    // beside a ring
    expect_call(exercise, {5, 6, 7}, {4, 1, 2, 3}, 3, 2, 2, numbers); // a long chunk
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("28_many_calls", argc, argv, check);
}
