// Exercise 17: attention with a key/value cache.
//
// Write the two functions that exercise.hpp describes. It is checked by
//
//     script/exercise 17

#include "exercise.hpp"

#include "attn/reference/ops/concat.hpp"

using namespace attn;

Matrix my_cached_attention(const Matrix& /*query*/, const Matrix& /*key*/,
                           const Matrix& value, KeyValueCache& /*cache*/)
{
    // To do: append the new key and value to the cache with concat_rows(), then compute
    // scaled_dot_product_attention() with all of the cache. Is a mask needed?
    return xt::zeros<double>({std::size_t{1}, value.shape(1)});
}

std::size_t my_numbers_per_token(std::size_t /*layers*/, std::size_t /*key_value_heads*/,
                                 std::size_t /*d_k*/)
{
    // To do: each key/value head of each layer keeps one key and one value.
    return 0;
}
