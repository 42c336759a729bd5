#include "slices.hpp"

#include <algorithm>
#include <optional>

namespace attn::formula {
namespace {

using Kind = Expression::Kind;

/// An axis as terms::along() writes it: the last one is -1.
std::size_t axis_of(const Expression& written, const Shape& whole)
{
    return written.kind == Kind::negated ? whole.size() - 1 : static_cast<std::size_t>(written.number);
}

std::optional<Slice> slice_of(const Contribution& from, const Shape& whole)
{
    const Expression& pad = from.formula;
    if (pad.kind != Kind::call || pad.text != "pad")
        return std::nullopt;
    const std::size_t axis = axis_of(pad.keywords.front().value, whole);
    const auto before = static_cast<std::size_t>(pad.operands[1].number),
               after = static_cast<std::size_t>(pad.operands[2].number);
    return Slice{from.user, pad.operands[0], axis, before, whole[axis] - after};
}

/// True where each slice begins where the one before it ends, from the first entry of one axis to the last.
bool are_adjacent(const std::vector<Slice>& slices, const Shape& whole)
{
    std::size_t end = 0;
    for (const Slice& slice : slices) {
        if (slice.axis != slices.front().axis || slice.begin != end)
            return false;
        end = slice.end;
    }
    return !slices.empty() && end == whole[slices.front().axis];
}

} // namespace

std::vector<Slice> side_by_side(const std::vector<Contribution>& contributions, const Shape& whole)
{
    std::vector<Slice> slices;
    for (const Contribution& one : contributions)
        if (auto slice = slice_of(one, whole))
            slices.push_back(std::move(*slice));
    std::ranges::stable_sort(slices, {}, &Slice::begin);
    return slices.size() == contributions.size() && are_adjacent(slices, whole) ? slices : std::vector<Slice>{};
}

} // namespace attn::formula
