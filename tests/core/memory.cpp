#include "attn/core/memory.hpp"

#include "../test.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/attention/restricted.hpp"
#include "attn/reference/ops/random.hpp"

#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

using namespace attn;

TEST_CASE("a tensor that no machine holds is refused by its name, shape and size before it is made", "[memory]")
{
    CHECK_THROWS_WITH(expect_memory("scores", {1'000'000, 1'000'000}),
                      ContainsSubstring("scores would be (1000000, 1000000), 7.3 TiB") &&
                          ContainsSubstring("there is memory for "));
    CHECK_THROWS_AS(expect_memory("scores", {SIZE_MAX, SIZE_MAX}), Error);
    CHECK_NOTHROW(expect_memory("scores", {100, 100}));
    CHECK_NOTHROW(expect_memory("scores", {SIZE_MAX, 0}));
    CHECK(memory_left() > 1 << 20);
    CHECK(bytes_text(1536) == "1.5 KiB");
    CHECK(bytes_text(12) == "12 bytes");
}

TEST_CASE("attention over a million tokens says what its scores would be", "[memory]")
{
    constexpr std::size_t n = 1'000'000;
    const Matrix x = xt::zeros<double>({n, std::size_t{1}});
    const auto refused = ContainsSubstring("(1000000, 1000000");
    CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x), ContainsSubstring("scores would be ") && refused);
    CHECK_THROWS_WITH(dot_product_attention(x, x, x), ContainsSubstring("scores would be ") && refused);
    const Matrix one = xt::ones<double>({1, 1});
    CHECK_THROWS_WITH(additive_attention(x, x, x, {one, one, Vector(xt::ones<double>({1}))}),
                      ContainsSubstring("hidden would be ") && refused);
    const Matrix wide = xt::zeros<double>({n, std::size_t{2}});
    const ConcatenatedWeights of_pairs{Matrix(xt::ones<double>({4, 1})), Vector(xt::ones<double>({1}))};
    CHECK_THROWS_WITH(concatenated_attention(wide, wide, wide, of_pairs),
                      ContainsSubstring("pairs would be (1000000, 1000000, 4)"));
    CHECK_THROWS_WITH(causal_mask(100 * n, 100 * n), ContainsSubstring("mask would be (100000000, 100000000)"));
    RestrictedOptions all;
    all.neighbourhood.stride = 1;
    CHECK_THROWS_WITH(restricted_attention(x, x, x, all), ContainsSubstring("would be (1000000, 1999999)"));
}

namespace {

/// So much memory from here on and no more, as long as it lives.
class Limit {
public:
    explicit Limit(std::size_t bytes)
    {
        ::getrlimit(RLIMIT_DATA, &before_);
        std::size_t pages = 0;
        std::ifstream file("/proc/self/statm");
        for (int column = 0; column < 6; ++column) // the sixth: data and stack
            file >> pages;
        const rlimit limit{pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_DATA, &limit);
    }
    ~Limit() { ::setrlimit(RLIMIT_DATA, &before_); }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

private:
    rlimit before_{};
};

} // namespace

TEST_CASE("a tensor of 20 MiB is refused before it is made where less is left", "[memory][limits]")
{
    const Limit ten(10 << 20);
    CHECK_THROWS_WITH(expect_memory("scores", {2560, 1024}),
                      ContainsSubstring("scores would be (2560, 1024), 20.0 MiB"));
}

TEST_CASE("causal attention needs memory for its scores and one mask, and knows it before", "[memory][limits]")
{
    constexpr std::size_t n = 6000, pairs = n * n, mebibyte = 1 << 20;
    const Matrix x = RandomNumbers(1).matrix(n, 2), few = RandomNumbers(2).matrix(1000, 2);
    const AttentionOptions causal{.causal = Causal::bottom_right};
    scaled_dot_product_attention(few, few, few, causal); // BLAS takes its own memory
    {
        const Limit enough(pairs * (sizeof(double) + sizeof(bool)) + 30 * mebibyte);
        CHECK_NOTHROW(scaled_dot_product_attention(x, x, x, causal));
    }
    const Limit too_little(pairs * sizeof(double) + 10 * mebibyte);
    CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, causal),
                      ContainsSubstring("scores would be (6000, 6000), 274.7 MiB, and there is memory for "));
}
