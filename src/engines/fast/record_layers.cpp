#include "record_layers.hpp"

#include "attn/core/array.hpp"

#include <algorithm>

namespace attn::fast {
namespace {

template <Traceable T>
T container_of(const ConstView& rows, const typename T::shape_type& shape)
{
    T value(shape);
    double* to = value.data();
    for (std::size_t i = 0; i < rows.rows; ++i)
        to = std::copy_n(rows.row(i), rows.columns, to);
    return value;
}

/// Calls work(container) with the rows as (n, d), or (b, n, d).
template <class Work>
void with_container(const Sequences& sequences, const ConstView& rows, const Work& work)
{
    if (sequences.batch)
        work(container_of<Tensor3>(rows, {*sequences.batch, sequences.n, rows.columns}));
    else
        work(container_of<Matrix>(rows, {sequences.n, rows.columns}));
}

Vector vector_of(std::span<const float> numbers)
{
    Vector all(Vector::shape_type{numbers.size()});
    std::ranges::copy(numbers, all.begin());
    return all;
}

} // namespace

void record(const Trace& trace, std::string_view label, const FormulaText& formula, const ConstView& rows)
{
    record(trace, label, formula, {rows.rows}, rows);
}

void record(const Trace& trace, std::string_view label, const FormulaText& formula, std::span<const float> numbers)
{
    if (trace.has_listener())
        static_cast<void>(trace(label, formula(), vector_of(numbers)));
}

void record(const Trace& trace, std::string_view label, const FormulaText& formula, const Sequences& sequences,
            const ConstView& rows)
{
    if (trace.has_listener())
        with_container(sequences, rows,
                       [&](auto value) { static_cast<void>(trace(label, formula(), std::move(value))); });
}

void record_input(const Trace& trace, std::string_view label, const Sequences& sequences, const ConstView& rows)
{
    if (trace.has_listener())
        with_container(sequences, rows, [&](auto value) { static_cast<void>(trace.input(label, value)); });
}

void record_input(const Trace& trace, const LinearMaps& maps, const std::vector<MapNames>& names)
{
    if (!trace.has_listener())
        return;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const LinearWeights part = maps.part(i);
        const std::string name(names[i].name), d_in(names[i].d_in), d_out(names[i].d_out);
        static_cast<void>(trace.input(name + "_weights[" + d_in + ", " + d_out + "]", part.weight));
        if (part.bias)
            static_cast<void>(trace.input(name + "_bias[" + d_out + "]", *part.bias));
    }
}

std::string map_formula(std::string_view input, const LinearMaps& maps, std::size_t part, std::string_view name)
{
    const std::string product = std::string(input) + " @ " + std::string(name) + "_weights";
    return maps.parts()[part].has_bias ? product + " + " + std::string(name) + "_bias" : product;
}

void record_input(const Trace& trace, const Norm& norm)
{
    if (!trace.has_listener())
        return;
    static_cast<void>(trace.input("gain[d_model]", vector_of(norm.gain)));
    if (!norm.bias.empty())
        static_cast<void>(trace.input("bias[d_model]", vector_of(norm.bias)));
}

std::string norm_formula(const Norm& norm, float epsilon)
{
    const std::string centered = norm.is_centered ? "(x - mean(x, axis=-1)[..., None])" : "x";
    const std::string scaled =
        centered + " / sqrt(mean(" + centered + " ** 2, axis=-1)[..., None] + " + exact_text(epsilon) + ") * gain";
    return norm.bias.empty() ? scaled : scaled + " + bias";
}

} // namespace attn::fast
