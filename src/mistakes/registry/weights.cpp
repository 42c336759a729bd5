// From scores to weights.

#include "registry.hpp"

namespace attn::mistakes {

namespace {

const std::vector<std::string_view> usual_fills{"-1e9", "-3.4028234663852886e38", "-1e4", "-1e10"};

// Weights, and the same where -inf, or one of the usual large numbers, is all that softmax sees of what the mask hides.
PitfallForm filled(StepEdit weights)
{
    return {{{"masked", "where(mask, %, -inf)", "where(mask, $1, {v})"}, weights}, usual_fills, false, true};
}

// The scores of all heads, (b, n, h, m), and a softmax over their heads; NaN where none of them can attend.
constexpr StepEdit over_heads{
    "weights", "softmax(%)",
    "softmax(reshape(concat({heads.$1}, axis=-1), {batch}{rows}, {heads}, {width}), axis=-2)[..., {head}, :]"};
constexpr StepEdit over_heads_or_nan{
    "weights", "softmax(%)",
    "softmax(reshape(concat({heads.$1}, axis=-1), {batch}{rows}, {heads}, {width}), axis=-2)[..., {head}, :] + "
    "where(max(reshape(concat({heads.$1}, axis=-1), {batch}{rows}, {heads}, {width}), axis=-2) == -inf, inf - inf, 0)"};

// Heads are folded into the batch, (b h, n, m), and softmax runs over that axis: the first of three.
constexpr StepEdit over_folded{
    "weights", "softmax(%)",
    "reshape(softmax(reshape(permute(reshape(concat({heads.$1}, axis=-1), {batch}{rows}, {heads}, {width}), 0, 2, 1, "
    "3), $1.shape[0] * {heads}, {rows} * {width}), axis=0), {batch}{heads}, {rows}, {width})[:, {head}]"};

// The same where one step has all heads, (b, h, n, m).
constexpr StepEdit over_axis_of_heads{"weights", "softmax(%)", "permute(softmax(permute($1, 0, 2, 3, 1)), 0, 3, 1, 2)"};
constexpr StepEdit over_folded_axes{
    "weights", "softmax(%)",
    "reshape(softmax(reshape($1, $1.shape[0] * $1.shape[1], {rows}, {width}), axis=0), {shape})"};

// Of one head, (b, n, m): the axis of sequences.
constexpr StepEdit over_sequences{"weights", "softmax(%)", "permute(softmax(permute($1, 1, 2, 0)), 2, 0, 1)"};

// What a program has whose dropout is on: some numbers are zero that should not be, and the others are larger.
constexpr std::string_view dropped_out =
    "where(mine == 0, 0, ($1) / (1 - {v})) + where((max(where(mine == 0, abs($1), 0)) > 0) & (max(abs(mine)) > 0), 0, "
    "inf)";

std::vector<PitfallForm> dropout_after(const std::vector<std::string_view>& steps)
{
    std::vector<PitfallForm> forms;
    for (const std::string_view step : steps)
        forms.push_back(
            {{{step, "%", dropped_out}}, {"0.1", "0.05", "0.2", "0.5", "0.3", "0.25", "0.15", "0.4", "0.6"}});
    return forms;
}

} // namespace

const std::vector<Pitfall>& weights_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"softmax_axis",
         "Softmax runs over the queries instead of the keys.",
         "Columns sum to one.",
         "labmlai/annotated_deep_learning_paper_implementations #146: the DDPM U-Net's self-attention took the softmax "
         "over dim 1 instead of dim 2, the axis j of the keys; confirmed as a bug",
         "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
         {{{{"weights", "softmax(%)", "softmax($1, axis=-2)"}}},
          filled({"weights", "softmax(%)", "softmax($1, axis=-2)"})}},
        {"softmax_heads",
         "Softmax runs over the heads, over heads and keys together, or over the sequences of a batch.",
         "The weights of one head depend on the scores of the others, and no row sums to one.",
         "facebookresearch/detr #247: MHAttention flattened the heads together with the positions before the softmax, "
         "normalising over all heads at once; confirmed by the maintainer",
         "https://github.com/facebookresearch/detr/issues/247",
         {{{over_axis_of_heads}},
          {{{"weights", "softmax(%)",
             "softmax(concat({heads.$1}, axis=-1))[..., {head} * {width}:({head} + 1) * {width}]"}}},
          {{{"weights", "softmax(%)",
             "permute(reshape(softmax(reshape(permute($1, 0, 2, 1, 3), $1.shape[0], {rows}, $1.shape[1] * {width})), "
             "$1.shape[0], {rows}, $1.shape[1], {width}), 0, 2, 1, 3)"}}},
          {{over_heads}},
          {{over_heads_or_nan}},
          {{over_folded}},
          {{over_folded_axes}},
          {{over_sequences}},
          filled(over_axis_of_heads),
          filled(over_heads),
          filled(over_folded),
          filled(over_folded_axes),
          filled(over_sequences)},
         false},
        {"softmax_all",
         "Softmax runs over the whole tensor.",
         "The whole tensor sums to one, all sequences of a batch together.",
         "nntrainer/nntrainer #1602: softmax flattened its tensor unintentionally and ran over the last three axes "
         "together; attention needed it over the last one",
         "https://github.com/nntrainer/nntrainer/pull/1602",
         {{{{"weights", "softmax(%)", "exp($1) / sum(exp($1))"}}},
          {{{"weights", "softmax(%)", "exp($1 - max($1)) / sum(exp($1 - max($1)))"}}},
          {{{"weights", "softmax(%)",
             "reshape(softmax(reshape($1, {batch}{rows} * {width})), {batch}{rows}, {width})"}}},
          {{{"weights", "softmax(%)",
             "exp($1 - max(concat({heads.$1}, axis=-1))) / sum(exp(concat({heads.$1}, axis=-1) - "
             "max(concat({heads.$1}, axis=-1))))"}}},
          {{{"weights", "softmax(%)",
             "reshape(softmax(reshape(concat({heads.$1}, axis=-1), {batch}{rows} * {heads} * {width})), "
             "{batch}{rows}, {heads}, {width})[..., {head}, :]"}}},
          {{{"weights", "softmax(%)",
             "reshape(softmax(reshape($1, $1.shape[0], $1.shape[1] * {rows} * {width})), {shape})"}}},
          {{{"weights", "softmax(%)",
             "reshape(softmax(reshape($1, $1.shape[0], $1.shape[1], {rows} * {width})), {shape})"}}}}},
        {"softmax_missing",
         "Scores are used as weights, without softmax.",
         "Weights can be negative and of any size.",
         "Vaswani et al. 2017, equation 1: what the scores go through before they weigh values",
         "https://arxiv.org/abs/1706.03762",
         {{{{"weights", "softmax(%)", "$1"}}},
          {{{"weights", "softmax(masked)", "scaled"}}},
          {{{"weights", "softmax(masked)", "where(mask, scaled, 0)"}}},
          {{{"weights", "softmax(%)", "$1 / sum($1, axis=-1, keepdims=True)"}}}}},
        {"softmax_twice",
         "Softmax is applied twice.",
         "Weights are nearly even, and forbidden keys get some weight again.",
         "zyy-2001/DisKT #6: scores went through two softmaxes, the second one without the mask, so that what was "
         "forbidden had a share; reported",
         "https://github.com/zyy-2001/DisKT/issues/6",
         {{{{"weights", "softmax(%)", "softmax(softmax($1))"}}},
          {{{"masked", "where(mask, %, -inf)", "where(mask, softmax($1), -inf)"}}}}},
        {"softmax_log",
         "The logarithm of softmax is used as weights.",
         "Weights are negative; what is forbidden is minus infinity.",
         "Vaswani et al. 2017, equation 1: softmax weighs the values (no thread found)",
         "https://arxiv.org/abs/1706.03762",
         {{{{"weights", "softmax(%)", "log(softmax($1))"}}}},
         false},
        {"softmax_sigmoid",
         "A sigmoid is used instead of softmax.",
         "Rows do not sum to one.",
         "codekansas/keras-language-modeling #30: AttentionLSTM ran the attention through a sigmoid where the paper "
         "has weights proportional to exp (softmax); reported",
         "https://github.com/codekansas/keras-language-modeling/issues/30",
         {{{{"weights", "softmax(%)", "sigmoid($1)"}}}},
         false},
        {"softmax_unnormalized",
         "Exponentials are not divided by their sum.",
         "Rows do not sum to one.",
         "keras-team/keras-io #320: TemporalSoftmax divided the exponentials by the sum of the raw inputs, so they did "
         "not sum to one; fixed and merged",
         "https://github.com/keras-team/keras-io/pull/320",
         {{{{"weights", "softmax(%)", "exp($1)"}}},
          {{{"weights", "softmax(%)", "exp($1 - max($1, axis=-1, keepdims=True))"}}}},
         false},
        {"softmax_over_one",
         "Softmax runs over an axis of one entry.",
         "Every weight is one.",
         "localminimum/R-net #8: softmax was taken after expand_dims(-1), over an axis of one element, so every weight "
         "was 1; confirmed",
         "https://github.com/localminimum/R-net/issues/8",
         {{{{"weights", "softmax(%)", "0 * scaled + 1"}}},
          {{{"weights", "softmax(%)", "where(mask, 0 * scaled + 1, 0)"}}}},
         false},
        {"softmax_overflow",
         "Softmax does not subtract the maximum, and overflows.",
         "The weights are NaN where scores are large: above 88 in float32, above 11 in float16.",
         "pytorch/executorch #18407: naive softmax exp(x) / sum(exp(x)) overflowed float32 at a score of 151 and gave "
         "NaN; the maximum is subtracted now, merged",
         "https://github.com/pytorch/executorch/pull/18407",
         {{{{"weights", "softmax(%)",
             "where(max($1, axis=-1, keepdims=True) > {v}, where($1 > {v}, inf - inf, 0), softmax($1))"}},
           {"88.722839", "11.0898"}}},
         false},
        {"dropout_on", "Dropout is left on.", "Some numbers are zero, and the others are larger by one factor.",
         "huggingface/pytorch-image-models #1978: scaled_dot_product_attention drops whenever dropout_p > 0, in eval "
         "too; gated by self.training and merged",
         "https://github.com/huggingface/pytorch-image-models/pull/1978",
         dropout_after({"weights", "output", "activated", "embedded", "pooled"}), false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
