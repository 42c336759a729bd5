#include "told.hpp"

#include <algorithm>

namespace attn::fast {
namespace {

/// Calls f(number, row, i) for the numbers of each row, where `number` counts all rows' numbers.
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
T tell_as(const Trace& trace, std::string_view step, std::string_view formula, const HeadRows<const float>& rows)
{
    typename T::shape_type shape;
    std::copy_n(rows.shape.begin(), shape.size(), shape.begin());
    T value(shape);
    for_rows(rows,
             [&](std::size_t number, const float* row) { std::copy_n(row, rows.features(), value.data() + number); });
    return trace(step, formula, std::move(value));
}

template <Traceable T>
void tell_and_write_back(const Trace& trace, std::string_view step, std::string_view formula,
                         const HeadRows<float>& rows)
{
    const T answer = tell_as<T>(trace, step, formula, rows);
    for_rows(rows, [&](std::size_t number, float* row) { std::copy_n(answer.data() + number, rows.features(), row); });
}

} // namespace

void tell_rows(const Trace& trace, std::string_view step, const std::string& formula, const HeadRows<float>& rows,
               bool is_scalar)
{
    if (!trace.has_listener())
        return;
    if (is_scalar)
        tell_and_write_back<Tensor3>(trace, step, formula, rows);
    else
        tell_and_write_back<Tensor4>(trace, step, formula, rows);
}

ToldRows::ToldRows(const Trace& trace, std::string_view step, std::string_view formula,
                   const HeadRows<const float>& given)
    : rows_(given)
{
    if (!trace.has_listener())
        return;
    const Tensor4 answer = tell_as<Tensor4>(trace, step, formula, given);
    answer_.assign(answer.begin(), answer.end());
    rows_ = head_rows<const float>(answer_.data(), given.shape);
}

} // namespace attn::fast
