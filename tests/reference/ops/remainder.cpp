#include "attn/reference/ops/remainder.hpp"

#include "../../test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/trace.hpp"
#include "attn/formula/verify.hpp"

#include <tuple>

using namespace attn;

TEST_CASE("a whole quotient is rounded down, and what it leaves has the sign of the divisor", "[terms][reference]")
{
    CHECK(whole_quotient_of(-7, 2) == -4);
    CHECK(remainder_of(-7, 2) == 1);
    CHECK(remainder_of(7, -2) == -1);
    CHECK(whole_quotient_of(1, 0.1) == 9); // since 0.1 is a bit more than a tenth
    Recorder recorder;
    const Trace trace(recorder);
    const Term a = trace.given("a[n, d]", Matrix{{7, -7, 0.5}, {-1, 6, 1e6}});
    const Term b = trace.given("b[d]", Vector{2, 3, -0.1});
    std::ignore = trace("quotient[n, d]", floor_divide(a, b));
    std::ignore = trace("rest[n, d]", a % b);
    std::ignore = trace("again[n, d]", floor_divide(a, b) * b + a % b);
    CHECK(recorder.recording().at("quotient").formula == "a // b");
    CHECK(recorder.recording().at("again").formula == "a // b * b + a % b");
    CHECK(formula::verify(recorder.recording()).passed());
}
