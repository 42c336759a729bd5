#pragma once

#include "attn/core/term.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <vector>

namespace attn {

/// @name Operations on terms, by the words of the formula language
///
/// They compute, and write what they compute: docs/formulas.md says what each word means. Axes are counted as there, from the back where
/// they are negative, and terms broadcast as in NumPy.
/// @throws ShapeError where the shapes of two terms don't fit together
/// @{

/// Real numbers with so many axes.
template <std::size_t axes>
using RealsOf = std::tuple_element_t<axes, std::tuple<double, Vector, Matrix, Tensor3, Tensor4>>;
/// Booleans with so many axes, of which there are two at least.
template <std::size_t axes>
using TruthsOf = std::tuple_element_t<axes - 2, std::tuple<Mask, BatchMask, HeadMask>>;

template <class T>
inline constexpr std::size_t rank_of = std::tuple_size_v<typename T::shape_type>;
template <>
inline constexpr std::size_t rank_of<double> = 0;

/// The container of what two terms give together: the one with more axes.
template <class A, class B>
using Wider = RealsOf<(rank_of<A> < rank_of<B> ? rank_of<B> : rank_of<A>)>;
/// What is left where an axis goes.
template <class T>
using Fewer = RealsOf<rank_of<T> - 1>;
/// Which of the numbers are so.
template <class T>
using Truths = TruthsOf<rank_of<T>>;

/// A number that is no step: "0.5".
template <class Number>
requires std::is_arithmetic_v<Number> Term<double> number(Number value, const Trace& trace)
{
    const auto real = static_cast<double>(value);
    return {double(real), trace.has_listener() ? trace.worded(exact_text(real)) : Wording()};
}

template <class A, class B>
Term<Wider<A, B>> operator+(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> operator-(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> operator*(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> operator/(const Term<A>& left, const Term<B>& right);
/// left ** right
template <class A, class B>
Term<Wider<A, B>> power(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> maximum(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> minimum(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator<(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator<=(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator>(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator>=(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator==(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator!=(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator&(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Truths<Wider<A, B>>> operator|(const Term<A>& left, const Term<B>& right);

/// The number on the other side of an operator.
template <class T>
Term<double> beside(double value, const Term<T>& term)
{
    return {double(value), wording_of(value, term.wording())};
}
#define ATTN_WITH_NUMBER(function)                                                                                     \
    template <class T>                                                                                                 \
    auto function(const Term<T>& left, double right)                                                                   \
    {                                                                                                                  \
        return function(left, beside(right, left));                                                                    \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    auto function(double left, const Term<T>& right)                                                                   \
    {                                                                                                                  \
        return function(beside(left, right), right);                                                                   \
    }
ATTN_WITH_NUMBER(operator+)
ATTN_WITH_NUMBER(operator-)
ATTN_WITH_NUMBER(operator*)
ATTN_WITH_NUMBER(operator/)
ATTN_WITH_NUMBER(power)
ATTN_WITH_NUMBER(maximum)
ATTN_WITH_NUMBER(minimum)
ATTN_WITH_NUMBER(operator<)
ATTN_WITH_NUMBER(operator<=)
ATTN_WITH_NUMBER(operator>)
ATTN_WITH_NUMBER(operator>=)
ATTN_WITH_NUMBER(operator==)
ATTN_WITH_NUMBER(operator!=)
#undef ATTN_WITH_NUMBER

// By value, since argument-dependent lookup would prefer xtensor's functions for a term that is not const.

template <class T>
Term<T> operator-(const Term<T>& x);
/// Each number times itself: x ** 2.
template <class T>
Term<T> square(Term<T> x);
template <class T>
Term<T> exp(Term<T> x);
template <class T>
Term<T> log(Term<T> x);
template <class T>
Term<T> sqrt(Term<T> x);
template <class T>
Term<T> tanh(Term<T> x);
template <class T>
Term<T> sigmoid(Term<T> x);
template <class T>
Term<T> relu(Term<T> x);
template <class T>
Term<T> abs(Term<T> x);
template <class T>
Term<T> erf(Term<T> x);
template <class T>
Term<T> sin(Term<T> x);
template <class T>
Term<T> cos(Term<T> x);
template <class T>
Term<T> floor(Term<T> x);

/// @param mask  as many axes as the result has, each of its size or of size 1
template <class A, class B>
Term<Wider<A, B>> where(Term<Truths<Wider<A, B>>> mask, Term<A> yes, Term<B> no);
template <class T>
Term<T> where(Term<Truths<T>> mask, Term<T> yes, double no);

/// left @ right
template <class A, class B>
auto matmul(const Term<A>& left, const Term<B>& right) -> Term<decltype(matmul(*left, *right))>;
/// x.T: the last two axes swapped.
template <class T>
Term<T> transpose(Term<T> x);
template <class T>
Term<T> softmax(Term<T> scores);
template <class T>
Term<T> softmax(Term<T> scores, int axis);
/// The k largest of each row.
template <class T>
Term<Truths<T>> top_k(Term<T> scores, std::size_t k);

/// For the last argument: the axis stays, with one entry.
inline constexpr struct KeepDims {
} keepdims;

#define ATTN_REDUCER(word)                                                                                             \
    /** word(x) */                                                                                                     \
    template <class T>                                                                                                 \
    Term<double> word##_all(const Term<T>& x);                                                                         \
    /** word(x, axis=1) */                                                                                             \
    template <class T>                                                                                                 \
    Term<Fewer<T>> word##_along(const Term<T>& x, int axis);                                                           \
    /** word(x, axis=1, keepdims=True) */                                                                              \
    template <class T>                                                                                                 \
    Term<T> word##_along(const Term<T>& x, int axis, KeepDims)
ATTN_REDUCER(sum);
ATTN_REDUCER(mean);
ATTN_REDUCER(max);
ATTN_REDUCER(min);
#undef ATTN_REDUCER

/// How many entries an axis has: x.shape[-1].
template <class T>
Term<double> size_along(const Term<T>& x, int axis);

/// One entry of the first axis: inputs[0].
template <class T>
Term<Fewer<T>> row_at(const Term<T>& x, std::size_t i);
/// The same; a template in i, or else xtensor's row() would fit a literal as well.
template <class T>
Term<Fewer<T>> row(Term<T> x, std::integral auto i)
{
    return row_at(x, static_cast<std::size_t>(i));
}
/// Entries of the first axis from begin up to, not including, end: scores[0:2].
template <class T>
Term<T> slice(const Term<T>& x, std::size_t begin, std::size_t end);
/// Rows by their numbers: table[ids].
Term<Matrix> take_rows(const Term<Matrix>& table, const Term<Integers>& ids);
Term<Tensor3> take_rows(const Term<Matrix>& table, const Term<IntegerMatrix>& ids);
/// One number of a matrix: talking_scores[0, 1].
Term<double> entry(const Term<Matrix>& x, std::size_t row, std::size_t column);
/// Each token's features from begin up to, not including, end: x[..., 0:2].
template <class T>
Term<T> columns(const Term<T>& x, std::size_t begin, std::size_t end);
/// The same of a matrix, as one writes it: x[:, 0:2].
Term<Matrix> matrix_columns(const Term<Matrix>& x, std::size_t begin, std::size_t end);
/// One column of a matrix: x[:, 0].
Term<Vector> matrix_column(const Term<Matrix>& x, std::size_t column);
/// Every second of them: x[..., 1:8:2], or x[..., 1::2] to the last.
template <class T>
Term<T> every_second(const Term<T>& x, std::size_t begin, std::size_t end);
/// The same of tokens: x[..., 0:2, :].
template <class T>
Term<T> rows(const Term<T>& x, std::size_t begin, std::size_t end);
/// Some tokens of one feature: beta[..., 0:2, 1:2].
template <class T>
Term<T> part(const Term<T>& x, std::size_t begin, std::size_t end, std::size_t feature);

/// One number for each token, as a column: mean[..., None].
template <class T>
Term<RealsOf<rank_of<T> + 1>> column(const Term<T>& numbers);
/// A number for each row, as a column: temperature[:, None].
Term<Matrix> each_row(const Term<Vector>& numbers);
/// One entry more in front: x[None, :], or x[None, ...] of more than one axis.
template <class T>
Term<RealsOf<rank_of<T> + 1>> in_front(const Term<T>& x);

/// One after the other.
template <class T>
Term<T> concat(const std::vector<Term<T>>& parts, int axis);
/// Tokens after the tokens of the same sequence.
template <Attending T>
Term<T> concat_rows(const Term<T>& first, const Term<T>& second)
{
    return concat(std::vector{first, second}, token_axis<T>);
}
/// Each entry so many times.
template <class T>
Term<T> repeat(Term<T> x, std::size_t count, int axis);
/// a0 b0 a1 b1 …, along the last axis.
template <class T>
Term<T> interleave(Term<T> a, Term<T> b);
/// So many zeros before and after.
template <class T>
Term<T> pad(Term<T> x, std::size_t before, std::size_t after, int axis);
/// Rows of zeros, to each of which the rows with its number are added.
Term<Matrix> scatter_add(const Term<Matrix>& rows, const Term<Integers>& ids, std::size_t count);
/// The same numbers in another shape.
template <class To, class From>
Term<To> reshape(const Term<From>& x, const Shape& shape);
/// The axes in another order.
template <class T>
Term<T> permute(Term<T> x, const std::vector<std::size_t>& order);
Term<Matrix> diag(Term<Vector> numbers);
Term<Matrix> outer(Term<Vector> left, Term<Vector> right);
/// 0, 1, …, count - 1
Term<Vector> arange(Term<double> count);

/// @}

} // namespace attn
