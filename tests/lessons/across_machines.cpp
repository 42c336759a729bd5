// Lesson 19's ranks: what they compute together, how they are started, and how they end.

#include "golden.hpp"
#include "lesson_run.hpp"
#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

#include <cmath>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;

namespace {

const std::string program = "lesson_19_across_machines";

/// The largest difference from a golden array, as a share of its size or one.
double difference(const Array& found, const Array& expected)
{
    REQUIRE(found.shape == expected.shape);
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (found.values[i] != expected.values[i]) // infinities are
            worst = std::max(worst, std::abs(found.values[i] - expected.values[i]) /
                                        std::max(1.0, std::abs(expected.values[i])));
    return worst;
}

Array heads_numbers(const Shape& shape)
{
    Array array{shape, std::vector<double>(element_count(shape))};
    for (std::size_t i = 0; i < array.size(); ++i)
        array.values[i] = std::sin(static_cast<double>(5 * i + shape.at(2)));
    return array;
}

} // namespace

TEST_CASE("every hop of every rank has the m, l and context of NumPy, in float32, and the divided layer is PyTorch's",
          "[lessons][mpi][golden]")
{
    if (!ATTN_WITH_MPI)
        return;
    const Recording& recording = lesson_recording("19_across_machines");
    const StepNames names(recording);
    for (const auto& [name, expected] : read_golden("19_on_ranks")) {
        CAPTURE(name);
        const std::optional<std::size_t> step = names.find(name);
        REQUIRE(step);
        const double off = difference(recording.steps[*step].value, expected);
        CHECK(off <= (name.starts_with("layer.") ? 1e-12 : 4e-6));
    }
}

TEST_CASE("lesson 19 runs on one to eight ranks, more than it has heads, and than it has tokens", "[lessons][mpi]")
{
    if (!ATTN_WITH_MPI)
        return;
    const TemporaryFolder folder;
    for (const char* ranks : {"1", "2", "3", "5", "8"}) {
        CAPTURE(ranks);
        const Ended ended = run({program, "--quiet", "--ranks", ranks, "--trace", folder / "t.npz"});
        CHECK(ended.code == 0);
        CHECK(ended.output + ended.errors == "");
        CHECK(verify(read_trace(folder / "t.npz")).passed());
    }
    Npz mine;
    mine.arrays = {{"queries", heads_numbers({2, 3, 5})},
                   {"keys", heads_numbers({2, 3, 5})},
                   {"values", heads_numbers({2, 3, 4})}};
    write_npz(folder / "mine.npz", mine);
    const Ended ended = run({program, "--quiet", "--input", folder / "mine.npz", "--trace", folder / "t.npz"});
    CHECK(ended.code == 0);
    CHECK(ended.errors == "");
    CHECK(verify(read_trace(folder / "t.npz")).passed());
}

TEST_CASE("what MPI prints on its ranks' standard output is no part of their result", "[lessons][mpi][limits]")
{
    if (!ATTN_WITH_MPI)
        return;
    const std::string noise = std::string(ATTN_BIN_FOLDER) + "/libnoisy_mpi.so";
    const Ended ended = run({program, "--summary"}, {"LD_PRELOAD=" + noise});
    CHECK(ended.errors == "");
    CHECK_THAT(ended.output, ContainsSubstring("all held"));
    CHECK(ended.code == 0);
}

TEST_CASE("lesson 19 refuses other numbers of ranks, and to be run by mpirun, in one line", "[lessons][mpi]")
{
    if (!ATTN_WITH_MPI)
        return;
    for (const char* ranks : {"0", "9"}) {
        const Ended ended = run({program, "--ranks", ranks});
        CHECK(ended.code == 2);
        CHECK(ended.errors == program + ": --ranks is " + ranks + ", expected 1 to 8\n");
    }
    const Ended first = run({program}, {"OMPI_COMM_WORLD_RANK=0"}), second = run({program}, {"OMPI_COMM_WORLD_RANK=1"});
    CHECK(first.code == 2);
    CHECK_THAT(first.errors, ContainsSubstring("expected to be run without mpirun"));
    CHECK(second.code == 2);
    CHECK(first.output + second.output + second.errors == "");
}
