#include "21_recurrence/exercise.hpp"

#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/matmul.hpp"

using namespace attn;

LstmStateOf<Vector> my_lstm_step(const Vector& x, const LstmStateOf<Vector>& previous,
                                 const RecurrentCellWeights& weights)
{
    const std::size_t d = previous.hidden.size();
    const Vector sum = matmul(x, weights.input.weight) + *weights.input.bias +
                       matmul(previous.hidden, weights.recurrent.weight) +
                       *weights.recurrent.bias;
    const auto gate = [&](std::size_t which) {
        return Vector(xt::view(sum, xt::range(which * d, (which + 1) * d)));
    };
    const Vector cell =
        sigmoid(gate(1)) * previous.cell + sigmoid(gate(0)) * attn::tanh(gate(2));
    return {sigmoid(gate(3)) * attn::tanh(cell), cell};
}
