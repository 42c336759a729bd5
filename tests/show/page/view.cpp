#include "attn/show/page/view.hpp"

#include "attn/files/file.hpp"
#include "attn/files/npy.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::files;
using namespace attn::show;

namespace {

std::vector<Step> viewed()
{
    return {{"queries", "", {"n", "d"}, "", {}, {{2, 2}, {1, 2, 3, 0.1}}},
            {"keys", "", {"m", "d"}, "", {}, {{3, 2}, {1, 2, 3, 4, 5, 6}}},
            {"head.0.scores",
             "queries @ keys.T",
             {"n", "m"},
             "attention",
             {{"mask", "none"}},
             {{2, 3}, {5, 11, 17, 3.2, 9.4, 15.6}}},
            {"mask", "", {"n", "m"}, "", {}, {{1, 2}, {1, 0}, ElementType::boolean}},
            {"masked", "where(mask, 0.5, -inf)", {}, "", {}, {{1, 2}, {0.5, -INFINITY}}},
            {"ids", "", {}, "", {}, {{3}, {0, 2, 1}, ElementType::integer}},
            {"none", "", {}, "", {}, {{0}, {}}},
            {"one", "", {}, "", {}, {{}, {NAN}}}};
}

std::string page_of(std::vector<Step> steps, const TokenLabels& labels = {})
{
    return attn::show::page_of({{"trace", {std::move(steps), {}}}}, labels);
}

std::string page_of(std::vector<Step> steps, std::vector<Step> others)
{
    return attn::show::page_of({{"trace", {std::move(steps), {}}}, {"other.npz", {std::move(others), {}}}});
}

template <class... Arguments>
std::string refusal(const Arguments&... arguments)
{
    try {
        page_of(arguments...);
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return "accepted";
}

std::size_t count(const std::string& text, const std::string& part)
{
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

/// The script element that holds what is known of the steps.
std::string trace_of(const std::string& page)
{
    const std::string open = "<script type=\"application/json\" id=\"trace\">";
    const std::size_t begin = page.find(open) + open.size();
    return page.substr(begin, page.find("</script>", begin) - begin);
}

/// The bytes that a text in base64 stands for.
std::string decoded(const std::string& text)
{
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned bits = 0, count = 0;
    for (const char c : text.substr(0, text.find('='))) {
        bits = (bits << 6 | static_cast<unsigned>(digits.find(c))) & 0xFFFF;
        count += 6;
        if (count >= 8)
            bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
    }
    return bytes;
}

} // namespace

TEST_CASE("the same steps give the same page, which holds each of them", "[view]")
{
    const std::string page = page_of(viewed());
    CHECK((page == page_of(viewed())));
    for (const Step& step : viewed()) {
        CAPTURE(step.path);
        std::string path = "\"path\":\"";
        path.append(step.path).append("\"");
        CHECK(count(trace_of(page), path) == 1);
    }
    CHECK(count(page, "<script type=\"application/octet-stream\" id=\"tensor-") == viewed().size());
    CHECK(count(page, "<script type=\"application/octet-stream\" id=\"explained-") == 2); // what has a formula
    CHECK(page.find("{{") == std::string::npos);
}

TEST_CASE("a page carries each tensor as an .npy file in base64, in as many letters as it takes", "[view]")
{
    const std::string page = page_of(viewed());
    for (std::size_t i = 0; i < viewed().size(); ++i) {
        CAPTURE(viewed()[i].path);
        const std::string open = "id=\"tensor-0-" + std::to_string(i) + "\">";
        const std::size_t begin = page.find(open) + open.size();
        const std::string text = page.substr(begin, page.find('<', begin) - begin),
                          bytes = encode_npy(viewed()[i].value);
        CHECK((decoded(text) == bytes));
        CHECK(text.size() == (bytes.size() + 2) / 3 * 4);
        CHECK(static_cast<std::size_t>(std::ranges::count(text, '=')) == (3 - bytes.size() % 3) % 3);
    }
}

TEST_CASE("a page's policy lets nothing load, and runs its own scripts only", "[view]")
{
    const std::string page = page_of(viewed());
    const std::string open = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
    const std::size_t begin = page.find(open) + open.size();
    const std::string policy = page.substr(begin, page.find('"', begin) - begin);
    CHECK(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    CHECK(policy.ends_with("'; base-uri 'none'; form-action 'none'"));
    CHECK(count(policy, "'sha256-") == 6); // five scripts, one style
    for (std::size_t at = policy.find("'sha256-"); at != std::string::npos; at = policy.find("'sha256-", at + 1))
        CHECK(policy.find('\'', at + 1) - at == 8 + 44); // of 32 bytes each
    CHECK(count(policy, "unsafe") + count(policy, "*") + count(policy, ":") == 0);
    for (const char* way_out : {"http://", "https://", "@import", "url(", "innerHTML", "eval(", "fetch(", "src="})
        CHECK(count(page, way_out) == 0);
}

TEST_CASE("no text of a trace ends its script element", "[view]")
{
    const std::string hostile = "</script><script>alert(1)</script><!--<script>{{tensors}}<img src=x onerror=alert(1)>";
    std::vector<Step> steps = viewed();
    steps[2].formula = steps[2].module = steps[2].axes[0] = hostile;
    steps[2].options = {{hostile, hostile}};
    const std::string page = attn::show::page_of({{hostile, {steps, {}}}, {hostile, {steps, {}}}});
    CHECK(count(page, "<img") == 0);
    CHECK(count(page, "<!--") == 0);
    CHECK(count(page, "<script") == count(page_of(viewed(), viewed()), "<script"));
    CHECK_THAT(trace_of(page), ContainsSubstring("\\u003c/script>\\u003cscript>alert(1)"));
    CHECK(count(trace_of(page), "<") == 0);
}

TEST_CASE("bytes that are not UTF-8 are replaced in a page", "[view]")
{
    CHECK_THAT(attn::show::page_of({{"caf\xe9.npz", {viewed(), {}}}}), ContainsSubstring("caf\\ufffd.npz"));
}

TEST_CASE("tokens have to fit an axis", "[view]")
{
    CHECK(refusal(viewed(), TokenLabels{{"a", "b"}, {"x", "y", "z"}}) == "accepted");
    CHECK_THAT(refusal(viewed(), TokenLabels{{"a", "b", "c", "d"}, {}}),
               ContainsSubstring("4 tokens for the axis n, and no step has that axis with 4 entries"));
    CHECK_THAT(refusal(viewed(), TokenLabels{{}, {"a"}}), ContainsSubstring("1 tokens for the axis m"));
}

TEST_CASE("a page has the first 60 characters of a token, whatever its bytes are", "[view]")
{
    const auto has_cut = [](std::size_t count, const std::string& character) {
        std::string token;
        for (std::size_t i = 0; i < count; ++i)
            token += character;
        return page_of(viewed(), TokenLabels{{token, "b"}, {"x", "y", "z"}}).find("\\u2026\"") != std::string::npos;
    };
    for (const char* character : {"a", "ä", "€", "\xff"}) {
        CAPTURE(character);
        CHECK_FALSE(has_cut(60, character));
        CHECK(has_cut(61, character));
    }
}

TEST_CASE("a page of two runs says of each step how they differ", "[view]")
{
    std::vector<Step> others = viewed();
    others[0].value.values[3] += 1e-15;  // rounding
    others[2].value.values[4] += 1;      // differs
    others[4].value.shape = {2, 1};      // another shape
    others[5].path = "ids_of_the_other"; // one only here, one only there
    const std::string page = trace_of(page_of(viewed(), others));
    CHECK(count(page, "\"kind\":\"rounding\"") == 1);
    CHECK(count(page, "\"kind\":\"differs\",\"largest\":\"1\",\"at\":[1,1]") == 1);
    CHECK(count(page, "\"kind\":\"shape\"") == 1);
    CHECK(count(page, "\"kind\":\"missing\"") == 1);
    CHECK(count(page, "\"kind\":\"extra\"") == 1);
    CHECK(count(page, "\"kind\":\"same\"") == 4);

    // An infinity or NaN that only one of them has is no rounding.
    for (const double value : {NAN, INFINITY, -INFINITY}) {
        others = viewed();
        others[1].value.values[2] = value;
        CHECK_THAT(trace_of(page_of(viewed(), others)),
                   ContainsSubstring("\"kind\":\"differs\",\"largest\":\"inf\",\"at\":[1,0]"));
    }
}

TEST_CASE("two runs without a common step are not compared", "[view]")
{
    CHECK_THAT(refusal(viewed(), std::vector<Step>{{"x", "", {}, "", {}, {{1}, {1}}}}),
               ContainsSubstring("trace and other.npz have no step in common"));
    CHECK_THROWS_WITH(attn::show::page_of({{"a", {viewed(), {}}}, {"b", {viewed(), {}}}, {"c", {viewed(), {}}}}),
                      ContainsSubstring("shows one trace or compares two, not 3"));
}

TEST_CASE("a value that no file can hold is named by its step", "[view]")
{
    std::vector<Step> steps = viewed();
    steps[5].value.values[1] = 0.5;
    CHECK_THAT(refusal(steps), ContainsSubstring("step \"ids\" "));
}

TEST_CASE("a page says what a formula's names mean, and a step's other names", "[view]")
{
    const std::string page = attn::show::page_of({{"t", {viewed(), {{"attention.x", "queries"}}}}});
    CHECK_THAT(trace_of(page), ContainsSubstring("\"formula\":\"queries @ keys.T\",\"links\":[[0,7,0],[10,4,1]]"));
    CHECK_THAT(trace_of(page), ContainsSubstring("\"aliases\":[[\"attention.x\",\"queries\"]]"));
}

TEST_CASE("a formula that can't be parsed is reported at its step, and the page is made", "[view]")
{
    std::vector<Step> steps = viewed();
    steps[2].formula = "softmax((";
    CHECK_THAT(trace_of(page_of(steps)), ContainsSubstring("\"links\":[]"));
    CHECK_THAT(trace_of(page_of(steps)), ContainsSubstring("\"problem\":\"\\\"softmax((\\\", character 10"));
}

TEST_CASE("a page carries the explanations of small steps, and of large ones as far as they fit", "[view]")
{
    const Array large{{1000, 100}, std::vector<double>(100000, 0.5)};
    const std::vector<Step> steps{{"x", "", {}, "", {}, large},
                                  {"y", "x + x.T.T", {}, "", {}, large},
                                  {"z", "x[0, 0] * 2", {}, "", {}, {{}, {1}}}};
    const std::string page = page_of(steps);
    CHECK(count(page, "id=\"explained-0-2\"") == 1);
    CHECK(count(page, "id=\"explained-") == 1);
}

TEST_CASE("tokens are read one per line", "[view]")
{
    const TemporaryFolder folder;
    const auto read = [&](const std::string& text) {
        put_bytes(folder / "tokens.txt", text);
        return read_tokens(folder / "tokens.txt");
    };
    using Tokens = std::vector<std::string>;
    CHECK(read("The\ncat\n") == Tokens{"The", "cat"});
    CHECK(read("The\r\ncat") == Tokens{"The", "cat"});
    CHECK(read("a\n\n\nb\n") == Tokens{"a", "", "", "b"});
    CHECK(read(" \xc3\xa9 \n") == Tokens{" \xc3\xa9 "});
    CHECK_THROWS_AS(read(""), FileError);
    CHECK_THROWS_AS(read("fine\nb\xff\n"), FileError);
    CHECK_THROWS_AS(read_tokens(folder / "missing.txt"), FileError);
    CHECK_THROWS_AS(read_tokens(folder.path()), FileError);
}
