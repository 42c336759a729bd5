#include "attn/show/console.hpp"

#include "attn/core/utf8.hpp"
#include "attn/files/output.hpp"

#include <fmt/format.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace attn::show {
namespace {

/// A line of its own for each message, with all else that a program prints.
class OutputSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
    void sink_it_(const spdlog::details::log_msg& message) override
    {
        files::write_output(std::string(message.payload.data(), message.payload.size()) + "\n");
    }
    void flush_() override {}
};

/// Formats the numbers of one tensor in one way: whole, fixed or with exponents.
class NumberFormat {
public:
    NumberFormat(const Array& array, int precision) : precision_(precision), truth_(array.type == ElementType::boolean)
    {
        double smallest = std::numeric_limits<double>::infinity();
        double largest = 0;
        for (const double value : array.values)
            if (std::isfinite(value) && value != 0) {
                whole_ = whole_ && value == std::trunc(value);
                smallest = std::min(smallest, std::abs(value));
                largest = std::max(largest, std::abs(value));
            }
        whole_ = whole_ && largest < 1e9;
        exponents_ = largest >= 1e9 || (largest > 0 && largest < std::pow(10.0, -precision / 2.0));
    }

    std::string operator()(double value) const
    {
        if (truth_)
            return value != 0 ? "true" : "false";
        if (!std::isfinite(value))
            return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        if (exponents_)
            return fmt::format("{:.{}e}", value, precision_);
        return whole_ ? fmt::format("{:.0f}", value + 0.0) : fmt::format("{:.{}f}", value, precision_);
    }

private:
    int precision_;
    bool truth_;
    bool whole_ = true;
    bool exponents_ = false;
};

/// The rows of a tensor's last two axes; `first` is the offset of their first number.
struct Page {
    std::size_t first, rows, columns;
};

std::string format_page(const Array& array, const Page& page, std::size_t row_length, const NumberFormat& format,
                        const std::string& indent, bool cut)
{
    std::vector<std::string> cells;
    std::size_t width = 0;
    for (std::size_t row = 0; row < page.rows; ++row)
        for (std::size_t column = 0; column < page.columns; ++column) {
            cells.push_back(format(array.values[page.first + row * row_length + column]));
            width = std::max(width, cells.back().size());
        }

    std::string text;
    for (std::size_t row = 0; row < page.rows; ++row) {
        text += indent;
        for (std::size_t column = 0; column < page.columns; ++column)
            text += fmt::format("{}{:>{}}", column == 0 ? "" : "  ", cells[row * page.columns + column], width);
        text += cut ? "  ...\n" : "\n";
    }
    return text;
}

std::string summarize(const Array& array, const NumberFormat& format)
{
    double total = 0, smallest = array.values.front(), largest = array.values.front();
    for (const double value : array.values) {
        total += value;
        smallest = std::min(smallest, value);
        largest = std::max(largest, value);
    }
    const double count = static_cast<double>(array.size());
    const double mean = total / count;
    double squares = 0;
    for (const double value : array.values)
        squares += (value - mean) * (value - mean);
    const NumberFormat fraction({{}, {0.5}}, 4);
    const auto rounded = [&](double value) { return fraction(std::abs(value) < 0.00005 ? 0.0 : value); }; // not -0.0000
    return fmt::format("{} numbers, mean {}, standard deviation {}, from {} to {}; it begins\n", array.size(),
                       rounded(mean), rounded(std::sqrt(squares / count)), format(smallest), format(largest));
}

} // namespace

ConsoleStyle style_of(const ConsoleFlags& flags)
{
    const bool terminal = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
    return {.precision = flags.precision,
            .color = flags.color == "always" || (flags.color == "auto" && terminal),
            .all = flags.all};
}

std::shared_ptr<spdlog::logger> standard_output(const ConsoleFlags& flags)
{
    auto logger = std::make_shared<spdlog::logger>("attn", std::make_shared<OutputSink>());
    logger->set_level(flags.quiet ? spdlog::level::off : spdlog::level::info);
    return logger;
}

