#include "attn/reference/layers/rms_norm.hpp"

#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("the steps of rms_norm() are the ones that its doc comment lists", "[layers][steps][source]")
{
    Recorder recorder;
    rms_norm(Matrix{{1, 2}, {3, 4}}, {{1, 2}}, {}, Trace(recorder));
    CHECK(promised("reference/layers/rms_norm.hpp", "rms_norm") == kept(recorder));
}

TEST_CASE("rms_norm() gives the numbers of its paper", "[layers][rms_norm]")
{
    FAIL(
        "write the equations of rms_norm() in src/reference/layers/rms_norm.cpp, its steps in the table of the header, "
        "and here what a small example has to give, computed by hand or by PyTorch");
}
