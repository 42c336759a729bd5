#include "attn/attention/mask.hpp"

#include "attn/shape.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

std::string causal_formula(std::size_t n, std::size_t m, Causal alignment)
{
    const std::string diagonal = "arange(" + std::to_string(m) + ") <= arange(" + std::to_string(n) + ")[:, None]";
    if (n == m || alignment == Causal::top_left)
        return diagonal;
    return diagonal + " + (" + std::to_string(m) + " - " + std::to_string(n) + ")";
}

/// Checks a mask or a bias against the scores that it is for.
template <class Variant>
void expect_fit(std::string_view role, const Variant& given, const Shape& scores)
{
    const Shape shape = std::visit([](const auto& any) { return shape_of(any); }, given);
    const bool same_pairs = std::equal(shape.end() - 2, shape.end(), scores.end() - 2);
    const bool same_batch = shape.size() == 2 || shape == scores;
    if (!same_pairs || !same_batch)
        throw ShapeError("attention: scores " + to_string(scores) + " and " + std::string(role) + " " +
                         to_string(shape) + " do not fit: expected a " + std::string(role) +
                         " (n, m), or for a batch also (b, n, m)");
}

/// The mask that is given has to be for n queries, m keys, and as many sequences as there are lengths.
void expect_fit(const MaskParts& parts, std::size_t n, std::size_t m)
{
    const bool is_batch = std::holds_alternative<BatchMask>(*parts.given);
    Shape scores{n, m};
    if (is_batch)
        scores.insert(scores.begin(),
                      parts.key_lengths ? parts.key_lengths->size() : std::get<BatchMask>(*parts.given).shape(0));
    expect_fit("mask", *parts.given, scores);
}

/// Padding forbids a key to all n queries of its sequence.
BatchMask for_all_queries(const Mask& padding, std::size_t n)
{
    BatchMask batch(BatchMask::shape_type{padding.shape(0), n, padding.shape(1)});
    for (std::size_t b = 0; b < batch.shape(0); ++b)
        for (std::size_t i = 0; i < n; ++i)
            std::ranges::copy(xt::row(padding, b), &batch(b, i, 0));
    return batch;
}

/// What both masks allow. One mask for a whole batch begins again with each sequence.
AnyMask both(const AnyMask& left, const AnyMask& right)
{
    const auto allow = [](auto result, const auto& further) -> AnyMask {
        for (std::size_t i = 0; i < result.size(); ++i)
            result.data()[i] = result.data()[i] && further.data()[i % further.size()];
        return result;
    };
    return left.index() >= right.index() ? std::visit(allow, left, right) : std::visit(allow, right, left);
}

/// Collects what allows a pair, and how the formula of the joined mask reads.
struct Joined {
    std::optional<AnyMask> mask = {};
    std::string formula = {};

    void add(const AnyMask& part, const std::string& name)
    {
        formula += (mask ? " & " : "") + name;
        mask = mask ? both(*mask, part) : part;
    }
};

} // namespace

Mask causal_mask(std::size_t n, std::size_t m, Causal alignment, const Trace& trace)
{
    const std::size_t further = alignment == Causal::bottom_right ? m : n; // the last query's position, plus one
    Mask mask(Mask::shape_type{n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            mask(i, j) = j + n <= i + further;
    return trace(
        "causal[n, m]", [&] { return causal_formula(n, m, alignment); }, std::move(mask));
}

Mask padding_mask(const Integers& given, std::size_t m, const Trace& trace)
{
    const Integers& lengths = trace.input("lengths[b]", given);
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (lengths(b) < 0 || static_cast<std::size_t>(lengths(b)) > m)
            throw ShapeError("padding_mask: lengths[" + std::to_string(b) + "] is " + std::to_string(lengths(b)) +
                             ", expected 0 to m = " + std::to_string(m) + " keys");
    Mask mask(Mask::shape_type{lengths.size(), m});
    for (std::size_t b = 0; b < lengths.size(); ++b)
        for (std::size_t j = 0; j < m; ++j)
            mask(b, j) = j < static_cast<std::size_t>(lengths(b));
    return trace(
        "padding[b, m]", [&] { return "arange(" + std::to_string(m) + ") < lengths[:, None]"; }, std::move(mask));
}

std::optional<AnyMask> join_masks(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace,
                                  std::string_view label)
{
    if (parts.given)
        expect_fit(parts, n, m);
    if (!parts.causal && !parts.key_lengths)
        return share(label, parts.given, trace);

    Joined joined;
    if (parts.given)
        joined.add(std::visit([&](const auto& any) -> AnyMask { return trace.input("given_mask[(b,) n, m]", any); },
                              *parts.given),
                   "given_mask");
    if (parts.causal)
        joined.add(causal_mask(n, m, *parts.causal, trace), "causal");
    if (parts.key_lengths)
        joined.add(for_all_queries(padding_mask(*parts.key_lengths, m, trace), n), "padding[:, None, :]");

    if (!parts.given && !parts.key_lengths) {
        if (trace.has_listener())
            trace.alias(parse_step_label(label).name, "causal");
        return joined.mask;
    }
    // Padding by itself has no axis of queries to broadcast with.
    if (!parts.given && !parts.causal)
        joined.formula = "repeat(padding[:, None, :], " + std::to_string(n) + ", axis=1)";
    return std::visit([&](const auto& any) -> AnyMask { return trace(label, joined.formula, any); }, *joined.mask);
}

std::string describe(const std::optional<AnyMask>& given, const std::optional<Causal>& causal)
{
    if (!causal)
        return given ? "given" : "none";
    return std::string(given ? "given, " : "") + (*causal == Causal::top_left ? "causal-top-left" : "causal");
}

template <Sequence T>
T apply_mask(const AnyMask& mask, const T& scores, double otherwise)
{
    expect_fit("mask", mask, shape_of(scores));
    T result = scores;
    const auto apply = [&](const auto& any) {
        for (std::size_t i = 0; i < result.size(); ++i)
            if (!any.data()[i % any.size()]) // one mask for a whole batch begins again with each sequence
                result.data()[i] = otherwise;
    };
    std::visit(apply, mask);
    return result;
}

template <Sequence T>
T add_bias(const AnyBias& bias, const T& scores)
{
    expect_fit("bias", bias, shape_of(scores));
    T result = scores;
    const auto add = [&](const auto& any) {
        for (std::size_t i = 0; i < result.size(); ++i)
            result.data()[i] += any.data()[i % any.size()]; // so does a bias
    };
    std::visit(add, bias);
    return result;
}

template Matrix apply_mask(const AnyMask&, const Matrix&, double);
template Tensor3 apply_mask(const AnyMask&, const Tensor3&, double);
template Matrix add_bias(const AnyBias&, const Matrix&);
template Tensor3 add_bias(const AnyBias&, const Tensor3&);

} // namespace attn
