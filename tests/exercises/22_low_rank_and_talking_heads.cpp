#include "22_low_rank_and_talking_heads/exercise.hpp"

using namespace attn;

Tensor3 my_mixed_heads(const Tensor3& scores, const Matrix& mixture)
{
    Tensor3 mixed =
        xt::zeros<double>({mixture.shape(1), scores.shape(1), scores.shape(2)});
    for (std::size_t into = 0; into < mixture.shape(1); ++into)
        for (std::size_t head = 0; head < mixture.shape(0); ++head)
            for (std::size_t i = 0; i < scores.shape(1); ++i)
                for (std::size_t j = 0; j < scores.shape(2); ++j)
                    mixed(into, i, j) += mixture(head, into) * scores(head, i, j);
    return mixed;
}
