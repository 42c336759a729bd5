#include "attn/reference/ops/heads.hpp"

#include "attn/core/shape.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

/// The same numbers in another shape.
template <class To, class From>
To reshaped(const From& from, const typename To::shape_type& shape)
{
    To to(shape);
    std::copy(from.begin(), from.end(), to.begin());
    return to;
}

} // namespace

Tensor4 unpack_heads(const Tensor3& packed, std::size_t heads)
{
    if (heads == 0 || packed.shape(2) % heads != 0)
        throw ShapeError("unpack_heads: packed ", shape_of(packed), " can't be divided evenly among ", heads, " heads");
    const Tensor4::shape_type shape{packed.shape(0), packed.shape(1), heads, packed.shape(2) / heads};
    return xt::transpose(reshaped<Tensor4>(packed, shape), {0, 2, 1, 3});
}

Tensor4 unpack_heads(const Matrix& packed, std::size_t heads)
{
    return unpack_heads(reshaped<Tensor3>(packed, {1, packed.shape(0), packed.shape(1)}), heads);
}

Tensor3 pack_heads(const Tensor4& heads)
{
    const Tensor4 by_token = xt::transpose(heads, {0, 2, 1, 3});
    return reshaped<Tensor3>(by_token, {heads.shape(0), heads.shape(2), heads.shape(1) * heads.shape(3)});
}

Tensor4 repeat_heads(const Tensor4& heads, std::size_t times)
{
    Tensor4 all(Tensor4::shape_type{heads.shape(0), heads.shape(1) * times, heads.shape(2), heads.shape(3)});
    const auto size = static_cast<std::ptrdiff_t>(heads.shape(2) * heads.shape(3));
    auto to = all.begin();
    for (auto head = heads.begin(); head != heads.end(); head += size)
        for (std::size_t i = 0; i < times; ++i)
            to = std::copy_n(head, size, to);
    return all;
}

Tensor3 as_batch(const Tensor4& heads)
{
    return reshaped<Tensor3>(heads, {heads.shape(0) * heads.shape(1), heads.shape(2), heads.shape(3)});
}

Tensor4 as_heads(const Tensor3& batch, std::size_t sequences, std::size_t heads)
{
    if (sequences * heads != batch.shape(0))
        throw ShapeError("as_heads: a batch ", shape_of(batch), " is not ", heads, " heads of ", sequences,
                         " sequences");
    return reshaped<Tensor4>(batch, {sequences, heads, batch.shape(1), batch.shape(2)});
}

} // namespace attn
