#include "attn/attention/mask.hpp"

#include "attn/shape.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace attn {
namespace {

Vector as_vector(const std::vector<std::size_t>& numbers)
{
    Vector vector(Vector::shape_type{numbers.size()});
    std::ranges::transform(numbers, vector.begin(), [](std::size_t number) { return static_cast<double>(number); });
    return vector;
}

std::string causal_formula(std::size_t n, std::size_t m, Causal alignment)
{
    const std::string diagonal = "arange(" + std::to_string(m) + ") <= arange(" + std::to_string(n) + ")[:, None]";
    if (n == m || alignment == Causal::top_left)
        return diagonal;
    return diagonal + " + (" + std::to_string(m) + " - " + std::to_string(n) + ")";
}

void expect_fit(const AnyMask& mask, const Shape& scores)
{
    const Shape shape = std::visit([](const auto& any) { return shape_of(any); }, mask);
    const bool same_pairs = std::equal(shape.end() - 2, shape.end(), scores.end() - 2);
    const bool same_batch = shape.size() == 2 || shape == scores;
    if (!same_pairs || !same_batch)
        throw ShapeError("attention: scores " + to_string(scores) + " and mask " + to_string(shape) +
                         " do not fit: expected a mask (n, m), or for a batch also (b, n, m)");
}

/// One mask as a batch of the same.
BatchMask repeat(const Mask& mask, std::size_t sequences)
{
    BatchMask batch(BatchMask::shape_type{sequences, mask.shape(0), mask.shape(1)});
    for (std::size_t b = 0; b < sequences; ++b)
        std::ranges::copy(mask, batch.begin() + static_cast<std::ptrdiff_t>(b * mask.size()));
    return batch;
}

BatchMask repeat(const BatchMask& mask, std::size_t) { return mask; }

/// Padding forbids a key to all n queries of its sequence.
BatchMask for_all_queries(const Mask& padding, std::size_t n)
{
    BatchMask batch(BatchMask::shape_type{padding.shape(0), n, padding.shape(1)});
    for (std::size_t b = 0; b < batch.shape(0); ++b)
        for (std::size_t i = 0; i < n; ++i)
            std::ranges::copy(xt::row(padding, b), &batch(b, i, 0));
    return batch;
}

template <class M>
void narrow(M& mask, const M& further)
{
    std::ranges::transform(mask, further, mask.begin(), std::logical_and<>());
}

/// Collects what allows a pair, and how the formula of the joined mask reads.
class Joined {
public:
    void add(const AnyMask& part, const std::string& name)
    {
        formula_ += (formula_.empty() ? "" : " & ") + name;
        if (!mask_) {
            mask_ = part;
        } else if (std::holds_alternative<Mask>(*mask_) && std::holds_alternative<Mask>(part)) {
            narrow(std::get<Mask>(*mask_), std::get<Mask>(part));
        } else {
            const std::size_t sequences = std::max(sequences_of(*mask_), sequences_of(part));
            BatchMask batch = as_batch(*mask_, sequences);
            narrow(batch, as_batch(part, sequences));
            mask_ = std::move(batch);
        }
    }

    const std::optional<AnyMask>& mask() const { return mask_; }
    const std::string& formula() const { return formula_; }

private:
    static std::size_t sequences_of(const AnyMask& mask)
    {
        return std::holds_alternative<Mask>(mask) ? 1 : std::get<BatchMask>(mask).shape(0);
    }
    static BatchMask as_batch(const AnyMask& mask, std::size_t sequences)
    {
        return std::visit([&](const auto& any) { return repeat(any, sequences); }, mask);
    }

    std::optional<AnyMask> mask_;
    std::string formula_;
};

template <Sequence T>
T allowed_or(const AnyMask& mask, const T& scores, double otherwise)
{
    expect_fit(mask, shape_of(scores));
    T result = scores;
    std::visit(
        [&](const auto& any) {
            // One mask for a whole batch begins again with each sequence.
            for (std::size_t i = 0; i < result.size(); ++i)
                if (!any.data()[i % any.size()])
                    result.data()[i] = otherwise;
        },
        mask);
    return result;
}

} // namespace

Mask causal_mask(std::size_t n, std::size_t m, Causal alignment, const Trace& trace)
{
    const std::size_t further = alignment == Causal::bottom_right ? m : n; // the last query's place, plus one
    Mask mask(Mask::shape_type{n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            mask(i, j) = j + n <= i + further;
    return trace(
        "causal[n, m]", [&] { return causal_formula(n, m, alignment); }, std::move(mask));
}

Mask padding_mask(const std::vector<std::size_t>& lengths, std::size_t m, const Trace& trace)
{
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (lengths[b] > m)
            throw ShapeError("padding_mask: lengths[" + std::to_string(b) + "] is " + std::to_string(lengths[b]) +
                             ", expected at most m = " + std::to_string(m) + " keys");
    trace.input("lengths[b]", as_vector(lengths));
    Mask mask(Mask::shape_type{lengths.size(), m});
    for (std::size_t b = 0; b < lengths.size(); ++b)
        for (std::size_t j = 0; j < m; ++j)
            mask(b, j) = j < lengths[b];
    return trace(
        "padding[b, m]", [&] { return "arange(" + std::to_string(m) + ") < lengths[:, None]"; }, std::move(mask));
}

std::vector<std::size_t> as_lengths(const Vector& numbers)
{
    std::vector<std::size_t> lengths;
    for (const double number : numbers) {
        if (!(number >= 0 && number < 0x1p53 && number == std::trunc(number)))
            throw Error("lengths holds " + exact_text(number) + ", expected whole numbers from 0");
        lengths.push_back(static_cast<std::size_t>(number));
    }
    return lengths;
}

std::optional<AnyMask> join_masks(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace)
{
    const bool padded = !parts.key_lengths.empty();
    if (!parts.given && !parts.causal && !padded)
        return std::nullopt;

    Joined joined;
    if (parts.given) {
        Shape scores = std::visit([](const auto& any) { return shape_of(any); }, *parts.given);
        scores[scores.size() - 2] = n;
        scores[scores.size() - 1] = m;
        if (padded && scores.size() == 3)
            scores[0] = parts.key_lengths.size();
        expect_fit(*parts.given, scores);
        if (!parts.causal && !padded) {
            std::visit([&](const auto& any) { trace.input("mask[(b,) n, m]", any); }, *parts.given);
            return parts.given;
        }
        std::visit([&](const auto& any) { trace.input("given_mask[(b,) n, m]", any); }, *parts.given);
        joined.add(*parts.given, "given_mask");
    }
    if (parts.causal)
        joined.add(causal_mask(n, m, *parts.causal, trace), "causal");
    if (padded)
        joined.add(for_all_queries(padding_mask(parts.key_lengths, m, trace), n), "padding[:, None, :]");
    const auto named = [&](const auto& any) -> AnyMask {
        return trace(
            "mask[(b,) n, m]",
            [&] {
                // Padding by itself has no axis of queries to broadcast with.
                return parts.given || parts.causal ? joined.formula()
                                                   : "repeat(padding[:, None, :], " + std::to_string(n) + ", axis=1)";
            },
            any);
    };
    return std::visit(named, *joined.mask());
}

Matrix apply_mask(const AnyMask& mask, const Matrix& scores, double otherwise)
{
    return allowed_or(mask, scores, otherwise);
}

Tensor3 apply_mask(const AnyMask& mask, const Tensor3& scores, double otherwise)
{
    return allowed_or(mask, scores, otherwise);
}

} // namespace attn
