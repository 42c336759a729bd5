#include "12_decoder/exercise.hpp"

using namespace attn;

Matrix my_decoder_layer(const Matrix& x, const Matrix& memory,
                        const DecoderLayerWeights& weights, std::size_t heads)
{
    const MultiHeadOptions back{.heads = heads, .causal = Causal::bottom_right};
    const Matrix found = multi_head_attention(x, weights.self_attention, back).output;
    const Matrix first = layer_norm(Matrix(x + found), weights.norm1);
    const Matrix answered =
        multi_head_attention(Sources(first, memory), weights.cross_attention,
                             {.heads = heads})
            .output;
    const Matrix second = layer_norm(Matrix(first + answered), weights.norm2);
    return layer_norm(Matrix(second + feed_forward(second, weights.feed_forward)),
                      weights.norm3);
}
