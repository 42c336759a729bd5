// What a formula is given: numbers, the steps that it names, their sizes, and arange.

#include "function.hpp"

#include <algorithm>
#include <cctype>

namespace attn::formula {
namespace {

using Kind = Expression::Kind;

/// A literal without a point or an exponent is a whole number, as in Python.
void shape_number(Shaped& call, const Shaper&)
{
    const std::string& text = call.expression->text;
    const bool is_whole =
        !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
    call.number = call.expression->number;
    if (text == "True" || text == "False")
        call.type = ElementType::boolean;
    else
        call.type = is_whole ? ElementType::integer : ElementType::real;
}

void shape_size(Shaped& call, const Shaper& shaper)
{
    const Shape& shape = call.operands[0].shape;
    call.number = static_cast<double>(shape[shaper.axis(call.expression->operands[1], shape.size())]);
    call.type = ElementType::integer;
    call.operands.clear(); // whose numbers don't matter
}

Cells constant(const Shaped& call, const std::vector<Cells>&, const Rounding&) { return {{}, {{call.number, 0}}}; }

const Scalar& number_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    return *Arithmetic(scalars, call, offset).number(call.number);
}

const Scalar& size_cell(const Shaped& call, std::size_t, Scalars& scalars)
{
    return scalars.keep({.kind = Scalar::Kind::size, .value = {call.number, 0}, .origin = call.expression});
}

void shape_name(Shaped& call, const Shaper& shaper)
{
    call.array = &shaper.array(call.expression->text);
    call.shape = call.array->shape;
    call.type = call.array->type;
}

Cells recorded(const Shaped& call, const std::vector<Cells>&, const Rounding&) { return exact_cells(*call.array); }

const Scalar& recorded_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    return scalars.keep({.kind = Scalar::Kind::cell,
                         .value = {call.array->values[offset], 0},
                         .truth = call.type == ElementType::boolean,
                         .origin = call.expression,
                         .array = call.array,
                         .index = index_at(offset, call.shape)});
}

void shape_arange(Shaped& call, const Shaper& shaper)
{
    call.shape = {shaper.count(call.expression->operands[0])};
    call.type = ElementType::integer;
}

Cells counted(const Shaped& call, const std::vector<Cells>&, const Rounding&)
{
    Cells cells = make_cells(call.shape);
    for (std::size_t i = 0; i < cells.cells.size(); ++i)
        cells.cells[i].value = static_cast<double>(i);
    return cells;
}

const Scalar& counted_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    return *Arithmetic(scalars, call, offset).number(static_cast<double>(offset));
}

} // namespace

std::span<const Function> given_functions()
{
    static const Function functions[] = {
        {.kind = Kind::number, .tensors = 0, .shape = shape_number, .numbers = constant, .cell = number_cell},
        {.kind = Kind::size, .tensors = 1, .shape = shape_size, .numbers = constant, .cell = size_cell},
        {.kind = Kind::name, .tensors = 0, .shape = shape_name, .numbers = recorded, .cell = recorded_cell},
        {.name = "arange",
         .tensors = 0,
         .numbers_after = 1,
         .shape = shape_arange,
         .numbers = counted,
         .cell = counted_cell},
    };
    return functions;
}

} // namespace attn::formula
