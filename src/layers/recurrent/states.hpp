#pragma once

#include "attn/layers/recurrent/cell.hpp"

#include <algorithm>
#include <vector>

/// States of recurrent layers: taken out of a sequence, put together again, and kept where a sequence has ended.
namespace attn::recurrent {

template <Sequence T>
constexpr std::size_t tokens = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

/// One token of a sequence, or the tokens of a batch at one place; so are states.
template <Sequence T>
using TokenOf = std::conditional_t<std::same_as<T, Matrix>, Vector, Matrix>;

/// What a cell carries on. The cell of a GRU is empty.
template <Sequence T>
using StateOf = LstmStateOf<TokenOf<T>>;

// ------------------------------------------------------------------------------------------------------- taking, giving

inline Vector token_of(const Matrix& x, std::size_t i) { return xt::row(x, static_cast<std::ptrdiff_t>(i)); }
inline Matrix token_of(const Tensor3& x, std::size_t i) { return xt::view(x, xt::all(), i, xt::all()); }

inline Vector state_of(const Matrix& states, std::size_t cell) { return token_of(states, cell); }
inline Matrix state_of(const Tensor3& states, std::size_t cell) { return xt::view(states, cell, xt::all(), xt::all()); }

/// Each token's state, in the order of tokens.
inline Matrix in_order(const std::vector<Vector>& states)
{
    Matrix all(Matrix::shape_type{states.size(), states.front().size()});
    for (std::size_t i = 0; i < states.size(); ++i)
        xt::view(all, i, xt::all()) = states[i];
    return all;
}

inline Tensor3 in_order(const std::vector<Matrix>& states)
{
    Tensor3 all(Tensor3::shape_type{states.front().shape(0), states.size(), states.front().shape(1)});
    for (std::size_t i = 0; i < states.size(); ++i)
        xt::view(all, xt::all(), i, xt::all()) = states[i];
    return all;
}

/// The states of all cells, one after the other.
inline Matrix as_cells(const std::vector<Vector>& states) { return in_order(states); }

inline Tensor3 as_cells(const std::vector<Matrix>& states)
{
    Tensor3 all(Tensor3::shape_type{states.size(), states.front().shape(0), states.front().shape(1)});
    for (std::size_t i = 0; i < states.size(); ++i)
        xt::view(all, i, xt::all(), xt::all()) = states[i];
    return all;
}

// ------------------------------------------------------------------------------------------------- ends of the sequences

/// A sequence that has ended keeps its state.
inline Vector where_real(const std::vector<std::size_t>&, std::size_t, const Vector& current, const Vector&)
{
    return current; // a single sequence has no padding
}

inline Matrix where_real(const std::vector<std::size_t>& lengths, std::size_t i, const Matrix& current,
                         const Matrix& previous)
{
    Matrix kept = previous;
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (i < lengths[b])
            xt::view(kept, b, xt::all()) = xt::view(current, b, xt::all());
    return kept;
}

/// Behind the end of its sequence, a token gives nothing.
inline void clear_padding(const std::vector<std::size_t>&, Matrix&) {}

inline void clear_padding(const std::vector<std::size_t>& lengths, Tensor3& output)
{
    for (std::size_t b = 0; b < lengths.size(); ++b)
        xt::view(output, b, xt::range(lengths[b], output.shape(1)), xt::all()) = 0.0;
}

inline Vector as_vector(const std::vector<std::size_t>& lengths)
{
    Vector numbers(Vector::shape_type{lengths.size()});
    std::copy(lengths.begin(), lengths.end(), numbers.begin());
    return numbers;
}

} // namespace attn::recurrent
