#include "attn/show/graph/process.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"

#include <csignal>
#include <thread>

using namespace attn;
using namespace attn::show;

TEST_CASE("a program that takes too long is ended with all that it has started", "[show][process]")
{
    const TemporaryFolder folder;
    const std::string file = folder / "child";
    const ProcessResult result =
        run_process({"/bin/sh", "-c", "sleep 100 & echo $! >" + file + "; wait"}, "", std::chrono::milliseconds(1500));
    CHECK(result.end == ProcessResult::End::too_slow);
    const int child = std::stoi(bytes_of(file));
    for (int i = 0; i < 200 && ::kill(child, 0) == 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(::kill(child, 0) != 0);
}

TEST_CASE("what a program writes is kept, with how it ended", "[show][process]")
{
    const ProcessResult result =
        run_process({"/bin/sh", "-c", "cat; echo wrong >&2; exit 7"}, "given", std::chrono::seconds(60));
    CHECK(result.end == ProcessResult::End::exited);
    CHECK(result.code == 7);
    CHECK(result.output == "given");
    CHECK(result.errors == "wrong\n");
    CHECK(run_process({"/bin/sh", "-c", "kill -9 $$"}, "", std::chrono::seconds(60)).code == 128 + SIGKILL);
    CHECK(run_process({"no-such-program"}, "", std::chrono::seconds(60)).end == ProcessResult::End::not_found);
}
