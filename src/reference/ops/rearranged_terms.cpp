#include "attn/reference/ops/terms.hpp"

#include "any_rank.hpp"

#include "attn/reference/ops/concat.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

// The operations on terms that put the same numbers into another order, or make them from none.
namespace attn {
namespace {

void expect_entries(const Shape& shape, std::size_t axis, std::size_t begin, std::size_t end)
{
    if (begin > end || end > shape[axis])
        throw ShapeError("there are no entries ", begin, ":", end, " along axis ", axis, " of ", shape);
}

Matrix rows_between(const Matrix& x, std::size_t begin, std::size_t end)
{
    expect_entries(shape_of(x), 0, begin, end);
    return xt::view(x, xt::range(begin, end), xt::all());
}

Tensor3 rows_between(const Tensor3& x, std::size_t begin, std::size_t end)
{
    expect_entries(shape_of(x), 1, begin, end);
    return xt::view(x, xt::all(), xt::range(begin, end), xt::all());
}

/// "[..., 0:2]", with more axes after it: ", :"
std::string range_of(std::size_t begin, std::size_t end, std::string_view more = {})
{
    return "[..., " + std::to_string(begin) + ":" + std::to_string(end) + std::string(more) + "]";
}

} // namespace

template <class T>
Term<double> size_along(const Term<T>& x, int axis)
{
    return {static_cast<double>(x.shape(counted(axis, rank_of<T>))),
            with_suffix(x.wording(), ".shape[" + std::to_string(axis) + "]")};
}

template <class T>
Term<Fewer<T>> row_at(const Term<T>& x, std::size_t i)
{
    const Shape shape = shape_of(*x);
    expect_entries(shape, 0, i, i + 1);
    const Shape rest(shape.begin() + 1, shape.end());
    return {in_shape<Fewer<T>>(rest, std::span(x->data() + i * element_count(rest), element_count(rest))),
            with_suffix(x.wording(), "[" + std::to_string(i) + "]")};
}

template <class T>
Term<T> slice(const Term<T>& x, std::size_t begin, std::size_t end)
{
    Shape shape = shape_of(*x);
    expect_entries(shape, 0, begin, end);
    const std::size_t each = element_count({shape.begin() + 1, shape.end()});
    shape.front() = end - begin;
    return {in_shape<T>(shape, std::span(x->data() + begin * each, element_count(shape))),
            with_suffix(x.wording(), "[" + std::to_string(begin) + ":" + std::to_string(end) + "]")};
}

Term<Matrix> take_rows(const Term<Matrix>& table, const Term<Integers>& ids)
{
    return {take_rows(*table, *ids), with_index(table.wording(), ids.wording())};
}

Term<Tensor3> take_rows(const Term<Matrix>& table, const Term<IntegerMatrix>& ids)
{
    return {take_rows(*table, *ids), with_index(table.wording(), ids.wording())};
}

Term<double> entry(const Term<Matrix>& x, std::size_t row, std::size_t column)
{
    expect_entries(shape_of(*x), 0, row, row + 1);
    expect_entries(shape_of(*x), 1, column, column + 1);
    return {double((*x)(row, column)),
            with_suffix(x.wording(), "[" + std::to_string(row) + ", " + std::to_string(column) + "]")};
}

template <class T>
Term<T> columns(const Term<T>& x, std::size_t begin, std::size_t end)
{
    return {columns(*x, begin, end), with_suffix(x.wording(), range_of(begin, end))};
}

Term<Matrix> matrix_columns(const Term<Matrix>& x, std::size_t begin, std::size_t end)
{
    return {columns(*x, begin, end),
            with_suffix(x.wording(), "[:, " + std::to_string(begin) + ":" + std::to_string(end) + "]")};
}

Term<Vector> matrix_column(const Term<Matrix>& x, std::size_t column)
{
    return {in_shape<Vector>({x.shape(0)}, columns(*x, column, column + 1)),
            with_suffix(x.wording(), "[:, " + std::to_string(column) + "]")};
}

template <class T>
Term<T> every_second(const Term<T>& x, std::size_t begin, std::size_t end)
{
    Shape shape = shape_of(*x);
    expect_entries(shape, rank_of<T> - 1, begin, end);
    const bool is_last = end == shape.back();
    const std::string from = begin == 0 && is_last ? "" : std::to_string(begin);
    const std::string to = is_last ? "" : std::to_string(end);
    const std::size_t width = std::exchange(shape.back(), (end - begin + 1) / 2);
    T taken = unwritten<T>(shape);
    for (std::size_t i = 0; i < taken.size(); ++i)
        taken.data()[i] = x->data()[i / shape.back() * width + begin + 2 * (i % shape.back())];
    return {std::move(taken), with_suffix(x.wording(), "[..., " + from + ":" + to + ":2]")};
}

template <class T>
Term<T> rows(const Term<T>& x, std::size_t begin, std::size_t end)
{
    return {rows_between(*x, begin, end), with_suffix(x.wording(), range_of(begin, end, ", :"))};
}

template <class T>
Term<T> part(const Term<T>& x, std::size_t begin, std::size_t end, std::size_t feature)
{
    const std::string column = ", " + std::to_string(feature) + ":" + std::to_string(feature + 1);
    return {rows_between(columns(*x, feature, feature + 1), begin, end),
            with_suffix(x.wording(), range_of(begin, end, column))};
}

namespace {

/// The same numbers with one more axis, of one entry.
template <class T>
RealsOf<rank_of<T> + 1> with_axis(const T& x, std::size_t axis)
{
    Shape shape = shape_of(x);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    return in_shape<RealsOf<rank_of<T> + 1>>(shape, std::span(data_of(x), element_count(shape)));
}

} // namespace

template <class T>
Term<RealsOf<rank_of<T> + 1>> column(const Term<T>& numbers)
{
    return {with_axis(*numbers, rank_of<T>), with_suffix(numbers.wording(), "[..., None]")};
}

Term<Matrix> each_row(const Term<Vector>& numbers)
{
    return {with_axis(*numbers, 1), with_suffix(numbers.wording(), "[:, None]")};
}

template <class T>
Term<RealsOf<rank_of<T> + 1>> in_front(const Term<T>& x)
{
    return {with_axis(*x, 0), with_suffix(x.wording(), rank_of<T> == 1 ? "[None, :]" : "[None, ...]")};
}

template <class T>
Term<T> concat(const std::vector<Term<T>>& parts, int axis)
{
    if (parts.empty())
        throw std::logic_error("concat wants at least one part");
    const std::size_t at = counted(axis, rank_of<T>);
    Shape shape = shape_of(*parts.front());
    shape[at] = 0;
    std::vector<Wording> wordings;
    for (const Term<T>& part : parts) {
        Shape other = shape_of(*part);
        const std::size_t more = std::exchange(other[at], shape[at]);
        if (other != shape)
            throw ShapeError("concat: ", shape_of(*part), " doesn't go on ", shape_of(*parts.front()), " along axis ",
                             at);
        shape[at] += more;
        wordings.push_back(part.wording());
    }
    T all = unwritten<T>(shape);
    auto* to = data_of(all);
    for (std::size_t i = 0; i < Along(shape, at).before; ++i)
        for (const Term<T>& part : parts) {
            const Along seen(shape_of(*part), at);
            to = std::copy_n(part->data() + i * seen.size * seen.after, seen.size * seen.after, to);
        }
    return {std::move(all), call_of("concat", wordings, axis_text(axis))};
}

template <class T>
Term<T> repeat(Term<T> x, std::size_t count, int axis)
{
    const std::size_t at = counted(axis, rank_of<T>);
    const Along seen(shape_of(*x), at);
    Shape shape = shape_of(*x);
    shape[at] *= count;
    T all = unwritten<T>(shape);
    auto* to = data_of(all);
    for (std::size_t i = 0; i < seen.before * seen.size; ++i)
        for (std::size_t again = 0; again < count; ++again)
            to = std::copy_n(x->data() + i * seen.after, seen.after, to);
    return {std::move(all), call_of("repeat", {x.wording()}, std::to_string(count) + ", " + axis_text(axis))};
}

template <class T>
Term<T> interleave(Term<T> a, Term<T> b)
{
    Shape shape = shape_of(*a);
    if (shape != shape_of(*b))
        throw ShapeError("interleave: ", shape, " and ", shape_of(*b), " are not alike");
    shape.back() *= 2;
    T all = unwritten<T>(shape);
    for (std::size_t i = 0; i < a.size(); ++i) {
        all.data()[2 * i] = a->data()[i];
        all.data()[2 * i + 1] = b->data()[i];
    }
    return {std::move(all), call_of("interleave", {a.wording(), b.wording()})};
}

template <class T>
Term<T> pad(Term<T> x, std::size_t before, std::size_t after, int axis)
{
    const std::size_t at = counted(axis, rank_of<T>);
    const Along seen(shape_of(*x), at);
    Shape shape = shape_of(*x);
    shape[at] += before + after;
    T all = unwritten<T>(shape);
    auto* to = data_of(all);
    for (std::size_t i = 0; i < seen.before; ++i) {
        to = std::fill_n(to, before * seen.after, 0.0);
        to = std::copy_n(x->data() + i * seen.size * seen.after, seen.size * seen.after, to);
        to = std::fill_n(to, after * seen.after, 0.0);
    }
    return {std::move(all), call_of("pad", {x.wording()},
                                    std::to_string(before) + ", " + std::to_string(after) + ", " + axis_text(axis))};
}

Term<Matrix> scatter_add(const Term<Matrix>& rows, const Term<Integers>& ids, std::size_t count)
{
    expect_agreement("scatter_add", "n", {"rows", *rows, 0}, {"ids", *ids, 0});
    Matrix sums = xt::zeros<double>({count, rows.shape(1)});
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto id = static_cast<std::size_t>((*ids)(i));
        if (id >= count)
            throw ShapeError("scatter_add: there is no row ", (*ids)(i), " of ", count);
        for (std::size_t j = 0; j < rows.shape(1); ++j)
            sums(id, j) += (*rows)(i, j);
    }
    return {std::move(sums), call_of("scatter_add", {rows.wording(), ids.wording()}, std::to_string(count))};
}