std::string format_values(const Array& array, const ConsoleStyle& style, const std::string& indent)
{
    if (array.size() == 0)
        return indent + "no numbers\n";
    const std::size_t columns = array.rank() > 0 ? array.shape.back() : 1;
    const std::size_t rows = array.rank() > 1 ? array.shape[array.rank() - 2] : 1;
    const std::size_t pages = array.size() / (rows * columns);
    const NumberFormat format(array, style.precision);

    if (std::max(rows, columns) > style.widest || pages > style.widest) {
        constexpr std::size_t corner = 4;
        return indent + summarize(array, format) +
               format_page(array, {0, std::min(rows, corner), std::min(columns, corner)}, columns, format, indent,
                           columns > corner);
    }

    std::string text;
    for (std::size_t page = 0; page < pages; ++page) {
        if (array.rank() > 2) {
            const Shape leading(array.shape.begin(), array.shape.end() - 2);
            text += indent + bracketed(index_at(page, leading), ", ") + "\n";
        }
        text += format_page(array, {page * rows * columns, rows, columns}, columns, format, indent, false);
    }
    return text;
}

std::string format_axes(const Step& step)
{
    std::string text;
    for (std::size_t axis = 0; axis < step.value.rank(); ++axis) {
        text += axis == 0 ? "" : ", ";
        text += step.axes.empty() ? "" : step.axes[axis] + "=";
        text += std::to_string(step.value.shape[axis]);
    }
    return text.empty() ? text : "[" + text + "]";
}

namespace {

/// "head.2" and "scores" for "head.2.scores"; nothing and "scores" for "scores".
std::pair<std::string_view, std::string_view> split_scope(std::string_view path)
{
    std::size_t end = path.find('.');
    if (end == std::string_view::npos)
        return {{}, path};
    if (std::isdigit(static_cast<unsigned char>(path[end + 1])) != 0)
        end = path.find('.', end + 1);
    return {path.substr(0, end), path.substr(end + 1)};
}

} // namespace

ConsoleListener::ConsoleListener(std::shared_ptr<spdlog::logger> logger, const ConsoleStyle& style)
    : logger_(std::move(logger)), style_(style)
{
}

std::optional<Array> ConsoleListener::on_step(const Step& step)
{
    if (!logger_->should_log(spdlog::level::info)) // to write numbers takes longer than to compute them
        return std::nullopt;
    if (!style_.all && is_folded(step)) {
        fold(step);
        return std::nullopt;
    }
    const char* bold = style_.color ? "\x1b[1m" : "";
    const char* dim = style_.color ? "\x1b[2m" : "";
    const char* plain = style_.color ? "\x1b[0m" : "";
    std::string text = fmt::format("    {}{}{}{}", bold, step.path, plain, printable(format_axes(step)));
    if (!step.formula.empty())
        text += fmt::format(" {}= {}{}", dim, printable_lines(step.formula), plain);
    const bool is_one_number = step.value.rank() == 0;
    text += is_one_number ? " = " : "\n";
    text += format_values(step.value, style_, is_one_number ? "" : "        ");
    text.pop_back();
    print(text);
    return std::nullopt;
}

void ConsoleListener::on_alias(const Alias& alias)
{
    if (style_.all)
        print(fmt::format("    {} is {}", alias.path, alias.target));
}

void ConsoleListener::print(std::string_view line)
{
    flush();
    logger_->log(spdlog::level::info, line);
}

bool ConsoleListener::is_folded(const Step& step)
{
    const auto [scope, name] = split_scope(step.path);
    if (scope.empty())
        return false;
    const std::string_view word = scope.substr(0, scope.find('.'));
    const auto first = first_scopes_.try_emplace(std::string(word), scope).first;
    return !step.module.empty() || name.find('.') != std::string_view::npos || first->second != scope;
}

void ConsoleListener::fold(const Step& step)
{
    const auto [scope, name] = split_scope(step.path);
    const std::string_view scope_name = scope; // a structured binding, which clang before 16 doesn't capture
    const auto is_same = [&](const Folded& folded) { return folded.scope == scope_name; };
    auto found = std::ranges::find_if(folded_, is_same);
    if (found == folded_.end())
        found = folded_.insert(found, {std::string(scope), 0, {}});
    ++found->steps;
    found->last = std::string(name) + format_axes(step);
}

void ConsoleListener::flush()
{
    for (const auto& [scope, steps, last] : std::exchange(folded_, {}))
        logger_->log(spdlog::level::info,
                     fmt::format("    {}{}{}  {} step{} → {}", style_.color ? "\x1b[1m" : "", scope,
                                 style_.color ? "\x1b[0m" : "", steps, steps == 1 ? "" : "s", last));
}

} // namespace attn::show
