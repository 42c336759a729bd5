#pragma once

#include "attn/engines/mpi/traffic.hpp"
#include "attn/reference/layers/encoder.hpp"

#include <mpi.h>

namespace attn::mpi {

/// One rank's part of the weights of an encoder layer: its heads' columns of the query, key and value maps and their
/// rows of the output map; its hidden units' columns of the first map of the feed-forward network and their rows of the
/// second.
///
/// Heads and hidden units are divided as evenly as there are, the first ranks taking one more; with more ranks than
/// heads, some have none. What every rank needs in full it gets in full: the norms, and the biases of both output maps,
/// which are added once, after the sum over the ranks.
/// @param heads  of the whole layer
/// @throws ShapeError where the heads don't divide the columns of the maps
/// @throws Error      where heads share keys and values, or queries and keys have norms
EncoderLayerWeights encoder_layer_shard(const EncoderLayerWeights& weights, std::size_t heads, std::size_t ranks,
                                        std::size_t rank);

/// An encoder layer whose heads and hidden units are divided among ranks, in double: tensor parallelism.
///
/// Every rank holds all tokens. It computes attention with its heads and maps their contexts by its rows of the output
/// map; the sum over all ranks is the output of self-attention, to which the bias is added once. The feed-forward
/// network is divided in the same way by its hidden units. These two sums are all that ranks exchange.
///
/// All ranks of the communicator call it together, with the same x and options.
/// @param x        ((b,) n, d_model), the same on all ranks
/// @param shard    this rank's part of the weights, see encoder_layer_shard()
/// @param options  as encoder_layer() has them, with the heads of the whole layer
/// @param comm     the ranks
/// @param traffic  is written where it is given: the bytes that this rank gives to each of the two sums
/// @param trace    of this rank: in the scope `rank.R` of its number the steps of encoder_layer(), where self_attn and
///                 feed_forward have the steps of the rank's part in the scope `part`, and
///
///                 | step                  | shape             | formula                                               |
///                 |-----------------------|-------------------|-------------------------------------------------------|
///                 | self_attn.bias        | (d_model,)        |                                                       |
///                 | self_attn.part.x      | ((b,) n, d_model) | = x                                                   |
///                 | self_attn.part.output | ((b,) n, d_model) | merged @ output_weights                               |
///                 | self_attn.sum         | ((b,) n, d_model) | rank.0.self_attn.part.output + rank.1.self_attn.part.output |
///                 | self_attn.output      | ((b,) n, d_model) | sum + bias                                            |
///
///                 and the same for feed_forward. Without a bias, output is another name of sum; the part of a rank
///                 without heads is `0 * x`.
/// @return ((b,) n, d_model), the same on all ranks
/// @throws ShapeError where shapes don't fit, or differ between ranks: on every rank, before anything is sent
/// @throws Error      where positions are asked for: rotary, ALiBi
/// @see Shoeybi et al. 2019, Megatron-LM, section 3
template <Sequence T>
T tensor_parallel_encoder_layer(const T& x, const EncoderLayerWeights& shard, const EncoderOptions& options,
                                MPI_Comm comm, Traffic* traffic = nullptr, const Trace& trace = {});

/// What a rank gives to the two sums of a layer: 8 b n d_model bytes each; nothing with one rank.
/// @param tokens  b n
Traffic predicted_tensor_parallel_traffic(std::size_t tokens, std::size_t d_model, std::size_t ranks);

} // namespace attn::mpi