template <class To, class From>
Term<To> reshape(const Term<From>& x, const Shape& shape)
{
    if (shape.size() != rank_of<To> || element_count(shape) != x.size())
        throw ShapeError("reshape: ", shape_of(*x), " can't become ", shape);
    std::string sizes;
    for (const std::size_t size : shape)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    return {in_shape<To>(shape, *x), call_of("reshape", {x.wording()}, sizes)};
}

template <class T>
Term<T> permute(Term<T> x, const std::vector<std::size_t>& order)
{
    std::string axes;
    for (const std::size_t axis : order)
        axes += (axes.empty() ? "" : ", ") + std::to_string(axis);
    return {from_array<T>(permuted(to_array(*x), order)), call_of("permute", {x.wording()}, axes)};
}

Term<Matrix> diag(Term<Vector> numbers)
{
    Matrix square = xt::zeros<double>({numbers.size(), numbers.size()});
    for (std::size_t i = 0; i < numbers.size(); ++i)
        square(i, i) = (*numbers)(i);
    return {std::move(square), call_of("diag", {numbers.wording()})};
}

Term<Matrix> outer(Term<Vector> left, Term<Vector> right)
{
    return {outer(*left, *right), call_of("outer", {left.wording(), right.wording()})};
}

Term<Vector> arange(Term<double> count)
{
    Vector numbers(Vector::shape_type{static_cast<std::size_t>(*count)});
    std::iota(numbers.begin(), numbers.end(), 0.0);
    return {std::move(numbers), call_of("arange", {count.wording()})};
}

