#include "06_multi_head/exercise.hpp"

using namespace attn;

Matrix my_merged_heads(const Tensor3& contexts)
{
    const std::size_t heads = contexts.shape(0), tokens = contexts.shape(1),
                      d_v = contexts.shape(2);
    Matrix merged = xt::zeros<double>({tokens, heads * d_v});
    for (std::size_t head = 0; head < heads; ++head)
        for (std::size_t token = 0; token < tokens; ++token)
            for (std::size_t feature = 0; feature < d_v; ++feature)
                merged(token, head * d_v + feature) = contexts(head, token, feature);
    return merged;
}
