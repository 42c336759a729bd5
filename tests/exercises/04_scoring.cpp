#include "04_scoring/exercise.hpp"

#include <cmath>

using namespace attn;

double my_additive_score(const Vector& query, const Vector& key,
                         const AdditiveWeights& weights)
{
    double score = 0;
    for (std::size_t unit = 0; unit < weights.score.size(); ++unit) {
        double sum = 0;
        for (std::size_t i = 0; i < query.size(); ++i)
            sum += query(i) * weights.query(i, unit);
        for (std::size_t i = 0; i < key.size(); ++i)
            sum += key(i) * weights.key(i, unit);
        score += std::tanh(sum) * weights.score(unit);
    }
    return score;
}

double my_bilinear_score(const Vector& query, const Vector& key, const Matrix& bilinear)
{
    double score = 0;
    for (std::size_t i = 0; i < query.size(); ++i)
        for (std::size_t j = 0; j < key.size(); ++j)
            score += query(i) * bilinear(i, j) * key(j);
    return score;
}
