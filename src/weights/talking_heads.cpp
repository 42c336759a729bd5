// Talking heads: the tensors of PyTorch's heads, and the mixtures, which PyTorch has no module for.

#include "attn/weights/state_dict.hpp"

#include "reader.hpp"
#include "writer.hpp"

namespace attn {

TalkingHeadsWeights talking_heads_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("a talking-heads attention", d_model), sizes_of(d_model));
    MultiHeadWeights maps = take_multi_head(reader, "", true);
    Matrix scores = reader.matrix("talking_scores", {1, "h_k"}, {1, "h"});
    TalkingHeadsWeights weights{std::move(maps), std::move(scores),
                                reader.matrix("talking_weights", {1, "h"}, {1, "h_v"})};
    reader.finish();
    return weights;
}

NamedArrays state_dict(const TalkingHeadsWeights& weights)
{
    NamedArrays arrays;
    put_multi_head(arrays, "", weights.maps);
    arrays["talking_scores"] = to_array(weights.scores);
    arrays["talking_weights"] = to_array(weights.weights);
    return arrays;
}

} // namespace attn
