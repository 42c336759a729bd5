#include "30_choosing/exercise.hpp"

#include "attn/reference/ops/softmax.hpp"

#include <algorithm>

using namespace attn;

Matrix my_probabilities(const Matrix& logits, double temperature, double top_p)
{
    const Matrix chances = softmax(Matrix(logits / temperature));
    Matrix left = xt::zeros_like(chances);
    for (std::size_t i = 0; i < chances.shape(0); ++i) {
        double sum = 0;
        for (std::size_t token = 0; token < chances.shape(1); ++token) {
            double before = 0; // of all that are more likely
            for (std::size_t other = 0; other < chances.shape(1); ++other)
                if (chances(i, other) > chances(i, token) ||
                    (chances(i, other) == chances(i, token) && other < token))
                    before += chances(i, other);
            if (before < top_p)
                sum += left(i, token) = chances(i, token);
        }
        xt::row(left, i) /= sum;
    }
    return left;
}

Vector my_next(const Vector& target, const Vector& draft)
{
    Vector excess(target.shape());
    double sum = 0;
    for (std::size_t token = 0; token < target.size(); ++token)
        sum += excess(token) = std::max(target(token) - draft(token), 0.0);
    return excess / sum;
}
