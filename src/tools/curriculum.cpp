#include "attn/tools/curriculum.hpp"

#include <array>

namespace attn {
namespace {

constexpr std::array after_1{1};
constexpr std::array after_2{2};
constexpr std::array after_3{3};
constexpr std::array after_6{6};
constexpr std::array after_7{7};
constexpr std::array after_6_to_9{6, 8, 9};
constexpr std::array after_5_and_10{5, 10};
constexpr std::array after_10{10};
constexpr std::array after_5_7_and_10{5, 7, 10};
constexpr std::array after_4_and_9{4, 9};
constexpr std::array after_5_and_9{5, 9};
constexpr std::array after_8_11_and_13{8, 11, 13};
constexpr std::array after_5_8_and_10{5, 8, 10};

constexpr std::array lessons{
    CurriculumEntry{"01_single_query",
                    "One query looks at three keys",
                    "A token is renewed by asking how relevant each token is, then mixing them in that proportion.",
                    {}},
    CurriculumEntry{"02_all_queries", "All queries at once",
                    "Every output comes out of the same few products, none of them from another output.", after_1},
    CurriculumEntry{"03_scale_and_softmax", "Why divide by the square root of d_k",
                    "Dot products grow with the number of features, and large scores leave softmax no slope.", after_2},
    CurriculumEntry{"04_scoring", "Other ways to compare",
                    "Additive, bilinear, or no softmax at all: only the score changes, and its cost is counted.",
                    after_2},
    CurriculumEntry{"05_masking", "Who may look at whom",
                    "Padding and later tokens leave before softmax, not after, and a query may see nothing.", after_3},
    CurriculumEntry{"06_multi_head", "Several heads",
                    "Several relations need several queries; heads are cut out of one product, and merged.", after_3},
    CurriculumEntry{"07_self_and_cross", "One function, three uses",
                    "Queries from one sequence, keys and values from another; keys are a set, in no order.", after_6},
    CurriculumEntry{"08_positions", "Where a token stands",
                    "Without positions attention is a bag of words: add them, turn by them, or subtract distance.",
                    after_7},
    CurriculumEntry{"09_feed_forward_and_norm", "What surrounds attention",
                    "Each token thinks by itself; what is found is added, and layer norm keeps sums in bounds.",
                    after_3},
    CurriculumEntry{"10_encoder_layer", "One encoder layer",
                    "Attention, residuals, norms and the feed-forward network together, also on PyTorch's weights.",
                    after_6_to_9},
    CurriculumEntry{"11_encoder_stack", "Six layers, at the paper's size",
                    "A trace at scale: large tensors are summarised on the screen and whole in the file.",
                    after_5_and_10},
    CurriculumEntry{"12_pitfalls", "A museum of mistakes",
                    "Every well-known mistake, made once beside what is right, and where it was seen in public.",
                    after_10},
    CurriculumEntry{"13_decoder", "One decoder layer",
                    "Target tokens look back, then ask what the encoder read: queries theirs, keys and values its.",
                    after_5_7_and_10},
    CurriculumEntry{"14_transformer", "The whole Transformer",
                    "Embeddings, both stacks, tied logits: taught all at once, written token by token, with a cache.",
                    after_8_11_and_13},
    CurriculumEntry{"15_restricted", "Only the neighbours",
                    "Each token looks at those around it, or at every so many-th: the cost grows with n, not with n n.",
                    after_5_and_9},
    CurriculumEntry{
        "16_recurrence", "What attention took the place of",
        "Recurrence carries one state and waits; convolution sees neighbours; attention everybody, at once.",
        after_4_and_9},
    CurriculumEntry{"17_low_rank_and_talking_heads", "Low rank, and heads that talk",
                    "A head compares by a quadratic form of rank d_k; talking heads add such forms up.", after_6},
    CurriculumEntry{"18_story", "A story, with the parts of today",
                    "What has changed since 2017, in a real model that writes token by token with a cache.",
                    after_5_8_and_10},
};

} // namespace

std::span<const CurriculumEntry> curriculum() { return lessons; }

} // namespace attn
