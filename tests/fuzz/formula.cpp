#include "attn/formula/evaluate.hpp"

#include "targets.hpp"

#include <map>

namespace attn::fuzz {
namespace {

const std::map<std::string, Array, std::less<>>& arrays()
{
    static const std::map<std::string, Array, std::less<>> named{
        {"x", {{2, 3}, {0.5, -1, 2, 0, 3, -0.25}}},
        {"y", {{3}, {1, 2, 3}}},
        {"mask", {{2, 3}, {1, 0, 1, 1, 1, 0}, ElementType::boolean}},
        {"ids", {{2}, {1, 0}, ElementType::integer}},
    };
    return named;
}

} // namespace

void formula(std::string_view bytes)
{
    const SmallBudget budget;
    formula::parse_formula(bytes);
    const formula::Evaluated found = formula::evaluate(bytes, [](std::string_view name) {
        const auto named = arrays().find(name);
        return named == arrays().end() ? nullptr : &named->second;
    });
    expect(found.value.size() == element_count(found.value.shape), "a result whose shape does not fit its values");
    expect(found.error.size() == found.value.size(), "a result without an error for each of its values");
}

} // namespace attn::fuzz
