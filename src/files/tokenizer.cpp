#include "attn/files/tokenizer.hpp"

#include "attn/files/json_file.hpp"

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"
#include "attn/files/file.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>

namespace attn::files {
namespace {

constexpr std::string_view space = "\u2581"; // lower one eighth block: a space that is seen

constexpr char hexadecimal[] = "0123456789ABCDEF";

std::string two_digits(unsigned char byte) { return {hexadecimal[byte / 16], hexadecimal[byte % 16]}; }
std::string byte_token(unsigned char byte) { return "<0x" + two_digits(byte) + ">"; }

/// The byte that a token such as <0x0A> stands for.
std::optional<unsigned char> byte_of(std::string_view token)
{
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>')
        return std::nullopt;
    const std::string_view digits(hexadecimal, 16);
    const std::size_t high = digits.find(token[3]), low = digits.find(token[4]);
    if (high == std::string_view::npos || low == std::string_view::npos)
        return std::nullopt;
    return static_cast<unsigned char>(16 * high + low);
}

std::string with_seen_spaces(std::string_view text)
{
    std::string seen;
    for (const char c : text)
        c == ' ' ? seen += space : seen += c;
    return seen;
}

std::string with_spaces(std::string_view text)
{
    std::string result;
    for (std::size_t i = 0; i < text.size();)
        if (text.substr(i).starts_with(space)) {
            result += ' ';
            i += space.size();
        } else {
            result += text[i++];
        }
    return result;
}

/// A chain of tokens in which neighbours are joined.
struct Link {
    std::size_t id;
    std::ptrdiff_t previous, next; ///< -1 at the ends
    bool is_gone = false;
};

/// Two neighbours that are a token together; of equal scores the leftmost comes first.
struct Pair {
    double score;
    std::ptrdiff_t left, right;
    std::size_t left_id, right_id, joined_id; ///< stale once one of the two has become another

