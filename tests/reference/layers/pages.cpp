// Blocks of a pool, and which sequences have them.

#include "attn/reference/layers/pages.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"

#include "by_hand.hpp"
#include "test.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace attn;
using namespace attn::test;

namespace {

using Blocks = std::vector<std::size_t>;

} // namespace

TEST_CASE("a sequence fills its last block before it takes the next free one", "[layers][pages]")
{
    Pages pages{.size = 4, .count = 5, .tables = {{}, {}}};
    pages = grown(pages, 0, 3).pages;
    CHECK(pages.tables[0].blocks == Blocks{0});
    pages = grown(pages, 1, 4).pages;
    pages = grown(pages, 0, 1).pages; // fits exactly
    CHECK(pages.tables[0].blocks == Blocks{0});
    pages = grown(pages, 0, 5).pages;
    CHECK(pages.tables[0].blocks == Blocks{0, 2, 3});
    CHECK(pages.tables[0].tokens == 9);
    CHECK(pages.tables[1].blocks == Blocks{1});
    CHECK(users_of(pages) == Blocks{1, 1, 1, 1, 0});

    // What a sequence gives back is taken first.
    pages.tables[0] = beginning_of(pages.tables[0], 4, pages.size);
    CHECK(users_of(pages) == Blocks{1, 1, 0, 0, 0});
    CHECK(grown(pages, 1, 1).pages.tables[1].blocks == Blocks{1, 2});
    CHECK(grown(pages, 1, 0).pages.tables[1].blocks == Blocks{1});
}

TEST_CASE("a block that several sequences have is copied before one of them writes into it", "[layers][pages]")
{
    Pages pages{.size = 4, .count = 6, .tables = {{}, {}, {}}};
    pages = grown(pages, 0, 6).pages;
    pages.tables[1] = beginning_of(pages.tables[0], 6, 4);
    pages.tables[2] = beginning_of(pages.tables[0], 4, 4);
    CHECK(users_of(pages) == Blocks{3, 2, 0, 0, 0, 0});

    const GrownPages second = grown(pages, 1, 1); // into a block that the first sequence has, too
    REQUIRE(second.copy.has_value());
    CHECK(second.copy->from == 1);
    CHECK(second.copy->to == 2);
    CHECK(second.pages.tables[1].blocks == Blocks{0, 2});
    CHECK(second.pages.tables[0].blocks == Blocks{0, 1});

    const GrownPages first = grown(second.pages, 0, 1); // nobody else has it any more
    CHECK(!first.copy.has_value());
    CHECK(!grown(first.pages, 2, 1).copy.has_value()); // a new block: the full one stays shared
}

TEST_CASE("slots are the rows of a table's blocks, and follow from their formula", "[layers][pages]")
{
    const Pages pages{.size = 4, .count = 8, .tables = {}};
    Recorder recorder;
    const Trace trace(recorder);
    CHECK((*slots_of({{7, 2, 5}, 9}, pages, trace) == Integers{28, 29, 30, 31, 8, 9, 10, 11, 20}));
    CHECK(recorder.recording().at("slots").formula == "4 * table[arange(9) // 4] + arange(9) % 4");
    CHECK(formula::verify(recorder.recording()).passed());
    CHECK((*slots_of({}, pages)).size() == 0);
    CHECK((*slots_of({{3}, 1}, {.size = 1, .count = 4, .tables = {}}) == Integers{3}));
}

TEST_CASE("whatever sequences do, no token's slot is written by another sequence", "[layers][pages][property]")
{
    std::mt19937_64 engine(29);
    const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(engine() % below); };
    for (int round = 0; round < 50; ++round) {
        Pages pages{.size = 1 + draw(5), .count = 40, .tables = std::vector<PageTable>(4)};
        std::vector<std::int64_t> pool(pages.size * pages.count, -1); // what each slot has
        std::vector<std::vector<std::int64_t>> expected(4);           // what each sequence has written, or began with
        std::int64_t next = 0;
        for (int step = 0; step < 60; ++step) {
            const std::size_t sequence = draw(4), other = draw(4), tokens = draw(4);
            if (draw(4) == 0) { // begins as another does, or takes tokens back
                const std::size_t kept = draw(expected[other].size() + 1);
                pages.tables[sequence] = beginning_of(pages.tables[other], kept, pages.size);
                expected[sequence] = {expected[other].begin(),
                                      expected[other].begin() + static_cast<std::ptrdiff_t>(kept)};
                continue;
            }
            if (expected[sequence].size() + tokens > 10 * pages.size)
                continue;
            auto [after, copy] = grown(pages, sequence, tokens);
            if (copy)
                std::copy_n(pool.begin() + static_cast<std::ptrdiff_t>(copy->from * pages.size), pages.size,
                            pool.begin() + static_cast<std::ptrdiff_t>(copy->to * pages.size));
            pages = after;
            const Integers slots = *slots_of(pages.tables[sequence], pages);
            for (std::size_t i = expected[sequence].size(); i < slots.size(); ++i) {
                expected[sequence].push_back(next);
                pool[static_cast<std::size_t>(slots(i))] = next++;
            }
            for (std::size_t any = 0; any < 4; ++any) {
                const Integers all = *slots_of(pages.tables[any], pages);
                REQUIRE(all.size() == expected[any].size());
                for (std::size_t i = 0; i < all.size(); ++i)
                    REQUIRE(pool[static_cast<std::size_t>(all(i))] == expected[any][i]);
            }
        }
    }
}

TEST_CASE("what is no table of a pool is refused", "[layers][pages]")
{
    const Pages pages{.size = 4, .count = 2, .tables = {{{0}, 3}, {{1}, 4}}};
    CHECK_THROWS_WITH(grown(pages, 1, 1),
                      ContainsSubstring("the pool is full: sequence 1 needs 1 more of its 2 blocks"));
    CHECK_THROWS_WITH(grown(pages, 1, 5), ContainsSubstring("needs 2 more"));
    CHECK_THROWS_WITH(grown(pages, 2, 1), ContainsSubstring("there is no sequence 2"));
    Pages shared{.size = 4, .count = 1, .tables = {{{0}, 3}, {{0}, 3}}};
    CHECK_THROWS_WITH(grown(shared, 1, 1), ContainsSubstring("0 are free")); // no room for the copy
    CHECK_THROWS_WITH(slots_of({{2}, 1}, pages), ContainsSubstring("block 2, and the pool has 2 blocks"));
    CHECK_THROWS_WITH(slots_of({{0}, 5}, pages), ContainsSubstring("5 tokens need 2"));
    CHECK_THROWS_WITH(slots_of({{0, 1}, 4}, pages), ContainsSubstring("4 tokens need 1"));
    CHECK_THROWS_WITH(slots_of({{0}, 1}, {.size = 0, .count = 1, .tables = {}}), ContainsSubstring("no row"));
    CHECK_THROWS_WITH(users_of({.size = 4, .count = 1, .tables = {{{1}, 1}}}), ContainsSubstring("block 1"));
    CHECK_THROWS_WITH(beginning_of(pages.tables[0], 1, 0), ContainsSubstring("no row"));
    CHECK_THROWS_WITH(beginning_of(pages.tables[0], 4, 4), ContainsSubstring("has 3 tokens, and its first 4"));
}
