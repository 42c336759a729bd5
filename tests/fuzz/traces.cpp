#include "traces.hpp"

#include "attn/core/error.hpp"
#include "attn/core/step_name.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace attn::fuzz {
namespace {

constexpr std::size_t most_numbers = 4096, most_steps = 64;

std::vector<std::string_view> split(std::string_view text, char separator)
{
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos)
            return parts;
        text.remove_prefix(end + 1);
    }
}

template <class Number>
Number number_of(std::string_view text)
{
    Number number{};
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

Step step_of(const std::vector<std::string_view>& fields)
{
    const auto field = [&](std::size_t i) { return i < fields.size() ? fields[i] : std::string_view(); };
    Step step;
    step.path = field(0);
    step.formula = field(1);
    if (!field(2).empty())
        for (const std::string_view size : split(field(2), ','))
            step.value.shape.push_back(number_of<std::size_t>(size));
    const std::size_t count = element_count(step.value.shape);
    if (count > most_numbers || step.value.rank() > 16)
        throw Error("too many numbers for a fuzzer");
    for (const std::string_view number : split(field(3), ','))
        step.value.values.push_back(number_of<double>(number));
    step.value.values.resize(count);
    if (field(4) == "b") {
        step.value.type = ElementType::boolean;
        for (double& value : step.value.values)
            value = value != 0 ? 1 : 0;
    }
    return step;
}

} // namespace

Recording trace_of(std::string_view text)
{
    Recording recording;
    std::set<std::string, std::less<>> taken;
    std::set<std::string, std::less<>> steps;
    for (const std::string_view line : split(text, '\n')) {
        const std::size_t equals = line.find('='), bar = line.find('|');
        if (recording.steps.size() == most_steps)
            break;
        if (equals != std::string_view::npos && bar == std::string_view::npos) {
            Alias alias{std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))};
            if (is_step_path(alias.path) && steps.contains(alias.target) && taken.insert(alias.path).second)
                recording.aliases.push_back(std::move(alias));
            continue;
        }
        Step step = step_of(split(line, '|'));
        if (!is_step_path(step.path) || !taken.insert(step.path).second)
            continue;
        steps.insert(step.path);
        recording.steps.push_back(std::move(step));
    }
    return recording;
}

std::string text_of(const Recording& recording)
{
    std::string text;
    const auto append_joined = [&](const auto& numbers, const auto& write) {
        for (std::size_t i = 0; i < numbers.size(); ++i)
            text += (i == 0 ? "" : ",") + write(numbers[i]);
    };
    for (const Step& step : recording.steps) {
        text += step.path + '|' + step.formula + '|';
        append_joined(step.value.shape, [](std::size_t size) { return std::to_string(size); });
        text += '|';
        append_joined(step.value.values, exact_text);
        text += step.value.type == ElementType::boolean ? "|b\n" : "\n";
    }
    for (const Alias& alias : recording.aliases)
        text += alias.path + '=' + alias.target + '\n';
    return text;
}

namespace {

constexpr const char* formulas[] = {"A @ B",
                                    "A @ B.T",
                                    "softmax(A)",
                                    "softmax(A, axis=0)",
                                    "where(A > 0, B, -inf)",
                                    "A + B",
                                    "A * B",
                                    "A / B",
                                    "A ** B",
                                    "sum(A, axis=-1, keepdims=True)",
                                    "mean(A)",
                                    "max(A, axis=0)",
                                    "concat(A, B, axis=0)",
                                    "A[B]",
                                    "A[:, None]",
                                    "A[::-1]",
                                    "A[..., 0]",
                                    "reshape(A, A.shape[0], 1, -1)",
                                    "reshape(A, 2, 2)",
                                    "permute(A, 1, 0)",
                                    "repeat(A, 3, axis=0)",
                                    "outer(A, B)",
                                    "diag(A)",
                                    "interleave(A, B)",
                                    "arange(A.shape[0])",
                                    "exp(A)",
                                    "log(A)",
                                    "sqrt(A)",
                                    "A.T",
                                    "-A",
                                    "A == B",
                                    "(A < B) & (B < A)",
                                    "min(A)",
                                    "relu(A)",
                                    "tanh(A)",
                                    "sigmoid(A)",
                                    "erf(A)",
                                    "floor(A)",
                                    "abs(A)",
                                    "A - mean(A)",
                                    "arange(100000000)",
                                    "A[A]",
                                    "A.shape[0] * B",
                                    "sin(A) + cos(B)"};

constexpr double numbers[] = {
    0,     -0.0,   1,      -1,       0.5,       2,   1e154, 1e155, -1e155,       1e200,
    1e308, 5e-324, 1e-200, INFINITY, -INFINITY, NAN, 3,     1e15,  4294967296.0, 9007199254740993.0};

/// Makes one change after the other.
class Mutation {
public:
    Mutation(Recording recording, unsigned seed) : recording_(std::move(recording)), random_(seed) {}

