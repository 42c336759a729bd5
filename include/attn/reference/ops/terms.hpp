#pragma once

#include "attn/core/term.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <vector>

namespace attn {

/// @name Operations on terms, by the words of the formula language
///
/// They compute, and write what they compute. Products, slices and reducers are those of the other headers of this folder.
/// Sums, differences, products and quotients of two terms broadcast as in NumPy.
/// @throws ShapeError where two shapes don't fit together
/// @{

/// The container of a result: the one with more axes.
template <class A, class B>
using Wider =
    std::conditional_t<(std::tuple_size_v<typename A::shape_type> < std::tuple_size_v<typename B::shape_type>), B, A>;

template <class A, class B>
Term<Wider<A, B>> operator+(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> operator-(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> operator*(const Term<A>& left, const Term<B>& right);
template <class A, class B>
Term<Wider<A, B>> operator/(const Term<A>& left, const Term<B>& right);

template <class T>
Term<T> operator+(const Term<T>& left, double right);
template <class T>
Term<T> operator+(double left, const Term<T>& right);
template <class T>
Term<T> operator-(double left, const Term<T>& right);
template <class T>
Term<T> operator*(const Term<T>& left, double right);
template <class T>
Term<T> operator*(double left, const Term<T>& right);
template <class T>
Term<T> operator/(const Term<T>& left, double right);
template <class T>
Term<T> operator*(const Term<T>& left, const Term<double>& right);
template <class T>
Term<T> operator/(const Term<T>& left, const Term<double>& right);
template <class T>
Term<T> operator-(const Term<T>& x);

// By value, since argument-dependent lookup would prefer xtensor's functions for a term that is not const.

/// Each number times itself: x ** 2.
template <class T>
Term<T> square(Term<T> x);
template <class T>
Term<T> exp(Term<T> x);
template <class T>
Term<T> sqrt(Term<T> x);
Term<double> sqrt(Term<double> x);
template <class T>
Term<T> tanh(Term<T> x);
template <class T>
Term<T> sigmoid(Term<T> x);

/// left @ right
template <class A, class B>
auto matmul(const Term<A>& left, const Term<B>& right) -> Term<decltype(matmul(*left, *right))>;
/// x.T: the last two axes swapped.
template <class T>
Term<T> transpose(Term<T> x);
template <class T>
Term<T> softmax(Term<T> scores);

/// The mean, or the sum, of each token's features: mean(x, axis=-1).
template <class T>
Term<PerToken<T>> mean_of_features(const Term<T>& x);
template <class T>
Term<PerToken<T>> sum_of_features(const Term<T>& x);
/// The same sum with the axis kept: sum(x, axis=-1, keepdims=True).
template <class T>
Term<T> sum_as_column(const Term<T>& x);
/// How many features there are: x.shape[-1].
template <class T>
Term<double> features(const Term<T>& x);
/// One number for each token, as a column: mean[..., None].
template <class T>
auto column(const Term<T>& numbers) -> Term<std::conditional_t<std::same_as<T, Vector>, Matrix, Tensor3>>;

/// One number of a matrix: talking_scores[0, 1].
Term<double> entry(const Term<Matrix>& x, std::size_t row, std::size_t column);
/// A number for each row, as a column: temperature[:, None].
Term<Matrix> each_row(const Term<Vector>& numbers);

/// Each token's features from begin up to, not including, end: x[..., 0:2].
template <class T>
Term<T> columns(const Term<T>& x, std::size_t begin, std::size_t end);
/// The same of tokens: x[..., 0:2, :].
template <class T>
Term<T> rows(const Term<T>& x, std::size_t begin, std::size_t end);
/// Some tokens of one feature: beta[..., 0:2, 1:2].
template <class T>
Term<T> part(const Term<T>& x, std::size_t begin, std::size_t end, std::size_t feature);
/// Side by side: concat(a, b, axis=-1).
template <class T>
Term<T> concat_columns(const std::vector<Term<T>>& parts);
/// One after the other: concat(a, b, axis=-2).
template <class T>
Term<T> concat_tokens(const std::vector<Term<T>>& parts);
/// The same of two, with the axis counted from the front.
template <class T>
Term<T> concat_rows(const Term<T>& first, const Term<T>& second);

/// @}

} // namespace attn
