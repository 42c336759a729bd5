#include "attn/core/step_name.hpp"

#include "../test.hpp"

#include <stdexcept>
#include <string>

using namespace attn;

TEST_CASE("a name begins with a letter or _ and goes on with digits too", "[trace][names]")
{
    for (const char* name : {"scores", "_", "W_q", "norm1", "X9z"}) {
        CAPTURE(name);
        CHECK(is_step_name(name));
        CHECK(is_step_path(name));
        CHECK(parse_step_label(name).name == name);
    }
    for (const char* name : {"", "1", "1norm", "a.b", "a b", "a-b", "\u00e9", "a[1]"}) {
        CAPTURE(name);
        CHECK_FALSE(is_step_name(name));
        CHECK_THROWS_AS(parse_step_label(name), std::logic_error);
    }
}

TEST_CASE("a path is names and numbers with single dots between them", "[trace][names]")
{
    for (const char* path : {"scores", "layers.0.self_attn.head.11.scores", "0", "a.b"}) {
        CAPTURE(path);
        CHECK(is_step_path(path));
    }
    for (const char* path : {"", ".", ".a", "a.", "a..b", "a/b", "../a", "a b", "a\n", "\u00e9.a", "C:a"}) {
        CAPTURE(path);
        CHECK_FALSE(is_step_path(path));
    }
    CHECK_FALSE(is_step_path(std::string("a\0b", 3)));
}
