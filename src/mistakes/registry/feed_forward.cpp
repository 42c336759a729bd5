// Feed-forward networks.

#include "registry.hpp"

namespace attn::mistakes {

const std::vector<Pitfall>& feed_forward_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"relu_missing",
         "The activation is left out.",
         "Two linear maps in a row are one linear map.",
         "spring-media/TransformerTTS #102: FFNResNorm has no activation between its two dense layers; confirmed in "
         "the thread",
         "https://github.com/spring-media/TransformerTTS/issues/102",
         {{{{"activated", "relu(hidden)", "hidden"}}},
          {{{"activated", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))", "hidden"}}},
          {{{"activated", "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))", "hidden"}}},
          {{{"activated", "gate * sigmoid(gate)", "gate"}}}}},
        {"gelu_for_relu",
         "GELU is used where the weights were trained with ReLU.",
         "Small negative numbers are not set to zero.",
         "Hendrycks and Gimpel 2016: GELU, which BERT and GPT put in ReLU's place",
         "https://arxiv.org/abs/1606.08415",
         {{{{"activated", "relu(hidden)", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))"}}},
          {{{"activated", "relu(hidden)",
             "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))"}}},
          {{{"activated", "gate * sigmoid(gate)", "0.5 * gate * (1 + {v})"}},
           {"erf(gate / sqrt(2))", "tanh(sqrt(2 / pi) * (gate + 0.044715 * gate ** 3))"}}}},
        {"relu_for_gelu",
         "ReLU is used where the weights were trained with GELU or SiLU.",
         "Small negative numbers are set to zero.",
         "timeseriesAI/tsai #361: TSiT's default activation was ReLU; to be replaced by GELU, labelled bug (the thread "
         "is its title only)",
         "https://github.com/timeseriesAI/tsai/issues/361",
         {{{{"activated", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))", "relu(hidden)"}}},
          {{{"activated", "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))",
             "relu(hidden)"}}},
          {{{"activated", "gate * sigmoid(gate)", "relu(gate)"}}}},
         false},
        {"gelu_tanh",
         "The tanh approximation of GELU is used where the weights were trained with the exact one.",
         "It changes the fourth digit.",
         "huggingface/candle #900: gelu was the tanh approximation where PyTorch's default is the exact one; gelu_erf "
         "added and merged",
         "https://github.com/huggingface/candle/pull/900",
         {{{{"activated", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))",
             "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))"}}},
          {{{"activated", "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))",
             "0.5 * hidden * (1 + erf(hidden / sqrt(2)))"}}}}},
        {"quick_gelu",
         "GELU is approximated by x sigmoid(1.702 x).",
         "It changes the second digit.",
         "mindspore-lab/mindone #225: CLIP used GELU where its weights want QuickGELU; the difference to the source "
         "fell from 7% to 0.1%, merged",
         "https://github.com/mindspore-lab/mindone/pull/225",
         {{{{"activated", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))", "hidden * sigmoid(1.702 * hidden)"}}},
          {{{"activated", "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))",
             "hidden * sigmoid(1.702 * hidden)"}}},
          {{{"activated", "relu(hidden)", "hidden * sigmoid(1.702 * hidden)"}}}},
         false},
        {"swiglu_swapped",
         "The two halves of a gated feed-forward network are exchanged.",
         "All shapes fit.",
         "ml-explore/mlx-lm #767: SwiGLU's arguments were in the wrong order: silu(x) * gate instead of silu(gate) * "
         "x; fixed and merged",
         "https://github.com/ml-explore/mlx-lm/pull/767",
         {{{{"activated", "gate * sigmoid(gate)", "up * sigmoid(up)"}, {"gated", "activated * up", "activated * gate"}},
           {""},
           false,
           true}},
         false},
        {"swiglu_parenthesis",
         "SiLU is applied to the product of both halves instead of one.",
         "A parenthesis is in the wrong place.",
         "Nijikadesu/breakdown-minimind #3: a parenthesis closed too late: silu(w1(x) * w3(x)) instead of silu(w1(x)) "
         "* w3(x); confirmed and fixed",
         "https://github.com/Nijikadesu/breakdown-minimind/issues/3",
         {{{{"gated", "activated * up", "gate * up * sigmoid(gate * up)"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
