#include "attn/tools/curriculum.hpp"

#include <array>

namespace attn {
namespace {

constexpr std::array after_1{1};
constexpr std::array after_2{2};

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
};

} // namespace

std::span<const CurriculumEntry> curriculum() { return lessons; }

} // namespace attn
