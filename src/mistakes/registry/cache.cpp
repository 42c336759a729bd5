// Keys and values that are kept for later tokens.

#include "registry.hpp"

#include <utility>

namespace attn::mistakes {

namespace {

// The right formula: $1 and $2 are past and new keys, or values, $1 those of one head; $3 is the axis of tokens.
constexpr std::string_view appended = "concat(past_%, new_%, axis=%)";

// Keys and values, as one head has them or all heads that share them.
PitfallForm of_cache(std::string_view mistaken, std::vector<std::string_view> values = {""})
{
    return {{{"keys", appended, mistaken},
             {"values", appended, mistaken},
             {"group_keys", appended, mistaken},
             {"group_values", appended, mistaken}},
            std::move(values)};
}

// Where the new tokens are written in a buffer of as many rows as there should be, counted from the first token.
const std::vector<std::string_view> starts{"0",
                                           "(past_$2.shape[-2] - 1)",
                                           "(past_$2.shape[-2] - new_$2.shape[-2])",
                                           "1",
                                           "2",
                                           "3",
                                           "4",
                                           "5",
                                           "6",
                                           "7",
                                           "8",
                                           "12",
                                           "16"};

} // namespace

const std::vector<Pitfall>& cache_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"cache_overwritten",
         "New keys and values are written at a wrong place of the cache, such as over those of earlier tokens.",
         "What was overwritten is forgotten, and rows that nothing was written to count as tokens.",
         "ekryski/mlx-swift-lm #90: the offset of the cache never moved on, so every new token was written over the "
         "one before, and what came after stayed zero; fixed and merged",
         "https://github.com/ekryski/mlx-swift-lm/pull/90",
         {of_cache("where(arange({rows})[:, None] < {v}, pad(past_$1, 0, new_$2.shape[-2], axis=$3), "
                   "pad(new_$2, {v}, past_$2.shape[-2] - {v}, axis=$3))",
                   starts),
          of_cache("where((arange({rows})[:, None] < {v} + new_$2.shape[-2]) & ({v} <= arange({rows})[:, None]), "
                   "pad(new_$2, {v}, past_$2.shape[-2] - {v}, axis=$3), pad(past_$1, 0, new_$2.shape[-2], axis=$3))",
                   starts),
          of_cache("concat(past_$1, pad(new_$2, 1, 0, axis=$3)[..., 0:new_$2.shape[-2], :], axis=$3)"),
          of_cache("0 * concat(past_$1, new_$2, axis=$3) + "
                   "new_$2[..., new_$2.shape[-2] - 1:new_$2.shape[-2], :]")},
         false},
        {"cache_lost",
         "Keys and values of earlier tokens are left out, or are zero.",
         "Every token attends to the tokens of the last call only.",
         "deepspeedai/DeepSpeed #2760: the keys and values that were to be kept came back as zeros for the most part; "
         "reported",
         "https://github.com/deepspeedai/DeepSpeed/issues/2760",
         {of_cache("new_$2"), of_cache("concat(0 * past_$1, new_$2, axis=$3)")},
         false},
        {"cache_shared",
         "Several layers, or keys and values, are kept in one buffer: each has what was written there last.",
         "A prompt is right, for it is not read from the cache; all later tokens are wrong.",
         "EfficientMoE/MoE-Infinity #195: the fallback cache had no axis of layers, so that every layer wrote over the "
         "one before; measured in the thread",
         "https://github.com/EfficientMoE/MoE-Infinity/pull/195",
         {of_cache("concat(layers.{v}.self_attn.past_$1, new_$2, axis=$3)",
                   {"1", "0", "2", "3", "5", "7", "11", "15", "23", "31"}),
          {{{"keys", "concat(past_keys%, new_keys, axis=%)", "concat(past_values$1, new_values, axis=$2)"},
            {"group_keys", "concat(past_keys%, new_keys, axis=%)", "concat(past_values$1, new_values, axis=$2)"},
            {"values", "concat(past_values%, new_values, axis=%)", "concat(past_keys$1, new_keys, axis=$2)"},
            {"group_values", "concat(past_values%, new_values, axis=%)", "concat(past_keys$1, new_keys, axis=$2)"}}},
          {{{"keys", "concat(past_keys%, new_keys, axis=%)", "concat(past_values$1, new_keys, axis=$2)"},
            {"group_keys", "concat(past_keys%, new_keys, axis=%)", "concat(past_values$1, new_keys, axis=$2)"},
            {"values", "concat(past_values%, new_values, axis=%)", "concat(past_keys$1, new_values, axis=$2)"},
            {"group_values", "concat(past_values%, new_values, axis=%)", "concat(past_keys$1, new_values, axis=$2)"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
