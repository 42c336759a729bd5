// Exercise 17: look back with a cache.
//
// Run exercise_17_story until it succeeds.

#include "exercise.hpp"

#include "attn/ops/concat.hpp"

using namespace attn;

Matrix my_cached_attention(const Matrix& /*query*/, const Matrix& /*key*/,
                           const Matrix& value, KeyValueCache& /*cache*/)
{
    // Yours: put the new key and value into the cache, then let the query look at all of it. Is a mask needed?
    return value;
}

std::size_t my_numbers_per_token(std::size_t /*layers*/, std::size_t /*key_value_heads*/,
                                 std::size_t /*d_k*/)
{
    // Yours: a key and a value per layer and key/value head.
    return 0;
}
