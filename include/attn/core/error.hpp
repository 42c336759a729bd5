#pragma once

#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

std::string to_string(const std::vector<std::size_t>& shape); // of core/array.hpp

/// A part of a message: text, a character, a whole number, or a shape, which is written "(3, 4)".
class MessagePart {
public:
    MessagePart(std::string_view text) : text_(text) {}
    MessagePart(const std::string& text) : text_(text) {}
    MessagePart(const char* text) : text_(text) {}
    MessagePart(const std::vector<std::size_t>& shape) : text_(to_string(shape)) {}
    template <std::same_as<char> Letter>
    MessagePart(Letter letter) : text_(1, letter)
    {
    }
    template <std::integral Number>
    requires(!std::same_as<Number, char>) MessagePart(Number number) : text_(std::to_string(number)) {}

    const std::string& text() const { return text_; }

private:
    std::string text_;
};

/// An error that a user can correct: an input that does not fit, a file that cannot be read, a formula that cannot be
/// parsed.
///
/// The message names the function or file, what was found, what was expected and what to do. Programs turn it into one
/// line on standard error and exit code 2. A mistake in attn itself is a std::logic_error instead.
class Error : public std::runtime_error {
public:
    /// Error("attention: queries ", shape, " are for ", 3, " heads")
    template <std::convertible_to<MessagePart>... Parts>
    requires(sizeof...(Parts) > 0) explicit Error(const Parts&... parts)
        : std::runtime_error((std::string() + ... + MessagePart(parts).text()))
    {
    }
};

/// An Error with a line for each of several things that are wrong. What is in it from outside is printable.
class ErrorList : public Error {
public:
    using Error::Error;
};

} // namespace attn
