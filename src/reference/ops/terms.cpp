#include "attn/reference/ops/terms.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace attn {
namespace {

/// An operand's steps from number to number along the axes of a result: 0 where it has one number for all.
Shape steps_along(const Shape& shape, const Shape& result)
{
    Shape steps(result.size(), 0);
    std::size_t step = 1;
    for (std::size_t axis = shape.size(), to = result.size(); axis-- > 0; step *= shape[axis])
        steps[--to] = shape[axis] == 1 ? 0 : step;
    return steps;
}

Shape broadcast_shape(const Shape& left, const Shape& right)
{
    Shape shape(std::max(left.size(), right.size()), 1);
    for (std::size_t back = 1; back <= shape.size(); ++back) {
        const std::size_t a = back <= left.size() ? left[left.size() - back] : 1;
        const std::size_t b = back <= right.size() ? right[right.size() - back] : 1;
        if (a != b && a != 1 && b != 1)
            throw ShapeError("terms of the shapes " + to_string(left) + " and " + to_string(right) +
                             " can't be taken number by number");
        shape[shape.size() - back] = a == 1 ? b : a;
    }
    return shape;
}

template <class T>
T empty(const Shape& shape)
{
    typename T::shape_type sizes;
    std::ranges::copy(shape, sizes.begin());
    return T(sizes);
}

/// Number by number.
template <class A, class B, class Function>
Wider<A, B> pairwise(const A& left, const B& right, const Function& function)
{
    const Shape shape = broadcast_shape(shape_of(left), shape_of(right));
    const Shape of_left = steps_along(shape_of(left), shape), of_right = steps_along(shape_of(right), shape);
    auto result = empty<Wider<A, B>>(shape);
    const std::size_t row = shape.back();
    Shape at(shape.size(), 0);
    double* to = result.data();
    for (std::size_t done = 0; done < result.size(); done += row, to += row) {
        const double *a = left.data(), *b = right.data();
        for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) {
            a += at[axis] * of_left[axis];
            b += at[axis] * of_right[axis];
        }
        for (std::size_t i = 0; i < row; ++i)
            to[i] = function(a[i * of_left.back()], b[i * of_right.back()]);
        for (std::size_t axis = shape.size() - 1; axis-- > 0 && ++at[axis] == shape[axis];)
            at[axis] = 0;
    }
    return result;
}

template <class T, class Function>
T number_by_number(const T& x, const Function& function)
{
    T result(x.shape());
    std::ranges::transform(x, result.begin(), function);
    return result;
}

Matrix rows_between(const Matrix& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::range(begin, end), xt::all());
}

Tensor3 rows_between(const Tensor3& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::all(), xt::range(begin, end), xt::all());
}

/// "[..., 0:2]", with more axes after it: ", :"
std::string range_of(std::size_t begin, std::size_t end, std::string_view more = {})
{
    return "[..., " + std::to_string(begin) + ":" + std::to_string(end) + std::string(more) + "]";
}

} // namespace

