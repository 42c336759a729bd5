#include "arrays.hpp"

#include <algorithm>

namespace attn::vectors {

Array rows_of(const Array& array, const std::vector<std::size_t>& rows)
{
    if (rows.empty() || array.rank() < 2 || array.shape.end()[-2] <= *std::ranges::max_element(rows))
        return array;
    Array some{array.shape, {}, array.type};
    some.shape.end()[-2] = rows.size();
    const std::size_t width = array.shape.back(), block = width * array.shape.end()[-2];
    for (std::size_t begin = 0; begin < array.size(); begin += block)
        for (const std::size_t row : rows)
            for (std::size_t i = 0; i < width; ++i)
                some.values.push_back(array.values[begin + row * width + i]);
    return some;
}

bool is_same(const Array& found, const Array& expected, double tolerance)
{
    if (found.shape != expected.shape)
        return false;
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (!(times_off(found.values[i], expected.values[i], tolerance) <= 1))
            return false;
    return true;
}

} // namespace attn::vectors
