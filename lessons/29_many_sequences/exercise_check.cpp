// Compares exercise 29 with words counted along a row, and with rows gathered by a table.

#include "exercise.hpp"

#include "../exercise_check.hpp"
#include "../numbers.hpp"

#include "attn/reference/layers/pages.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

void expect_positions(Exercise& exercise, const Mask& real)
{
    Recorder run;
    const Trace trace(run);
    const Term given = trace.given("real[b, n]", real);
    const Term place = arange(number(static_cast<double>(real.shape(1)), trace));
    const Term counted =
        trace("words_so_far[b, n]", matmul(ones(given), ones(each_row(place) <= place)));
    std::ignore = trace("positions[b, n]", maximum(counted - 1, 0));
    exercise.expect({"my_positions", {{"real", real}}}, run, "positions",
                    [&] { return my_positions(real); });
}

Integers blocks_of(const PageTable& table)
{
    Integers blocks(Integers::shape_type{table.blocks.size()});
    std::ranges::copy(table.blocks, blocks.begin());
    return blocks;
}

/// Halves that differ from row to row.
Matrix pool_of(std::size_t rows, std::size_t step)
{
    Matrix pool(Matrix::shape_type{rows, 2});
    for (std::size_t i = 0; i < pool.size(); ++i)
        pool.data()[i] = static_cast<double>(i * step % 11) / 2 - 2.5;
    return pool;
}

void expect_context(Exercise& exercise, const PageTable& table, std::size_t size,
                    std::size_t blocks)
{
    const Vector query{1, -0.5};
    const Matrix keys = pool_of(size * blocks, 4), values = pool_of(size * blocks, 7);
    Recorder run;
    const Trace trace(run);
    const Term given_query = trace.given("query[d_k]", query);
    const Term given_keys = trace.given("keys[slots, d_k]", keys);
    const Term given_values = trace.given("values[slots, d_v]", values);
    const Term slots = slots_of(table, {size, blocks, {}}, trace);
    const Term own_keys = trace("own_keys[m, d_k]", take_rows(given_keys, slots));
    const Term own_values = trace("own_values[m, d_v]", take_rows(given_values, slots));
    const Term scores = trace("scores[m]", matmul(own_keys, given_query));
    const Term scaled = trace("scaled[m]", scores / sqrt(size_along(given_keys, -1)));
    const Term weights = trace("weights[m]", softmax(scaled));
    std::ignore = trace("context[d_v]", matmul(weights, own_values));
    exercise.expect({"my_paged_context",
                     {{"query", query},
                      {"keys", keys},
                      {"values", values},
                      {"table", blocks_of(table)},
                      {"tokens", table.tokens},
                      {"size", size}}},
                    run, "context", [&] {
                        return my_paged_context(query, keys, values, blocks_of(table),
                                                table.tokens, size);
                    });
}

void check(Exercise& exercise)
{
    expect_positions(exercise, {{true, true, false, false}, {true, true, true, true}});
    expect_positions(exercise, {{false, false, true, true}, {true, true, true, true}});
    expect_positions(
        exercise, {{false, true, true, true, false}, {false, false, false, false, true}});
    expect_context(exercise, {{0, 1}, 4}, 2, 2);
    expect_context(exercise, {{2, 0}, 3}, 2, 3);
    expect_context(exercise, {{3, 1, 2}, 7}, 3, 4);
    expect_context(exercise, {{2}, 1}, 4, 3);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("29_many_sequences", argc, argv, check);
}
