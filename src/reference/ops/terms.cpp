#include "attn/reference/ops/terms.hpp"

#include "any_rank.hpp"

#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/softmax.hpp"
#include "attn/reference/ops/top_k.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

namespace attn {
namespace {

Shape broadcast_shape(const Shape& left, const Shape& right)
{
    Shape shape(std::max(left.size(), right.size()), 1);
    for (std::size_t back = 1; back <= shape.size(); ++back) {
        const std::size_t a = back <= left.size() ? left[left.size() - back] : 1;
        const std::size_t b = back <= right.size() ? right[right.size() - back] : 1;
        if (a != b && a != 1 && b != 1)
            throw ShapeError("terms of the shapes ", left, " and ", right, " can't be taken number by number");
        shape[shape.size() - back] = a == 1 ? b : a;
    }
    return shape;
}

/// An operand's numbers, as a result of another shape takes them: one for all where its axis has one entry, or where it has no such axis.
template <class T>
struct Operand {
    const T* numbers;
    Shape steps; ///< along the axes of the result

    Operand(const T* data, const Shape& shape, const Shape& result) : numbers(data), steps(result.size(), 0)
    {
        std::size_t step = 1;
        for (std::size_t axis = shape.size(), to = result.size(); axis-- > 0; step *= shape[axis])
            steps[--to] = shape[axis] == 1 ? 0 : step;
    }

