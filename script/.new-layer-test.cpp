#include "attn/reference/layers/rms_norm.hpp"

#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/formula/gradient.hpp"

using namespace attn;
using namespace attn::test;

namespace {

Recorder small_example()
{
    return recorded([](const Trace& trace) { rms_norm(Matrix{{1, 2}, {3, 4}}, {{1, 2}}, {}, trace); });
}

} // namespace

TEST_CASE("the steps of rms_norm() are the ones that its doc comment lists", "[layers][steps][source]")
{
    // The table is without the steps of layers inside it: those are in their own tables.
    const Recorder recorder = small_example();
    const Lines table = promised("reference/layers/rms_norm.hpp", "rms_norm");
    CHECK(table == as_listed(table, recorder, "rms_norm"));
}

TEST_CASE("the steps of rms_norm() follow from their formulas, and its gradients are differences", "[layers][rms_norm]")
{
    const Recorder recorder = small_example();
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    for (const formula::GradientCheck& input : formula::check_gradients(formula::gradients(recorder.recording()))) {
        CAPTURE(input.input);
        CHECK(input.agrees());
    }
}

TEST_CASE("rms_norm() gives the numbers of its paper", "[layers][rms_norm]")
{
    FAIL(
        "write the equations of rms_norm() in src/reference/layers/rms_norm.cpp, its steps in the table of the header, "
        "and here what a small example has to give, computed by hand or by PyTorch");
}
