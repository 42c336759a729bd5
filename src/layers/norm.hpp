#pragma once

#include "attn/ops/batch.hpp"
#include "attn/ops/reduce.hpp"

#include <algorithm>
#include <functional>

/// What layer norm and RMS norm have in common.
namespace attn {

template <Sequence T>
PerToken<T> mean_of_features(const T& x)
{
    if constexpr (std::same_as<T, Matrix>) {
        return mean_along(x, 1);
    } else {
        const Vector means = mean_along(tokens_of(x), 1);
        Matrix by_sequence(Matrix::shape_type{x.shape(0), x.shape(1)});
        std::ranges::copy(means, by_sequence.begin());
        return by_sequence;
    }
}

/// A function of each number of a token and the token's own number.
template <Sequence T, class Function>
T with_own_number(T x, const PerToken<T>& numbers, const Function& function)
{
    const std::size_t features = x.shape(feature_axis<T>);
    for (std::size_t i = 0; i < x.size(); ++i)
        x.data()[i] = function(x.data()[i], numbers.data()[i / features]);
    return x;
}

} // namespace attn
