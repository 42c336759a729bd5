#pragma once

#include "attn/recording.hpp"

#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace attn {

/// How numbers and names look.
struct ConsoleStyle {
    int precision = 8;       ///< digits after the point; whole numbers are printed without
    bool color = false;      ///< names bold, formulas dim, by terminal escapes
    std::size_t widest = 12; ///< a tensor with a longer axis among its last two is summarised
};

/// How a program shows steps, by the flags that all programs share.
struct ConsoleFlags {
    int precision = ConsoleStyle{}.precision;
    std::string color = "auto"; ///< always, never, or auto: on a terminal, unless NO_COLOR is set
    bool quiet = false;
};

/// The style that flags ask for.
ConsoleStyle style_of(const ConsoleFlags& flags);

/// A logger of bare lines to standard output; silent where flags ask for quiet.
std::shared_ptr<spdlog::logger> standard_output(const ConsoleFlags& flags);

/// A tensor's numbers as lines, a row a line, columns aligned.
///
/// Whole numbers are printed without a point, very large and very small tensors with exponents. A tensor that would not
/// fit is summarised: mean, standard deviation, smallest, largest, and its first corner.
/// @return lines, each ended by a newline and begun by indent
std::string format_values(const Array& array, const ConsoleStyle& style, const std::string& indent = "");

/// Logs each step as it happens: its name with axes and sizes, its formula, its numbers.
///
///     scores[n=3, m=3] = queries @ keys.T
///          2   4   4
///          4  16  12
///          4  12  10
class ConsoleListener final : public Listener {
public:
    ConsoleListener(std::shared_ptr<spdlog::logger> logger, const ConsoleStyle& style);

private:
    std::optional<Array> on_step(const Step& step) override;

    std::shared_ptr<spdlog::logger> logger_;
    ConsoleStyle style_;
};

} // namespace attn
