#include "attn/engines/fast/record.hpp"

namespace attn::fast {
namespace {

template <Traceable T>
T container_of(const HeadRows<const float>& rows)
{
    typename T::shape_type shape;
    std::copy_n(rows.shape.begin(), shape.size(), shape.begin());
    T value(shape);
    double* to = value.data();
    for (std::size_t b = 0; b < rows.batch(); ++b)
        for (std::size_t h = 0; h < rows.heads(); ++h)
            for (std::size_t i = 0; i < rows.rows(); ++i)
                to = std::copy_n(rows.row(b, h, i), rows.features(), to);
    return value;
}

} // namespace

void record(const Trace& trace, std::string_view label, const FormulaText& formula, const HeadRows<const float>& heads)
{
    if (trace.has_listener())
        static_cast<void>(trace(label, formula(), container_of<Tensor4>(heads)));
}

void record_sums(const Trace& trace, std::string_view label, const FormulaText& formula,
                 const HeadRows<const float>& sums)
{
    if (trace.has_listener())
        static_cast<void>(trace(label, formula(), container_of<Tensor3>(sums)));
}

void record_input(const Trace& trace, std::string_view label, const HeadRows<const float>& heads)
{
    if (trace.has_listener())
        static_cast<void>(trace.input(label, container_of<Tensor4>(heads)));
}

} // namespace attn::fast
