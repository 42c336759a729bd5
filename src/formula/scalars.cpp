#include "scalars.hpp"

#include "function.hpp"

namespace attn::formula {

const Scalar& Scalars::cell(const Shaped& shaped, std::size_t offset)
{
    const Place place{&shaped, offset};
    if (const auto found = made_.find(place); found != made_.end())
        return *found->second;
    return at_place(formula_.text(), *shaped.expression, [&]() -> const Scalar& {
        const Scalar& made = shaped.function->cell(shaped, offset, *this);
        remember(shaped, offset, made);
        return made;
    });
}

const Scalar& Scalars::operand(const Shaped& shaped, std::size_t operand, std::size_t offset)
{
    return cell(shaped.operands[operand], source(shaped.loops[0], operand, offset).value());
}

void Scalars::remember(const Shaped& shaped, std::size_t offset, const Scalar& scalar)
{
    made_.emplace(Place{&shaped, offset}, &scalar);
}

const Scalar& Scalars::keep(Scalar scalar)
{
    constexpr std::size_t most = std::size_t{1} << 21;
    if (scalars_.size() >= most)
        throw Error("takes more numbers than can be explained");
    constexpr double operations = 400;
    spend(operations + 10 * static_cast<double>(scalar.operands.size()));
    return scalars_.emplace_back(std::move(scalar));
}

// --------------------------------------------------------------------------------------------------------- arithmetic

const Scalar* Arithmetic::keep(Scalar::Kind kind, Rounded value, std::vector<Number> operands, std::string_view text)
{
    return &scalars_.keep({.kind = kind,
                           .value = value,
                           .truth = shaped_.type == ElementType::boolean,
                           .origin = shaped_.expression,
                           .text = text,
                           .operands = std::move(operands)});
}

const Scalar* Arithmetic::subtract(Number a, Number b)
{
    return binary("-", scalars_.rounding().subtract(a->value, b->value), a, b);
}

const Scalar* Arithmetic::multiply(Number a, Number b)
{
    return binary("*", scalars_.rounding().multiply(a->value, b->value), a, b);
}

const Scalar* Arithmetic::divide(Number a, Number b)
{
    return binary("/", scalars_.rounding().divide(a->value, b->value), a, b);
}

const Scalar* Arithmetic::exponential(Number x)
{
    return function("exp", scalars_.rounding().exponential(x->value), x);
}

const Scalar* Arithmetic::number(double value) { return keep(Scalar::Kind::number, {value, 0}, {}); }

const Scalar* Arithmetic::negated(Rounded value, Number x) { return keep(Scalar::Kind::negated, value, {x}); }

const Scalar* Arithmetic::function(std::string_view name, Rounded value, Number x)
{
    return keep(Scalar::Kind::function, value, {x}, name);
}

const Scalar* Arithmetic::binary(std::string_view op, Rounded value, Number a, Number b)
{
    return keep(Scalar::Kind::binary, value, {a, b}, op);
}

const Scalar* Arithmetic::total(std::vector<Number> terms)
{
    const Rounded sum = scalars_.rounding().sum(terms.size(), [&](std::size_t i) { return terms[i]->value; });
    return keep(Scalar::Kind::total, sum, std::move(terms));
}

const Scalar* Arithmetic::noted(Scalar::Note note, Number taken, Number about, std::size_t count, std::size_t rank)
{
    return &scalars_.keep({.kind = Scalar::Kind::noted,
                           .note = note,
                           .value = taken->value,
                           .truth = taken->truth,
                           .origin = shaped_.expression,
                           .operands = {taken},
                           .count = count,
                           .rank = rank,
                           .about = about});
}

const Scalar* Arithmetic::extreme(const std::vector<Number>& cells, bool is_largest)
{
    if (cells.empty())
        return number(extreme_of_none(is_largest));
    const Extreme best = extreme_of(
        cells.size(), [&](std::size_t i) { return cells[i]->value; }, is_largest);
    const Number taken = cells[best.place];
    Scalar chosen = *noted(is_largest ? Scalar::Note::largest : Scalar::Note::smallest, taken, taken, cells.size());
    chosen.value.error = best.error;
    return &scalars_.keep(std::move(chosen));
}

const Scalar* Arithmetic::subtracted(Number x, std::size_t count)
{
    Scalar largest = *x;
    largest.value = scalars_.rounding().subtracted(x->value, count);
    return &scalars_.keep(std::move(largest));
}

const Scalar* Arithmetic::forbidden(Number largest) { return noted(Scalar::Note::all_forbidden, number(0), largest); }

const Scalar* Arithmetic::part(Number whole, std::size_t terms)
{
    if (terms < 2)
        return whole;
    return &scalars_.keep({.kind = Scalar::Kind::part,
                           .value = whole->value,
                           .origin = shaped_.expression,
                           .operands = {whole},
                           .index = index_at(offset_, shaped_.shape)});
}

} // namespace attn::formula
