#include "writer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace attn {
namespace {

using Kind = Scalar::Kind;

std::string truth_text(double value) { return value != 0 ? "true" : "false"; }

bool is_softmax(const Scalar& part)
{
    return part.origin->kind == Expression::Kind::call && part.origin->text == "softmax";
}

/// A negative number, or something negated, where it needs parentheses of its own.
std::string negative(const std::string& text, bool is_first) { return is_first ? text : "(" + text + ")"; }

/// Which terms of a sum are written: the largest by size, the earlier of two equals.
std::vector<bool> shown(const std::vector<const Scalar*>& terms, std::size_t most)
{
    const auto size = [&](std::size_t i) {
        const double value = std::abs(terms[i]->value.value);
        return std::isnan(value) ? INFINITY : value;
    };
    const auto is_nan = [&](std::size_t i) { return std::isnan(terms[i]->value.value); };
    std::vector<std::size_t> order(terms.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return size(a) != size(b) ? size(a) > size(b) : is_nan(a) && !is_nan(b);
    });
    std::vector<bool> is_shown(terms.size());
    for (std::size_t i = 0; i < std::min(most, order.size()); ++i)
        is_shown[order[i]] = true;
    return is_shown;
}

} // namespace

std::string number_text(double number, const ExplainOptions& options)
{
    if (std::isnan(number))
        return "nan";
    if (options.digits && std::isfinite(number)) {
        char text[64];
        const int digits = static_cast<int>(std::clamp<std::size_t>(*options.digits, 1, 17));
        const char* end =
            std::to_chars(text, text + sizeof text, number, std::chars_format::scientific, digits - 1).ptr;
        std::from_chars(text, end, number);
    }
    return exact_text(number);
}

std::string ArithmeticWriter::with_names(const Scalar& scalar)
{
    names_ = true;
    return text(scalar, {});
}

std::string ArithmeticWriter::with_numbers(const Scalar& scalar)
{
    names_ = false;
    return text(scalar, {});
}

void ArithmeticWriter::remember(const Scalar& scalar)
{
    if (names_ && std::ranges::find(written_, &scalar) == written_.end())
        written_.push_back(&scalar);
}

std::string ArithmeticWriter::number(double value, Place place) const
{
    const std::string text = number_text(value, options_);
    return text.starts_with('-') ? negative(text, place.is_first) : text;
}

std::string ArithmeticWriter::text(const Scalar& scalar, Place place)
{
    switch (scalar.kind) {
    case Kind::number:
        return number(scalar.value.value, place);
    case Kind::size:
        return names_ ? to_text(*scalar.origin) : number(scalar.value.value, place);
    case Kind::cell:
        return cell(scalar, place);
    case Kind::negated: {
        const Scalar& operand = *scalar.operands[0];
        const bool parentheses = binding(operand, place.in_sum) <= Binding::negation;
        const std::string inner = text(operand, {place.in_sum, parentheses, false});
        return negative(parentheses ? "-(" + inner + ")" : "-" + inner, place.is_first);
    }
    case Kind::binary:
        return binary(scalar, place);
    case Kind::function:
        return std::string(scalar.text) + "(" + text(*scalar.operands[0], {place.in_sum, true, false}) + ")";
    case Kind::total:
        return total(scalar, place);
    case Kind::part:
        return part(scalar, place);
    case Kind::noted:
        if (names_ && std::ranges::find(noted_, &scalar) == noted_.end())
            noted_.push_back(&scalar);
        return text(*scalar.operands[0], place);
    }
    return {};
}

std::string ArithmeticWriter::cell(const Scalar& scalar, Place place)
{
    remember(scalar);
    if (names_)
        return scalar.origin->text + bracketed(scalar.index);
    if (scalar.truth && place.is_logical)
        return truth_text(scalar.value.value);
    return number(scalar.value.value, place);
}

std::string ArithmeticWriter::binary(const Scalar& scalar, Place place)
{
    const std::string op(scalar.text);
    const bool is_tight = op == "*" || op == "**";
    place.is_logical = op == "&";
    const std::string left = operand(scalar, false, place);
    return left + (is_tight ? op : " " + op + " ") + operand(scalar, true, place);
}

