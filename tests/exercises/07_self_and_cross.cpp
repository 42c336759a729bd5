#include "07_self_and_cross/exercise.hpp"

#include <cmath>
#include <vector>

using namespace attn;

Matrix my_aligned_question(const Matrix& passage, const Matrix& question)
{
    const std::size_t n = passage.shape(0), m = question.shape(0), d = question.shape(1);
    Matrix aligned = xt::zeros<double>({n, d});
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> shares(m);
        double total = 0;
        for (std::size_t j = 0; j < m; ++j) {
            double score = 0;
            for (std::size_t k = 0; k < d; ++k)
                score += passage(i, k) * question(j, k);
            shares[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
            total += shares[j];
        }
        for (std::size_t j = 0; j < m; ++j)
            for (std::size_t k = 0; k < d; ++k)
                aligned(i, k) += shares[j] / total * question(j, k);
    }
    return aligned;
}
