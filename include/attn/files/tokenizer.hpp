#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attn::files {

/// Text as tokens and back, as SentencePiece's byte-pair encoding does it and llama2.c after it.
///
/// A text gets a space in front, spaces become U+2581 (▁), and each character becomes a token. Of all pairs of
/// neighbours that together are a token, the one whose token has the largest score is joined, until no pair is left. A
/// character that is not a token becomes its bytes, each a token such as <0x0A>.
class Tokenizer {
public:
    /// @param tokens  the text of each, by its number; among them `<unk>`, `<s>` and `</s>` as 0, 1 and 2
    /// @param scores  the larger, the earlier a pair is joined to that token
    /// @throws Error where there are fewer than three tokens, or not one score per token
    Tokenizer(std::vector<std::string> tokens, std::vector<double> scores);

    static constexpr std::size_t unknown = 0, begin = 1, end = 2;

    std::size_t size() const { return tokens_.size(); }

    /// The token as the vocabulary has it: "▁the", "<0x0A>".
    const std::string& token(std::size_t id) const { return tokens_.at(id); }

    /// The tokens of a text, `<s>` in front.
    /// @param text  any bytes; those that are not UTF-8 become tokens of bytes, or `<unk>` where the vocabulary has none
    std::vector<std::size_t> encode(std::string_view text) const;

    /// The text of tokens, byte by byte: the text that encode() was given, if all its bytes are in the vocabulary and
    /// it has no U+2581. `<s>`, `</s>` and `<unk>` give no text, and the space in front of the first token is removed.
    std::string decode(const std::vector<std::size_t>& ids) const;

    /// The text of one token inside a longer text: that of decode(), but with a space at its beginning.
    std::string piece(std::size_t id) const;

private:
    std::size_t find(std::string_view text) const;                    // size() where it is no token
    std::vector<std::size_t> characters(std::string_view text) const; // each a token, or its bytes

    std::vector<std::string> tokens_;
    std::vector<double> scores_;
    std::map<std::string, std::size_t, std::less<>> ids_;
};

/// Reads a vocabulary: JSON with "tokens", a list of texts, and "scores", a list of as many numbers.
/// @throws FileError where the file is missing, is no such JSON, or its lists do not fit
Tokenizer read_tokenizer(const std::filesystem::path& path);

/// A token as a label of one line: spaces as the vocabulary writes them (▁), control characters and bytes as `\x0A`.
std::string label_of(const Tokenizer& tokenizer, std::size_t id);

} // namespace attn::files