    bool operator<(const Pair& other) const
    {
        return score < other.score || (score == other.score && left > other.left);
    }
};

} // namespace

Tokenizer::Tokenizer(std::vector<std::string> tokens, std::vector<double> scores)
    : tokens_(std::move(tokens)), scores_(std::move(scores))
{
    if (tokens_.size() < 3)
        throw Error("a vocabulary has " + std::to_string(tokens_.size()) +
                    " tokens, expected <unk>, <s> and </s> and more");
    if (scores_.size() != tokens_.size())
        throw Error("a vocabulary has " + std::to_string(tokens_.size()) + " tokens and " +
                    std::to_string(scores_.size()) + " scores, expected as many");
    for (std::size_t id = 0; id < tokens_.size(); ++id)
        ids_.try_emplace(tokens_[id], id);
}

std::size_t Tokenizer::find(std::string_view text) const
{
    const auto found = ids_.find(text);
    return found == ids_.end() ? tokens_.size() : found->second;
}

std::vector<std::size_t> Tokenizer::characters(std::string_view text) const
{
    std::vector<std::size_t> ids;
    while (!text.empty()) {
        const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
        const std::string_view character = text.substr(0, length);
        const std::size_t id = is_utf8(character) ? find(character) : size();
        if (id < size())
            ids.push_back(id);
        else
            for (const char byte : character) {
                const std::size_t of_byte = find(byte_token(static_cast<unsigned char>(byte)));
                ids.push_back(of_byte < size() ? of_byte : unknown);
            }
        text.remove_prefix(length);
    }
    return ids;
}

std::vector<std::size_t> Tokenizer::encode(std::string_view text) const
{
    std::vector<Link> chain;
    for (const std::size_t id : characters(text.empty() ? "" : with_seen_spaces(" " + std::string(text)))) {
        const auto place = static_cast<std::ptrdiff_t>(chain.size());
        chain.push_back({id, place - 1, place + 1});
    }
    if (!chain.empty())
        chain.back().next = -1;

    // Join the best pair, again and again; each join makes two new pairs at most.
    std::priority_queue<Pair> pairs;
    const auto consider = [&](std::ptrdiff_t left, std::ptrdiff_t right) {
        if (left < 0 || right < 0)
            return;
        const std::size_t left_id = chain[left].id, right_id = chain[right].id;
        if (left_id <= end || right_id <= end) // what marks no text joins nothing
            return;
        const std::size_t joined = find(tokens_[left_id] + tokens_[right_id]);
        const bool is_text = joined < size() && joined > end && !byte_of(tokens_[joined]);
        if (is_text)
            pairs.push({scores_[joined], left, right, left_id, right_id, joined});
    };
    for (std::size_t i = 0; i + 1 < chain.size(); ++i)
        consider(static_cast<std::ptrdiff_t>(i), static_cast<std::ptrdiff_t>(i + 1));
    while (!pairs.empty()) {
        const Pair best = pairs.top();
        pairs.pop();
        Link &left = chain[best.left], &right = chain[best.right];
        if (left.is_gone || right.is_gone || left.id != best.left_id || right.id != best.right_id)
            continue;
        left.id = best.joined_id;
        left.next = right.next;
        right.is_gone = true;
        if (left.next >= 0)
            chain[left.next].previous = best.left;
        consider(left.previous, best.left);
        consider(best.left, left.next);
    }

    std::vector<std::size_t> ids{begin};
    for (const Link& link : chain)
        if (!link.is_gone)
            ids.push_back(link.id);
    return ids;
}

std::string Tokenizer::piece(std::size_t id) const
{
    if (id <= end)
        return "";
    if (const std::optional<unsigned char> byte = byte_of(tokens_.at(id)))
        return std::string(1, static_cast<char>(*byte));
    return with_spaces(tokens_.at(id));
}

std::string Tokenizer::decode(const std::vector<std::size_t>& ids) const
{
    std::string text;
    for (const std::size_t id : ids)
        text += piece(id);
    return text.starts_with(' ') ? text.substr(1) : text;
}

// ----------------------------------------------------------------------------------------------------------------- files

namespace {

using Vocabulary = nlohmann::json;

template <class T>
std::vector<T> list_of(const Vocabulary& vocabulary, const char* name, bool (*is_right)(const Vocabulary&),
                       const char* wanted)
{
    const auto found = vocabulary.find(name);
    if (found == vocabulary.end() || !found->is_array())
        throw Error("has no list \"" + std::string(name) + "\"");
    std::vector<T> values;
    for (const Vocabulary& value : *found) {
        if (!is_right(value))
            throw Error("has in \"" + std::string(name) + "\" at " + std::to_string(values.size()) +
                        " something else than " + wanted);
        values.push_back(value.get<T>());
    }
    return values;
}

} // namespace

Tokenizer read_tokenizer(const std::filesystem::path& path)
{
    const Vocabulary vocabulary = read_json_object(path, R"(a vocabulary: {"tokens": [...], "scores": [...]})");
    const auto is_text = [](const Vocabulary& value) { return value.is_string(); };
    const auto is_finite = [](const Vocabulary& value) {
        return value.is_number() && std::isfinite(value.get<double>());
    };
    return about_file(path, "", [&]() -> Tokenizer {
        return {list_of<std::string>(vocabulary, "tokens", is_text, "a text"),
                list_of<double>(vocabulary, "scores", is_finite, "a finite number")};
    });
}

std::string label_of(const Tokenizer& tokenizer, std::size_t id)
{
    const std::string& token = tokenizer.token(id);
    if (const std::optional<unsigned char> byte = byte_of(token)) {
        const char c = static_cast<char>(*byte);
        if (c == '\n')
            return "\\n";
        return *byte > 0x20 && *byte < 0x7F ? std::string(1, c) : "\\x" + token.substr(3, 2);
    }
    return printable(token);
}

} // namespace attn::files
