#include "attn/files/json_file.hpp"

#include "attn/core/error.hpp"

#include "caught.hpp"
#include "test.hpp"

#include <string>

using namespace attn;
using namespace attn::files;

namespace {

std::string refused_json(const std::string& text)
{
    return test::caught<Error>([&] { parse_json_object(text, "a list of wishes"); });
}

} // namespace

TEST_CASE("what is no JSON is said with its place, in our words", "[trace_io][json]")
{
    const std::string wish = "; expected a list of wishes";
    CHECK(refused_json("") == "is no JSON: it is empty" + wish);
    CHECK(refused_json("{\"a\": [1,") == "is no JSON: it ends too early" + wish);
    CHECK(refused_json("{\"a\": \"b") == "is no JSON: it ends too early" + wish);
    CHECK(refused_json("{\"a\": 1}x") == "is no JSON: it can't go on with \"x\" at line 1, byte 9" + wish);
    CHECK(refused_json("{\n\"a\": 1,\n }") == "is no JSON: it can't go on with \"}\" at line 3, byte 2" + wish);
    CHECK(refused_json("{\"a\xff\": 1}") == "is no JSON: it can't go on with \"\\xFF\" at line 1, byte 4" + wish);
    CHECK(refused_json("{\"a\n\": 1}") == "is no JSON: it can't go on with \"\\n\" at line 1, byte 4" + wish);
    CHECK(refused_json("{\"a\": 1e999}") == "has a number that no 64 bits can hold" + wish);
    CHECK(refused_json("[]") == "is JSON, but no object" + wish);
}

TEST_CASE("no message has words of the JSON library, wherever a text is cut or changed", "[trace_io][json][hostile]")
{
    const std::string text = R"({"format": "attn trace 2", "steps": [{"path": "x", "shape": [2, 2], "axes": ["n", "é"],
                                 "options": {"a": "b"}}, {"path": "y"}], "aliases": [-1.5e3, true, null]})";
    std::size_t refused = 0, with_its_words = 0;
    const auto look = [&](const std::string& message) {
        refused += !message.empty();
        with_its_words +=
            message.find("json.exception") != std::string::npos || message.find("while parsing") != std::string::npos;
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        look(refused_json(text.substr(0, at)));
        for (const char c : {'\0', '"', '}', ']', ',', '\\', '\x1b', '\xff', '9', '\n'}) {
            std::string changed = text;
            changed[at] = c;
            look(refused_json(changed));
        }
    }
    CHECK(refused > text.size());
    CHECK(with_its_words == 0);
}
