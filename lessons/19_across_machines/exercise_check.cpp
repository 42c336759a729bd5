// Compares exercise 19 with the formulas of the lesson.

#include "exercise.hpp"

#include "../exercise_check.hpp"
#include "work.hpp"

#include "attn/engines/mpi/layout.hpp"

using namespace attn;

namespace {

void expect_scores(Exercise& exercise, const Integers& rank_of, std::size_t ranks,
                   std::size_t hop)
{
    Recorder run;
    const Trace trace(run);
    const Integers holders = trace("rank_of[n]", "", rank_of);
    const auto places = [](std::size_t count) {
        return "arange(" + std::to_string(count) + ")";
    };
    const std::string n = places(rank_of.size()), r = places(ranks);
    const IntegerMatrix pairs = trace(
        "pairs[r, s]",
        "1 * (" + r + "[:, None] == rank_of[None, :]) @ (" + n + "[None, :] <= " + n +
            "[:, None]) @ (rank_of[:, None] == " + r + "[None, :])",
        allowed_pairs(holders, ranks));
    const Integers sources = trace("sources[r]", "", sources_at(hop, ranks));
    Integers scores = integers(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        scores(rank) = pairs(rank, sources(rank));
    scores =
        trace("scores[r]",
              "sum(pairs * (sources[:, None] == " + r + "[None, :]), axis=1)", scores);
    exercise.expect(
        {"my_scores",
         {{"rank_of", rank_of}, {"ranks", ranks}, {"hop", hop}},
         {},
         0,
         {},
         "counts the pairs that the mask allows, of each rank's queries and the "
         "keys that it has at this hop"},
        run, "scores", [&] { return my_scores(rank_of, ranks, hop); });
}

void check(Exercise& exercise)
{
    const Integers plain{0, 0, 1, 1}, zigzag{0, 1, 2, 3, 3, 2, 1, 0};
    for (std::size_t hop = 0; hop < 2; ++hop)
        expect_scores(exercise, plain, 2, hop);
    for (std::size_t hop = 0; hop < 4; ++hop)
        expect_scores(exercise, zigzag, 4, hop);
    expect_scores(exercise, {2, 0, 2, 2, 0}, 3, 1); // rank 1 holds no token
    expect_scores(exercise, {0, 0, 0}, 1, 0);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("19_across_machines", argc, argv, check);
}
