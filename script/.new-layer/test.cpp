#include "attn/reference/layers/new_layer.hpp"

#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/formula/gradient.hpp"

using namespace attn;
using namespace attn::test;

namespace {

Recorder small_example()
{
    return recorded([](const Trace& trace) { new_layer(Matrix{{1, 2}, {3, 4}}, {{1, 2}}, trace); });
}

} // namespace

TEST_CASE("the steps of new_layer() are the ones that its doc comment lists", "[layers][steps][source]")
{
    // The table is without the steps of layers inside it: those are in their own tables.
    const Recorder recorder = small_example();
    const Lines table = promised("reference/layers/new_layer.hpp", "new_layer");
    CHECK(different_rows(table, recorder, "new_layer") == "");
}

TEST_CASE("the steps of new_layer() follow from their formulas, and its gradients are differences",
          "[layers][new_layer]")
{
    const Recorder recorder = small_example();
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    for (const formula::GradientCheck& input : formula::check_gradients(formula::gradients(recorder.recording()))) {
        CAPTURE(input.input);
        CHECK(input.agrees());
    }
}

TEST_CASE("new_layer() refuses what doesn't fit, in words", "[layers][new_layer]")
{
    const Matrix x{{1, 2}, {3, 4}};
    CHECK_THROWS_AS(new_layer(x, {{1, 2, 3}}), ShapeError);
    CHECK_THROWS_WITH(new_layer(x, {{1, 2, 3}}), ContainsSubstring("x (2, 2) and gain (3,) must agree in d_model"));
}

TEST_CASE("new_layer() gives the numbers of its paper", "[layers][new_layer]")
{
    FAIL("write the equations of new_layer() in src/reference/layers/new_layer.cpp, "
         "its steps in the table of the header, "
         "and here what a small example has to give, computed by hand or by PyTorch");
}