#define ATTN_PAIRWISE(sign, binding, function)                                                                         \
    template <class A, class B>                                                                                        \
    Term<Wider<A, B>> operator sign(const Term<A>& left, const Term<B>& right)                                         \
    {                                                                                                                  \
        return {pairwise(*left, *right, function),                                                                     \
                operator_between(left.wording(), #sign, right.wording(), Wording::binding)};                           \
    }
#define ATTN_NUMBER_AFTER(sign, binding, function)                                                                     \
    template <class T>                                                                                                 \
    Term<T> operator sign(const Term<T>& left, double right)                                                           \
    {                                                                                                                  \
        return {number_by_number(*left, [right](double x) { return function(x, right); }),                             \
                operator_between(left.wording(), #sign, wording_of(right, left.wording()), Wording::binding)};         \
    }
#define ATTN_NUMBER_BEFORE(sign, binding, function)                                                                    \
    template <class T>                                                                                                 \
    Term<T> operator sign(double left, const Term<T>& right)                                                           \
    {                                                                                                                  \
        return {number_by_number(*right, [left](double x) { return function(left, x); }),                              \
                operator_between(wording_of(left, right.wording()), #sign, right.wording(), Wording::binding)};        \
    }
ATTN_PAIRWISE(+, adds, std::plus())
ATTN_PAIRWISE(-, adds, std::minus())
ATTN_PAIRWISE(*, multiplies, std::multiplies())
ATTN_PAIRWISE(/, multiplies, std::divides())
ATTN_NUMBER_AFTER(+, adds, std::plus())
ATTN_NUMBER_BEFORE(+, adds, std::plus())
ATTN_NUMBER_BEFORE(-, adds, std::minus())
ATTN_NUMBER_AFTER(*, multiplies, std::multiplies())
ATTN_NUMBER_BEFORE(*, multiplies, std::multiplies())
ATTN_NUMBER_AFTER(/, multiplies, std::divides())
#undef ATTN_PAIRWISE
#undef ATTN_NUMBER_AFTER
#undef ATTN_NUMBER_BEFORE

template <class T>
Term<T> operator/(const Term<T>& left, const Term<double>& right)
{
    return {number_by_number(*left, [divisor = *right](double x) { return x / divisor; }),
            operator_between(left.wording(), "/", right.wording(), Wording::multiplies)};
}

Term<double> sqrt(Term<double> x) { return {std::sqrt(*x), call_of("sqrt", {x.wording()})}; }

template <class T>
Term<T> operator*(const Term<T>& left, const Term<double>& right)
{
    return {number_by_number(*left, [factor = *right](double x) { return x * factor; }),
            operator_between(left.wording(), "*", right.wording(), Wording::multiplies)};
}

template <class T>
Term<T> operator-(const Term<T>& x)
{
    return {number_by_number(*x, std::negate()), with_prefix("-", x.wording())};
}

template <class T>
Term<T> square(Term<T> x)
{
    return {number_by_number(*x, [](double number) { return number * number; }), with_power(x.wording(), "2")};
}

#define ATTN_EACH(function, number)                                                                                    \
    template <class T>                                                                                                 \
    Term<T> function(Term<T> x)                                                                                        \
    {                                                                                                                  \
        return {number_by_number(*x, [](double one) { return number; }), call_of(#function, {x.wording()})};           \
    }
ATTN_EACH(exp, std::exp(one))
ATTN_EACH(sqrt, std::sqrt(one))
ATTN_EACH(tanh, std::tanh(one))
#undef ATTN_EACH

template <class T>
Term<T> sigmoid(Term<T> x)
{
    Wording wording = call_of("sigmoid", {x.wording()});
    if constexpr (std::same_as<T, Vector>)
        return {sigmoid(*x), std::move(wording)};
    else
        return {token_by_token(*x, [](const Matrix& tokens) { return sigmoid(tokens); }), std::move(wording)};
}

template <class A, class B>
auto matmul(const Term<A>& left, const Term<B>& right) -> Term<decltype(matmul(*left, *right))>
{
    return {matmul(*left, *right), operator_between(left.wording(), "@", right.wording(), Wording::multiplies)};
}

template <class T>
Term<T> transpose(Term<T> x)
{
    return {transpose(*x), with_suffix(x.wording(), ".T")};
}

template <class T>
Term<T> softmax(Term<T> scores)
{
    Wording wording = call_of("softmax", {scores.wording()});
    return {softmax(std::move(scores).take()), std::move(wording)};
}

template <class T>
Term<PerToken<T>> mean_of_features(const Term<T>& x)
{
    return {mean_of_features(*x), call_of("mean", {x.wording()}, "axis=-1")};
}

template <class T>
Term<PerToken<T>> sum_of_features(const Term<T>& x)
{
    return {sum_of_features(*x), call_of("sum", {x.wording()}, "axis=-1")};
}

template <class T>
Term<T> sum_as_column(const Term<T>& x)
{
    return {spread(sum_of_features(*x), 1), call_of("sum", {x.wording()}, "axis=-1, keepdims=True")};
}

template <class T>
Term<double> features(const Term<T>& x)
{
    return {static_cast<double>(x.shape(feature_axis<T>)), with_suffix(x.wording(), ".shape[-1]")};
}

template <class T>
auto column(const Term<T>& numbers) -> Term<std::conditional_t<std::same_as<T, Vector>, Matrix, Tensor3>>
{
    return {spread(*numbers, 1), with_suffix(numbers.wording(), "[..., None]")};
}

Term<double> entry(const Term<Matrix>& x, std::size_t row, std::size_t column)
{
    return {double((*x)(row, column)),
            with_suffix(x.wording(), "[" + std::to_string(row) + ", " + std::to_string(column) + "]")};
}

Term<Matrix> each_row(const Term<Vector>& numbers)
{
    return {spread(*numbers, 1), with_suffix(numbers.wording(), "[:, None]")};
}

template <class T>
Term<T> columns(const Term<T>& x, std::size_t begin, std::size_t end)
{
    return {columns(*x, begin, end), with_suffix(x.wording(), range_of(begin, end))};
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

template <class T>
std::vector<T> values_in(const std::vector<Term<T>>& parts)
{
    std::vector<T> values;
    for (const Term<T>& one : parts)
        values.push_back(*one);
    return values;
}

template <class T>
Wording concat_of(const std::vector<Term<T>>& parts, std::string_view axis)
{
    std::vector<Wording> wordings;
    for (const Term<T>& one : parts)
        wordings.push_back(one.wording());
    return call_of("concat", wordings, axis);
}

} // namespace

template <class T>
Term<T> concat_columns(const std::vector<Term<T>>& parts)
{
    return {concat_columns(values_in(parts)), concat_of(parts, "axis=-1")};
}

template <class T>
Term<T> concat_tokens(const std::vector<Term<T>>& parts)
{
    T all = *parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i)
        all = concat_rows(all, *parts[i]);
    return {std::move(all), concat_of(parts, "axis=-2")};
}

template <class T>
Term<T> concat_rows(const Term<T>& first, const Term<T>& second)
{
    return {concat_rows(*first, *second),
            call_of("concat", {first.wording(), second.wording()}, "axis=" + std::to_string(token_axis<T>))};
}

#define ATTN_PAIR(A, B)                                                                                                \
    template Term<Wider<A, B>> operator+(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> operator-(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> operator*(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> operator/(const Term<A>&, const Term<B>&);
ATTN_PAIR(Vector, Vector)
ATTN_PAIR(Matrix, Vector)
ATTN_PAIR(Vector, Matrix)
ATTN_PAIR(Vector, Tensor3)
ATTN_PAIR(Tensor3, Vector)
ATTN_PAIR(Matrix, Matrix)
ATTN_PAIR(Tensor3, Matrix)
ATTN_PAIR(Tensor3, Tensor3)
ATTN_PAIR(Tensor4, Tensor4)
#undef ATTN_PAIR

#define ATTN_ALONE(T)                                                                                                  \
    template Term<T> operator+(const Term<T>&, double);                                                                \
    template Term<T> operator+(double, const Term<T>&);                                                                \
    template Term<T> operator-(double, const Term<T>&);                                                                \
    template Term<T> operator*(const Term<T>&, double);                                                                \
    template Term<T> operator*(double, const Term<T>&);                                                                \
    template Term<T> operator/(const Term<T>&, double);                                                                \
    template Term<T> operator*(const Term<T>&, const Term<double>&);                                                   \
    template Term<T> operator/(const Term<T>&, const Term<double>&);                                                   \
    template Term<T> operator-(const Term<T>&);                                                                        \
    template Term<T> square(Term<T>);                                                                                  \
    template Term<T> exp(Term<T>);                                                                                     \
    template Term<T> sqrt(Term<T>);                                                                                    \
    template Term<T> tanh(Term<T>);
ATTN_ALONE(Vector)
ATTN_ALONE(Matrix)
ATTN_ALONE(Tensor3)
ATTN_ALONE(Tensor4)
#undef ATTN_ALONE

#define ATTN_TOKENS(T)                                                                                                 \
    template Term<T> sigmoid(Term<T>);                                                                                 \
    template Term<T> rows(const Term<T>&, std::size_t, std::size_t);                                                   \
    template Term<T> part(const Term<T>&, std::size_t, std::size_t, std::size_t);                                      \
    template Term<T> concat_tokens(const std::vector<Term<T>>&);                                                       \
    template Term<T> sum_as_column(const Term<T>&);                                                                    \
    template Term<double> features(const Term<T>&);                                                                    \
    template Term<PerToken<T>> mean_of_features(const Term<T>&);                                                       \
    template Term<PerToken<T>> sum_of_features(const Term<T>&);                                                        \
    template auto column(const Term<PerToken<T>>&)->Term<T>;                                                           \
    template auto matmul(const Term<T>&, const Term<Matrix>&)->Term<T>;
ATTN_TOKENS(Matrix)
ATTN_TOKENS(Tensor3)
#undef ATTN_TOKENS
template auto matmul(const Term<Tensor3>&, const Term<Tensor3>&) -> Term<Tensor3>;
template auto matmul(const Term<Tensor3>&, const Term<Vector>&) -> Term<Matrix>;
template auto matmul(const Term<Vector>&, const Term<Matrix>&) -> Term<Vector>;
template Term<Vector> sigmoid(Term<Vector>);
template auto matmul(const Term<Tensor4>&, const Term<Tensor4>&) -> Term<Tensor4>;

#define ATTN_ATTENDING(T)                                                                                              \
    template Term<T> transpose(Term<T>);                                                                               \
    template Term<T> softmax(Term<T>);                                                                                 \
    template Term<T> columns(const Term<T>&, std::size_t, std::size_t);                                                \
    template Term<T> concat_columns(const std::vector<Term<T>>&);                                                      \
    template Term<T> concat_rows(const Term<T>&, const Term<T>&);
ATTN_ATTENDING(Matrix)
ATTN_ATTENDING(Tensor3)
ATTN_ATTENDING(Tensor4)
#undef ATTN_ATTENDING

} // namespace attn
