// attn grad, run as a user runs it.

#include "lesson_run.hpp"
#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::files;

namespace {

/// A folder with a small trace, t.npz: y = x @ w, output = softmax(y).
class GradFolder : public TemporaryFolder {
public:
    GradFolder()
    {
        write_trace(*this / "t.npz", {{{"x", "", {"n", "m"}, "", {}, {{1, 2}, {1, 2}}},
                                       {"w", "", {}, "", {}, {{2, 2}, {0, 1, 0, 0}}},
                                       {"y", "x @ w", {"n", "m"}, "", {}, {{1, 2}, {0, 1}}},
                                       {"output", "y * y", {"n", "m"}, "", {}, {{1, 2}, {0, 1}}}},
                                      {}});
    }

    Ended grad(const std::vector<std::string>& words) const
    {
        std::vector<std::string> command{"attn", "grad", *this / "t.npz"};
        command.insert(command.end(), words.begin(), words.end());
        return run(command);
    }
};

} // namespace

TEST_CASE("attn grad writes the trace with its gradients, which attn verify recomputes", "[cli][gradient]")
{
    const GradFolder folder;
    const std::string grads = folder / "g.npz";
    const Ended ended = folder.grad({"-o", grads, "--check"});
    CHECK(ended.code == 0);
    CHECK(ended.errors == "");
    CHECK_THAT(ended.output, ContainsSubstring("grad.w  (2, 2)            norm 4.47214\n"));
    CHECK_THAT(ended.output, ContainsSubstring("4 steps on the way back from output\n"));
    CHECK_THAT(ended.output,
               ContainsSubstring("2 inputs checked by central differences along random directions, 0 differ\n"));
    const Ended verified = run({"attn", "verify", grads});
    CHECK(verified.output == grads + ": 5 steps recomputed from their formulas, 3 inputs, 0 wrong\n");
    CHECK_THAT(run({"attn", "explain", grads, "grad.w[1,1]"}).output, ContainsSubstring("2*2"));
    CHECK_THAT(run({"attn", "graph", grads}).output, ContainsSubstring("\"grad.output\" -> \"grad.y\""));
}

TEST_CASE("attn grad --check ends with 1 where differences are not the gradient, as at a corner", "[cli][gradient]")
{
    const TemporaryFolder folder;
    const std::string trace = folder / "corner.npz";
    write_trace(trace, {{{"x", "", {"n"}, "", {}, {{1}, {0}}}, {"output", "relu(x)", {"n"}, "", {}, {{1}, {0}}}}, {}});
    const Ended ended = run({"attn", "grad", trace, "--check"});
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("DIFFERS  x: "));
    CHECK_THAT(ended.output,
               ContainsSubstring("1 inputs checked by central differences along random directions, 1 differ\n"));
}

TEST_CASE("attn grad begins at a number, at a row or with what a file gives", "[cli][gradient]")
{
    const GradFolder folder;
    const auto gradient_of_y = [&](const std::vector<std::string>& words) {
        std::vector<std::string> all{"-o", folder / "g.npz"};
        all.insert(all.end(), words.begin(), words.end());
        const Ended ended = folder.grad(all);
        CAPTURE(ended.errors);
        REQUIRE(ended.code == 0);
        return read_npz(folder / "g.npz").at("grad.y").values;
    };
    CHECK(gradient_of_y({}) == std::vector<double>{0, 2});
    CHECK(gradient_of_y({"--of", "output[0,0]"}) == std::vector<double>{0, 0});
    CHECK(gradient_of_y({"--of", "output[0]"}) == std::vector<double>{0, 2});
    CHECK(gradient_of_y({"--of", "y"}) == std::vector<double>{1, 1});
    write_npz(folder / "s.npz", {{}, {{"loss", {{1, 2}, {3, 4}}}}, ""});
    CHECK(gradient_of_y({"--seed", folder / "s.npz"}) == std::vector<double>{0, 8});
}

TEST_CASE("attn grad takes the gradients of a trace anew that has some, as lesson 14's", "[cli][gradient]")
{
    const TemporaryFolder folder;
    const std::string grads = folder / "g.npz";
    const Ended ended = run({"attn", "grad", lesson_run("14_gradients").trace.string(), "--of", "loss", "-o", grads});
    CAPTURE(ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(run({"attn", "verify", grads}).code == 0);
    // Those that the lesson computes by its own formulas, which are PyTorch's.
    const NamedArrays found = read_npz(grads);
    for (const std::string name : {"inputs", "query_weights", "key_weights", "value_weights", "scores", "output"}) {
        CAPTURE(name);
        const auto& steps = lesson_recording("14_gradients").steps;
        const Array& right = std::ranges::find(steps, "grad." + name, &Step::path)->value;
        const Array& again = found.at("grad." + name);
        REQUIRE(again.shape == right.shape);
        for (std::size_t i = 0; i < right.size(); ++i)
            CHECK(std::abs(again.values[i] - right.values[i]) <= 1e-13 * (1 + std::abs(right.values[i])));
    }
    CHECK_FALSE(found.contains("step.query_weights")); // which follows from the old ones
    CHECK(run({"attn", "grad", grads, "--of", "loss"}).code == 0);
    const Ended second = run({"attn", "grad", grads, "--of", "grad.weights[0,0]"});
    CHECK(second.code == 2);
    CHECK_THAT(second.errors, ContainsSubstring("--of: grad.weights is a gradient, or follows from one"));
}

TEST_CASE("attn grad on wrong usage ends with 2 and one line", "[cli][gradient]")
{
    const GradFolder folder;
    write_npz(folder / "two.npz", {{}, {{"a", {{1}, {1}}}, {"b", {{1}, {1}}}}, ""});
    write_npz(folder / "long.npz", {{}, {{"a", {{3}, {1, 2, 3}}}}, ""});
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"--of", "outptu"},
             {"--of", "y[7,0]"},
             {"--seed", folder / "two.npz"},
             {"--seed", folder / "long.npz"},
             {"--seed", folder / "none.npz"},
             {"--of", "y[0]", "--seed", folder / "long.npz"},
             {"-o", folder / "t.npz"},
         }) {
        const Ended ended = folder.grad(words);
        CAPTURE(ended.errors);
        CHECK(ended.code == 2);
        CHECK(ended.output == "");
        CHECK(std::ranges::count(ended.errors, '\n') == 1);
    }
}
