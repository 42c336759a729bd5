#include "told.hpp"

#include "score_formulas.hpp"

namespace attn::fast {
namespace {

/// Calls f(number, row) for each row, where `number` counts the numbers of the rows before.
template <class Number, class F>
void for_rows(const HeadRows<Number>& rows, const F& f)
{
    std::size_t number = 0;
    for (std::size_t b = 0; b < rows.batch(); ++b)
        for (std::size_t h = 0; h < rows.heads(); ++h)
            for (std::size_t i = 0; i < rows.rows(); ++i, number += rows.features())
                f(number, rows.row(b, h, i));
}

template <Traceable T>
T container_of(const HeadRows<const float>& rows)
{
    typename T::shape_type shape;
    std::copy_n(rows.shape.begin(), shape.size(), shape.begin());
    T value(shape);
    for_rows(rows,
             [&](std::size_t number, const float* row) { std::copy_n(row, rows.features(), value.data() + number); });
    return value;
}

template <Traceable T>
void tell_as(const Trace& trace, std::string_view step, const std::string& formula, const HeadRows<float>& rows)
{
    const T answer = trace(step, formula, container_of<T>(rows));
    for_rows(rows, [&](std::size_t number, float* row) { std::copy_n(answer.data() + number, rows.features(), row); });
}

} // namespace

void tell_rows(const Trace& trace, std::string_view step, const std::string& formula, const HeadRows<float>& rows,
               bool is_scalar)
{
    if (!trace.has_listener())
        return;
    if (is_scalar)
        tell_as<Tensor3>(trace, step, formula, rows);
    else
        tell_as<Tensor4>(trace, step, formula, rows);
}

void tell_matrix(const Trace& trace, std::string_view step, const std::string& formula, float* numbers,
                 std::size_t rows, std::size_t columns, std::size_t stride)
{
    Matrix value(Matrix::shape_type{rows, columns});
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j)
            value(i, j) = numbers[i * stride + j];
    const Matrix answer = trace(step, formula, std::move(value));
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j)
            numbers[i * stride + j] = static_cast<float>(answer(i, j));
}

void tell_numbers(const Trace& trace, std::string_view step, const std::string& formula, float* numbers,
                  std::size_t rows)
{
    Vector value(Vector::shape_type{rows});
    std::copy_n(numbers, rows, value.begin());
    const Vector answer = trace(step, formula, std::move(value));
    std::copy(answer.begin(), answer.end(), numbers);
}

std::string joined(const std::vector<std::string>& parts, const HeadRows<const float>& rows)
{
    std::string all = parts.empty() ? "0.0 * arange(0)" : "concat(";
    for (const std::string& part : parts)
        all += part + ", ";
    all += parts.empty() ? "" : "axis=0)";
    for (const std::size_t size : rows.shape)
        all += ", " + text(size);
    return "reshape(" + all + ")";
}

ToldRows::ToldRows(const Trace& trace, std::string_view step, std::string_view formula,
                   const HeadRows<const float>& given)
    : rows_(given)
{
    if (!trace.has_listener())
        return;
    Tensor4 all = container_of<Tensor4>(given);
    const Tensor4 answer = formula.empty() ? trace.input(step, std::move(all)) : trace(step, formula, std::move(all));
    answer_.assign(answer.begin(), answer.end());
    rows_ = head_rows<const float>(answer_.data(), given.shape);
}

void ToldRows::tell_head(const Trace& trace, std::string_view step, std::string_view name, std::size_t b,
                         std::size_t head)
{
    const std::string formula = std::string(name) + "[" + text(b) + ", " + text(head) + "]";
    float* const first = answer_.data() + (rows_.row(b, head, 0) - rows_.numbers);
    tell_matrix(trace, step, formula, first, rows_.rows(), rows_.features(), rows_.features());
}

StepOptions options_of(const Scoring& scoring)
{
    StepOptions options{{"type", "float32"}, {"scale", scoring.scale ? exact_text(*scoring.scale) : "1/sqrt(d_k)"}};
    if (scoring.softcap)
        options.emplace_back("softcap", exact_text(*scoring.softcap));
    return options;
}

} // namespace attn::fast