std::string ArithmeticWriter::operand(const Scalar& binary, bool is_right, Place place)
{
    const std::string_view op = binary.text;
    const Scalar& operand = *binary.operands[is_right ? 1 : 0];
    if (needs_parentheses(op, binding(operand, place.in_sum), is_right)) {
        const std::string inner = text(operand, {place.in_sum, true, place.is_logical});
        return inner.starts_with('(') && binding(operand, place.in_sum) == Binding::negation ? inner
                                                                                             : "(" + inner + ")";
    }
    return text(operand, {place.in_sum, place.is_first && !is_right && op != "**", place.is_logical});
}

std::string ArithmeticWriter::total(const Scalar& scalar, Place place)
{
    const std::vector<const Scalar*>& terms = scalar.operands;
    if (terms.empty())
        return "0";
    place.is_logical = false;
    if (terms.size() == 1)
        return text(*terms[0], place);

    const std::vector<bool> is_shown = shown(terms, std::max<std::size_t>(options_.terms, 1));
    std::string sum;
    double rest = 0;
    std::size_t others = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
        if (!is_shown[i]) {
            rest += terms[i]->value.value;
            ++others;
            continue;
        }
        const bool parentheses = needs_parentheses("+", binding(*terms[i], true), !sum.empty());
        const std::string term = text(*terms[i], {true, parentheses || (sum.empty() && place.is_first), false});
        sum += (sum.empty() ? "" : " + ") + (parentheses ? "(" + term + ")" : term);
    }
    if (others == 0)
        return sum;
    if (names_)
        return sum + " + (" + std::to_string(others) + (others == 1 ? " other term)" : " other terms)");
    return sum + " + " + number(rest, {true, false, false});
}

std::string ArithmeticWriter::part(const Scalar& scalar, Place place)
{
    if (!place.in_sum)
        return text(*scalar.operands[0], {is_softmax(scalar), place.is_first, place.is_logical});
    remember(scalar);
    return names_ ? to_text(*scalar.origin, scalar.index) : number(scalar.value.value, place);
}

Binding ArithmeticWriter::binding(const Scalar& scalar, bool in_sum) const
{
    switch (scalar.kind) {
    case Kind::negated:
        return Binding::negation;
    case Kind::binary:
        return binding_of(scalar.text);
    case Kind::total:
        if (scalar.operands.size() == 1)
            return binding(*scalar.operands[0], in_sum);
        return scalar.operands.empty() ? Binding::atom : Binding::sum;
    case Kind::part:
        return in_sum ? Binding::atom : binding(*scalar.operands[0], is_softmax(scalar));
    case Kind::noted:
        return binding(*scalar.operands[0], in_sum);
    default:
        return Binding::atom;
    }
}

std::vector<std::string> ArithmeticWriter::reasons()
{
    names_ = true;
    std::vector<std::string> found;
    for (std::size_t i = 0; i < noted_.size() && found.size() < options_.terms; ++i) { // a reason may have reasons
        const std::string text = reason(*noted_[i]);
        if (!text.empty() && std::ranges::find(found, "since " + text) == found.end())
            found.push_back("since " + text);
    }
    return found;
}

/// Why a cell was taken; nothing where there was no choice.
std::string ArithmeticWriter::reason(const Scalar& noted)
{
    const Place compact{true, true, true};
    const double value = noted.value.value;
    switch (noted.note) {
    case Scalar::Note::branch:
        return text(*noted.about, compact) + " is " + truth_text(noted.about->value.value);
    case Scalar::Note::largest:
    case Scalar::Note::smallest: {
        if (noted.count < 2)
            return {};
        const std::string name = text(*noted.about, compact);
        if (std::isnan(value))
            return name + " is no number";
        return name + " is the " + (noted.note == Scalar::Note::largest ? "largest" : "smallest") + " of " +
               std::to_string(noted.count);
    }
    case Scalar::Note::row: {
        const std::string name = text(*noted.about, compact), row = number_text(noted.about->value.value, options_);
        return name == row ? "" : name + " is " + row;
    }
    case Scalar::Note::off_diagonal:
        return to_text(*noted.origin) + " is 0 off the diagonal";
    case Scalar::Note::all_forbidden:
        return text(*noted.about->operands[0], compact) + ", the largest, is -inf";
    }
    return {};
}

} // namespace attn
