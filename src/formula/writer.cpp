#include "writer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace attn::formula {
namespace {

std::string truth_text(double value) { return value != 0 ? "true" : "false"; }

/// "2nd " for the second; nothing for the first.
std::string ordinal(std::size_t rank)
{
    if (rank == 1)
        return "";
    const bool is_teen = rank % 100 / 10 == 1;
    const std::size_t last = is_teen ? 0 : rank % 10;
    return std::to_string(rank) + (last == 1 ? "st " : last == 2 ? "nd " : last == 3 ? "rd " : "th ");
}

bool is_softmax(const Scalar& part)
{
    return part.origin->kind == Expression::Kind::call && part.origin->text == "softmax";
}

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
        std::string_view rounded(text, end);
        number = take_number(rounded).value_or(number);
    }
    return exact_text(number);
}

std::string ArithmeticWriter::with_names(const Scalar& scalar)
{
    names_ = true;
    return write(scalar, {}).text;
}

std::string ArithmeticWriter::with_numbers(const Scalar& scalar)
{
    names_ = false;
    return write(scalar, {}).text;
}

void ArithmeticWriter::remember(const Scalar& scalar)
{
    if (names_ && std::ranges::find(written_, &scalar) == written_.end())
        written_.push_back(&scalar);
}

Written ArithmeticWriter::number(double value) const
{
    const std::string text = number_text(value, options_);
    return {text, Binding::atom, text.starts_with('-') ? text.size() : 0};
}

Written ArithmeticWriter::write(const Scalar& scalar, Place place)
{
    switch (scalar.kind) {
    case Scalar::Kind::number:
        return number(scalar.value.value);
    case Scalar::Kind::size:
        return names_ ? Written{to_text(*scalar.origin)} : number(scalar.value.value);
    case Scalar::Kind::cell:
        return cell(scalar, place);
    case Scalar::Kind::negated:
        return negation(write(*scalar.operands[0], {place.in_sum, false}));
    case Scalar::Kind::binary:
        return binary(scalar, place);
    case Scalar::Kind::function:
        return {std::string(scalar.text) + "(" + write(*scalar.operands[0], {place.in_sum, false}).text + ")"};
    case Scalar::Kind::total:
        return total(scalar, place);
    case Scalar::Kind::part:
        return part(scalar, place);
    case Scalar::Kind::noted:
        if (names_ && std::ranges::find(noted_, &scalar) == noted_.end())
            noted_.push_back(&scalar);
        return write(*scalar.operands[0], place);
    }
    return {};
}

Written ArithmeticWriter::cell(const Scalar& scalar, Place place)
{
    remember(scalar);
    if (names_)
        return {scalar.origin->text + bracketed(scalar.index)};
    return scalar.truth && place.is_logical ? Written{truth_text(scalar.value.value)} : number(scalar.value.value);
}

Written ArithmeticWriter::binary(const Scalar& scalar, Place place)
{
    place.is_logical = scalar.text == "&" || scalar.text == "|";
    Written left = write(*scalar.operands[0], place);
    return operation(scalar.text, std::move(left), write(*scalar.operands[1], place),
                     scalar.text != "*" && scalar.text != "**");
}

Written ArithmeticWriter::total(const Scalar& scalar, Place place)
{
    const std::vector<const Scalar*>& terms = scalar.operands;
    if (terms.empty())
        return {"0"};
    if (terms.size() == 1)
        return write(*terms[0], {place.in_sum, false});

    const std::vector<bool> is_shown = shown(terms, std::max<std::size_t>(options_.terms, 1));
    std::optional<Written> sum;
    const auto add = [&](Written term) { sum = sum ? operation("+", *std::move(sum), std::move(term)) : term; };
    double rest = 0;
    std::size_t others = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
        if (is_shown[i]) {
            add(write(*terms[i], {true, false}));
        } else {
            rest += terms[i]->value.value;
            ++others;
        }
    }
    if (others > 0)
        add(names_ ? Written{"(" + std::to_string(others) + (others == 1 ? " other term)" : " other terms)")}
                   : number(rest));
    return *std::move(sum);
}

Written ArithmeticWriter::part(const Scalar& scalar, Place place)
{
    if (!place.in_sum)
        return write(*scalar.operands[0], {is_softmax(scalar), place.is_logical});
    remember(scalar);
    return names_ ? Written{to_text(*scalar.origin, scalar.index)} : number(scalar.value.value);
}

std::vector<std::string> ArithmeticWriter::reasons()
{
    names_ = true;
    std::vector<std::string> found;
    for (std::size_t i = 0; i < noted_.size() && found.size() < options_.terms; ++i) { // a reason can have reasons
        const std::string text = reason(*noted_[i]);
        if (!text.empty() && std::ranges::find(found, "since " + text) == found.end())
            found.push_back("since " + text);
    }
    return found;
}

/// Why a cell was taken; nothing where there was no choice.
std::string ArithmeticWriter::reason(const Scalar& noted)
{
    const auto name_of = [this](const Scalar& scalar) { return write(scalar, {true, true}).text; };
    const double value = noted.value.value;
    switch (noted.note) {
    case Scalar::Note::branch:
        return name_of(*noted.about) + " is " + truth_text(noted.about->value.value);
    case Scalar::Note::largest:
    case Scalar::Note::smallest: {
        if (noted.count < 2)
            return {};
        const std::string name = name_of(*noted.about);
        if (std::isnan(value))
            return name + " is no number";
        return name + " is the " + ordinal(noted.rank) +
               (noted.note == Scalar::Note::largest ? "largest" : "smallest") + " of " + std::to_string(noted.count);
    }
    case Scalar::Note::row: {
        const std::string name = name_of(*noted.about), row = number_text(noted.about->value.value, options_);
        return name == row ? "" : name + " is " + row;
    }
    case Scalar::Note::nothing_there:
        return to_text(*noted.origin) + (noted.origin->text == "diag" ? " is 0 off the diagonal" : " is 0 there");
    case Scalar::Note::all_forbidden:
        return name_of(*noted.about->operands[0]) + ", the largest, is -inf";
    }
    return {};
}

} // namespace attn::formula
