#include "attn/core/tensor.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

template <Traceable T>
constexpr std::size_t rank_of = 0;
template <class Value, std::size_t Rank>
constexpr std::size_t rank_of<xt::xtensor<Value, Rank, xt::layout_type::row_major>> = Rank;

/// What the elements of a container, or a single number, stand for.
template <Traceable T>
constexpr ElementType element_type()
{
    if constexpr (std::same_as<T, Mask> || std::same_as<T, BatchMask> || std::same_as<T, HeadMask>)
        return ElementType::boolean;
    else if constexpr (std::same_as<T, std::int64_t> || std::same_as<T, Integers> || std::same_as<T, IntegerMatrix>)
        return ElementType::integer;
    else
        return ElementType::real;
}

void expect_elements(const Array& array, ElementType wanted)
{
    if (wanted == ElementType::boolean && array.type != ElementType::boolean)
        throw Error("a mask holds true and false: store it as an array of booleans, not of numbers");
    if (wanted == ElementType::integer)
        for (const double value : array.values)
            if (!(value == std::trunc(value) && std::abs(value) <= 0x1p53))
                throw Error("holds ", exact_text(value), ", expected whole numbers");
}

} // namespace

template <Traceable T>
Array to_array(const T& tensor)
{
    if constexpr (std::is_arithmetic_v<T>)
        return {{}, {static_cast<double>(tensor)}, element_type<T>()};
    else
        return {shape_of(tensor), std::vector<double>(tensor.begin(), tensor.end()), element_type<T>()};
}

template <Traceable T>
T from_array(const Array& array)
{
    if (array.rank() != rank_of<T>)
        throw Error("an array of shape ", array.shape, " has ", array.rank(), " axes, expected ", rank_of<T>);
    if (array.size() != element_count(array.shape))
        throw Error("an array of shape ", array.shape, " holds ", array.size(), " numbers, expected ",
                    element_count(array.shape));
    expect_elements(array, element_type<T>());

    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(array.values.front());
    } else {
        typename T::shape_type shape;
        std::ranges::copy(array.shape, shape.begin());
        T tensor(shape);
        std::ranges::transform(array.values, tensor.begin(),
                               [](double value) { return static_cast<typename T::value_type>(value); });
        return tensor;
    }
}

template Array to_array(const double&);
template Array to_array(const Vector&);
template Array to_array(const Matrix&);
template Array to_array(const Tensor3&);
template Array to_array(const Tensor4&);
template Array to_array(const std::int64_t&);
template Array to_array(const Integers&);
template Array to_array(const IntegerMatrix&);
template Array to_array(const Mask&);
template Array to_array(const BatchMask&);
template Array to_array(const HeadMask&);
template double from_array(const Array&);
template Vector from_array(const Array&);
template Matrix from_array(const Array&);
template Tensor3 from_array(const Array&);
template Tensor4 from_array(const Array&);
template std::int64_t from_array(const Array&);
template Integers from_array(const Array&);
template IntegerMatrix from_array(const Array&);
template Mask from_array(const Array&);
template BatchMask from_array(const Array&);
template HeadMask from_array(const Array&);

} // namespace attn
