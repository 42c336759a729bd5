#include "10_encoder_layer/exercise.hpp"

using namespace attn;

Matrix my_pre_norm_layer(const Matrix& x, const EncoderLayerWeights& weights,
                         std::size_t heads)
{
    const Matrix first = layer_norm(x, weights.norm1);
    const Matrix between =
        x + multi_head_attention(first, weights.self_attention, {.heads = heads}).output;
    const Matrix second = layer_norm(between, weights.norm2);
    return between + feed_forward(second, weights.feed_forward);
}
