#include "20_restricted/exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_past_window(const Matrix& x, std::size_t radius)
{
    const std::size_t n = x.shape(0), d = x.shape(1);
    Matrix context = xt::zeros<double>(x.shape());
    for (std::size_t i = 0; i < n; ++i) {
        double total = 0;
        for (std::size_t j = i < radius ? 0 : i - radius; j <= i; ++j) {
            double score = 0;
            for (std::size_t k = 0; k < d; ++k)
                score += x(i, k) * x(j, k);
            const double share = std::exp(score / std::sqrt(static_cast<double>(d)));
            total += share;
            for (std::size_t k = 0; k < d; ++k)
                context(i, k) += share * x(j, k);
        }
        for (std::size_t k = 0; k < d; ++k)
            context(i, k) /= total;
    }
    return context;
}
