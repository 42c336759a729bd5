#include "attn/formula/evaluate.hpp"

#include "shaped.hpp"

#include <algorithm>
#include <cstdint>

namespace attn::formula {
namespace {

/// Whole numbers that a double counts exactly.
bool are_whole(const std::vector<double>& values)
{
    constexpr double most = 0x1p53;
    return std::ranges::all_of(values, [](double value) { return std::abs(value) <= most; });
}

} // namespace

namespace {

Array array_of(const Cells& cells, ElementType type)
{
    Array array{cells.shape, {}, type};
    array.values.reserve(cells.cells.size());
    for (const Rounded& cell : cells.cells)
        array.values.push_back(cell.value);
    if (type == ElementType::integer && !are_whole(array.values))
        array.type = ElementType::real;
    return array;
}

} // namespace

Evaluated evaluate(std::string_view formula, const Lookup& lookup, const ErrorModel& errors)
{
    const BudgetScope budget;
    const ShapedFormula shaped(formula, lookup);
    const Cells cells = numbers(shaped.text(), shaped.root(), Rounding(errors));
    const TakenMemory memory(static_cast<double>(cells.cells.size()) * sizeof(Rounded));
    Evaluated evaluated{array_of(cells, shaped.root().type), {}};
    evaluated.error.reserve(cells.cells.size());
    for (const Rounded& cell : cells.cells)
        evaluated.error.push_back(cell.error);
    return evaluated;
}

std::vector<Array> inner_values(std::string_view formula, const Lookup& lookup)
{
    const BudgetScope budget;
    const ShapedFormula shaped(formula, lookup);
    std::vector<Array> values;
    numbers(shaped.text(), shaped.root(), Rounding({.sums = SumErrors::none}),
            [&](const Shaped& part, const Cells& cells) {
                const Expression::Kind kind = part.expression->kind;
                if (&part != &shaped.root() && kind != Expression::Kind::name && kind != Expression::Kind::number)
                    values.push_back(array_of(cells, part.type));
            });
    return values;
}

double rounding_sign(std::size_t draw, std::size_t step, std::size_t place)
{
    std::uint64_t bits = (step + 1 + (draw << 32)) * 0x9E3779B97F4A7C15u + place * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return ((bits >> 40) & 1) == 0 ? 1 : -1;
}

} // namespace attn::formula
