#include "attn/engines/fast/tokens.hpp"

#include <algorithm>
#include <new>

namespace attn::fast {
namespace {

constexpr std::align_val_t cache_line{64};

} // namespace

void Buffer::Free::operator()(float* numbers) const { ::operator delete[](numbers, cache_line); }

float* Buffer::grow(std::size_t count)
{
    if (count > size_ || !numbers_) {
        numbers_.reset(); // before there is more
        size_ = 0;
        numbers_.reset(
            static_cast<float*>(::operator new[](std::max<std::size_t>(count, 1) * sizeof(float), cache_line)));
        size_ = count;
    }
    return numbers_.get();
}

} // namespace attn::fast
