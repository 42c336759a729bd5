// Scores, their scale, and ALiBi.

#include "registry.hpp"

namespace attn::mistakes {

const std::vector<Pitfall>& scores_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"keys_reshaped",
         "Keys are reshaped to (d_k, m) where they should be transposed.",
         "The shape is right, but the numbers are in other places.",
         "zhouhaoyi/Informer2020 #59: view(B, H, L, -1) stood where queries, keys and values should have been "
         "transposed; confirmed and fixed (heads and positions, not K^T)",
         "https://github.com/zhouhaoyi/Informer2020/issues/59",
         {{{{"scores", "queries @ keys.T", "queries @ reshape(keys, {batch}keys.shape[-1], keys.shape[-2])"}}}},
         false},
        {"no_scale",
         "Scores are not divided by the root of d_k.",
         "Softmax gets sharper the more features there are.",
         "huggingface/blog #2893: the KV cache article's attention code lacked the 1/sqrt(d_k) of the formula above "
         "it; added and merged",
         "https://github.com/huggingface/blog/pull/2893",
         {{{{"scaled", "scores / sqrt(keys.shape[-1])", "scores"}}}, {{{"scaled", "scores * %", "scores"}}}}},
        {"scale_d_model",
         "Scores are divided by the root of all heads' features together.",
         "Softmax is too flat: the scores are too small by the root of the number of heads.",
         "karpathy/ng-video-lecture #6: scores were scaled by the number of input channels instead of the head's size; "
         "confirmed and merged",
         "https://github.com/karpathy/ng-video-lecture/pull/6",
         {{{{"scaled", "scores / sqrt(keys.shape[-1])", "scores / sqrt(query.shape[-1])"}}},
          {{{"scaled", "scores * %", "scores / sqrt(query.shape[-1])"}}},
          {{{"scaled", "scores / sqrt(keys.shape[-1])", "scores / sqrt({v})"}},
           {"queries.shape[-2]", "keys.shape[-2]", "x.shape[-1]"}}}},
        {"scale_d_k",
         "Scores are divided by d_k instead of its root.",
         "Softmax is almost even.",
         "delzac/cntkx #10: ScaledDotProductAttention divided without the square root; confirmed and fixed in 0.1.33",
         "https://github.com/delzac/cntkx/issues/10",
         {{{{"scaled", "scores / sqrt(keys.shape[-1])", "scores / keys.shape[-1]"}}},
          {{{"scaled", "scores * %", "scores / keys.shape[-1]"}}}}},
        {"scale_inverse",
         "Scores are multiplied by the root of d_k.",
         "Softmax gives nearly all weight to one key.",
         "esceptico/perceiver-io #9: scores were divided by scale = head_dim ** -0.5, i.e. multiplied by sqrt(d_k); "
         "confirmed by the author",
         "https://github.com/esceptico/perceiver-io/issues/9",
         {{{{"scaled", "scores / sqrt(keys.shape[-1])", "scores * sqrt(keys.shape[-1])"}}},
          {{{"scaled", "scores * %", "scores * sqrt(keys.shape[-1])"}}}}},
        {"scale_heads",
         "Scores are divided by the root of the number of heads.",
         "The result is right only if there are as many heads as features per head.",
         "tenstorrent/tt-metal #56789: CLIP's scores were scaled by 1/sqrt(num_heads) instead of 1/sqrt(head_dim); "
         "fixed and merged",
         "https://github.com/tenstorrent/tt-metal/pull/56789",
         {{{{"scaled", "scores / sqrt(keys.shape[-1])", "scores / sqrt(query.shape[-1] / keys.shape[-1])"}}}},
         false},
        {"score_shift",
         "A large number is added to every score in a type of few digits.",
         "In exact arithmetic softmax would not change, but here the digits of the scores are lost.",
         "lsdefine/attention-is-all-you-need-keras #16: (-1e+10) * (1 - mask) is added to the scores; a row masked as "
         "a whole gets it everywhere and its weights are all 1/3; asked",
         "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/16",
         {{{{"scaled", "%", "floor(($1) / {v} + 0.5) * {v}"}},
           {"0.0009765625", "0.001953125", "0.00390625", "0.0078125", "0.015625", "0.03125", "0.0625", "0.125",
            "0.25",         "0.5",         "1",          "2",         "4",        "8",       "16",     "32",
            "64",           "128",         "256",        "512",       "1024",     "2048",    "4096",   "8192"}}},
         false},
        {"alibi_sign",
         "The penalty on distance has the wrong sign: far keys are preferred.",
         "The weights grow with the distance instead of falling.",
         "meta-pytorch/attention-gym #86: the ALiBi examples added slope * (q_idx - kv_idx), rewarding distance, "
         "instead of slope * (kv_idx - q_idx); fixed and merged",
         "https://github.com/meta-pytorch/attention-gym/pull/86",
         {{{{"bias", "-% * abs(%)", "$1 * abs($2)"}}}}},
        {"alibi_slopes",
         "The slopes of ALiBi begin at another power, or ignore that the number of heads is no power of two.",
         "Heads attend too far back or not far enough.",
         "paiml/aprender #2143: ALiBi's slopes were 2^(-8h/n) counted from h = 0, so the first head's slope was 1 "
         "instead of 2^(-8/n); fixed and merged",
         "https://github.com/paiml/aprender/pull/2143",
         {{{{"bias", "-% * abs(%)", "-$1 * 2 ** (8 / {v}) * abs($2)"}},
           {"1", "2", "3", "4", "5", "6", "7", "8", "10", "12", "14", "16", "20", "24", "32"}},
          {{{"bias", "-% * abs(%)", "-(2 ** (-8 * ({head} + 1) / {v})) * abs($2)"}},
           {"3", "5", "6", "7", "10", "12", "14", "20", "24"}},
          {{{"bias", "-% * abs(%)", "-(2 ** (-{v} * {head})) * abs($2)"}}, {"1", "0.5"}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
