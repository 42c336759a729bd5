// Layer norm and RMS norm.

#include "registry.hpp"

namespace attn::mistakes {

const std::vector<Pitfall>& norms_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"norm_all_tokens",
         "Layer norm takes its mean over all tokens instead of each one's features.",
         "A token depends on its neighbours, and on the padding.",
         "Qualcomm-AI-research/geometric-algebra-transformer #8: the baseline transformer's layer norm normalised over "
         "all dimensions but the first, the sequence too, instead of the last only",
         "https://github.com/Qualcomm-AI-research/geometric-algebra-transformer/pull/8",
         {{{{"mean", "mean(x, axis=-1)", "mean(x) + 0 * mean(x, axis=-1)"}}},
          {{{"mean", "mean(x, axis=-1)", "mean(x) + 0 * mean(x, axis=-1)"},
            {"variance", "mean(%, axis=-1)", "mean($1) + 0 * mean(x, axis=-1)"}}},
          {{{"mean_square", "mean(x ** 2, axis=-1)", "mean(x ** 2) + 0 * mean(x ** 2, axis=-1)"}}}}},
        {"norm_bessel",
         "Layer norm's variance is divided by d - 1.",
         "Everything is a little too small, by the same factor.",
         "harvardnlp/annotated-transformer #119: LayerNorm used tensor.std(), unbiased by default, where the paper "
         "takes the biased estimate",
         "https://github.com/harvardnlp/annotated-transformer/pull/119",
         {{{{"variance", "mean((x - mean[..., None]) ** 2, axis=-1)",
             "sum((x - mean[..., None]) ** 2, axis=-1) / (x.shape[-1] - 1)"}}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "(x - mean[..., None]) / (sqrt(variance[..., None] * x.shape[-1] / (x.shape[-1] - 1)) + $1)"}}}}},
        {"norm_epsilon_outside",
         "Epsilon is added to the deviation instead of the variance.",
         "It changes the fifth digit; more where a token's features are nearly equal.",
         "codertimo/BERT-pytorch #30: LayerNorm divides by std + eps (copied from the Annotated Transformer) instead "
         "of sqrt(var + eps)",
         "https://github.com/codertimo/BERT-pytorch/issues/30",
         {{{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "(x - mean[..., None]) / (sqrt(variance[..., None]) + $1)"}}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "(x - mean[..., None]) / (sqrt(variance[..., None]) + {v})"}},
           {"1e-5", "1e-6", "1e-8", "1e-12"}},
          {{{"normalized", "x / sqrt(mean_square[..., None] + %)", "x / (sqrt(mean_square[..., None]) + {v})"}},
           {"1e-5", "1e-6", "1e-8", "1e-12"}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "(x - mean[..., None]) / (sqrt(variance[..., None] * x.shape[-1] / (x.shape[-1] - 1)) + {v})"}},
           {"1e-5", "1e-6", "1e-8", "1e-12"}}},
         true,
         true}, // a small epsilon gives the same inside or outside
        {"norm_epsilon_value",
         "Epsilon has another model's value, as 1e-12 instead of 1e-5.",
         "It changes the sixth digit; more where a token's features are nearly equal.",
         "huggingface/transformers #532: BERT's layer norm had 1e-12 built in, where the weights of ERNIE want 1e-5; "
         "reported",
         "https://github.com/huggingface/transformers/issues/532",
         {{{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + 1e-05)",
             "(x - mean[..., None]) / sqrt(variance[..., None] + 1e-12)"}}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "(x - mean[..., None]) / sqrt(variance[..., None] + {v})"}},
           {"1e-3", "1e-4", "1e-5", "1e-6", "1e-7", "1e-8", "1e-9", "1e-10", "1e-12", "0"}},
          {{{"normalized", "x / sqrt(mean_square[..., None] + %)", "x / sqrt(mean_square[..., None] + {v})"}},
           {"1e-3", "1e-4", "1e-5", "1e-6", "1e-7", "1e-8", "1e-9", "1e-10", "1e-12", "0"}}}},
        {"norm_no_affine",
         "Layer norm's gain and bias are left out.",
         "There is no difference before training, when the gain is one and the bias is zero.",
         "Kyubyong/transformer #42: asks whether gain and bias can be left out as 1 and 0",
         "https://github.com/Kyubyong/transformer/issues/42",
         {{{{"output", "normalized * gain + bias", "normalized"}}},
          {{{"output", "normalized * gain + bias", "normalized * gain"}}},
          {{{"output", "normalized * gain + bias", "normalized + bias"}}},
          {{{"output", "normalized * gain", "normalized"}}}}},
        {"norm_gain_plus_one",
         "RMS norm multiplies by 1 + gain where gain is meant.",
         "This is the convention of another model: Gemma stores gain - 1.",
         "linkedin/Liger-Kernel #74: Gemma got Llama's RMSNorm, x * weight, where Gemma's is x * (1 + weight); "
         "reported by a maintainer as a bug",
         "https://github.com/linkedin/Liger-Kernel/issues/74",
         {{{{"output", "normalized * gain%", "normalized * (1 + gain)$1"}}},
          {{{"output", "normalized * gain%", "normalized * (gain - 1)$1"}}}},
         false},
        {"rms_multiplied",
         "RMS norm multiplies by the root mean square instead of dividing by it.",
         "Large tokens get larger: training diverges.",
         "mosaicml/llm-foundry #371: RMSNorm divided by torch.rsqrt(...), i.e. multiplied by the root mean square; "
         "loss diverged; fixed and merged as #372",
         "https://github.com/mosaicml/llm-foundry/issues/371",
         {{{{"normalized", "x / sqrt(mean_square[..., None] + %)", "x * sqrt(mean_square[..., None] + $1)"}}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "(x - mean[..., None]) * sqrt(variance[..., None] + $1)"}}}},
         false},
        {"rms_mean_subtracted",
         "The mean is subtracted where RMS norm is meant, or not subtracted where layer norm is.",
         "The result is nearly right where a token's mean is near zero.",
         "huggingface/pytorch-image-models #2380: timm's RmsNorm took torch.var, which subtracts the mean, instead of "
         "the mean square; confirmed (\"yes, it is wrong\")",
         "https://github.com/huggingface/pytorch-image-models/issues/2380",
         {{{{"normalized", "x / sqrt(mean_square[..., None] + %)",
             "(x - mean(x, axis=-1, keepdims=True)) / sqrt(mean((x - mean(x, axis=-1, keepdims=True)) ** 2, axis=-1, "
             "keepdims=True) + $1)"}}},
          {{{"normalized", "x / sqrt(mean_square[..., None] + %)",
             "x / sqrt(mean((x - mean(x, axis=-1, keepdims=True)) ** 2, axis=-1, keepdims=True) + $1)"}}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "x / sqrt(mean(x ** 2, axis=-1, keepdims=True) + $1)"}}},
          {{{"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + %)",
             "x / sqrt(variance[..., None] + $1)"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
