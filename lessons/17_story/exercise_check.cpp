// Compares exercise 17 with the library: each new token attends to all tokens so far.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

Matrix rows(const Matrix& matrix, std::size_t begin, std::size_t end)
{
    return *slice(Term(matrix), begin, end);
}

/// @param keys, values  of all tokens so far; the last row is the new token's
void expect_token(Exercise& exercise, const Matrix& query, const Matrix& keys,
                  const Matrix& values)
{
    const std::size_t past = keys.shape(0) - 1;
    const KeyValueCache before{rows(keys, 0, past), rows(values, 0, past)};
    const Matrix key = rows(keys, past, past + 1), value = rows(values, past, past + 1);

    Recorder run;
    const Trace trace(run);
    const Term past_keys = trace.given("past_keys[m, d_k]", before.keys),
               past_values = trace.given("past_values[m, d_v]", before.values),
               new_key = trace.given("key[m, d_k]", key),
               new_value = trace.given("value[m, d_v]", value);
    const Term all_keys = trace("keys[m, d_k]", concat_rows(past_keys, new_key));
    const Term all_values = trace("values[m, d_v]", concat_rows(past_values, new_value));
    scaled_dot_product_attention(Term(query), all_keys, all_values, {}, trace);

    const auto call = [&](const std::string& result, std::size_t place) {
        return Call{"my_cached_attention",
                    {{"query", query},
                     {"key", key},
                     {"value", value},
                     {"past_keys", before.keys},
                     {"past_values", before.values}},
                    result,
                    place};
    };
    KeyValueCache cache = before;
    exercise.expect(call("context", 0), run, "context",
                    [&] { return my_cached_attention(query, key, value, cache); });
    exercise.expect(call("cached keys", 1), run, "keys", [&] { return cache.keys; });
    exercise.expect(call("cached values", 2), run, "values",
                    [&] { return cache.values; });
}

void expect_count(Exercise& exercise)
{
    Recorder run;
    const Trace trace(run);
    const std::int64_t layers = trace("layers", "", std::int64_t{5});
    const std::int64_t heads = trace("key_value_heads", "", std::int64_t{4});
    const std::int64_t d_k = trace("d_k", "", std::int64_t{8});
    std::ignore =
        trace("numbers", "layers * 2 * key_value_heads * d_k", std::int64_t{320});
    exercise.expect({"my_numbers_per_token",
                     {{"layers", layers}, {"key_value_heads", heads}, {"d_k", d_k}}},
                    run, "numbers", [] {
                        return static_cast<std::int64_t>(my_numbers_per_token(5, 4, 8));
                    });
}

void check(Exercise& exercise)
{
    RandomNumbers numbers(18);
    const Matrix queries = numbers.matrix(5, 4), keys = numbers.matrix(5, 4),
                 values = numbers.matrix(5, 3);
    for (std::size_t i = 0; i < 5; ++i)
        expect_token(exercise, rows(queries, i, i + 1), rows(keys, 0, i + 1),
                     rows(values, 0, i + 1));
    expect_count(exercise);
}

} // namespace

int main(int argc, char** argv) { return Exercise::run("17_story", argc, argv, check); }
