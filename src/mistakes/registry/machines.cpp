// What goes wrong between tiles of keys, and between the ranks that they are divided among.

#include "registry.hpp"

#include <utility>

namespace attn::mistakes {

namespace {

// The masks of a hop, whose keys are those of rank $2; $1 and $3 are what else they are made of.
constexpr std::string_view causal_mask = "%(rank.%.positions[None, None, None, :] <= positions[:, None])%";
constexpr std::string_view length_mask = "%(rank.%.positions < lengths[:, None, None, None])%";

// What a rank's heads have got from all ranks' tokens, in another order.
PitfallForm reordered(std::string_view right, std::string_view mistaken, std::vector<std::string_view> values = {""})
{
    return {{{"heads.keys", right, mistaken}, {"heads.values", right, mistaken}, {"heads.queries", right, mistaken}},
            std::move(values)};
}

// The first tokens of all ranks, then the second ones, and so on: (ranks, tokens) reshaped as (tokens, ranks).
PitfallForm interleaved()
{
    return reordered("concat(rank.0.%[:, %:%, %], %axis=2)",
                     "reshape(permute(reshape(concat(rank.0.$1[:, $2:$3, $4], $5axis=2), rank.0.$1.shape[0], $3 - $2, "
                     "{v}, rank.0.$1.shape[2], {width}), 0, 1, 3, 2, 4), {shape})",
                     {"2", "3", "4", "5", "6", "8", "16", "32", "64"});
}

} // namespace

const std::vector<Pitfall>& machines_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"no_rescaling",
         "Sums of exponentials, or contexts, that are relative to different maxima are added without being rescaled.",
         "There is no difference where the largest score is among the first keys.",
         "ROCm/rocm-libraries #6498: where the kernel skipped the rescaling, the sums were relative to the old maximum "
         "and the new weights to the new one; fixed and merged",
         "https://github.com/ROCm/rocm-libraries/pull/6498",
         {{{{"correction", "where(% == %, 1, %)", "where($1 == $2, 1, 1)"},
            {"correction_before", "where(% == %, 1, %)", "where($1 == $2, 1, 1)"}}},
          {{{"sum", "sum_before * correction + %", "sum_before + $1"}}},
          {{{"partial", "partial_before * correction[:, None] + %", "partial_before + $1"}}},
          {{{"merged_context", "%", "{v}"}}, {"context_before + context", "(context_before + context) / 2"}}},
         false},
        {"ranks_keys_early",
         "Keys or values are used before they have arrived: a hop computes with those of the hop before.",
         "The result changes from run to run, and is right where the network is faster than the computation.",
         "tenstorrent/tt-metal #54812: ring attention used the second half of a block of keys and values without "
         "waiting for it; fixed and merged",
         "https://github.com/tenstorrent/tt-metal/pull/54812",
         {{{{"hop.*.keys", "rank.%.keys", "hop.{before}.keys"},
            {"hop.*.values", "rank.%.values", "hop.{before}.values"}}}},
         false},
        {"ranks_causal_local",
         "A causal mask compares indices within the ranks in place of positions in the sequence.",
         "Queries attend to later keys of other ranks, and not to some of the earlier ones.",
         "vllm-project/flash-attention #93: the kernel's causal mask went by the index of a rank's own keys, which is "
         "wrong where context parallelism divides the keys; the kernel is now told rank and number of ranks; merged",
         "https://github.com/vllm-project/flash-attention/pull/93",
         {{{{"mask", causal_mask,
             "$1(arange(rank.$2.positions.shape[0])[None, None, None, :] <= "
             "arange(positions.shape[0])[:, None])$3"}}},
          {{{"mask", causal_mask,
             "$1(arange(rank.$2.positions.shape[0])[None, None, None, :] <= positions[:, None])$3"}}},
          {{{"mask", causal_mask,
             "$1(rank.$2.positions[None, None, None, :] <= arange(positions.shape[0])[:, None])$3"}}}},
         false},
        {"ranks_padding",
         "Padding is counted on the ranks that have it: a sequence's length is compared with indices within the rank, "
         "or not at all.",
         "There is no difference where no sequence is padded.",
         "ByteDance-Seed/VeOmni #1158: two of three kernels ignored the mask of the padding that makes a sequence "
         "divisible among the ranks; fixed and merged",
         "https://github.com/ByteDance-Seed/VeOmni/pull/1158",
         {{{{"mask", length_mask, "$1(arange(rank.$2.positions.shape[0]) < lengths[:, None, None, None])$3"}}},
          {{{"mask", length_mask, "$1(0 * rank.$2.positions == 0 * lengths[:, None, None, None])$3"}}}},
         false},
        {"ranks_order",
         "After an exchange among all ranks, tokens are not in the order of the sequence.",
         "Without a mask and positions, keys and values that are in the same wrong order do no harm.",
         "deepspeedai/DeepSpeed #5664: a wrong reshape after the all-to-all corrupted all queries, keys and values; "
         "fixed and merged",
         "https://github.com/deepspeedai/DeepSpeed/pull/5664",
         {reordered("concat(rank.%], rank.%]%axis=2)", "concat(rank.$2], rank.$1]$3axis=2)"),
          reordered("concat(rank.%], rank.%], axis=2)", "concat(rank.$2], rank.$1], axis=2)"), interleaved()},
         false},
        {"ranks_sum_missing",
         "The sum over the ranks is left out: each goes on with its own part.",
         "Ranks that should have the same tokens have different ones, and there is no error.",
         "sgl-project/sglang #14811: the output map of a mixer was built with reduce_results=False, so models gave "
         "garbage on several ranks; fixed and merged",
         "https://github.com/sgl-project/sglang/pull/14811",
         {{{{"sum", "rank.%.part.output + rank.%", "part.output"}}}},
         false},
        {"ranks_bias_repeated",
         "Every rank adds the bias to its part, so the sum over the ranks has it once per rank.",
         "There is no difference on one rank, or where biases are zero, as before training.",
         "PaddlePaddle/Paddle #35186: a linear map divided by rows added its bias before the all-reduce; fixed and "
         "merged",
         "https://github.com/PaddlePaddle/Paddle/pull/35186",
         {{{{"self_attn.part.output", "%", "$1 + bias"}, {"feed_forward.part.output", "%", "$1 + bias"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
