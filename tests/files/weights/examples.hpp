#pragma once

#include "caught.hpp"
#include "test.hpp"

#include "attn/files/weights/state_dict.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace attn::test {

using Names = std::set<std::string>;

inline Names names_of(const files::NamedArrays& arrays)
{
    Names names;
    for (const auto& [name, array] : arrays)
        names.insert(name);
    return names;
}

inline bool same(const files::NamedArrays& left, const files::NamedArrays& right)
{
    return std::ranges::equal(
        left, right, [](const auto& a, const auto& b) { return a.first == b.first && identical(a.second, b.second); });
}

/// What is said about weights that do not fit.
template <class Read>
std::string complaint_of(const Read& read)
{
    return caught<files::WeightsError>(read, "fits");
}

template <class Weights>
std::string complaint_of(const files::NamedArrays& arrays, const files::AxisSizes& sizes,
                         const files::LoadOptions& options = {})
{
    return complaint_of([&] { load_weights<Weights>(arrays, sizes, options); });
}

} // namespace attn::test