#define ATTN_TENSOR(T)                                                                                                 \
    template Term<double> size_along(const Term<T>&, int);                                                             \
    template Term<Fewer<T>> row_at(const Term<T>&, std::size_t);                                                       \
    template Term<T> slice(const Term<T>&, std::size_t, std::size_t);                                                  \
    template Term<T> concat(const std::vector<Term<T>>&, int);                                                         \
    template Term<T> repeat(Term<T>, std::size_t, int);                                                                \
    template Term<T> interleave(Term<T>, Term<T>);                                                                     \
    template Term<T> pad(Term<T>, std::size_t, std::size_t, int);                                                      \
    template Term<T> permute(Term<T>, const std::vector<std::size_t>&);
ATTN_TENSOR(Vector)
ATTN_TENSOR(Matrix)
ATTN_TENSOR(Tensor3)
ATTN_TENSOR(Tensor4)
#undef ATTN_TENSOR
template Term<Integers> concat(const std::vector<Term<Integers>>&, int);

#define ATTN_ROWS(T, Truth)                                                                                            \
    template Term<Truth> repeat(Term<Truth>, std::size_t, int);                                                        \
    template Term<T> columns(const Term<T>&, std::size_t, std::size_t);                                                \
    template Term<T> every_second(const Term<T>&, std::size_t, std::size_t);                                           \
    template Term<T> column(const Term<Fewer<T>>&);                                                                    \
    template Term<T> in_front(const Term<Fewer<T>>&);                                                                  \
    template Term<Matrix> reshape(const Term<T>&, const Shape&);                                                       \
    template Term<Tensor3> reshape(const Term<T>&, const Shape&);                                                      \
    template Term<Tensor4> reshape(const Term<T>&, const Shape&);
ATTN_ROWS(Matrix, Mask)
ATTN_ROWS(Tensor3, BatchMask)
ATTN_ROWS(Tensor4, HeadMask)
#undef ATTN_ROWS

#define ATTN_TOKENS(T)                                                                                                 \
    template Term<T> rows(const Term<T>&, std::size_t, std::size_t);                                                   \
    template Term<T> part(const Term<T>&, std::size_t, std::size_t, std::size_t);
ATTN_TOKENS(Matrix)
ATTN_TOKENS(Tensor3)
#undef ATTN_TOKENS

} // namespace attn