    /// The first of a row of the last axis.
    const T* row(const Shape& at) const
    {
        return std::inner_product(at.begin(), at.end(), steps.begin(), std::size_t{}) + numbers;
    }
    std::size_t step() const { return steps.empty() ? 0 : steps.back(); }
};

/// Number by number.
template <class Result, class Function, class... T>
Result elementwise(const Function& function, const T&... of)
{
    Shape shape;
    ((shape = broadcast_shape(shape, shape_of(of))), ...);
    auto result = unwritten<Result>(shape);
    const auto row_by_row = [&](const auto&... operand) {
        const std::size_t row = shape.empty() ? 1 : shape.back(), size = element_count(shape);
        Shape at(shape.size(), 0);
        auto* to = data_of(result);
        const auto one_row = [&](const auto*... numbers) {
            for (std::size_t i = 0; i < row; ++i)
                to[i] = function(numbers[i * operand.step()]...);
        };
        for (std::size_t done = 0; done < size; done += row, to += row) {
            one_row(operand.row(at)...);
            for (std::size_t axis = shape.empty() ? 0 : shape.size() - 1; axis-- > 0 && ++at[axis] == shape[axis];)
                at[axis] = 0;
        }
    };
    row_by_row(Operand(data_of(of), shape_of(of), shape)...);
    return result;
}

template <class T, class Function>
T number_by_number(const T& x, const Function& function)
{
    if constexpr (std::is_arithmetic_v<T>) {
        return function(x);
    } else {
        T result(x.shape());
        std::ranges::transform(x, result.begin(), function);
        return result;
    }
}

double larger_of(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double smaller_of(double a, double b) { return a < b || std::isnan(a) ? a : b; }

/// A reduction of all numbers: of each row first, then of what the rows gave.
template <class Function>
double folded(const double* numbers, const Shape& shape, std::size_t axis, double start, const Function& step)
{
    double so_far = start;
    const std::size_t each = element_count({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()});
    for (std::size_t i = 0; i < shape[axis]; ++i)
        so_far = step(so_far,
                      axis + 1 == shape.size() ? numbers[i] : folded(numbers + i * each, shape, axis + 1, start, step));
    return so_far;
}

/// A reduction along an axis, whose numbers are taken from the first on.
template <class Result, class T, class Function, class Last>
Result reduced(const T& x, int axis, bool keeps, double start, const Function& step, const Last& last)
{
    const std::size_t at = counted(axis, rank_of<T>);
    Shape shape = shape_of(x);
    const Along seen(shape, at);
    if (keeps)
        shape[at] = 1;
    else
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
    auto result = unwritten<Result>(shape);
    for (std::size_t i = 0; i < seen.before; ++i)
        for (std::size_t k = 0; k < seen.after; ++k) {
            double so_far = start;
            for (std::size_t j = 0; j < seen.size; ++j)
                so_far = step(so_far, x.data()[(i * seen.size + j) * seen.after + k]);
            data_of(result)[i * seen.after + k] = last(so_far, static_cast<double>(seen.size));
        }
    return result;
}

} // namespace

// ------------------------------------------------------------------------------------------------------ number by number

namespace {
template <class T>
using Reals = T;
} // namespace

#define ATTN_OPERATOR(sign, Result, binding, ...)                                                                      \
    template <class A, class B>                                                                                        \
    Term<Result<Wider<A, B>>> operator sign(const Term<A>& left, const Term<B>& right)                                 \
    {                                                                                                                  \
        return {elementwise<Result<Wider<A, B>>>(__VA_ARGS__, *left, *right),                                          \
                operator_between(left.wording(), #sign, right.wording(), Wording::binding)};                           \
    }
ATTN_OPERATOR(+, Reals, adds, std::plus())
ATTN_OPERATOR(-, Reals, adds, std::minus())
ATTN_OPERATOR(*, Reals, multiplies, std::multiplies())
ATTN_OPERATOR(/, Reals, multiplies, std::divides())
ATTN_OPERATOR(<, Truths, compares, std::less())
ATTN_OPERATOR(<=, Truths, compares, std::less_equal())
ATTN_OPERATOR(>, Truths, compares, std::greater())
ATTN_OPERATOR(>=, Truths, compares, std::greater_equal())
ATTN_OPERATOR(==, Truths, compares, std::equal_to())
ATTN_OPERATOR(!=, Truths, compares, std::not_equal_to())
ATTN_OPERATOR(&, Truths, meets, std::logical_and())
ATTN_OPERATOR(|, Truths, joins, std::logical_or())
#undef ATTN_OPERATOR

template <class A, class B>
Term<Wider<A, B>> power(const Term<A>& left, const Term<B>& right)
{
    return {elementwise<Wider<A, B>>([](double a, double b) { return std::pow(a, b); }, *left, *right),
            operator_between(left.wording(), "**", right.wording(), Wording::raises)};
}

template <class A, class B>
Term<Wider<A, B>> maximum(const Term<A>& left, const Term<B>& right)
{
    return {elementwise<Wider<A, B>>(larger_of, *left, *right), call_of("maximum", {left.wording(), right.wording()})};
}

template <class A, class B>
Term<Wider<A, B>> minimum(const Term<A>& left, const Term<B>& right)
{
    return {elementwise<Wider<A, B>>(smaller_of, *left, *right), call_of("minimum", {left.wording(), right.wording()})};
}

template <class T>
Term<T> operator-(const Term<T>& x)
{
    return {number_by_number(*x, std::negate()), with_prefix("-", x.wording())};
}

template <class T>
Term<T> square(Term<T> x)
{
    return {number_by_number(*x, [](double one) { return one * one; }), with_power(x.wording(), "2")};
}

#define ATTN_EACH(function, number)                                                                                    \
    template <class T>                                                                                                 \
    Term<T> function(Term<T> x)                                                                                        \
    {                                                                                                                  \
        return {number_by_number(*x, [](double one) { return number; }), call_of(#function, {x.wording()})};           \
    }
ATTN_EACH(exp, std::exp(one))
ATTN_EACH(log, std::log(one))
ATTN_EACH(sqrt, std::sqrt(one))
ATTN_EACH(tanh, std::tanh(one))
ATTN_EACH(relu, one < 0 ? 0 : one)
ATTN_EACH(abs, std::abs(one))
ATTN_EACH(erf, std::erf(one))
ATTN_EACH(sin, std::sin(one))
ATTN_EACH(cos, std::cos(one))
ATTN_EACH(floor, std::floor(one))
#undef ATTN_EACH

template <class T>
Term<T> sigmoid(Term<T> x)
{
    return {number_by_number(*x, [](double one) { return sigmoid(one); }), call_of("sigmoid", {x.wording()})};
}

template <class A, class B>
Term<Wider<A, B>> where(Term<Truths<Wider<A, B>>> mask, Term<A> yes, Term<B> no)
{
    return {elementwise<Wider<A, B>>([](bool is_so, double a, double b) { return is_so ? a : b; }, *mask, *yes, *no),
            call_of("where", {mask.wording(), yes.wording(), no.wording()})};
}

template <class T>
Term<T> where(Term<Truths<T>> mask, Term<T> yes, double no)
{
    Term<double> other = beside(no, yes);
    return where<T, double>(std::move(mask), std::move(yes), std::move(other));
}

// -------------------------------------------------------------------------------------------------- along an axis

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
Term<T> softmax(Term<T> scores, int axis)
{
    Wording wording = call_of("softmax", {scores.wording()}, axis_text(axis));
    const std::size_t last = rank_of<T> - 1;
    std::vector<std::size_t> order(rank_of<T>);
    std::iota(order.begin(), order.end(), std::size_t{});
    std::swap(order[counted(axis, rank_of<T>)], order[last]); // its own inverse
    T turned = softmax(*permute(std::move(scores), order));
    return {permute(Term<T>(std::move(turned)), order).take(), std::move(wording)};
}

template <class T>
Term<Truths<T>> top_k(Term<T> scores, std::size_t k)
{
    return {top_k(*scores, k), call_of("top_k", {scores.wording()}, std::to_string(k))};
}

#define ATTN_REDUCER(word, start, step, last)                                                                          \
    template <class T>                                                                                                 \
    Term<double> word##_all(const Term<T>& x)                                                                          \
    {                                                                                                                  \
        const double all = folded(x->data(), shape_of(*x), 0, start, step);                                            \
        [[maybe_unused]] const auto count = static_cast<double>(x.size());                                             \
        return {double(last), call_of(#word, {x.wording()})};                                                          \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    Term<Fewer<T>> word##_along(const Term<T>& x, int axis)                                                            \
    {                                                                                                                  \
        return {reduced<Fewer<T>>(*x, axis, false, start, step,                                                        \
                                  [](double all, [[maybe_unused]] double count) { return last; }),                     \
                call_of(#word, {x.wording()}, axis_text(axis))};                                                       \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    Term<T> word##_along(const Term<T>& x, int axis, KeepDims)                                                         \
    {                                                                                                                  \
        return {                                                                                                       \
            reduced<T>(*x, axis, true, start, step, [](double all, [[maybe_unused]] double count) { return last; }),   \
            call_of(#word, {x.wording()}, axis_text(axis) + ", keepdims=True")};                                       \
    }
ATTN_REDUCER(sum, 0.0, std::plus(), all)
ATTN_REDUCER(mean, 0.0, std::plus(), all / count)
ATTN_REDUCER(max, minus_infinity, larger_of, all)
ATTN_REDUCER(min, -minus_infinity, smaller_of, all)
#undef ATTN_REDUCER

// -------------------------------------------------------------------------------------------- instantiated once, for all

#define ATTN_TRUTHS(A, B)                                                                                              \
    template Term<Truths<Wider<A, B>>> operator<(const Term<A>&, const Term<B>&);                                      \
    template Term<Truths<Wider<A, B>>> operator<=(const Term<A>&, const Term<B>&);                                     \
    template Term<Truths<Wider<A, B>>> operator>(const Term<A>&, const Term<B>&);                                      \
    template Term<Truths<Wider<A, B>>> operator>=(const Term<A>&, const Term<B>&);                                     \
    template Term<Truths<Wider<A, B>>> operator==(const Term<A>&, const Term<B>&);                                     \
    template Term<Truths<Wider<A, B>>> operator!=(const Term<A>&, const Term<B>&);                                     \
    template Term<Wider<A, B>> where(Term<Truths<Wider<A, B>>>, Term<A>, Term<B>);
#define ATTN_NUMBERS(A, B)                                                                                             \
    template Term<Wider<A, B>> operator+(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> operator-(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> operator*(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> operator/(const Term<A>&, const Term<B>&);                                              \
    template Term<Wider<A, B>> power(const Term<A>&, const Term<B>&);                                                  \
    template Term<Wider<A, B>> maximum(const Term<A>&, const Term<B>&);                                                \
    template Term<Wider<A, B>> minimum(const Term<A>&, const Term<B>&);
#define ATTN_WITH_ALL(DO, A) DO(A, double) DO(A, Vector) DO(A, Matrix) DO(A, Tensor3) DO(A, Tensor4)
#define ATTN_WITH_LONG(DO, A) DO(A, Matrix) DO(A, Tensor3) DO(A, Tensor4)
ATTN_WITH_ALL(ATTN_NUMBERS, double)
ATTN_WITH_ALL(ATTN_NUMBERS, Vector)
ATTN_WITH_ALL(ATTN_NUMBERS, Matrix)
ATTN_WITH_ALL(ATTN_NUMBERS, Tensor3)
ATTN_WITH_ALL(ATTN_NUMBERS, Tensor4)
ATTN_WITH_LONG(ATTN_TRUTHS, double)
ATTN_WITH_LONG(ATTN_TRUTHS, Vector)
ATTN_WITH_ALL(ATTN_TRUTHS, Matrix)
ATTN_WITH_ALL(ATTN_TRUTHS, Tensor3)
ATTN_WITH_ALL(ATTN_TRUTHS, Tensor4)
#define ATTN_LOGICAL(A, B)                                                                                             \
    template Term<Truths<Wider<A, B>>> operator&(const Term<A>&, const Term<B>&);                                      \
    template Term<Truths<Wider<A, B>>> operator|(const Term<A>&, const Term<B>&);
#define ATTN_WITH_MASKS(DO, A) DO(A, Mask) DO(A, BatchMask) DO(A, HeadMask)
ATTN_WITH_MASKS(ATTN_LOGICAL, Mask)
ATTN_WITH_MASKS(ATTN_LOGICAL, BatchMask)
ATTN_WITH_MASKS(ATTN_LOGICAL, HeadMask)
#undef ATTN_TRUTHS
#undef ATTN_NUMBERS
#undef ATTN_LOGICAL
#undef ATTN_WITH_MASKS
#undef ATTN_WITH_ALL
#undef ATTN_WITH_LONG

#define ATTN_ANY(T)                                                                                                    \
    template Term<T> operator-(const Term<T>&);                                                                        \
    template Term<T> square(Term<T>);                                                                                  \
    template Term<T> exp(Term<T>);                                                                                     \
    template Term<T> log(Term<T>);                                                                                     \
    template Term<T> sqrt(Term<T>);                                                                                    \
    template Term<T> tanh(Term<T>);                                                                                    \
    template Term<T> sigmoid(Term<T>);                                                                                 \
    template Term<T> relu(Term<T>);                                                                                    \
    template Term<T> abs(Term<T>);                                                                                     \
    template Term<T> erf(Term<T>);                                                                                     \
    template Term<T> sin(Term<T>);                                                                                     \
    template Term<T> cos(Term<T>);                                                                                     \
    template Term<T> floor(Term<T>);
#define ATTN_REDUCED(T, word)                                                                                          \
    template Term<double> word##_all(const Term<T>&);                                                                  \
    template Term<Fewer<T>> word##_along(const Term<T>&, int);                                                         \
    template Term<T> word##_along(const Term<T>&, int, KeepDims);
#define ATTN_TENSOR(T)                                                                                                 \
    ATTN_ANY(T)                                                                                                        \
    ATTN_REDUCED(T, sum)                                                                                               \
    ATTN_REDUCED(T, mean)                                                                                              \
    ATTN_REDUCED(T, max)                                                                                               \
    ATTN_REDUCED(T, min)                                                                                               \
    template Term<T> softmax(Term<T>);                                                                                 \
    template Term<T> softmax(Term<T>, int);
ATTN_ANY(double)
ATTN_TENSOR(Vector)
ATTN_TENSOR(Matrix)
ATTN_TENSOR(Tensor3)
ATTN_TENSOR(Tensor4)
#undef ATTN_ANY
#undef ATTN_REDUCED
#undef ATTN_TENSOR

#define ATTN_ROWS(T, Truth)                                                                                            \
    template Term<T> where(Term<Truth>, Term<T>, double);                                                              \
    template Term<Truth> top_k(Term<T>, std::size_t);                                                                  \
    template Term<T> transpose(Term<T>);
ATTN_ROWS(Matrix, Mask)
ATTN_ROWS(Tensor3, BatchMask)
ATTN_ROWS(Tensor4, HeadMask)
#undef ATTN_ROWS

#define ATTN_PRODUCT(A, B) template auto matmul(const Term<A>&, const Term<B>&)->Term<decltype(matmul(A(), B()))>;
ATTN_PRODUCT(Vector, Matrix)
ATTN_PRODUCT(Matrix, Vector)
ATTN_PRODUCT(Matrix, Matrix)
ATTN_PRODUCT(Tensor3, Vector)
ATTN_PRODUCT(Tensor3, Matrix)
ATTN_PRODUCT(Tensor3, Tensor3)
ATTN_PRODUCT(Tensor4, Tensor4)
#undef ATTN_PRODUCT

} // namespace attn
