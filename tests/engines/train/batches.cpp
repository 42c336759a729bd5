#include "attn/engines/train/batches.hpp"

#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/train/loss.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace attn;
using namespace attn::train;

TEST_CASE("an order holds each number once, and is another in another epoch or with another seed", "[train][batches]")
{
    for (const std::size_t n : {0, 1, 2, 90}) {
        std::vector<std::size_t> order = shuffled(n, 1, 0), sorted(n);
        std::iota(sorted.begin(), sorted.end(), std::size_t{0});
        CHECK(std::ranges::is_permutation(order, sorted));
        CHECK(order == shuffled(n, 1, 0));
    }
    CHECK(shuffled(90, 1, 0) != shuffled(90, 1, 1));
    CHECK(shuffled(90, 1, 0) != shuffled(90, 2, 0));
}

TEST_CASE("each of the six orders of three numbers is drawn as often as any other", "[train][batches]")
{
    std::map<std::vector<std::size_t>, int> counts;
    constexpr int draws = 6000;
    for (std::uint64_t epoch = 0; epoch < draws; ++epoch)
        ++counts[shuffled(3, 1, epoch)];
    REQUIRE(counts.size() == 6);
    for (const auto& [order, count] : counts)
        CHECK(std::abs(count - draws / 6) < 150); // five standard deviations
}

TEST_CASE("dropout leaves out as many numbers as its rate says, and the mean stays one", "[train][batches]")
{
    for (const double rate : {0.0, 0.25, 0.9}) {
        const Matrix mask = dropout_mask(100, 100, rate, 1, 2);
        const auto dropped = std::ranges::count(mask, 0.0);
        CHECK(std::abs(static_cast<double>(dropped) / 1e4 - rate) < 0.025); // five standard deviations
        CHECK(std::ranges::count(mask, 1 / (1 - rate)) == 10000 - dropped);
        CHECK(mask == dropout_mask(100, 100, rate, 1, 2));
        CHECK((rate == 0 || mask != dropout_mask(100, 100, rate, 1, 3)));
    }
    for (const double wrong : {-0.1, 1.0, 1.5, std::nan("")})
        CHECK_THROWS_AS(dropout_mask(1, 1, wrong, 1, 1), Error);
}

TEST_CASE("shorter texts are padded at their end, and what follows the padding is not asked for", "[train][batches]")
{
    const std::vector<Text> texts{{5, 6, 7}, {8, 9}};
    const TextBatch batch = batch_of(texts, 3);
    CHECK(batch.ids == IntegerMatrix{{5, 6, 7}, {8, 9, 3}});
    CHECK(batch.targets == IntegerMatrix{{6, 7, ignored_target}, {9, ignored_target, ignored_target}});
}
