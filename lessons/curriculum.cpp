#include "curriculum.hpp"

namespace attn {

namespace part {
constexpr std::string_view attention = "I. Attention",
                           transformer = "II. The Transformer",
                           learning = "III. Learning", today = "IV. Attention today",
                           beside = "V. Further topics", served = "VI. Served today",
                           over_time = "VII. Served over time";
}

std::span<const CurriculumEntry> curriculum()
{
    static const std::vector<CurriculumEntry> lessons{
        {"01_single_query",
         part::attention,
         "One query and three keys",
         "Attention replaces a token's row by a weighted average over all tokens; dot "
         "products give the weights.",
         {}},
        {"02_all_queries",
         part::attention,
         "All queries at once",
         "Three matrix products compute all outputs together, since no output depends on "
         "another.",
         {1}},
        {"03_scale_and_softmax",
         part::attention,
         "Why divide by the square root of d_k",
         "Dot products grow with the number of features, and large scores saturate "
         "softmax.",
         {2}},
        {"04_scoring",
         part::attention,
         "Other scoring functions",
         "Additive, bilinear or unnormalised attention: only the score changes, and its "
         "cost is counted.",
         {2, 3}},
        {"05_masking",
         part::attention,
         "Which keys a query can attend to",
         "Padding and later tokens are removed before softmax; a query can be left "
         "without any key.",
         {3}},
        {"06_multi_head",
         part::attention,
         "Several heads",
         "Several heads compute several weighted averages; they are slices of one "
         "product, and are merged.",
         {2, 3}},
        {"07_self_and_cross",
         part::attention,
         "Self-attention and cross-attention",
         "Self-attention, cross-attention and the general form differ only in where "
         "queries, keys and values come "
         "from.",
         {3, 6}},
        {"08_positions",
         part::attention,
         "Positions",
         "Attention without positions ignores the order of tokens; sinusoids added to "
         "the tokens encode it.",
         {3, 7}},
        {"09_feed_forward_and_norm",
         part::transformer,
         "Feed-forward network and layer norm",
         "A feed-forward network transforms each token; residuals add its result; layer "
         "norm fixes the scale.",
         {6}},
        {"10_encoder_layer",
         part::transformer,
         "One encoder layer",
         "Attention, residuals, norms and the feed-forward network together, also with "
         "PyTorch's weights.",
         {6, 9}},
        {"11_encoder_stack",
         part::transformer,
         "A stack of six encoder layers",
         "A trace at scale: large tensors are summarised on the screen and complete in "
         "the file.",
         {5, 8, 10}},
        {"12_decoder",
         part::transformer,
         "One decoder layer",
         "Masked self-attention over the target, then cross-attention: queries from the "
         "target, keys and values from "
         "the "
         "encoder.",
         {5, 7, 10}},
        {"13_transformer",
         part::transformer,
         "The whole Transformer",
         "Embeddings, both stacks and tied logits: a trained one translates, in one "
         "pass, "
         "token by token, and with beam search.",
         {8, 11, 12}},
        {"14_gradients",
         part::learning,
         "Gradients of attention",
         "The chain rule sends a loss back through attention, number by number; scaling, "
         "residuals and norms decide how much of it arrives.",
         {3, 5, 9, 13}},
        {"15_training",
         part::learning,
         "Training",
         "A loss, its gradient and Adam's step, thousands of times: the small model "
         "learns "
         "its grammar while one watches its heads.",
         {9, 13}},
        {"16_rotary_and_alibi",
         part::today,
         "Rotary positions and ALiBi",
         "Queries and keys are rotated by their positions, or scores lowered by the "
         "distance: only the distance "
         "counts.",
         {6, 8}},
        {"17_story",
         part::today,
         "A story, and what has changed since 2017",
         "What has changed since 2017, in a real model that writes token by token with a "
         "key/value cache.",
         {9, 13, 16}},
        {"18_flash_attention",
         part::today,
         "Flash attention",
         "Softmax is computed tile by tile, so that no row of scores is ever whole: "
         "memory grows with n instead of n squared.",
         {3, 5}},
        {"19_across_machines",
         part::today,
         "Attention across machines",
         "A sequence is divided among processes: keys and values travel around a ring, "
         "and partial results are merged exactly.",
         {6, 18},
         "MPI"},
        {"20_restricted",
         part::beside,
         "Attention to neighbours only",
         "Each token attends to those around it, or to every k-th: the cost grows with n "
         "instead of n squared.",
         {3, 5}},
        {"21_recurrence",
         part::beside,
         "Recurrence, which attention replaced",
         "Recurrence updates one state step by step; convolution uses neighbours; "
         "attention uses all tokens at once.",
         {4, 9}},
        {"22_low_rank_and_talking_heads",
         part::beside,
         "Low rank, and talking heads",
         "A head's score is a bilinear form of rank at most d_k; talking heads mix the "
         "scores of several heads.",
         {6}},
        {"23_pitfalls",
         part::beside,
         "Well-known mistakes, right beside wrong",
         "Every well-known mistake beside the right computation, with the place where it "
         "was seen in public.",
         {10}},
        {"24_smaller_caches",
         part::served,
         "Smaller caches",
         "Heads share keys and values, or make them from one small latent per token: "
         "what "
         "a cache keeps, and what that costs.",
         {13, 16, 17}},
        {"25_windows_and_sinks",
         part::served,
         "Windows and sinks",
         "A token attends to the last w tokens only: what is forgotten, how far layers "
         "reach, and why a first token can collect so much weight.",
         {13, 17, 20}},
        {"26_experts",
         part::served,
         "Experts",
         "Several feed-forward networks, of which a router chooses a few for each token: "
         "more is stored than is computed.",
         {9, 17}},
        {"27_state",
         part::served,
         "A state instead of a cache",
         "Without softmax a text is summed up in one matrix: a running sum, decay, the "
         "delta rule, and what such a state can recall.",
         {3, 13, 21}},
        {"28_many_calls",
         part::over_time,
         "One sequence, many calls",
         "The same tokens given at once, step by step and in chunks: what is stored, "
         "what "
         "each call has to get right, and what eight mistakes change.",
         {13, 17, 25}},
        {"29_many_sequences",
         part::over_time,
         "Many sequences at once",
         "Requests of different lengths in one call: padded, packed, joining and "
         "leaving, "
         "and with keys and values in pages that they share.",
         {5, 13, 17}},
        {"30_choosing",
         part::over_time,
         "Choosing words, and guessing ahead",
         "Temperature, top-k, top-p and min-p decide which words can come; a small model "
         "guesses several words ahead of a large one, whose words stay the same.",
         {13, 17}},
        {"31_fewer_bits",
         part::over_time,
         "Fewer bits",
         "Keys, values and weights in 8 or 4 bits: which numbers share a scale, what one "
         "large channel does to the others, and what a rotation changes.",
         {6, 13, 24}},
    };
    return lessons;
}

} // namespace attn
