#pragma once

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"
#include "attn/files/output.hpp"

#include <fmt/format.h>

#include <concepts>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace attn::cli {

/// A value as it is printed: a text as one printable line, whatever it holds.
template <class T>
auto shown(const T& value)
{
    static_assert(std::is_arithmetic_v<T> || std::convertible_to<const T&, std::string_view>,
                  "a text that was put together is formatted first: what is in it may come from outside");
    if constexpr (std::is_arithmetic_v<T>)
        return value;
    else
        return printable(value, std::string_view::npos);
}

/// Prints to standard output, the only way to do so. Lines end where the format says, and nowhere else: a name from
/// outside can't move the cursor, change colours, or look like another line.
template <class... T>
void print(fmt::format_string<decltype(shown(std::declval<const T&>()))...> format, const T&... values)
{
    files::write_output(fmt::format(format, shown(values)...));
}

/// Prints lines of a text that was put together.
inline void print_lines(std::string_view text) { files::write_output(printable_lines(text)); }

/// One line on standard error, of bounded length: "attn run: --heads: …"; more for an ErrorList.
inline void print_error(std::string_view program, const std::exception& error)
{
    constexpr std::size_t longest = 4000;
    const bool is_list = dynamic_cast<const ErrorList*>(&error) != nullptr;
    const std::string message = is_list ? printable_lines(error.what()) : printable(error.what(), longest);
    std::fflush(stdout); // first things first, where both go to one place
    std::fputs((printable(program) + ": " + message + "\n").c_str(), stderr);
}

} // namespace attn::cli
