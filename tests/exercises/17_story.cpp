#include "17_story/exercise.hpp"

#include "attn/reference/ops/concat.hpp"

using namespace attn;

Matrix my_cached_attention(const Matrix& query, const Matrix& key, const Matrix& value,
                           KeyValueCache& cache)
{
    cache.keys = concat_rows(cache.keys, key);
    cache.values = concat_rows(cache.values, value);
    return scaled_dot_product_attention(query, cache.keys, cache.values)
        .context; // later tokens aren't there yet
}

std::size_t my_numbers_per_token(std::size_t layers, std::size_t key_value_heads,
                                 std::size_t d_k)
{
    return layers * 2 * key_value_heads * d_k;
}
