#pragma once

#include "attn/core/error.hpp"
#include "attn/core/tensor.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace attn {

/// Tensors that do not fit together, or do not fit the function.
class ShapeError : public Error {
public:
    using Error::Error;
};

/// One axis of a tensor that plays a role: AxisOf("keys", keys, 1).
struct AxisOf {
    template <class T>
    requires Traceable<Value<T>> AxisOf(std::string_view tensor_role, const T& tensor, std::size_t which)
        : role(tensor_role), shape(tensor.shape()), axis(which)
    {
    }

    std::size_t size() const { return shape[axis]; }

    std::string_view role;
    std::span<const std::size_t> shape;
    std::size_t axis;
};

/// Checks that two axes that share a letter have one size.
/// @throws ShapeError such as "matmul: left (3, 4) and right (5, 2) must agree in k: axis 1 of left is 4, axis 0 of
///         right is 5"
void expect_agreement(std::string_view function, std::string_view letter, const AxisOf& left, const AxisOf& right);

/// Checks that two batches have as many sequences, and as many heads where they have some; a single sequence has no such
/// axis.
template <Attending T, Attending U>
void expect_same_batch(std::string_view function, std::string_view left_role, const T& left,
                       std::string_view right_role, const U& right)
{
    if constexpr (!std::same_as<Value<T>, Matrix>)
        expect_agreement(function, "b", {left_role, left, 0}, {right_role, right, 0});
    if constexpr (std::same_as<Value<T>, Tensor4>)
        expect_agreement(function, "h", {left_role, left, 1}, {right_role, right, 1});
}

} // namespace attn
