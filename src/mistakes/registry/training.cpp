// Training: the loss, and what should be on or off in a step.

#include "registry.hpp"

#include <string>
#include <vector>

namespace attn::mistakes {

namespace {

// The targets of a program that shifts them twice: nothing follows the last.
constexpr std::string_view shifted_again = "concat(targets[..., 1:], 0 * targets[..., 0:1] - 100, axis=-1)";

// What counts where padding does. The last column of a batch has no next word, and many programs leave it out.
constexpr std::string_view all_columns = "where(targets > -1, 1, 1)";
constexpr std::string_view columns_but_last =
    "where(arange(targets.shape[-1]) + 0 * targets < targets.shape[-1] - 1, 1, 0)";

PitfallForm padding_in_mean(std::string_view columns)
{
    return {{{"is_counted", "where(targets > -1, 1, 0)", columns}}};
}

PitfallForm padding_predicted(std::string_view columns)
{
    return {{{"target_p", "where(targets[%", "where(where(targets > -1, targets, {v})[$1"},
             {"is_counted", "where(targets > -1, 1, 0)", columns}},
            {"0", "1", "2", "3"},
            false,
            true};
}

} // namespace

const std::vector<Pitfall>& training_pitfalls()
{
    static const std::string targets_again = "where(" + std::string(shifted_again) + "[$1",
                             count_again = "where(" + std::string(shifted_again) + " > -1, 1, 0)";
    static const std::vector<Pitfall> pitfalls{
        {"train_targets_not_shifted",
         "The target of a token is the token itself, or the one after the next, where it should be the next one.",
         "The loss falls below what the text leaves open: the model copies its input. Shifted twice, it stays high.",
         "KempnerInstitute/KempnerForge #154: labels[i] == input_ids[i] and no shift in the loss, which fell to "
         "0.0000; "
         "closed",
         "https://github.com/KempnerInstitute/KempnerForge/issues/154",
         {{{{"target_p", "where(targets[%", "where(ids[$1"}}},
          {{{"target_p", "where(targets[%", targets_again}, {"is_counted", "where(targets > -1, 1, 0)", count_again}},
           {""},
           false,
           true}},
         false},
        {"train_padding_in_loss",
         "Padding counts in the loss: in its mean, or also as words to be predicted.",
         "The loss is lower than it should be, since padding is easy to predict, and the gradients of words are "
         "smaller.",
         "mlfoundations/open_clip #316: the captioning loss ignored -100 where the tokenizer pads with 0; merged",
         "https://github.com/mlfoundations/open_clip/pull/316",
         {padding_in_mean(all_columns), padding_in_mean(columns_but_last), padding_predicted(all_columns),
          padding_predicted(columns_but_last)},
         false},
        {"train_softmax_before_loss",
         "The loss, which takes logits, gets probabilities.",
         "The loss stays near that of equal probabilities, and the gradients are small: the model learns slowly.",
         "bowang-lab/Transformer-GCN-QA #32: a softmax in front of CrossEntropyLoss, which has its own; removed, "
         "merged",
         "https://github.com/bowang-lab/Transformer-GCN-QA/pull/32",
         {{{{"shifted", "~logits", "softmax(logits)"}}},
          {{{"losses", "~logits", "sigmoid(logits)"}}},
          {{{"shifted", "~logits", "softmax(logits)"},
            {"grad.logits", "%", "softmax(logits) * (($1) - sum(($1) * softmax(logits), axis=-1, keepdims=True))"}},
           {""},
           false,
           true}},
         false},
        {"train_gradients_not_cleared",
         "Gradients are not cleared: a step adds its own to those of the steps before.",
         "The first step is right. The second is named; later ones depend on gradients that their trace does not have.",
         "tenstorrent/tt-blacksmith #711: zero_grad was left out of a trainer's loop; fixed and merged",
         "https://github.com/tenstorrent/tt-blacksmith/pull/711",
         {{{{"first", "% * first_before + % * grad.%", "$1 * first_before + $2 * (grad.$3 + first_before / $2)"},
            {"second", "% * second_before + % * grad.% ** 2",
             "$1 * second_before + $2 * (grad.$3 + first_before / (1 - {v})) ** 2"}},
           {"0.9"}}},
         false},
        {"train_positions_forgotten",
         "Words are embedded without their positions.",
         "Without a causal mask, the model sees a bag of words.",
         "guocheng2025/Transformer-Encoder #1: positional embeddings were written but not used by the encoder; "
         "reported",
         "https://github.com/guocheng2025/Transformer-Encoder/issues/1",
         {{{{"embedded", "tokens + %", "tokens"},
            {"placed", "tokens + positions", "tokens"},
            {"output", "% + positions", "$1"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