    Recording made()
    {
        if (recording_.steps.empty())
            recording_.steps.push_back({"x", "", {}, "", {}, {{2, 2}, {1, 2, 3, 4}}});
        for (std::size_t changes = 1 + below(4); changes > 0; --changes)
            change();
        return std::move(recording_);
    }

private:
    std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
    std::size_t any() { return below(recording_.steps.size()); }
    Step& step() { return recording_.steps[any()]; }
    std::string name() { return recording_.steps[any()].path; }

    void change()
    {
        switch (below(12)) {
        case 0:
            std::swap(step(), step());
            break;
        case 1:
            if (recording_.steps.size() > 1)
                recording_.steps.erase(recording_.steps.begin() + static_cast<std::ptrdiff_t>(any()));
            break;
        case 2: { // the same again, in another scope
            Step again = step();
            again.path = scope() + again.path;
            recording_.steps.push_back(std::move(again));
            break;
        }
        case 3: // a name that hides another one
            step().path = scope() + last_word(name());
            break;
        case 4:
            reshape(step());
            break;
        case 5:
            if (Array& value = step().value; !value.values.empty())
                value.values[below(value.size())] = numbers[below(std::size(numbers))];
            break;
        case 6:
            step().formula = drawn_formula();
            break;
        case 7: { // one formula inside another
            Step& changed = step();
            changed.formula = filled(formulas[below(std::size(formulas))], "(" + changed.formula + ")", name());
            break;
        }
        case 8:
            step().formula = recording_.steps[any()].formula;
            break;
        case 9:
            recording_.aliases.push_back({scope() + last_word(name()), name()});
            break;
        case 10: {
            Step computed{
                scope() + "s" + std::to_string(recording_.steps.size()), drawn_formula(), {}, "", {}, step().value};
            recording_.steps.push_back(std::move(computed));
            break;
        }
        default:
            for (double& value : step().value.values)
                value *= 1 + 1e-3 * static_cast<double>(below(3));
            break;
        }
    }

    std::string scope()
    {
        constexpr const char* scopes[] = {"", "a.", "a.b.", "head.0.", "head.1.", "layers.0.", "head.999999999."};
        return scopes[below(std::size(scopes))];
    }

    static std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

    std::string drawn_formula() { return filled(formulas[below(std::size(formulas))], name(), name()); }

    static std::string filled(std::string formula, const std::string& a, const std::string& b)
    {
        std::string text;
        for (const char c : formula)
            text += c == 'A' ? a : c == 'B' ? b : std::string(1, c);
        return text;
    }

    void reshape(Step& changed)
    {
        Shape& shape = changed.value.shape;
        constexpr std::size_t sizes[] = {0, 1, 2, 3, 4, 7};
        if (below(3) == 0 && !shape.empty())
            shape.pop_back();
        else if (below(2) == 0 && shape.size() < 6)
            shape.push_back(sizes[below(std::size(sizes))]);
        else if (!shape.empty())
            shape[below(shape.size())] = sizes[below(std::size(sizes))];
        changed.axes.clear();
        if (element_count(shape) > most_numbers)
            shape = {2, 2};
        changed.value.values.resize(element_count(shape), 0.25);
    }

    Recording recording_;
    std::minstd_rand random_;
};

} // namespace

Recording mutated(Recording recording, unsigned seed) { return Mutation(std::move(recording), seed).made(); }

} // namespace attn::fuzz
