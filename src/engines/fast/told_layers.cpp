#include "told_layers.hpp"

#include "told.hpp"

#include "attn/core/array.hpp"

#include <algorithm>

namespace attn::fast {
namespace {

/// Gives the rows to `answer` as a container, and takes what comes back.
template <class Container, class Answer>
void exchange(Container value, const View& rows, const Answer& answer)
{
    double* to = value.data();
    for (std::size_t i = 0; i < rows.rows; ++i, to += rows.columns)
        std::copy_n(rows.row(i), rows.columns, to);
    const Container answered = answer(std::move(value));
    const double* from = answered.data();
    for (std::size_t i = 0; i < rows.rows; ++i, from += rows.columns)
        std::copy_n(from, rows.columns, rows.row(i));
}

template <class Answer>
void exchange(const Sequences& sequences, const View& rows, const Answer& answer)
{
    if (sequences.batch)
        exchange(Tensor3(Tensor3::shape_type{*sequences.batch, sequences.n, rows.columns}), rows, answer);
    else
        exchange(Matrix(Matrix::shape_type{sequences.n, rows.columns}), rows, answer);
}

} // namespace

void tell(const Trace& trace, std::string_view label, const FormulaText& formula, const Sequences& sequences,
          const View& rows)
{
    if (trace.has_listener())
        exchange(sequences, rows, [&](auto value) { return trace(label, formula, std::move(value)); });
}

void tell_input(const Trace& trace, std::string_view label, const Sequences& sequences, const View& rows)
{
    if (trace.has_listener())
        exchange(sequences, rows, [&](auto value) { return trace.input(label, std::move(value)); });
}

void tell(const Trace& trace, std::string_view label, const FormulaText& formula, const HeadRows<float>& heads)
{
    if (trace.has_listener())
        tell_rows(trace, label, formula(), heads);
}

LinearMaps told(const Trace& trace, const LinearMaps& maps, const std::vector<MapNames>& names)
{
    std::vector<LinearWeights> answered;
    std::vector<const LinearWeights*> parts;
    answered.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        LinearWeights part = maps.part(i);
        const std::string name(names[i].name), d_out(names[i].d_out);
        part.weight = trace.input(name + "_weights[" + std::string(names[i].d_in) + ", " + d_out + "]",
                                  std::as_const(part.weight));
        if (part.bias)
            part.bias = trace.input(name + "_bias[" + d_out + "]", std::as_const(*part.bias));
        parts.push_back(&answered.emplace_back(std::move(part)));
    }
    return LinearMaps(parts);
}

std::string map_formula(std::string_view input, const LinearMaps& maps, std::size_t part, std::string_view name)
{
    const std::string product = std::string(input) + " @ " + std::string(name) + "_weights";
    return maps.parts()[part].has_bias ? product + " + " + std::string(name) + "_bias" : product;
}

Norm told(const Trace& trace, const Norm& norm)
{
    const auto vector = [](const std::vector<float>& floats) {
        Vector all(Vector::shape_type{floats.size()});
        std::ranges::copy(floats, all.begin());
        return all;
    };
    Norm answered = norm;
    std::ranges::copy(trace.input("gain[d_model]", vector(norm.gain)), answered.gain.begin());
    if (!norm.bias.empty())
        std::ranges::copy(trace.input("bias[d_model]", vector(norm.bias)), answered.bias.begin());
    return answered;
}

std::string norm_formula(const Norm& norm, float epsilon)
{
    const std::string centered = norm.is_centered ? "(x - mean(x, axis=-1)[..., None])" : "x";
    const std::string scaled =
        centered + " / sqrt(mean(" + centered + " ** 2, axis=-1)[..., None] + " + exact_text(epsilon) + ") * gain";
    return norm.bias.empty() ? scaled : scaled + " + bias";
}

} // namespace attn::fast
