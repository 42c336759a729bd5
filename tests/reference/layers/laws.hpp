#pragma once

#include "examples.hpp"
#include "test.hpp"

/// What holds for every layer, checked of a call.
namespace attn::test {

/// A mask of each sequence, of which about three of four pairs are allowed.
inline BatchMask random_batch_mask(Numbers& numbers, std::size_t b, std::size_t n, std::size_t m)
{
    BatchMask mask(BatchMask::shape_type{b, n, m});
    for (bool& allowed : mask)
        allowed = numbers.number() < 1;
    return mask;
}

/// The tensor that a layer gives, alone or beside weights and caches.
template <class Result>
const auto& output_of(const Result& result)
{
    if constexpr (Traceable<Result>)
        return result;
    else
        return result.output;
}

/// The same bits of everything that two calls of a layer give: of the output, and of the weights of each head.
template <class Result>
bool same_results(const Result& left, const Result& right)
{
    if (!same_bits(output_of(left), output_of(right)))
        return false;
    if constexpr (requires { left.weights; })
        return std::ranges::equal(left.weights, right.weights,
                                  [](const auto& one, const auto& other) { return same_bits(one, other); });
    else
        return true;
}

/// What a call records: it gives the same bits without a listener, and every step follows from its formula.
/// @param call  is given the trace
template <class Call>
Recorder traced(const Call& call)
{
    Recorder recorder;
    CHECK(same_results(call(Trace(recorder)), call(Trace())));
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    return recorder;
}

/// A batch gives what each of its sequences gives alone.
/// @param call  is given tokens, and a function from what belongs to the batch to what belongs to these tokens
template <class Call>
void check_batch(const Tensor3& x, const Call& call)
{
    const auto all = call(x, [](const auto& of_batch) { return of_batch; });
    for (std::size_t b = 0; b < x.shape(0); ++b) {
        CAPTURE(b);
        const auto own = [b](const auto& of_batch) { return sequence_by_hand(of_batch, b); };
        const auto alone = call(own(x), own);
        CHECK(close(own(output_of(all)), output_of(alone)));
        if constexpr (requires { all.weights; })
            for (std::size_t head = 0; head < all.weights.size(); ++head)
                CHECK(close(own(all.weights[head]), alone.weights[head]));
    }
}

/// A token that is another one changes its own output and the later ones, and no bit of an earlier one.
/// @param x     five tokens or more
/// @param call  is given tokens
template <class Call>
void check_causal(const Matrix& x, const Call& call)
{
    Matrix changed = x;
    changed(3, 1) -= 2; // one feature: a norm would take back a shift of all
    const auto before = call(x), after = call(changed);
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        CAPTURE(i);
        const Matrix one = row_by_hand(output_of(before), i), other = row_by_hand(output_of(after), i);
        if (i < 3)
            CHECK(same_bits(one, other));
        else
            CHECK_FALSE(close(one, other));
    }
}

} // namespace attn::test
