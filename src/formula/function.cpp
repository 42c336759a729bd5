#include "function.hpp"

#include <array>

namespace attn::formula {

namespace {

std::array<std::span<const Function>, 4> all_functions()
{
    return {given_functions(), elementwise_functions(), rearranging_functions(), summing_functions()};
}

bool has_name(Expression::Kind kind) { return kind == Expression::Kind::call || kind == Expression::Kind::binary; }

} // namespace

const Function* find_function(const Expression& expression)
{
    for (const auto functions : all_functions())
        for (const Function& function : functions)
            if (function.kind == expression.kind &&
                (!has_name(function.kind) || function.name == expression.text ||
                 (!function.in_numpy.empty() && function.in_numpy == expression.text)))
                return &function;
    return nullptr;
}

std::vector<std::string_view> function_names()
{
    std::vector<std::string_view> names;
    for (const auto functions : all_functions())
        for (const Function& function : functions)
            if (has_name(function.kind))
                names.push_back(function.name);
    return names;
}

ElementType common(ElementType left, ElementType right)
{
    if (left == right)
        return left;
    return left == ElementType::real || right == ElementType::real ? ElementType::real : ElementType::integer;
}

} // namespace attn::formula
