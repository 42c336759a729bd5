#pragma once

#include "attn/what_if/pitfalls.hpp"

namespace attn {

/// The registry of pitfalls, in the order of the computation: id, sentence, how it shows, where it was seen, link, the
/// step, its right formula, the mistaken one.
inline constexpr Pitfall pitfall_list[] = {
    {"positions_exponent", "The exponent of a sinusoid's frequency counts features where it should count pairs.",
     "The hands of the clock slow down twice as fast; the first is right.",
     "jadore801120/attention-is-all-you-need-pytorch #32: the exponent was 2*i/d for every feature i instead of "
     "2*(i//2)/d; confirmed and fixed",
     "https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/32", "frequencies",
     "% ** (-2 * arange(%) / %)", "$1 ** (-4 * arange($2) / $3)"},
    {"positions_from_one", "Positions are counted from one instead of zero.",
     "Every position is the next one; a model trained so must go on so.",
     "facebookresearch/fairseq #1187: RoBERTa's position table has 514 rows because positions start at padding_idx + 1 "
     "= 2 and not at 0",
     "https://github.com/facebookresearch/fairseq/issues/1187", "angles", "outer(arange(%), frequencies)",
     "outer(arange($1) + 1, frequencies)"},
    {"positions_cos_first", "Cosines stand where the sines belong.", "Place 0 begins with ones instead of zeros.",
     "flashinfer-ai/flashinfer #3819: the Wan example's timestep embedding had its sin and cos halves swapped; fixed "
     "and merged",
     "https://github.com/flashinfer-ai/flashinfer/pull/3819", "positions", "interleave(sin(angles), cos(angles))%",
     "interleave(cos(angles), sin(angles))$1"},
    {"positions_halves", "All sines come first, then all cosines, where the weights want them interleaved.",
     "The same numbers in another order: wrong only with weights that were trained with the other order.",
     "allenai/allennlp #2993: add_positional_features concatenates a half of sines and a half of cosines where the "
     "paper interleaves them; kept, as in tensor2tensor",
     "https://github.com/allenai/allennlp/issues/2993", "positions", "interleave(sin(angles), cos(angles))%",
     "concat(sin(angles), cos(angles), axis=1)$1"},
    {"qkv_swapped", "Two of the three maps of a fused projection are taken in the wrong order.",
     "Keys where values belong: all shapes fit.",
     "tenstorrent/tt-mlir #8958: fusing the q, k, v projection swapped key and value, so the rotary embedding went to "
     "the values and generation was garbage",
     "https://github.com/tenstorrent/tt-mlir/issues/8958", "value", "% @ value_weights + value_bias",
     "$1 @ key_weights + key_bias"},
    {"weight_transposed", "A weight is not transposed on the way from (out, in) to (in, out).",
     "A square weight raises no error.",
     "AutoGPTQ/AutoGPTQ #139 (merged as #140): GPT-2's Conv1D keeps its weight transposed against Linear, and it was "
     "replaced without transposing back",
     "https://github.com/AutoGPTQ/AutoGPTQ/pull/139", "query", "% @ query_weights%", "$1 @ query_weights.T$2"},
    {"heads_unpermuted_split", "Heads are split by a reshape without the transpose.",
     "Each head gets some tokens whole instead of a share of each token.",
     "reczoo/FuxiCTR #30: heads were split by view(batch * heads, -1, dim) without the transpose, wrong for num_heads "
     "> 1",
     "https://github.com/reczoo/FuxiCTR/issues/30", "queries", "query[..., %]",
     "reshape(query, {batch}query.shape[-1] / {width}, {rows}, {width})[{each}{head}]"},
    {"heads_interleaved", "A head takes every h-th feature instead of a block of neighbours.",
     "Right shapes, and weights that were trained for other features.",
     "NVIDIA-NeMo/RL #2802: q, k, v were concatenated whole while Megatron reads them interleaved by head group, so "
     "the draft's attention got scrambled q, k, v; fixed and merged",
     "https://github.com/NVIDIA-NeMo/RL/pull/2802", "queries", "query[..., %]",
     "query[..., {head}:: query.shape[-1] / {width}]"},
    {"rotary_layout", "Features are paired with those half a width away instead of their neighbours.",
     "The first token is right, since it is not turned.",
     "huggingface/transformers #25199: Llama's rotation pairs halves (NeoX style) where Meta's pairs neighbours (GPT-J "
     "style); only permuted q and k weights make them agree",
     "https://github.com/huggingface/transformers/issues/25199", "output",
     "interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * sin(angles) + x[..., 1::2] * "
     "cos(angles))",
     "concat(x[..., 0:{half}] * cos(angles) - x[..., {half}:{width}] * sin(angles), x[..., 0:{half}] * sin(angles) + "
     "x[..., {half}:{width}] * cos(angles), axis=-1)"},
    {"rotary_sign", "Pairs are turned the wrong way round.",
     "Before counts as after: a model that is trained so works as well, and one that is loaded so does not.",
     "karpathy/nanochat #489: apply_rotary_emb rotates by the transpose of the textbook matrix (opposite direction); "
     "kept as a convention since trained weights depend on it",
     "https://github.com/karpathy/nanochat/pull/489", "output",
     "interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * sin(angles) + x[..., 1::2] * "
     "cos(angles))",
     "interleave(x[..., ::2] * cos(angles) + x[..., 1::2] * sin(angles), x[..., 1::2] * cos(angles) - x[..., ::2] * "
     "sin(angles))"},
    {"no_scale", "Scores are not divided by the root of d_k.", "Softmax gets sharper the more features there are.",
     "huggingface/blog #2893: the KV cache article's attention code lacked the 1/sqrt(d_k) of the formula above it; "
     "added and merged",
     "https://github.com/huggingface/blog/pull/2893", "scaled", "scores / sqrt(keys.shape[-1])", "scores"},
    {"scale_d_model", "Scores are divided by the root of all heads' features together.",
     "Softmax is too flat, by the root of the number of heads.",
     "karpathy/ng-video-lecture #6: scores were scaled by the number of input channels instead of the head's size; "
     "confirmed and merged",
     "https://github.com/karpathy/ng-video-lecture/pull/6", "scaled", "scores / sqrt(keys.shape[-1])",
     "scores / sqrt(query.shape[-1])"},
    {"scale_d_k", "Scores are divided by d_k instead of its root.", "Softmax is almost even.",
     "delzac/cntkx #10: ScaledDotProductAttention divided without the square root; confirmed and fixed in 0.1.33",
     "https://github.com/delzac/cntkx/issues/10", "scaled", "scores / sqrt(keys.shape[-1])", "scores / keys.shape[-1]"},
    {"scale_inverse", "Scores are multiplied by the root of d_k.", "Softmax picks one key.",
     "esceptico/perceiver-io #9: scores were divided by scale = head_dim ** -0.5, i.e. multiplied by sqrt(d_k); "
     "confirmed by the author",
     "https://github.com/esceptico/perceiver-io/issues/9", "scaled", "scores / sqrt(keys.shape[-1])",
     "scores * sqrt(keys.shape[-1])"},
    {"alibi_sign", "The price on distance has the wrong sign: far keys are preferred.",
     "Attention falls off in the wrong direction.",
     "meta-pytorch/attention-gym #86: the ALiBi examples added slope * (q_idx - kv_idx), rewarding distance, instead "
     "of slope * (kv_idx - q_idx); fixed and merged",
     "https://github.com/meta-pytorch/attention-gym/pull/86", "bias", "-% * abs(%)", "$1 * abs($2)"},
    {"causal_strict", "A causal mask leaves out the diagonal.", "No token sees itself, and the first sees nothing.",
     "pytorch/pytorch #143287: a triu mask with diagonal=0 keeps every token from itself, and its first row had to be "
     "opened by hand to avoid NaN",
     "https://github.com/pytorch/pytorch/issues/143287", "causal", "arange(%) <= %", "arange($1) < $2"},
    {"causal_next", "A causal mask lets through one key too many.",
     "Each token sees the one that it is to predict: training goes wonderfully.",
     "octo-models/octo #75 (fix: #76, \"off-by-one error in attention mask generation\"): token 656 could attend to "
     "the next token, 657, which the mask was meant to forbid",
     "https://github.com/octo-models/octo/issues/75", "causal", "arange(%) <= %", "arange($1) <= $2 + 1"},
    {"causal_top_left", "A causal mask is aligned top-left where there are fewer queries than keys.",
     "With a cache, the newest token sees the oldest only.",
     "pytorch/pytorch #103082: is_causal=True aligns the mask top-left when L != S, so one cached-decoding query sees "
     "only the first key",
     "https://github.com/pytorch/pytorch/issues/103082", "causal", "arange(%) <= % + (% - %)", "arange($1) <= $2"},
    {"mask_inverted", "The mask is taken for its opposite.",
     "Every query looks at what is forbidden, and at nothing else.",
     "rasbt/LLMs-from-scratch #1061: a triu mask with true = masked was given to scaled_dot_product_attention, where "
     "True means can attend, so future tokens were attended to",
     "https://github.com/rasbt/LLMs-from-scratch/issues/1061", "masked", "where(mask, %, -inf)",
     "where(mask, -inf, $1)"},
    {"mask_zero", "Forbidden scores become zero before softmax.", "exp(0) is 1: padding keeps a share.",
     "georg-wolflein/good-features #1: attention logits were multiplied by a binary mask before the softmax, so masked "
     "entries were 0 and still weighed in; changed to -inf and merged",
     "https://github.com/georg-wolflein/good-features/pull/1", "masked", "where(mask, %, -inf)", "where(mask, $1, 0)"},
    {"mask_finite", "Forbidden scores become a large number instead of minus infinity.",
     "No difference, until scores are as large, or a query can attend to nothing.",
     "ahrefs/ocannl #548: the causal mask's -1e9 stands in for -inf and overflows half precision (largest finite value "
     "65504)",
     "https://github.com/ahrefs/ocannl/issues/548", "masked", "where(mask, %, -inf)", "where(mask, $1, -1e4)"},
    {"mask_added", "A mask of ones and zeros is added to the scores.", "Allowed keys are liked a little more.",
     "huggingface/transformers #41443: eager attention added the mask to the scores even when it was boolean, giving "
     "silently wrong logits instead of -inf",
     "https://github.com/huggingface/transformers/pull/41443", "masked", "where(mask, %, -inf)",
     "$1 + where(mask, 1, 0)"},
    {"mask_transposed", "Padding is taken from the queries instead of the keys.",
     "With as many queries as keys, no error; padded keys are seen by all.",
     "hyunwoongko/transformer #40: the padding mask was broadcast with unsqueeze(3) along the queries (rows) instead "
     "of along the keys",
     "https://github.com/hyunwoongko/transformer/pull/40", "masked", "where(mask, %, -inf)", "where(mask.T, $1, -inf)"},
    {"mask_after_softmax", "The mask is applied after softmax.", "Rows do not sum to one.",
     "huggingface/pytorch-image-models #2236: eva.py applied the attention mask after the softmax instead of before; "
     "fixed and merged",
     "https://github.com/huggingface/pytorch-image-models/pull/2236", "weights", "softmax(masked)",
     "where(mask, softmax(scaled), 0)"},
    {"softmax_axis", "Softmax runs over the queries instead of the keys.", "Columns sum to one.",
     "labmlai/annotated_deep_learning_paper_implementations #146: the DDPM U-Net's self-attention took the softmax "
     "over dim 1 instead of dim 2, the axis j of the keys; confirmed as a bug",
     "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146", "weights", "softmax(%)",
     "softmax($1, axis=-2)"},
    {"softmax_all", "Softmax runs over the whole tensor.", "Everything sums to one, all sequences of a batch together.",
     "facebookresearch/detr #247: MHAttention flattened the heads together with the positions before the softmax, "
     "normalising over all heads at once; confirmed by the maintainer",
     "https://github.com/facebookresearch/detr/issues/247", "weights", "softmax(%)", "exp($1) / sum(exp($1))"},
    {"softmax_missing", "Scores weigh the values without a softmax.", "Weights are negative, and of any size.",
     "Vaswani et al. 2017, equation 1: what the scores go through before they weigh values",
     "https://arxiv.org/abs/1706.03762", "weights", "softmax(%)", "$1"},
    {"softmax_twice", "Softmax is applied twice.", "Weights are nearly even, and what is forbidden has a share again.",
     "bowang-lab/Transformer-GCN-QA #32: the model ended in a softmax although CrossEntropyLoss applies one itself; "
     "the extra softmax was removed",
     "https://github.com/bowang-lab/Transformer-GCN-QA/pull/32", "weights", "softmax(%)", "softmax(softmax($1))"},
    {"weights_transposed", "Values are mixed by the columns of the weights.", "With as many queries as keys, no error.",
     "heykeetae/Self-Attention-GAN #11: values were multiplied by attention.permute(0,1,2), which transposes nothing, "
     "instead of permute(0,2,1); confirmed in the thread",
     "https://github.com/heykeetae/Self-Attention-GAN/issues/11", "context", "weights @ values", "weights.T @ values"},
    {"heads_unpermuted_merge", "Heads are merged by a reshape without the transpose.",
     "A token's row is filled with what a head found for several tokens: the future leaks.",
     "jsbaan/transformer-from-scratch #6: heads were merged by reshape without permute(0, 2, 1, 3) first, mixing "
     "sequence positions; training test still passed",
     "https://github.com/jsbaan/transformer-from-scratch/pull/6", "merged", "concat(%, axis=-1)",
     "reshape(concat($1, axis=-2), {shape})"},
    {"output_map_missing", "The output map W^o is left out.", "Heads stay in their own features.",
     "Kyubyong/transformer #117: the linear projection after concatenating the heads is missing from "
     "multihead_attention",
     "https://github.com/Kyubyong/transformer/issues/117", "output", "merged @ output_weights%", "merged"},
    {"residual_missing", "The residual connection is left out.", "What attention did not pass on is lost.",
     "lucidrains/audiolm-pytorch #150: the cross attention branch of the Transformer had no skip connection (+ x "
     "missing); confirmed and fixed",
     "https://github.com/lucidrains/audiolm-pytorch/issues/150", "residual1", "% + self_attn.output",
     "self_attn.output"},
    {"residual_after_norm", "In a pre-norm layer, the residual is taken after the norm.",
     "The residual path is normalised in every layer after all.",
     "Howuhh/faster-trajectory-transformer #3: the pre-norm block computed norm(x) + attn(norm(x)) instead of x + "
     "attn(norm(x)); stated by the author",
     "https://github.com/Howuhh/faster-trajectory-transformer/issues/3", "residual1", "x + self_attn.output",
     "norm1.output + self_attn.output"},
    {"norm_skipped", "A block, such as the feed-forward network, is given the sum before its norm.",
     "A layer that is neither post-norm nor pre-norm.",
     "Xiong et al. 2020, figure 1: the two placements that it falls between", "https://arxiv.org/abs/2002.04745",
     "hidden", "%norm%.output @ hidden_weights%", "$1residual$2 @ hidden_weights$3"},
    {"norm_all_tokens", "Layer norm takes its mean over all tokens instead of each one's features.",
     "A token depends on its neighbours, and on the padding.",
     "Qualcomm-AI-research/geometric-algebra-transformer #8: the baseline transformer's layer norm normalised over all "
     "dimensions but the first, the sequence too, instead of the last only",
     "https://github.com/Qualcomm-AI-research/geometric-algebra-transformer/pull/8", "mean", "mean(x, axis=-1)",
     "mean(x) + 0 * mean(x, axis=-1)"},
    {"norm_bessel", "Layer norm's variance is divided by d - 1.",
     "Everything is a little too small, by the same factor.",
     "harvardnlp/annotated-transformer #119: LayerNorm used tensor.std(), unbiased by default, where the paper takes "
     "the biased estimate",
     "https://github.com/harvardnlp/annotated-transformer/pull/119", "variance",
     "mean((x - mean[..., None]) ** 2, axis=-1)", "sum((x - mean[..., None]) ** 2, axis=-1) / (x.shape[-1] - 1)"},
    {"norm_epsilon_outside", "Epsilon is added to the deviation instead of the variance.",
     "The fifth digit; the first where a token's features are all but equal.",
     "codertimo/BERT-pytorch #30: LayerNorm divides by std + eps (copied from the Annotated Transformer) instead of "
     "sqrt(var + eps)",
     "https://github.com/codertimo/BERT-pytorch/issues/30", "normalized",
     "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
     "(x - mean[..., None]) / (sqrt(variance[..., None]) + $1)"},
    {"norm_epsilon_value", "Epsilon is another model's: 1e-12 instead of 1e-5.", "The sixth digit.",
     "keras-team/keras-hub #642: BERTBackbone's transformer layers used layer norm epsilon 1e-5 instead of BERT's "
     "1e-12",
     "https://github.com/keras-team/keras-hub/issues/642", "normalized",
     "(x - mean[..., None]) / sqrt(variance[..., None] + 1e-05)",
     "(x - mean[..., None]) / sqrt(variance[..., None] + 1e-12)"},
    {"norm_no_affine", "Layer norm's gain and bias are left out.",
     "Nothing before training, when they are one and zero.",
     "Kyubyong/transformer #42: asks whether gain and bias can be left out as 1 and 0",
     "https://github.com/Kyubyong/transformer/issues/42", "output", "normalized * gain + bias", "normalized"},
    {"relu_missing", "The activation is left out.", "Two linear maps in a row are one.",
     "spring-media/TransformerTTS #102: FFNResNorm has no activation between its two dense layers; confirmed in the "
     "thread",
     "https://github.com/spring-media/TransformerTTS/issues/102", "activated", "relu(hidden)", "hidden"},
    {"gelu_for_relu", "GELU is taken where the weights were trained with ReLU.", "Small negative numbers come through.",
     "Hendrycks and Gimpel 2016: GELU, which BERT and GPT put in ReLU's place", "https://arxiv.org/abs/1606.08415",
     "activated", "relu(hidden)", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))"},
    {"gelu_tanh", "GELU by tanh is taken where the weights were trained with the exact one.", "The fourth digit.",
     "kyutai-labs/pocket-tts #278: inference computed the exact (erf) GELU while the weights were trained with the "
     "tanh approximation; fixed and merged",
     "https://github.com/kyutai-labs/pocket-tts/pull/278", "activated", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))",
     "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))"},
};

} // namespace attn
