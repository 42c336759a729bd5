#include "numpy.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace attn::lab {
namespace {

constexpr std::size_t most_numbers = 1'000'000;

const Array& argument(const Given& given, std::size_t place, std::string_view keyword)
{
    if (place < given.arrays.size())
        return given.arrays[place];
    const auto found = given.keywords.find(keyword);
    if (found == given.keywords.end())
        throw Error("there is no " + std::string(keyword));
    return found->second;
}

/// At most so many arguments, and no keywords but some.
void expect_arguments(const Given& given, std::size_t least, std::size_t most,
                      std::initializer_list<std::string_view> keywords = {})
{
    if (given.arrays.size() < least || given.arrays.size() > most)
        throw Error("expected " + std::to_string(least) + (least == most ? "" : " to " + std::to_string(most)) +
                    " arguments, found " + std::to_string(given.arrays.size()));
    for (const auto& [keyword, _] : given.keywords)
        if (std::ranges::find(keywords, keyword) == keywords.end())
            throw Error("the page doesn't know its argument " + keyword);
}

double one_number(const Array& array)
{
    if (array.size() != 1)
        throw Error("expected one number, found the shape " + to_string(array.shape));
    return array.values[0];
}

std::size_t size_from(double value)
{
    if (!(value >= 0 && value <= most_numbers && value == std::floor(value)))
        throw Error("expected a size from 0 to " + std::to_string(most_numbers));
    return static_cast<std::size_t>(value);
}

/// (2, 3), or 2 for (2).
Shape shape_from(const Array& sizes)
{
    if (sizes.rank() > 1)
        throw Error("expected a shape such as (2, 3)");
    Shape shape;
    double count = 1;
    for (const double size : sizes.values) {
        shape.push_back(size_from(size));
        count *= std::max(size, 1.0);
    }
    if (count > static_cast<double>(most_numbers))
        throw Error("the page makes no array of more than " + std::to_string(most_numbers) + " numbers");
    return shape;
}

Array filled(Shape shape, double value, ElementType type)
{
    const std::size_t count = element_count(shape);
    return {std::move(shape), std::vector<double>(count, value), type};
}

Array of_type(Array array, std::optional<ElementType> type)
{
    if (!type || *type == array.type)
        return array;
    for (double& value : array.values)
        value = *type == ElementType::boolean   ? static_cast<double>(value != 0)
                : *type == ElementType::integer ? std::trunc(value)
                                                : value;
    if (*type == ElementType::integer && !std::ranges::all_of(array.values, [](double v) { return std::isfinite(v); }))
        throw Error("a number that is not finite can't be made whole");
    array.type = *type;
    return array;
}

template <int value>
Array constant(const Given& given)
{
    expect_arguments(given, 1, 1);
    return filled(shape_from(given.arrays[0]), value, given.type.value_or(ElementType::real));
}

template <int value>
Array constant_like(const Given& given)
{
    expect_arguments(given, 1, 1);
    return filled(given.arrays[0].shape, value, given.type.value_or(given.arrays[0].type));
}

Array full(const Given& given)
{
    expect_arguments(given, 2, 2);
    return filled(shape_from(given.arrays[0]), one_number(given.arrays[1]), given.type.value_or(given.arrays[1].type));
}

Array same(const Given& given)
{
    expect_arguments(given, 1, 1);
    return of_type(given.arrays[0], given.type);
}

template <ElementType type>
Array one_of_type(const Given& given)
{
    expect_arguments(given, 1, 1);
    Array array = of_type(given.arrays[0], type);
    array.shape = {};
    one_number(array);
    return array;
}

Array range(const Given& given)
{
    expect_arguments(given, 1, 3);
    for (const Array& array : given.arrays)
        if (array.type == ElementType::real)
            throw Error("takes whole numbers, which / and ** don't give: // does");
    const bool has_start = given.arrays.size() > 1;
    const double start = has_start ? one_number(given.arrays[0]) : 0,
                 stop = one_number(given.arrays[has_start ? 1 : 0]),
                 step = given.arrays.size() > 2 ? one_number(given.arrays[2]) : 1;
    if (step == 0)
        throw Error("range takes no step of 0");
    const std::size_t count = size_from(std::max(std::ceil((stop - start) / step), 0.0));
    Array numbers{{count}, std::vector<double>(count), ElementType::integer};
    for (std::size_t i = 0; i < count; ++i)
        numbers.values[i] = start + step * static_cast<double>(i);
    return numbers;
}

/// What a formula gives of a and b.
Array computed(const std::string& formula, const Array& a, const Array& b = {})
{
    return formula::evaluate(formula,
                             [&](std::string_view name) { return name == "a"   ? &a
                                                                 : name == "b" ? &b
                                                                               : nullptr; })
        .value;
}

/// An array whose last axis has the numbers of a row.
struct Rows {
    Array array;
    Shape outer;        ///< of the other axes
    std::size_t length; ///< of a row
};

/// Rows along an axis; one of all numbers where no axis is given.
Rows rows_along(const Given& given)
{
    expect_arguments(given, 1, 2, {"axis"});
    const Array& x = given.arrays[0];
    if (given.arrays.size() < 2 && !given.keywords.contains("axis"))
        return {{{x.size()}, x.values, x.type}, {}, x.size()};
    const double axis = one_number(argument(given, 1, "axis")), rank = static_cast<double>(x.rank());
    if (!(axis == std::floor(axis) && axis >= -rank && axis < rank))
        throw Error("there is no such axis in the shape " + to_string(x.shape));
    const auto moved = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    std::string order;
    Shape outer;
    for (std::size_t i = 0; i < x.rank(); ++i)
        if (i != moved) {
            order += ", " + std::to_string(i);
            outer.push_back(x.shape[i]);
        }
    return {computed("permute(a" + order + ", " + std::to_string(moved) + ")", x), outer, x.shape[moved]};
}

/// One number for each row.
Array of_rows(const Rows& rows, ElementType type,
              const std::function<double(const double* begin, const double* end)>& one)
{
    Array found{rows.outer, {}, type};
    for (std::size_t i = 0; i < element_count(rows.outer); ++i) {
        const double* begin = rows.array.values.data() + i * rows.length;
        found.values.push_back(one(begin, begin + rows.length));
    }
    return found;
}

/// Of equals the first; NaN is the largest and the smallest, as in NumPy.
template <class Compare>
Array place_of_extreme(const Given& given)
{
    const Rows rows = rows_along(given);
    if (rows.length == 0)
        throw Error("there are no numbers, so none of them is the largest or smallest");
    return of_rows(rows, ElementType::integer, [](const double* begin, const double* end) {
        const double* found = begin;
        for (const double* x = begin + 1; x != end && !std::isnan(*found); ++x)
            if (std::isnan(*x) || Compare()(*x, *found))
                found = x;
        return static_cast<double>(found - begin);
    });
}

template <bool are_all>
Array truth_of(const Given& given)
{
    return of_rows(rows_along(given), ElementType::boolean, [](const double* begin, const double* end) {
        const auto is_true = [](double x) { return x != 0; };
        return static_cast<double>(are_all ? std::all_of(begin, end, is_true) : std::any_of(begin, end, is_true));
    });
}

Array cumsum(const Given& given)
{
    expect_arguments(given, 1, 1);
    Array sums = given.arrays[0];
    if (sums.rank() != 1)
        throw Error("the page has cumsum of one axis only");
    std::partial_sum(sums.values.begin(), sums.values.end(), sums.values.begin());
    return of_type(sums, sums.type == ElementType::boolean ? std::optional(ElementType::integer) : std::nullopt);
}

/// A new axis for what stands in the first one.
Array stack(const Given& given)
{
    expect_arguments(given, 1, 2, {"axis"});
    const Array& all = given.arrays[0];
    if (given.arrays.size() < 2 && !given.keywords.contains("axis"))
        return all;
    const double axis = one_number(argument(given, 1, "axis")), rank = static_cast<double>(all.rank());
    if (!(axis == std::floor(axis) && axis >= -rank && axis < rank))
        throw Error("there is no such axis");
    const auto place = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    std::string order;
    for (std::size_t i = 0; i < all.rank(); ++i)
        order += ", " + std::to_string(i == place ? 0 : i < place ? i + 1 : i);
    return computed("permute(a" + order + ")", all);
}

Array append(const Given& given)
{
    expect_arguments(given, 2, 2);
    return computed("concat(reshape(a, -1), reshape(b, -1), axis=0)", given.arrays[0], given.arrays[1]);
}

Array flatnonzero(const Given& given)
{
    expect_arguments(given, 1, 1);
    return places_of_true(given.arrays[0]);
}

constexpr char eye[] = "where(arange(a)[:, None] == arange(a), 1.0, 0.0)";
constexpr char tri[] = "where(arange(a)[:, None] >= arange(a), 1.0, 0.0)";
constexpr char tril[] = "where(arange(a.shape[-2])[:, None] + b >= arange(a.shape[-1]), a, 0)";
constexpr char triu[] = "where(arange(a.shape[-2])[:, None] + b <= arange(a.shape[-1]), a, 0)";
constexpr char product[] = "a @ b";
constexpr char square[] = "a * a";

/// A formula of a and b; where b isn't needed, it is 0.
template <const auto& formula, std::size_t least, std::size_t most>
Array by_formula(const Given& given)
{
    expect_arguments(given, least, most);
    return computed(formula, given.arrays[0],
                    given.arrays.size() > 1 ? given.arrays[1] : Array{{}, {0}, ElementType::integer});
}

Array dot(const Given& given)
{
    if (std::ranges::any_of(given.arrays, [](const Array& array) { return array.rank() > 2; }))
        throw Error("the page has dot of two axes at most: @ multiplies stacks of matrices");
    return by_formula<product, 2, 2>(given);
}

struct Row {
    std::string_view name;
    NumpyFunction function;
};

constexpr Row functions[] = {
    {"zeros", constant<0>},
    {"ones", constant<1>},
    {"zeros_like", constant_like<0>},
    {"ones_like", constant_like<1>},
    {"full", full},
    {"array", same},
    {"asarray", same},
    {"copy", same},
    {"list", same},
    {"tuple", same},
    {"tolist", same},
    {"astype", same},
    {"int", one_of_type<ElementType::integer>},
    {"float", one_of_type<ElementType::real>},
    {"bool", one_of_type<ElementType::boolean>},
    {"range", range},
    {"argmax", place_of_extreme<std::greater<>>},
    {"argmin", place_of_extreme<std::less<>>},
    {"any", truth_of<false>},
    {"all", truth_of<true>},
    {"cumsum", cumsum},
    {"stack", stack},
    {"append", append},
    {"flatnonzero", flatnonzero},
    {"eye", by_formula<eye, 1, 1>},
    {"tri", by_formula<tri, 1, 1>},
    {"tril", by_formula<tril, 1, 2>},
    {"triu", by_formula<triu, 1, 2>},
    {"dot", dot},
    {"matmul", by_formula<product, 2, 2>},
    {"square", by_formula<square, 1, 1>},
};

} // namespace

NumpyFunction numpy_function(std::string_view name)
{
    const auto found = std::ranges::find(functions, name, &Row::name);
    return found == std::end(functions) ? nullptr : found->function;
}

Array stacked(const std::vector<Array>& arrays)
{
    if (arrays.empty())
        return {{0}, {}, ElementType::integer};
    Array all{arrays[0].shape, {}, ElementType::boolean};
    all.shape.insert(all.shape.begin(), arrays.size());
    for (const Array& array : arrays) {
        if (array.shape != arrays[0].shape)
            throw Error("a list of the page has arrays of one shape, found " + to_string(arrays[0].shape) + " and " +
                        to_string(array.shape));
        all.values.insert(all.values.end(), array.values.begin(), array.values.end());
        if (array.type == ElementType::real || all.type == ElementType::boolean)
            all.type = array.type;
    }
    return all;
}

Array places_of_true(const Array& mask)
{
    Array places{{0}, {}, ElementType::integer};
    for (std::size_t i = 0; i < mask.size(); ++i)
        if (mask.values[i] != 0)
            places.values.push_back(static_cast<double>(i));
    places.shape = {places.values.size()};
    return places;
}

} // namespace attn::lab
