#pragma once

#include "attn/core/trace.hpp"
#include "attn/engines/fast/attention.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <string>
#include <string_view>

/// @file
/// Numbers of the kernels as steps of a trace, which observes them. With nobody listening nothing is done.

namespace attn::fast {

/// A step's formula: text, or a function that makes it, which is called only where somebody listens. It outlives the call.
class FormulaText {
public:
    template <Formula F>
    FormulaText(const F& formula)
        : formula_(&formula), text_([](const void* any) {
              const F& given = *static_cast<const F*>(any);
              if constexpr (std::convertible_to<F, std::string_view>)
                  return std::string(std::string_view(given));
              else
                  return std::string(given());
          })
    {
    }
    std::string operator()() const { return text_(formula_); }

private:
    const void* formula_;
    std::string (*text_)(const void*);
};

/// Records the vectors of all heads, (b, h, n, d).
void record(const Trace& trace, std::string_view label, const FormulaText& formula, const HeadRows<const float>& heads);

/// Records one number per query of each head, (b, h, n).
/// @param sums  (b, h, n, 1)
void record_sums(const Trace& trace, std::string_view label, const FormulaText& formula,
                 const HeadRows<const float>& sums);

/// Records the vectors that a function is given, unless the scope has a name for them already.
void record_input(const Trace& trace, std::string_view label, const HeadRows<const float>& heads);

/// The same for a mask or a bias, where there is one.
/// @param shape  b, h, n, m
template <class Number>
void record_input(const Trace& trace, std::string_view label, const PerScore<Number>& given,
                  const std::array<std::size_t, 4>& shape)
{
    using Container = std::conditional_t<std::same_as<Number, bool>, HeadMask, Tensor4>;
    if (!given || !trace.has_listener())
        return;
    Container all(typename Container::shape_type{shape[0], shape[1], shape[2], shape[3]});
    auto to = all.begin();
    for (std::size_t b = 0; b < shape[0]; ++b)
        for (std::size_t h = 0; h < shape[1]; ++h)
            for (std::size_t i = 0; i < shape[2]; ++i)
                to = std::copy_n(given.row(b, h, i), shape[3], to);
    static_cast<void>(trace.input(label, all));
}

} // namespace attn::fast
