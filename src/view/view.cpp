#include "attn/view/view.hpp"

#include "parts.hpp"

#include "attn/formula/expression.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/npy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

// What Chromium and Firefox open; beyond it they end with an empty page and no word.
constexpr std::size_t most_bytes = std::size_t{1} << 29;

// ------------------------------------------------------------------------------------------------ text in the page

std::string base64(std::string_view bytes)
{
    static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text((bytes.size() + 2) / 3 * 4, '=');
    for (std::size_t at = 0, to = 0; at < bytes.size(); at += 3, to += 4) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
        for (std::size_t i = 0; i <= count; ++i)
            text[to + i] = digits[group >> (18 - 6 * i) & 63];
    }
    return text;
}

std::string bytes_of_hex(std::string_view hex)
{
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::string bytes;
    for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
        bytes += static_cast<char>(digit(hex[at]) * 16 + digit(hex[at + 1]));
    return bytes;
}

/// JSON that ends no script element and begins no comment in one: what is between quotes may hold a <, nothing else.
std::string script_safe(const Json& json)
{
    const std::string plain = json.dump(-1, ' ', true, Json::error_handler_t::replace);
    std::string safe;
    safe.reserve(plain.size());
    for (const char c : plain)
        if (c == '<')
            safe += "\\u003c";
        else
            safe += c;
    return safe;
}

// ------------------------------------------------------------------------------------------------ formulas as JSON

Json tree_of(const Expression& expression);

Json tree_of(const Subscript& subscript)
{
    constexpr const char* kinds[] = {"index", "slice", "new_axis", "ellipsis"};
    Json json = {{"kind", kinds[static_cast<std::size_t>(subscript.kind)]}};
    if (subscript.index)
        json["index"] = tree_of(*subscript.index);
    if (subscript.start)
        json["start"] = tree_of(*subscript.start);
    if (subscript.stop)
        json["stop"] = tree_of(*subscript.stop);
    if (subscript.step)
        json["step"] = tree_of(*subscript.step);
    return json;
}

Json tree_of(const Expression& expression)
{
    constexpr const char* kinds[] = {"number", "name", "negated", "binary", "call", "transposed", "size", "indexed"};
    Json json = {{"kind", kinds[static_cast<std::size_t>(expression.kind)]}, {"at", expression.position}};
    if (expression.kind == Expression::Kind::number)
        json["number"] = exact_text(expression.number); // as text: JSON has no infinity
    if (!expression.text.empty())
        json["text"] = expression.text;
    for (const Expression& operand : expression.operands)
        json["operands"].push_back(tree_of(operand));
    for (const Keyword& keyword : expression.keywords)
        json["keywords"].push_back({keyword.name, tree_of(keyword.value)});
    for (const Subscript& subscript : expression.subscripts)
        json["subscripts"].push_back(tree_of(subscript));
    return json;
}

/// The tree of a formula, or why it has none.
Json formula_of(const std::string& formula)
{
    try {
        return {{"tree", tree_of(parse_formula(formula))}};
    } catch (const FormulaError& error) {
        return {{"error", error.what()}};
    }
}

// ------------------------------------------------------------------------------------------------ tensors

/// What a colour scale has to know of numbers before they are decoded.
struct Summary {
    explicit Summary(const std::vector<double>& values)
    {
        for (const double value : values)
            if (std::isfinite(value)) {
                low = std::min(low.value_or(value), value);
                high = std::max(high.value_or(value), value);
                is_whole = is_whole && value == std::trunc(value);
                has_zero = has_zero || value == 0;
            } else {
                has_nan = has_nan || std::isnan(value);
                has_infinity = has_infinity || value > 0;
                has_minus_infinity = has_minus_infinity || value < 0;
            }
    }

    Json json() const
    {
        Json json = {{"whole", is_whole}};
        if (low) {
            json["low"] = *low;
            json["high"] = *high;
        }
        json["special"] = Json::array();
        for (const auto& [name, is_there] : {std::pair("-inf", has_minus_infinity), std::pair("inf", has_infinity),
                                             std::pair("nan", has_nan), std::pair("0", has_zero)})
            if (is_there)
                json["special"].push_back(name);
        return json;
    }

    std::optional<double> low, high; ///< of the finite ones
    bool is_whole = true, has_zero = false, has_nan = false, has_infinity = false, has_minus_infinity = false;
};

