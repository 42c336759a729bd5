#include "attn/core/term.hpp"

#include "attn/core/array.hpp"

#include <algorithm>

namespace attn {
namespace {

// Around a path, which is no text of a formula yet.
constexpr char begins_path = '\1', ends_path = '\2';

std::string bound(const Wording& part, Wording::Binding at_least)
{
    return part.binding < at_least ? "(" + part.text + ")" : part.text;
}

} // namespace

Wording Wording::of_step(Listener& listener, std::string_view path)
{
    return {&listener, begins_path + std::string(path) + ends_path, is_whole};
}

std::string_view Wording::path() const
{
    const bool is_name = !text.empty() && text.front() == begins_path && text.find(ends_path) + 1 == text.size();
    return is_name ? std::string_view(text).substr(1, text.size() - 2) : std::string_view();
}

std::string Wording::with_names(const std::function<std::string(std::string_view path)>& name_of) const
{
    std::string named;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = std::min(text.find(begins_path, at), text.size());
        named += text.substr(at, begin - at);
        const std::size_t end = std::min(text.find(ends_path, begin), text.size());
        if (begin < text.size())
            named += name_of(std::string_view(text).substr(begin + 1, end - begin - 1));
        at = begin < text.size() ? end + 1 : begin;
    }
    return named;
}

Wording operator_between(const Wording& left, std::string_view sign, const Wording& right, Wording::Binding binding)
{
    if (left.listener == nullptr || right.listener != left.listener)
        return {};
    const auto tighter = static_cast<Wording::Binding>(binding + 1);
    // Python needs no parentheses around a product in front of @; the reader does.
    const bool mixes = sign == "@" && left.binding == Wording::multiplies && left.text.find(" @ ") == std::string::npos;
    return {left.listener,
            bound(left, mixes ? tighter : binding) + " " + std::string(sign) + " " + bound(right, tighter), binding};
}

Wording with_suffix(const Wording& term, std::string_view after)
{
    if (term.listener == nullptr)
        return {};
    return {term.listener, bound(term, Wording::is_whole) + std::string(after), Wording::is_whole};
}

Wording with_index(const Wording& term, const Wording& index)
{
    if (index.listener != term.listener)
        return {};
    return with_suffix(term, "[" + index.text + "]");
}

Wording with_prefix(std::string_view sign, const Wording& term)
{
    if (term.listener == nullptr)
        return {};
    return {term.listener, std::string(sign) + bound(term, Wording::negates), Wording::negates};
}

Wording with_power(const Wording& term, std::string_view power)
{
    if (term.listener == nullptr)
        return {};
    return {term.listener, bound(term, Wording::is_whole) + " ** " + std::string(power), Wording::raises};
}

Wording call_of(std::string_view function, const std::vector<Wording>& operands, std::string_view after)
{
    Wording call{operands.front().listener, std::string(function) + "("};
    for (const Wording& operand : operands) {
        if (operand.listener == nullptr || operand.listener != call.listener)
            return {};
        call.text += (&operand == &operands.front() ? "" : ", ") + operand.text;
    }
    call.text += (after.empty() ? "" : ", ") + std::string(after) + ")";
    return call;
}

Wording wording_of(double number, const Wording& beside)
{
    if (beside.listener == nullptr)
        return {};
    return {beside.listener, exact_text(number), number < 0 ? Wording::negates : Wording::is_whole};
}

} // namespace attn
