#include "27_state/exercise.hpp"

#include "attn/reference/ops/matmul.hpp"

using namespace attn;

Matrix my_delta_step(const Matrix& previous_state, const Vector& key, const Vector& value,
                     double beta, double decay)
{
    Matrix state = decay * previous_state;
    const Vector delta = beta * (value - matmul(key, state));
    for (std::size_t i = 0; i < key.size(); ++i)
        xt::row(state, i) += key(i) * delta; // how much of it belongs to this feature
    return state;
}
