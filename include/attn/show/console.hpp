#pragma once

#include "attn/core/recording.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace spdlog {
class logger;
}

namespace attn::show {

/// How numbers and names look.
struct ConsoleStyle {
    int precision = 8;       ///< digits after the point; whole numbers are printed without
    bool color = false;      ///< names bold, formulas dim, by terminal escapes
    std::size_t widest = 12; ///< a tensor with a longer axis among its last two is summarised
    bool all = true;         ///< every step; otherwise what happens inside a scope is one line
};

/// How a program shows steps, by the flags that all programs share.
struct ConsoleFlags {
    int precision = ConsoleStyle{}.precision;
    std::string color = "auto"; ///< always, never, or auto: on a terminal, unless NO_COLOR is set
    bool quiet = false;
    bool all = true;
};

/// The style that flags ask for.
ConsoleStyle style_of(const ConsoleFlags& flags);

/// A logger of bare lines to standard output; silent where flags ask for quiet.
std::shared_ptr<spdlog::logger> standard_output(const ConsoleFlags& flags);

/// A tensor's numbers as lines, one row per line, columns aligned.
///
/// Whole numbers are printed without a point, very large and very small tensors with exponents. A tensor that would not
/// fit is summarised: mean, standard deviation, smallest, largest, and its first corner.
/// @return lines, each ended by a newline and begun by indent
std::string format_values(const Array& array, const ConsoleStyle& style, const std::string& indent = "");

/// The axes of a step in brackets: "[n=3, m=3]" where they have letters, "[3, 3]" where they have none; nothing for a
/// single number.
std::string format_axes(const Step& step);

/// Logs each step as it happens: its name with axes and sizes, its formula, its numbers; and each alias.
///
///     scores[n=3, m=3] = queries @ keys.T
///          2   4   4
///          4  16  12
///          4  12  10
///     norm1.x is residual1
///
/// Unless the style wants all, aliases are left out, and a scope is one line, printed when the scope ends: how many steps
/// it has, and the last of them.
///
///     self_attn  42 steps → output[n=3, d_model=4]
///
/// A step that no function of the library computed is printed in any case, unless it is in a scope within a scope, or
/// in the second or a later one of several numbered scopes.
class ConsoleListener final : public Listener {
public:
    ConsoleListener(std::shared_ptr<spdlog::logger> logger, const ConsoleStyle& style);
    ~ConsoleListener() override { flush(); }

    /// Prints a line after the steps so far.
    void print(std::string_view line);
    /// Ends the scopes whose lines are still to be printed.
    void flush();

private:
    /// The steps of a scope that are not printed.
    struct Folded {
        std::string scope;
        std::size_t steps;
        std::string last;
    };

    std::optional<Array> on_step(const Step& step) override;
    void on_alias(const Alias& alias) override;

    bool is_folded(const Step& step);
    void fold(const Step& step);

    std::shared_ptr<spdlog::logger> logger_;
    ConsoleStyle style_;
    std::vector<Folded> folded_;                                   ///< since the last line
    std::map<std::string, std::string, std::less<>> first_scopes_; ///< of several numbered ones: head.0 of head
};

} // namespace attn::show
