#include "attn/files/tokenizer.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/files/file.hpp"

#include <random>

using namespace attn;
using namespace attn::files;

namespace {

using Ids = std::vector<std::size_t>;

std::string byte_text(int byte)
{
    constexpr char digits[] = "0123456789ABCDEF";
    return std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
}

/// Every byte, a few letters and joins: "▁he" can only come of "▁h" and "e", or of "▁" and "he".
Tokenizer with_bytes()
{
    std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
    for (int byte = 0; byte < 256; ++byte)
        tokens.push_back(byte_text(byte));
    std::vector<double> scores(tokens.size(), 0.0);
    double score = 0;
    for (const char* token : {"he", "▁h", "▁he", "ll", "hell", "▁", "h", "e", "l", "o", "é", "\n"}) {
        tokens.emplace_back(token);
        scores.push_back(score--);
    }
    return {tokens, scores};
}

constexpr std::size_t he = 259, spaced_he = 261, ll = 262, hell = 263, o = 268, e_acute = 269, line_feed = 270;

std::string refused_tokenizer(const std::string& content)
{
    const TemporaryFolder folder;
    put_bytes(folder / "tok.json", content);
    try {
        read_tokenizer(folder / "tok.json");
    } catch (const FileError& error) {
        CHECK_THAT(error.what(), ContainsSubstring("tok.json"));
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return "taken";
}

} // namespace

TEST_CASE("of all neighbours that make a token, those with the largest score are joined first", "[tokenizer]")
{
    const Tokenizer tokenizer = with_bytes();
    CHECK(tokenizer.encode("he") == Ids{1, spaced_he});
    CHECK(tokenizer.encode("hello") == Ids{1, spaced_he, ll, o}); // ▁ + he before he + ll: a token of a larger score
    CHECK(tokenizer.encode("ohello") == Ids{1, 264, o, hell, o});
    CHECK(tokenizer.encode("llll") == Ids{1, 264, ll, ll});
    CHECK(tokenizer.encode("lll") == Ids{1, 264, ll, 267}); // of equal scores the leftmost
    CHECK(tokenizer.encode("").size() == 1);
}

TEST_CASE("a character without a token becomes its bytes, one with a token does not", "[tokenizer]")
{
    const Tokenizer tokenizer = with_bytes();
    CHECK(tokenizer.encode("é") == Ids{1, 264, e_acute});
    CHECK(tokenizer.encode("ü") == Ids{1, 264, 3 + 0xC3, 3 + 0xBC});
    CHECK(tokenizer.encode("\n") == Ids{1, 264, line_feed});
    CHECK(tokenizer.encode("\xC3") == Ids{1, 264, 3 + 0xC3}); // half of a character
    const Tokenizer without_bytes({"<unk>", "<s>", "</s>", "▁"}, {0, 0, 0, 0});
    CHECK(without_bytes.encode("ü") == Ids{1, 3, 0, 0});
}

TEST_CASE("text that looks like a byte token or a special token stays text", "[tokenizer]")
{
    const Tokenizer tokenizer = with_bytes();
    for (const char* text : {"<0x0A>", "<s>", "</s>", "<unk>", "a<0xC3>"})
        CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    const Tokenizer trap({"<unk>", "<s>", "</s>", "▁", "<", "s", ">", "<s"}, {0, 0, 0, 0, 0, 0, 0, 0});
    CHECK(trap.encode("<s>") == Ids{1, 3, 7, 6}); // "<s" and ">" would be the mark
}

TEST_CASE("any bytes come back from their tokens, except for a written ▁", "[tokenizer][property]")
{
    const Tokenizer tokenizer = with_bytes();
    std::mt19937_64 engine(1);
    for (int i = 0; i < 500; ++i) {
        std::string text;
        const std::vector<std::string> parts{"hello", " ", "  ", "é", "ü", "\n", "€", "😀", "\xF0\x9F", "h", "e", "ll"};
        for (std::size_t j = engine() % 12; j > 0; --j)
            text +=
                engine() % 3 == 0 ? std::string(1, static_cast<char>(engine() % 256)) : parts[engine() % parts.size()];
        if (text.find("\u2581") != std::string::npos)
            continue;
        CAPTURE(text);
        CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    }
    CHECK(tokenizer.decode(tokenizer.encode("a\u2581b")) == "a b");
}

TEST_CASE("the text is the tokens' pieces joined, without the first space", "[tokenizer]")
{
    const Tokenizer tokenizer = with_bytes();
    CHECK(tokenizer.piece(spaced_he) == " he");
    CHECK(tokenizer.piece(3 + 0x0A) == "\n");
    CHECK(tokenizer.piece(Tokenizer::begin) + tokenizer.piece(Tokenizer::end) + tokenizer.piece(0) == "");
    CHECK(tokenizer.decode({1, spaced_he, he, 2}) == "hehe");
    CHECK(tokenizer.decode({}) == "");
    CHECK_THROWS_AS(tokenizer.piece(10'000), std::out_of_range);
}

TEST_CASE("labels are one line each, whatever a vocabulary holds", "[tokenizer]")
{
    const Tokenizer tokenizer = with_bytes();
    CHECK(label_of(tokenizer, spaced_he) == "▁he");
    CHECK(label_of(tokenizer, 3 + 0x0A) == "\\n");
    CHECK(label_of(tokenizer, line_feed) == "\\n");
    CHECK(label_of(tokenizer, 3 + 'A') == "A");
    CHECK(label_of(tokenizer, 3 + 0xC3) == "\\xC3");
    CHECK(label_of(tokenizer, 1) == "<s>");
}

TEST_CASE("a text of 262,144 letters is encoded and decoded unchanged", "[tokenizer][hostile]")
{
    const Tokenizer tokenizer = with_bytes();
    const std::string text(1 << 18, 'l');
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("a vocabulary is read from JSON", "[tokenizer]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "tok.json",
              R"({"tokens": ["<unk>", "<s>", "</s>", "\u2581", "a"], "scores": [0, 0, 0, -1.5, -2], "bos": 1})");
    CHECK(read_tokenizer(folder / "tok.json").encode("a") == Ids{1, 3, 4});
}

TEST_CASE("a file that is no vocabulary is refused in one line", "[tokenizer][hostile]")
{
    CHECK_THAT(refused_tokenizer(""), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_tokenizer("{\"tokens\": ["), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_tokenizer("[1, 2]"), ContainsSubstring("no object"));
    CHECK_THAT(refused_tokenizer("{}"), ContainsSubstring("has no list \"tokens\""));
    CHECK_THAT(refused_tokenizer(R"({"tokens": "abc", "scores": []})"), ContainsSubstring("has no list \"tokens\""));
    CHECK_THAT(refused_tokenizer(R"({"tokens": ["a", "b", "c"]})"), ContainsSubstring("has no list \"scores\""));
    CHECK_THAT(refused_tokenizer(R"({"tokens": ["a", 1, "c"], "scores": [0, 0, 0]})"),
               ContainsSubstring("\"tokens\" at 1 something else than a text"));
    CHECK_THAT(refused_tokenizer(R"({"tokens": ["a", "b", "c"], "scores": [0, 0, null]})"),
               ContainsSubstring("\"scores\" at 2 something else than a finite number"));
    CHECK_THAT(refused_tokenizer(R"({"tokens": ["a", "b", "c"], "scores": [0, 0, 1e999]})"),
               ContainsSubstring("tok.json"));
    CHECK_THAT(refused_tokenizer(R"({"tokens": ["a", "b", "c"], "scores": [0, 0]})"),
               ContainsSubstring("3 tokens and 2 scores"));
    CHECK_THAT(refused_tokenizer(R"({"tokens": ["a"], "scores": [0]})"),
               ContainsSubstring("has 1 tokens, expected <unk>"));
    CHECK_THAT(refused_tokenizer("{\"tokens\": [\"\xFF\"]}"), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_tokenizer(std::string(1 << 20, '[')), ContainsSubstring("nested more than 8 deep"));
    const TemporaryFolder folder;
    CHECK_THROWS_AS(read_tokenizer(folder / "missing.json"), FileError);
    CHECK_THROWS_AS(read_tokenizer(folder.path()), FileError);
}