/// The tensors of a page, each in a script element that no browser runs.
class Tensors {
public:
    /// @return what the page has to know of a tensor: where it is, its shape and type, its range
    Json add(const Step& step)
    {
        constexpr const char* types[] = {"real", "boolean", "integer"};
        Json json = Summary(step.value.values).json();
        json["data"] = count_;
        json["shape"] = step.value.shape;
        json["type"] = types[static_cast<std::size_t>(step.value.type)];
        std::string npy;
        try {
            npy = encode_npy(step.value);
        } catch (const Error& error) {
            throw Error("step \"" + step.path + "\" " + error.what());
        }
        if (elements_.size() + npy.size() / 3 * 4 > most_bytes)
            throw Error("the page would be larger than the " + std::to_string(most_bytes >> 20) +
                        " MiB that a browser opens; view a trace of fewer or smaller steps");
        elements_ += "<script type=\"application/octet-stream\" id=\"tensor-" + std::to_string(count_++) + "\">" +
                     base64(npy) + "</script>\n";
        return json;
    }

    const std::string& elements() const { return elements_; }

private:
    std::string elements_;
    std::size_t count_ = 0;
};

// ------------------------------------------------------------------------------------------------ steps

const Step* find(const std::vector<Step>& steps, std::string_view path)
{
    const auto found = std::ranges::find(steps, path, &Step::path);
    return found == steps.end() ? nullptr : &*found;
}

Json options_json(const StepOptions& options)
{
    Json json = Json::array(); // pairs, in order: an object's key __proto__ means something in a script
    for (const auto& [name, text] : options)
        json.push_back({name, text});
    return json;
}

/// What is said of a step, once for either run.
/// @param steps  the run that it is of: a formula's names mean the steps before it
Json description(const std::vector<Step>& steps, const Step& step, Json tensor)
{
    return {{"place", &step - steps.data()}, {"path", step.path},
            {"formula", step.formula},       {"axes", step.axes},
            {"module", step.module},         {"options", options_json(step.options)},
            {"tensor", std::move(tensor)}};
}

/// How far two tensors of one shape are apart; an infinity or NaN that only one of them has is infinitely far.
Json difference(const Array& first, const Array& second)
{
    if (first.shape != second.shape)
        return {{"kind", "shape"}};
    double largest = 0, size = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
        const double a = first.values[i], b = second.values[i];
        if (std::isfinite(a))
            size = std::max(size, std::abs(a));
        const bool same = a == b || (std::isnan(a) && std::isnan(b));
        const double apart = same                   ? 0
                             : std::isfinite(a - b) ? std::abs(a - b)
                                                    : std::numeric_limits<double>::infinity();
        if (apart > largest) {
            largest = apart;
            at = i;
        }
    }
    if (largest == 0)
        return {{"kind", "same"}};
    // A difference that rounding explains is shown, but is not where two runs part.
    const char* kind = largest <= 1e-9 * std::max(size, 1.0) ? "rounding" : "differs";
    return {{"kind", kind}, {"largest", exact_text(largest)}, {"at", index_at(at, first.shape)}};
}

/// The steps of both runs in one list: those of the first in order, and what only the second has where it has them.
Json merged(const std::vector<Step>& steps, const std::vector<Step>& others, Tensors& tensors)
{
    std::set<std::string_view> ours;
    for (const Step& step : steps)
        ours.insert(step.path);
    std::map<std::string_view, std::vector<const Step*>> behind; // by the path of the step in front of them
    std::map<std::string_view, const Step*> theirs;
    std::string_view last;
    for (const Step& other : others) {
        theirs.emplace(other.path, &other);
        if (ours.contains(other.path))
            last = other.path;
        else
            behind[last].push_back(&other);
    }

    Json list = Json::array();
    const auto add_extra = [&](std::string_view path) {
        for (const Step* other : behind[path])
            list.push_back(
                {{"other", description(others, *other, tensors.add(*other))}, {"difference", {{"kind", "extra"}}}});
    };
    add_extra("");
    for (const Step& step : steps) {
        Json entry = {{"step", description(steps, step, tensors.add(step))}};
        const auto found = theirs.find(step.path);
        if (found == theirs.end()) {
            entry["difference"] = {{"kind", "missing"}};
        } else {
            const bool is_same = identical(step.value, found->second->value);
            entry["difference"] = is_same ? Json{{"kind", "same"}} : difference(step.value, found->second->value);
            entry["other"] =
                description(others, *found->second, is_same ? entry["step"]["tensor"] : tensors.add(*found->second));
        }
        list.push_back(std::move(entry));
        add_extra(step.path);
    }
    return list;
}

Json listed(const std::vector<Step>& steps, Tensors& tensors)
{
    Json list = Json::array();
    for (const Step& step : steps)
        list.push_back({{"step", description(steps, step, tensors.add(step))}});
    return list;
}

