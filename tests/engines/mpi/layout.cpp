#include "attn/engines/mpi/layout.hpp"

#include "caught.hpp"
#include "test.hpp"

#include "attn/core/error.hpp"
#include "engines/mpi/communicator.hpp"

#include <climits>

using namespace attn;
using mpi::Layout;

namespace {

using Chunks = std::vector<mpi::Chunk>;

std::string refusal(const std::vector<Chunks>& of_rank)
{
    return test::caught<Error>([&] { mpi::expect_each_token_once({of_rank}); }, "accepted");
}

} // namespace

TEST_CASE("contiguous and zigzag layouts hold each token once, and count what each rank has", "[mpi][layout]")
{
    const Layout contiguous = mpi::contiguous_layout(7, 3), zigzag = mpi::zigzag_layout(7, 2);
    CHECK(refusal(contiguous.of_rank) == "accepted");
    CHECK(refusal(zigzag.of_rank) == "accepted");
    CHECK(contiguous.tokens() == 7);
    CHECK(contiguous.most_tokens() == 3);
    CHECK(contiguous.tokens(0) + contiguous.tokens(1) + contiguous.tokens(2) == 7);
    CHECK(zigzag.tokens() == 7);
    CHECK(zigzag.tokens(0) + zigzag.tokens(1) == 7);
    CHECK(zigzag.largest_chunk() == 2);
    CHECK_THROWS_WITH(mpi::contiguous_layout(7, 0), ContainsSubstring("it has no ranks"));
}

TEST_CASE("a layout that leaves out a token, or has one twice, is refused and names it", "[mpi][layout]")
{
    CHECK(refusal({Chunks{{0, 2}}, Chunks{{3, 2}}}) == "mpi::Layout: token 2 is in no chunk, expected in one");
    CHECK(refusal({Chunks{{0, 3}}, Chunks{{2, 2}}}) == "mpi::Layout: token 2 is in several chunks, expected in one");
    CHECK(refusal({Chunks{{1, 2}}}) == "mpi::Layout: token 0 is in no chunk, expected in one");
    CHECK(refusal({Chunks{{2, 2}, {7, 0}}, Chunks{{0, 2}}}) ==
          "accepted"); // in any order; an empty chunk holds nothing
}

TEST_CASE("a message has at most as many numbers as MPI can count", "[mpi]")
{
    CHECK(mpi::message_size("f", INT_MAX) == INT_MAX);
    CHECK_THROWS_WITH(mpi::message_size("f", std::size_t{INT_MAX} + 1),
                      "f: a message of 2147483648 numbers is more than MPI can count, expected at most 2147483647");
}
