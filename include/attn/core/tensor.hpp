#pragma once

#include "attn/core/array.hpp"

// Headers moved in xtensor 0.26. This is the one place of attn that includes them (matmul.cpp adds xtensor-blas).
#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xmath.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

#include <concepts>
#include <cstdint>

namespace attn {

/// @name The containers: row-major, double, rank known to the compiler
///
/// Axes, always in this order: `b` batch, `h` heads, `n` queries, `m` keys and values, then a feature axis: `d_model`,
/// `d_k`, `d_v` or `d_ff`. A token is a row.
/// @{
using Vector = xt::xtensor<double, 1, xt::layout_type::row_major>;
using Matrix = xt::xtensor<double, 2, xt::layout_type::row_major>;
using Tensor3 = xt::xtensor<double, 3, xt::layout_type::row_major>;
using Tensor4 = xt::xtensor<double, 4, xt::layout_type::row_major>;
/// @}

/// Which query can attend to which key: (n, m), true where it **can**.
using Mask = xt::xtensor<bool, 2, xt::layout_type::row_major>;
/// The same for each sequence of a batch: (b, n, m).
using BatchMask = xt::xtensor<bool, 3, xt::layout_type::row_major>;
/// The same for each head of each sequence: (b, h, n, m), where b or h of size 1 serves all.
using HeadMask = xt::xtensor<bool, 4, xt::layout_type::row_major>;

/// @name Whole numbers: ids, lengths, places. A trace stores them as whole numbers; they are never rounded.
/// @{
using Integers = xt::xtensor<std::int64_t, 1, xt::layout_type::row_major>;
using IntegerMatrix = xt::xtensor<std::int64_t, 2, xt::layout_type::row_major>;
/// @}

/// What a trace can record: one of the containers above, or a single number.
template <class T>
concept Traceable = std::same_as<T, double> || std::same_as<T, std::int64_t> || std::same_as<T, Vector> ||
    std::same_as<T, Matrix> || std::same_as<T, Tensor3> || std::same_as<T, Tensor4> || std::same_as<T, Integers> ||
    std::same_as<T, IntegerMatrix> || std::same_as<T, Mask> || std::same_as<T, BatchMask> || std::same_as<T, HeadMask>;

template <Traceable T>
class Term; // numbers, and how a formula says them: term.hpp

/// @name The container of a tensor or of a term: functions of attention take either, and give back what they were given
/// @{
template <class T>
struct ValueOf {
    using Type = T;
};
template <class T>
struct ValueOf<Term<T>> {
    using Type = T;
};
template <class T>
using Value = typename ValueOf<T>::Type;
/// @}

/// Tokens, one row each: one sequence, (n, d), or a batch of equally long ones, (b, n, d).
template <class T>
concept Sequence = std::same_as<Value<T>, Matrix> || std::same_as<Value<T>, Tensor3>;

/// Queries, keys, values or scores: of one sequence, of a batch, or of the heads of a batch, (b, h, n, d).
template <class T>
concept Attending = Sequence<T> || std::same_as<Value<T>, Tensor4>;

/// @name A tensor of xtensor's that is none of the containers above: an expression, an xarray, a tensor of floats
///
/// A function that is given one in their place does not compile, and says what to write.
/// @{

/// Any such tensor.
template <class T>
concept OtherTensor = xt::is_xexpression<T>::value && !Traceable<T>;

/// One of several arguments is such a tensor.
template <class... T>
concept WithOtherTensor = (OtherTensor<T> || ...);

/// What a function returns for other tensors: an error.
template <class... Given>
struct RefusedTensor {
    static_assert(sizeof...(Given) == 0,
                  "attn's functions take attn's own containers, and no xt expression, xt::xarray or tensor of floats. "
                  "Write  attn::Matrix m = x;  and pass m (attn::Vector, Tensor3 or Tensor4 for 1, 3 or 4 axes, "
                  "attn::Mask for a mask).");

    template <class T>
    operator T() const; // so that no second error hides the first
};

/// Any argument that may follow.
struct AnyArgument {
    AnyArgument() = default;
    template <class T>
    AnyArgument(const T&)
    {
    }
};

/// Stands after a function that takes containers first: refuses other tensors among its first three arguments.
#define ATTN_REFUSE_OTHER_TENSORS(function)                                                                            \
    template <OtherTensor A>                                                                                           \
    RefusedTensor<A> function(const A&, AnyArgument = {}, AnyArgument = {}, AnyArgument = {}, AnyArgument = {},        \
                              AnyArgument = {}, AnyArgument = {}, AnyArgument = {});                                   \
    template <class A, class B>                                                                                        \
    requires WithOtherTensor<A, B> RefusedTensor<A, B> function(const A&, const B&, AnyArgument = {},                  \
                                                                AnyArgument = {}, AnyArgument = {}, AnyArgument = {},  \
                                                                AnyArgument = {}, AnyArgument = {});                   \
    template <class A, class B, class C>                                                                               \
    requires WithOtherTensor<A, B, C> RefusedTensor<A, B, C> function(const A&, const B&, const C&, AnyArgument = {},  \
                                                                      AnyArgument = {}, AnyArgument = {},              \
                                                                      AnyArgument = {}, AnyArgument = {})
/// @}

/// The axis of tokens; their features follow.
template <Attending T>
inline constexpr std::size_t token_axis = std::same_as<Value<T>, Matrix>    ? 0
                                          : std::same_as<Value<T>, Tensor3> ? 1
                                                                            : 2;
template <Attending T>
inline constexpr std::size_t feature_axis = token_axis<T> + 1;

/// The shape of a container or of a term; empty for a number.
template <class T>
requires Traceable<Value<T>> Shape shape_of(const T& tensor)
{
    if constexpr (std::is_arithmetic_v<Value<T>>)
        return {};
    else
        return Shape(tensor.shape().begin(), tensor.shape().end());
}

/// A copy whose rank is known at run time only.
template <Traceable T>
Array to_array(const T& tensor);
ATTN_REFUSE_OTHER_TENSORS(to_array);

/// The container of an array.
/// @throws Error where the rank is not the container's, the numbers are more or fewer than the shape holds, a mask is
///         asked of an array that is not boolean, or whole numbers of an array that holds others
template <Traceable T>
T from_array(const Array& array);

} // namespace attn
