#include "function.hpp"

namespace attn::formula {

const Function* find_function(const Expression& expression)
{
    const bool has_name = expression.kind == Expression::Kind::call || expression.kind == Expression::Kind::binary;
    for (const auto functions :
         {given_functions(), elementwise_functions(), rearranging_functions(), summing_functions()})
        for (const Function& function : functions)
            if (function.kind == expression.kind && (!has_name || function.name == expression.text))
                return &function;
    return nullptr;
}

ElementType common(ElementType left, ElementType right)
{
    if (left == right)
        return left;
    return left == ElementType::real || right == ElementType::real ? ElementType::real : ElementType::integer;
}

} // namespace attn::formula
