// Sinusoidal positions.

#include "registry.hpp"

namespace attn::mistakes {

const std::vector<Pitfall>& positions_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"positions_exponent",
         "The exponent of a sinusoid's frequency counts features where it should count pairs.",
         "Every frequency but the first is the square of the right one.",
         "jadore801120/attention-is-all-you-need-pytorch #32: the exponent was 2*i/d for every feature i instead of "
         "2*(i//2)/d; confirmed and fixed",
         "https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/32",
         {{{{"frequencies", "% ** (-2 * arange(%) / %)", "$1 ** (-4 * arange($2) / $3)"}}},
          {{{"frequencies", "% ** (-2 * arange(%) / %)", "$1 ** ({v} * arange($2) / $3)"}}, {"-1", "2"}},
          {{{"frequencies", "% ** (-2 * arange(%) / %)", "$1 ** (-4 * arange($2) / $3)"},
            {"positions", "interleave(sin(angles), cos(angles))%",
             "interleave(sin(angles), cos(angles * frequencies[1] ** 0.5))$1"}},
           {""},
           false,
           true}}},
        {"positions_from_one",
         "Positions are counted from one instead of zero.",
         "Each position has the vector of the next one; weights that were trained with it need it.",
         "facebookresearch/fairseq #1187: RoBERTa's position table has 514 rows because positions start at padding_idx "
         "+ 1 = 2 and not at 0",
         "https://github.com/facebookresearch/fairseq/issues/1187",
         {{{{"angles", "outer(arange(%), frequencies)", "outer(arange($1) + 1, frequencies)"}}},
          {{{"angles", "outer(arange(%) + %, frequencies)", "outer(arange($1) + $2 + 1, frequencies)"}}},
          {{{"positions", "table[%:%]", "table[{v}:$2 + {v}]"}}, {"1", "2"}}}},
        {"positions_cos_first",
         "Cosines stand where the sines belong.",
         "The vector of position 0 begins with ones instead of zeros.",
         "flashinfer-ai/flashinfer #3819: the Wan example's timestep embedding had its sin and cos halves swapped; "
         "fixed and merged",
         "https://github.com/flashinfer-ai/flashinfer/pull/3819",
         {{{{"positions", "interleave(sin(angles), cos(angles))%", "interleave(cos(angles), sin(angles))$1"}}},
          {{{"positions", "concat(sin(angles), cos(angles), axis=1)%",
             "concat(cos(angles), sin(angles), axis=1)$1"}}}}},
        {"positions_halves",
         "All sines come first, then all cosines, where the weights want them interleaved.",
         "The same numbers in another order: wrong only with weights that were trained with the other order.",
         "allenai/allennlp #2993: add_positional_features concatenates a half of sines and a half of cosines where the "
         "paper interleaves them; kept, as in tensor2tensor",
         "https://github.com/allenai/allennlp/issues/2993",
         {{{{"positions", "interleave(sin(angles), cos(angles))%", "concat(sin(angles), cos(angles), axis=1)$1"}}},
          {{{"positions", "concat(sin(angles), cos(angles), axis=1)%", "interleave(sin(angles), cos(angles))$1"}}}}},
    };
    return pitfalls;
}

} // namespace attn::mistakes
