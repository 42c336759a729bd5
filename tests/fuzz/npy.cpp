#include "attn/files/npy.hpp"

#include "targets.hpp"

#include <span>

namespace attn::fuzz {
namespace {

constexpr std::size_t most_elements = 1 << 20;

files::ByteSource source_of(std::string_view bytes)
{
    return [bytes](std::span<char> buffer) mutable {
        const std::size_t count = bytes.copy(buffer.data(), buffer.size());
        bytes.remove_prefix(count);
        return count;
    };
}

} // namespace

void npy(std::string_view bytes)
{
    const Array array = files::decode_npy(source_of(bytes), most_elements);
    expect(array.size() == element_count(array.shape), "an array whose shape does not fit its values");
    expect(array.size() <= most_elements, "an array beyond the limit");

    const Array again = must_succeed([&] { return files::decode_npy(files::encode_npy(array)); });
    expect(identical(array, again), "an array that changes when it is written and read");
}

} // namespace attn::fuzz
