// Compares exercise 20 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/restricted.hpp"

using namespace attn;

namespace {

void check(Exercise& exercise)
{
    const Matrix x{{1, 0, 1}, {0, 2, 0}, {1, 1, 1}, {2, 0, 0}, {0, 1, 2}, {1, 2, 0}};
    for (const std::size_t radius : {2, 1, 0, 9}) {
        Recorder run;
        restricted_attention(x, x, x,
                             {.neighbourhood = {.radius = radius, .side = Side::causal}},
                             Trace(run));
        exercise.expect({"my_past_window", {{"x", x}, {"radius", radius}}}, run,
                        "context", [&] { return my_past_window(x, radius); });
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("20_restricted", argc, argv, check);
}
