#include "attn/engines/mpi/packed_recording.hpp"

#include "test.hpp"

#include "attn/core/error.hpp"

using namespace attn;

namespace {

Recording two_steps()
{
    const Step keys{"rank.0.keys", "", {"m", "d_k"}, "", {}, {{2, 2}, {1, 2, 3, 4}}};
    const Step sum{"rank.0.sum", "sum(keys, axis=1)", {}, "mpi::ring_attention", {{"type", "float32"}}, {{2}, {3, 7}}};
    return {{keys, sum}, {{"rank.0.total", "rank.0.sum"}}};
}

} // namespace

TEST_CASE("a packed recording is read back as it was", "[mpi]")
{
    const Recording back = mpi::unpack(mpi::pack(two_steps()));
    REQUIRE(back.steps.size() == 2);
    CHECK(back.steps[1].path == "rank.0.sum");
    CHECK(back.steps[1].formula == "sum(keys, axis=1)");
    CHECK(back.steps[1].options == StepOptions{{"type", "float32"}});
    CHECK(identical(back.steps[0].value, two_steps().steps[0].value));
    REQUIRE(back.aliases.size() == 1);
    CHECK(back.aliases[0].target == "rank.0.sum");
}

TEST_CASE("bytes that are no packed recording are an error, whatever they are", "[mpi]")
{
    const std::string bytes = mpi::pack(two_steps());
    for (std::size_t length = 0; length < bytes.size(); ++length)
        CHECK_THROWS_AS(mpi::unpack(bytes.substr(0, length)), Error);
    CHECK_THROWS_AS(mpi::unpack(bytes + "x"), Error);
    CHECK_THROWS_AS(mpi::unpack("tcp_iface.c:997 UCX ERROR scandir failed\n" + bytes), Error);
    for (std::size_t i = 0; i < bytes.size(); ++i) { // a changed byte can be another recording; it must not be more
        std::string changed = bytes;
        changed[i] = static_cast<char>(~changed[i]);
        std::size_t steps = 0;
        try {
            steps = mpi::unpack(changed).steps.size();
        } catch (const Error&) {
        }
        CHECK(steps < 100);
    }
}
