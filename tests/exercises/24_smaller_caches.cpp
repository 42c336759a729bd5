#include "24_smaller_caches/exercise.hpp"

#include "attn/reference/ops/matmul.hpp"

#include <cmath>

using namespace attn;

double my_absorbed_score(const Vector& query, const Vector& rotary_query,
                         const Matrix& key_weights, const Vector& latent,
                         const Vector& shared_key)
{
    // Once per query: the rows of the map are the features of a latent.
    const Vector absorbed = matmul(key_weights, query);
    const double score = dot(absorbed, latent) + dot(rotary_query, shared_key);
    // As wide as a key that is made of the latent, and the rotary key beside it.
    return score / std::sqrt(static_cast<double>(query.size() + rotary_query.size()));
}
