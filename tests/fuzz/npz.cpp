#include "npz_members.hpp"

#include "scratch.hpp"
#include "targets.hpp"

#include <algorithm>

namespace attn::fuzz {
namespace {

constexpr files::NpzLimits limits{1 << 20, 1 << 20};

files::Npz read(const std::filesystem::path& path) { return read_npz_members(path, {"steps.json", "text"}, limits); }

bool same(const files::Npz& left, const files::Npz& right)
{
    return left.texts == right.texts && left.comment == right.comment &&
           std::ranges::equal(left.arrays, right.arrays, [](const auto& one, const auto& other) {
               return one.first == other.first && identical(one.second, other.second);
           });
}

} // namespace

void npz(std::string_view bytes)
{
    const files::Npz content = read(scratch("read.npz", bytes));
    std::size_t elements = 0;
    for (const auto& [name, array] : content.arrays)
        elements += array.size();
    expect(elements <= limits.elements, "arrays beyond the limit");

    // Names that are read need not be ones that are written.
    files::write_npz(scratch("written.npz"), content);
    const files::Npz again = must_succeed([] { return read(scratch("written.npz")); });
    expect(same(content, again), "an archive that changes when it is written and read");
}

} // namespace attn::fuzz
