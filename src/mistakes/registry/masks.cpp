// Masks.

#include "registry.hpp"

namespace attn::mistakes {

namespace {

// What programs put in place of minus infinity: what scores can reach, and what they can't.
const std::vector<std::string_view> weak_fills{"-1e4", "-100", "-127", "-500", "-1000", "-9999", "-99999", "-1e5"};
const std::vector<std::string_view> fills{"-1e6",
                                          "-1e7",
                                          "-1e8",
                                          "-1e9",
                                          "-1e10",
                                          "-1e12",
                                          "-1e15",
                                          "-1e18",
                                          "-1e20",
                                          "-1e30",
                                          "-1e38",
                                          "-65504",
                                          "-65500",
                                          "-32768",
                                          "-2147483648",
                                          "-4294967295",
                                          "-3.4028234663852886e38",
                                          "-3.3895313892515355e38",
                                          "-1.7014117331926443e38",
                                          "-1.7976931348623157e308"};

} // namespace

const std::vector<Pitfall>& masks_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"causal_strict",
         "A causal mask leaves out the diagonal.",
         "No token can attend to itself, and the first can attend to nothing.",
         "pbloem/former #10: torch.triu_indices with offset 0 masked the diagonal, too, and the first row was NaN; "
         "confirmed and fixed (offset=1)",
         "https://github.com/pbloem/former/issues/10",
         {{{{"causal", "arange(%) <= %", "arange($1) < $2"}}},
          {{{"causal", "arange(%) <= %", "arange($1) < $2"},
            {"weights", "softmax(%)", "softmax($1) + where(max($1, axis=-1, keepdims=True) == -inf, inf - inf, 0)"}},
           {""},
           false,
           true},
          {{{"masked", "where(mask, %, -inf)",
             "where(mask & (arange(keys.shape[-2]) < arange(queries.shape[-2])[:, None] + (keys.shape[-2] - "
             "queries.shape[-2])), $1, -inf)"}}},
          {{{"causal", "arange(%) <= %", "arange($1) < $2"},
            {"masked", "where(mask, %, -inf)", "where(mask, $1, {v})"}},
           {"-1e9", "-3.4028234663852886e38", "-1e4", "-1e10"},
           false,
           true},
          {{{"causal", "arange(%) <= %", "arange($1) < $2"},
            {"masked", "where(mask, %, -inf)", "$1 + where(mask, 0, {v})"}},
           {"-1e9", "-3.4028234663852886e38", "-1e4", "-1e10"},
           false,
           true}}},
        {"causal_next",
         "A causal mask lets through one key too many.",
         "Each token can attend to the one that it has to predict, so the training loss falls far too low.",
         "octo-models/octo #75 (fix: #76, \\\"off-by-one error in attention mask generation\\\"): token 656 could "
         "attend to the next token, 657, which the mask was meant to forbid",
         "https://github.com/octo-models/octo/issues/75",
         {{{{"causal", "arange(%) <= %", "arange($1) <= $2 + 1"}}}}},
        {"causal_top_left",
         "A causal mask is aligned top-left where there are fewer queries than keys.",
         "With a cache, the newest token can attend to the oldest only.",
         "pytorch/pytorch #103082: is_causal=True aligns the mask top-left when L != S, so one cached-decoding query "
         "sees only the first key",
         "https://github.com/pytorch/pytorch/issues/103082",
         {{{{"causal", "arange(%) <= % + (% - %)", "arange($1) <= $2"}}}}},
        {"mask_missing",
         "No mask is applied.",
         "Every query can attend to every key, also to later ones and to padding.",
         "facebookresearch/xformers #103: scaled_dot_product skipped the causal mask altogether when no att_mask was "
         "passed; confirmed (\"pretty wrong\") and fixed",
         "https://github.com/facebookresearch/xformers/issues/103",
         {{{{"masked", "where(mask, %, -inf)", "$1"}}}},
         false},
        {"mask_one_dropped",
         "One of two masks is dropped.",
         "Padding is masked but later tokens are not, or the reverse.",
         "AI-Hypercomputer/maxtext #878: with attn_mask_type causal, cuDNN attention ignored the mask that was passed "
         "as well (padding); confirmed and fixed",
         "https://github.com/AI-Hypercomputer/maxtext/issues/878",
         {{{{"mask", "% & %", "$1"}}},
          {{{"mask", "% & %", "$2"}}},
          {{{"mask", "% & % & %", "$1 & $2"}}},
          {{{"mask", "% & % & %", "$1 & $3"}}}},
         false},
        {"mask_inverted",
         "The mask is negated.",
         "Every query attends to the forbidden keys, and to nothing else.",
         "rasbt/LLMs-from-scratch #1061: a triu mask with true = masked was given to scaled_dot_product_attention, "
         "where True means can attend, so future tokens were attended to",
         "https://github.com/rasbt/LLMs-from-scratch/issues/1061",
         {{{{"masked", "where(mask, %, -inf)", "where(mask, -inf, $1)"}}},
          {{{"causal", "arange(%) <= %", "$2 <= arange($1)"}}},
          {{{"causal", "arange(%) <= %", "$2 < arange($1)"}}},
          {{{"masked", "where(mask, %, -inf)", "where(mask, -inf, $1)"},
            {"weights", "softmax(%)", "softmax($1) + where(max($1, axis=-1, keepdims=True) == -inf, inf - inf, 0)"}},
           {""},
           false,
           true},
          {{{"masked", "where(mask, %, -inf)", "where(mask, {v}, $1)"}},
           {"-1e9", "-3.4028234663852886e38", "-1e4", "-1e10"}},
          {{{"masked", "where(mask, %, -inf)", "$1 + where(mask, {v}, 0)"}},
           {"-1e9", "-3.4028234663852886e38", "-1e4", "-1e10"}}}},
        {"mask_zero",
         "Forbidden scores become zero before softmax.",
         "exp(0) is 1, so padding keeps some weight.",
         "georg-wolflein/good-features #1: attention logits were multiplied by a binary mask before the softmax, so "
         "masked entries were 0 and still weighed in; changed to -inf and merged",
         "https://github.com/georg-wolflein/good-features/pull/1",
         {{{{"masked", "where(mask, %, -inf)", "where(mask, $1, 0)"}}},
          {{{"masked", "where(mask, %, -inf)", "where(mask, $1, {v})"}},
           {"1e-9", "-1e-9", "1e-5", "-1e-5", "-1", "-2", "-5", "-10", "-20", "-50", "-99", "1"}}}},
        {"mask_finite",
         "Forbidden scores become a large number instead of minus infinity.",
         "There is no difference unless other scores are as low, or a query can attend to nothing.",
         "huggingface/transformers #3181: GPT-2 masked by w * b - 1e4 * (1 - b), and -1e4 was reported to be too large "
         "a number",
         "https://github.com/huggingface/transformers/issues/3181",
         {{{{"masked", "where(mask, %, -inf)", "where(mask, $1, -1e4)"}}},
          {{{"masked", "where(mask, %, -inf)", "where(mask, $1, {v})"}}, weak_fills, true},
          {{{"masked", "where(mask, %, -inf)", "$1 + where(mask, 0, {v})"}}, weak_fills, true},
          {{{"masked", "where(mask, %, -inf)", "where(mask, $1, {v})"}}, fills},
          {{{"masked", "where(mask, %, -inf)", "$1 + where(mask, 0, {v})"}}, fills}}},
        {"mask_added",
         "A mask of ones and zeros is added to the scores.",
         "The scores of allowed keys are larger by one.",
         "huggingface/transformers #41443: eager attention added the mask to the scores even when it was boolean, "
         "giving silently wrong logits instead of -inf",
         "https://github.com/huggingface/transformers/pull/41443",
         {{{{"masked", "where(mask, %, -inf)", "$1 + where(mask, 1, 0)"}}},
          {{{"masked", "where(mask, %, -inf)", "$1 + where(mask, {v})"}}, {"0, 1", "0, -1", "1, 1e-9"}},
          {{{"masked", "where(mask, %, -inf)", "$1 + where(mask, {v}, 0)"}}, {"1e9", "-1e9", "1e4", "-1e4"}}}},
        {"mask_transposed",
         "The padding mask is applied to the queries instead of the keys.",
         "There is no error if there are as many queries as keys; every query can attend to padded keys.",
         "hyunwoongko/transformer #40: the padding mask was broadcast with unsqueeze(3) along the queries (rows) "
         "instead of along the keys",
         "https://github.com/hyunwoongko/transformer/pull/40",
         {{{{"masked", "where(mask, %, -inf)", "where(mask.T, $1, -inf)"}}},
          {{{"masked", "where(mask, %, -inf)", "where(mask.T, $1, {v})"}}, {"0", "-1e9", "-1e4"}},
          {{{"masked", "where(mask, %, -inf)", "$1 + where(mask.T, 0, {v})"}},
           {"-1e9", "-3.4028234663852886e38", "-1e4", "-1e10"}}}},
        {"mask_repeated",
         "A mask for each sequence is repeated for the heads in the wrong order.",
         "A sequence is masked by the lengths of another one.",
         "lsdefine/attention-is-all-you-need-keras #36: heads go before the batch, while the mask is repeated per "
         "sample (0 0 1 1), so a sample gets another one's mask; reported",
         "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36",
         {{{{"masked", "where(mask, %, -inf)",
             "where(mask[arange(mask.shape[0]) * {v} + {head} - mask.shape[0] * floor((arange(mask.shape[0]) * {v} + "
             "{head}) / mask.shape[0])], $1, -inf)"}},
           {"2", "3", "4", "5", "6", "8", "12", "16"}}},
         false},
        {"mask_after_softmax",
         "The mask is applied after softmax.",
         "Rows do not sum to one.",
         "huggingface/pytorch-image-models #2236: eva.py applied the attention mask after the softmax instead of "
         "before; fixed and merged",
         "https://github.com/huggingface/pytorch-image-models/pull/2236",
         {{{{"weights", "softmax(masked)", "where(mask, softmax(scaled), 0)"}}},
          {{{"weights", "softmax(masked)", "where(mask, softmax({v}), 0)"}}, {"biased", "scores"}},
          {{{"weights", "softmax(masked)", "where(mask, softmax({v}), -inf)"}}, {"scaled", "biased", "scores"}}}},
    };
    return pitfalls;
}

} // namespace attn::mistakes
