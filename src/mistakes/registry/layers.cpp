// From the weights out of the heads, and the wiring of a layer: residual connections, and where its norms stand.

#include "registry.hpp"

namespace attn::mistakes {

namespace {

// The orders of the axes (b, h, n, d) in which contexts can stand where they are reshaped as (b, n, h d), or as
// (n, b, h d), but for the right one.
const std::vector<std::string_view> batch_first{"0, 1, 2, 3", "1, 0, 2, 3", "1, 2, 0, 3", "2, 0, 1, 3", "2, 1, 0, 3"};
const std::vector<std::string_view> sequence_first{"0, 1, 2, 3", "0, 2, 1, 3", "1, 0, 2, 3", "1, 2, 0, 3",
                                                   "2, 1, 0, 3"};

} // namespace

const std::vector<Pitfall>& layers_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"weights_transposed",
         "Values are mixed by the columns of the weights.",
         "There is no error if there are as many queries as keys.",
         "heykeetae/Self-Attention-GAN #11: values were multiplied by attention.permute(0,1,2), which transposes "
         "nothing, instead of permute(0,2,1); confirmed in the thread",
         "https://github.com/heykeetae/Self-Attention-GAN/issues/11",
         {{{{"context", "weights @ values", "weights.T @ values"}}}}},
        {"heads_unpermuted_merge",
         "Heads are merged by a reshape without the transpose.",
         "A token's row holds one head's contexts of several tokens, also of later ones.",
         "jsbaan/transformer-from-scratch #6: heads were merged by reshape without permute(0, 2, 1, 3) first, mixing "
         "sequence positions; training test still passed",
         "https://github.com/jsbaan/transformer-from-scratch/pull/6",
         {{{{"merged", "concat(%, axis=-1)", "reshape(concat($1, axis=-2), {shape})"}}},
          {{{"merged", "concat(%, axis=-1)",
             "reshape(permute(reshape(concat({heads.context}, axis=-2), {batch}{heads}, {rows}, {width} / {heads}), "
             "{v}), {shape})"}},
           batch_first},
          {{{"merged", "concat(%, axis=-1)",
             "reshape(permute(reshape(concat({heads.context}, axis=-2), {heads}, {batch}{rows}, {width} / {heads}), "
             "{v}), {shape})"}},
           {"1, 2, 0, 3", "0, 2, 1, 3"}}, // (b, h) taken for (h, b)
          {{{"merged", "concat(%, axis=-1)",
             "permute(reshape(permute(reshape(concat({heads.context}, axis=-2), {batch}{heads}, {rows}, {width} / "
             "{heads}), {v}), {rows}, {batch}{width}), 1, 0, 2)"}},
           sequence_first},
          {{{"output", "reshape(permute(context, 0, 2, 1, 3), %)", "reshape(permute(context, {v}), $1)"}}, batch_first},
          {{{"output", "reshape(permute(context, 0, 2, 1, 3), %)",
             "permute(reshape(permute(context, {v}), {rows}, {batch}{width}), 1, 0, 2)"}},
           sequence_first}}},
        {"output_map_missing",
         "The output map W^O is left out.",
         "The features of different heads are never mixed.",
         "Kyubyong/transformer #117: the linear projection after concatenating the heads is missing from "
         "multihead_attention",
         "https://github.com/Kyubyong/transformer/issues/117",
         {{{{"output", "merged @ output_weights%", "merged"}}}}},
        {"residual_missing",
         "The residual connection is left out.",
         "The output keeps only the block's result, not the tokens.",
         "lucidrains/audiolm-pytorch #150: the cross attention branch of the Transformer had no skip connection (+ x "
         "missing); confirmed and fixed",
         "https://github.com/lucidrains/audiolm-pytorch/issues/150",
         {{{{"residual1", "% + self_attn.output", "self_attn.output"},
            {"output", "% + feed_forward.output", "feed_forward.output"},
            {"residual2", "% + feed_forward.output", "feed_forward.output"},
            {"residual2", "% + cross_attn.output", "cross_attn.output"},
            {"residual3", "% + feed_forward.output", "feed_forward.output"},
            {"output", "% + cross_attn.output", "cross_attn.output"}}}}},
        {"residual_after_norm",
         "In a pre-norm layer, the residual is taken after the norm.",
         "The residual path is normalised in every layer.",
         "Howuhh/faster-trajectory-transformer #3: the pre-norm block computed norm(x) + attn(norm(x)) instead of x + "
         "attn(norm(x)); stated by the author",
         "https://github.com/Howuhh/faster-trajectory-transformer/issues/3",
         {{{{"residual1", "x + self_attn.output", "norm1.output + self_attn.output"},
            {"output", "residual1 + feed_forward.output", "norm2.output + feed_forward.output"},
            {"residual2", "residual1 + cross_attn.output", "norm2.output + cross_attn.output"},
            {"output", "residual2 + feed_forward.output", "norm3.output + feed_forward.output"}}}}},
        {"residual_stale",
         "The second residual adds the layer's input instead of the sum after attention.",
         "The result of attention reaches the output through the second block only.",
         "strutive07/transformer-tensorflow2.0 #14: the feed-forward's residual added the layer's inputs instead of "
         "the sum after attention; confirmed and fixed",
         "https://github.com/strutive07/transformer-tensorflow2.0/issues/14",
         {{{{"output", "residual1 + feed_forward.output", "x + feed_forward.output"}}},
          {{{"residual2", "residual1 + cross_attn.output", "x + cross_attn.output"}}},
          {{{"output", "residual2 + feed_forward.output", "residual1 + feed_forward.output"}}},
          {{{"output", "residual2 + feed_forward.output", "x + feed_forward.output"}}},
          {{{"residual2", "norm1.output + feed_forward.output", "x + feed_forward.output"}}},
          {{{"residual2", "norm1.output + feed_forward.output", "residual1 + feed_forward.output"}}}},
         false},
        {"residual_doubled",
         "A block's result is added to itself instead of to its input.",
         "The residual path ends there.",
         "kyegomez/BitNet #32: x, _ = attn(x); x = x + x doubled the attention's output instead of adding its input; "
         "confirmed and fixed",
         "https://github.com/kyegomez/BitNet/issues/32",
         {{{{"residual1", "% + self_attn.output", "self_attn.output + self_attn.output"}}},
          {{{"output", "% + feed_forward.output", "feed_forward.output + feed_forward.output"}}},
          {{{"residual2", "% + feed_forward.output", "feed_forward.output + feed_forward.output"}}},
          {{{"residual2", "% + cross_attn.output", "cross_attn.output + cross_attn.output"}}},
          {{{"residual3", "% + feed_forward.output", "feed_forward.output + feed_forward.output"}}},
          {{{"output", "% + cross_attn.output", "cross_attn.output + cross_attn.output"}}}},
         false},
        {"parallel_block",
         "The feed-forward network takes the layer's input, in parallel with attention instead of after it.",
         "This is the layer of GPT-J, Phi or PaLM, not that of GPT-2.",
         "ml-explore/mlx-lm #586: GPT-NeoX had no use_parallel_residual setting, so sequential models (rinna's "
         "Japanese one) were not followed; added and merged",
         "https://github.com/ml-explore/mlx-lm/pull/586",
         {{{{"norm2.*", "~x", "norm1.x"}}},
          {{{"hidden", "~x", "norm1.output"}, {"gate", "~x", "norm1.output"}, {"up", "~x", "norm1.output"}}}},
         false},
        {"norm_skipped",
         "A block, such as the feed-forward network, takes the sum before the norm as its input.",
         "The layer is neither post-norm nor pre-norm.",
         "Xiong et al. 2020, figure 1: the two placements that it falls between",
         "https://arxiv.org/abs/2002.04745",
         {{{{"hidden", "%norm%.output @ hidden_weights%", "$1residual$2 @ hidden_weights$3"}}},
          {{{"*", "~norm1.output", "norm1.x"}}},
          {{{"*", "~norm2.output", "norm2.x"}}},
          {{{"*", "~norm3.output", "norm3.x"}}},
          {{{"*", "~norm.output", "norm.x"}}},
          {{{"query", "~x", "norm1.x"}, {"key", "~x", "norm1.x"}, {"value", "~x", "norm1.x"}}},
          {{{"hidden", "~x", "norm2.x"}, {"gate", "~x", "norm2.x"}, {"up", "~x", "norm2.x"}}},
          {{{"norm1.output", "normalized * %", "x"}}},
          {{{"norm2.output", "normalized * %", "x"}}},
          {{{"norm3.output", "normalized * %", "x"}}},
          {{{"norm.output", "normalized * %", "x"}}},
          {{{"key", "~x", "norm1.x"}, {"value", "~x", "norm1.x"}}}}},
        {"norm_placement",
         "Norms stand before the blocks where they belong after them, or the reverse.",
         "Deep models train differently, and weights of one placement do not fit the other.",
         "harvardnlp/annotated-transformer #92: the code is pre-norm, x + sublayer(norm(x)), where the paper is "
         "post-norm; kept on purpose",
         "https://github.com/harvardnlp/annotated-transformer/issues/92",
         {{{{"self_attn.*", "~x", "norm1.x"},
            {"norm1.*", "~x", "residual1"},
            {"feed_forward.*", "~x", "norm1.output"},
            {"norm2.*", "~x", "(norm1.output + feed_forward.output)"},
            {"output", "residual1 + feed_forward.output", "norm2.output"}},
           {""},
           false,
           true},
          {{{"self_attn.*", "~x", "norm1.x"},
            {"norm1.*", "~x", "residual1"},
            {"cross_attn.query", "~x", "norm1.output"},
            {"residual2", "residual1 + cross_attn.output", "norm1.output + cross_attn.output"},
            {"norm2.*", "~x", "residual2"},
            {"feed_forward.*", "~x", "norm2.output"},
            {"norm3.*", "~x", "(norm2.output + feed_forward.output)"},
            {"output", "residual2 + feed_forward.output", "norm3.output"}},
           {""},
           false,
           true}},
         false},
        {"norms_swapped",
         "A norm has the gain and bias of another norm of the layer.",
         "There is no difference before training, when gains are one and biases are zero.",
         "NVIDIA-NeMo/Speech #11951: Gemma 2's exporter wrote the norm before the feed-forward to "
         "post_attention_layernorm instead of pre_feedforward_layernorm; reported",
         "https://github.com/NVIDIA-NeMo/Speech/issues/11951",
         {{{{"norm1.output", "~gain ~bias", "norm2.gain norm2.bias"},
            {"norm2.output", "~gain ~bias", "norm1.gain norm1.bias"}}},
          {{{"norm2.output", "~gain ~bias", "norm3.gain norm3.bias"},
            {"norm3.output", "~gain ~bias", "norm2.gain norm2.bias"}}},
          {{{"norm1.output", "~gain ~bias", "norm3.gain norm3.bias"},
            {"norm3.output", "~gain ~bias", "norm1.gain norm1.bias"}}},
          {{{"norm1.output", "~gain ~bias", "norm2.gain norm2.bias"},
            {"norm2.output", "~gain ~bias", "norm3.gain norm3.bias"},
            {"norm3.output", "~gain ~bias", "norm1.gain norm1.bias"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
