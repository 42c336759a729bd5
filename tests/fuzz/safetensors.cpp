#include "attn/files/safetensors.hpp"

#include "scratch.hpp"
#include "targets.hpp"

#include <algorithm>

namespace attn::fuzz {
namespace {

constexpr files::NpzLimits limits{1 << 20, 0};

bool same(const files::NamedArrays& left, const files::NamedArrays& right)
{
    return std::ranges::equal(left, right, [](const auto& one, const auto& other) {
        return one.first == other.first && identical(one.second, other.second);
    });
}

} // namespace

void safetensors(std::string_view bytes)
{
    const files::NamedArrays arrays = files::read_safetensors(scratch("read.safetensors", bytes), limits);
    std::size_t elements = 0;
    for (const auto& [name, array] : arrays)
        elements += array.size();
    expect(elements <= limits.elements, "tensors beyond the limit");

    const files::NamedArrays again = must_succeed([&] {
        files::write_safetensors(scratch("written.safetensors"), arrays);
        return files::read_safetensors(scratch("written.safetensors"), limits);
    });
    expect(same(arrays, again), "tensors that change when they are written and read");
}

} // namespace attn::fuzz
