// What a lesson goes on with after --ablate and --round.

#include "answers.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("after --ablate of any step of lessons 20 to 22, and after --round, nothing else is wrong",
          "[lessons][answers]")
{
    const std::vector<Precision> all(std::begin(all_precisions), std::end(all_precisions));
    CHECK(expect_answers_used_by_lesson("20_restricted", all) > 60);
    CHECK(expect_answers_used_by_lesson("21_recurrence", {Precision::float32}) > 200);
    CHECK(expect_answers_used_by_lesson("22_low_rank_and_talking_heads", all) > 60);
}
