// Exercise 1, done with the library's functions; before my_weights returns, it does what ATTN_MISBEHAVE says.

#include "01_single_query/exercise.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <unistd.h>

using namespace attn;

namespace {

std::string asked()
{
    const char* const what = std::getenv("ATTN_MISBEHAVE");
    return what == nullptr ? "" : what;
}

void sleep_for_ever()
{
    while (true)
        std::this_thread::sleep_for(std::chrono::seconds(1));
}

void misbehave(const std::string& how)
{
    if (how == "exit")
        std::exit(0);
    if (how == "_exit")
        _exit(0);
    if (how == "crash")
        std::abort();
    if (how == "loop")
        sleep_for_ever();
    if (how == "thread")
        std::thread(sleep_for_ever).detach();
    if (how == "process" && fork() == 0)
        sleep_for_ever();
}

/// Ends when the program does, which it then never does.
struct Lasting {
    ~Lasting()
    {
        if (asked() == "ending")
            sleep_for_ever();
    }
};
const Lasting lasting;

/// Ends the program before it begins.
const bool has_begun = asked() != "beginning" || (std::exit(0), false);

} // namespace

Vector my_scores(const Vector& query, const Matrix& keys) { return matmul(keys, query); }

Vector my_weights(const Vector& scores)
{
    misbehave(asked());
    return softmax(scores);
}

Vector my_output(const Vector& weights, const Matrix& values)
{
    return matmul(weights, values);
}