// ------------------------------------------------------------------------------------------------ checks

/// True where some step has that axis with as many entries.
bool has_axis(const std::vector<Step>& steps, std::string_view letter, std::size_t size)
{
    for (const Step& step : steps)
        for (std::size_t axis = 0; axis < step.axes.size() && axis < step.value.rank(); ++axis)
            if (step.axes[axis] == letter && step.value.shape[axis] == size)
                return true;
    return false;
}

void expect_fitting(const std::vector<Step>& steps, const std::vector<std::string>& tokens, std::string_view letter)
{
    if (!tokens.empty() && !has_axis(steps, letter, tokens.size()))
        throw Error(std::to_string(tokens.size()) + " tokens for the axis " + std::string(letter) +
                    ", and no step has that axis with " + std::to_string(tokens.size()) + " entries");
}

void expect_usable(const std::vector<Step>& steps, const PageOptions& options)
{
    if (options.others.size() > 1)
        throw Error("a page compares two traces, not " + std::to_string(options.others.size() + 1));
    for (const ComparedSteps& other : options.others)
        if (std::ranges::none_of(other.steps, [&](const Step& step) { return find(steps, step.path) != nullptr; }))
            throw Error(options.title + " and " + other.title + " have no step in common");
    expect_fitting(steps, options.tokens, "n");
    expect_fitting(steps, options.tokens_m, "m");
}

/// Fills each {{place}} of the page.
std::string filled(const std::map<std::string, std::string, std::less<>>& places, std::string_view page)
{
    std::string text;
    while (true) {
        const std::size_t open = page.find("{{");
        text += page.substr(0, open);
        if (open == std::string_view::npos)
            return text;
        const std::size_t close = page.find("}}", open);
        text += places.at(std::string(page.substr(open + 2, close - open - 2)));
        page.remove_prefix(close + 2);
    }
}

} // namespace

std::string page_of(const std::vector<Step>& steps, const PageOptions& options)
{
    expect_usable(steps, options);
    Tensors tensors;
    Json trace = {{"title", options.title},
                  {"tokens", options.tokens},
                  {"tokens_m", options.tokens_m.empty() ? options.tokens : options.tokens_m}};
    if (options.others.empty()) {
        trace["steps"] = listed(steps, tensors);
    } else {
        trace["other"] = options.others.front().title;
        trace["steps"] = merged(steps, options.others.front().steps, tensors);
    }

    std::map<std::string, Json> formulas; // most are of many steps
    for (const Json& entry : trace["steps"])
        for (const char* side : {"step", "other"})
            if (entry.contains(side))
                if (const auto formula = entry[side]["formula"].get<std::string>(); !formula.empty())
                    if (const auto [at, is_new] = formulas.try_emplace(formula); is_new)
                        at->second = formula_of(formula);
    trace["formulas"] = Json::array();
    for (auto& [formula, tree] : formulas)
        trace["formulas"].push_back({formula, std::move(tree)});

    std::map<std::string, std::string, std::less<>> places = {{"trace", script_safe(trace)},
                                                              {"tensors", tensors.elements()}};
    std::string_view page;
    std::string scripts, styles;
    for (const PagePart& part : page_parts()) {
        if (part.name == "page.html") {
            page = part.text;
            continue;
        }
        places.emplace(part.name, part.text);
        (part.name.ends_with(".css") ? styles : scripts) += " 'sha256-" + base64(bytes_of_hex(part.sha256)) + "'";
    }
    places["policy"] =
        "default-src 'none'; script-src" + scripts + "; style-src" + styles + "; base-uri 'none'; form-action 'none'";
    return filled(places, page);
}

void write_page(const std::filesystem::path& path, const std::vector<Step>& steps, const PageOptions& options)
{
    write_file(path, page_of(steps, options));
}

std::vector<std::string> read_tokens(const std::filesystem::path& path)
{
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> tokens;
    std::string line;
    while (file && std::getline(file, line)) {
        if (line.ends_with('\r'))
            line.pop_back();
        try {
            (void)Json(line).dump();
        } catch (const Json::exception&) {
            throw FileError(path, "has bytes that are not UTF-8 in line " + std::to_string(tokens.size() + 1));
        }
        tokens.push_back(line);
    }
    if (file.bad() || (tokens.empty() && !file.eof()))
        throw FileError(path, "can't be read; expected a text file, a token a line");
    if (tokens.empty())
        throw FileError(path, "is empty; expected a token a line");
    return tokens;
}

} // namespace attn
