#include "attn/reference/attention/mask.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

constexpr Choice<Causal> alignments[] = {
    {Causal::bottom_right, "causal"}, {Causal::top_left, "causal-top-left"}, {Causal::by_length, "causal-by-length"}};

/// A formula as a part of another one.
std::string in_parentheses(std::string formula)
{
    formula.insert(formula.begin(), '(');
    formula.push_back(')');
    return formula;
}

/// The formula of a causal mask; `first` is the position of the first query among the keys, empty for 0.
std::string causal_formula(std::size_t n, std::size_t m, const std::string& first)
{
    const std::string diagonal = "arange(" + std::to_string(m) + ") <= arange(" + std::to_string(n) + ")[:, None]";
    return first.empty() ? diagonal : diagonal + " + " + first;
}

/// Checks a mask or a bias against the scores that it is for.
template <class Variant>
void expect_fit(std::string_view role, const Variant& given, const Shape& scores)
{
    const Shape shape = std::visit([](const auto& any) { return shape_of(any); }, given);
    const bool same_pairs = std::equal(shape.end() - 2, shape.end(), scores.end() - 2);
    const bool serves_all = shape.size() == 2 || shape == scores;
    const bool serves_heads = shape.size() == 4 && scores.size() == 4 && (shape[0] == 1 || shape[0] == scores[0]) &&
                              (shape[1] == 1 || shape[1] == scores[1]);
    if (!same_pairs || !(serves_all || serves_heads))
        throw ShapeError("attention: scores " + to_string(scores) + " and " + std::string(role) + " " +
                         to_string(shape) + " do not fit: expected a " + std::string(role) + " (n, m)" +
                         (scores.size() == 4 ? " or (b, h, n, m)" : ", or for a batch also (b, n, m)"));
}

/// The mask that is given has to be for n queries, m keys, and as many sequences as there are lengths.
void expect_fit(const MaskParts& parts, std::size_t n, std::size_t m)
{
    Shape scores = std::visit([](const auto& any) { return shape_of(any); }, *parts.given);
    scores.end()[-2] = n;
    scores.end()[-1] = m;
    if (scores.size() > 2 && (parts.key_lengths || parts.padding) && !(scores.size() == 4 && scores[0] == 1))
        scores[0] = parts.key_lengths ? parts.key_lengths->size() : parts.padding->shape(0);
    expect_fit("mask", *parts.given, scores);
}

/// Padding has to be for m keys.
void expect_padding(const MaskParts& parts, std::size_t m)
{
    if (!parts.padding)
        return;
    if (parts.key_lengths)
        throw Error("lengths and padding say the same: give one of them");
    if (parts.padding->shape(1) != m)
        throw ShapeError("padding " + to_string(shape_of(*parts.padding)) + " is not for m = " + std::to_string(m) +
                         " keys");
}

void expect_lengths(std::string_view function, const Integers& lengths, std::size_t m)
{
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (lengths(b) < 0 || static_cast<std::size_t>(lengths(b)) > m)
            throw ShapeError(std::string(function) + ": lengths[" + std::to_string(b) + "] is " +
                             std::to_string(lengths(b)) + ", expected 0 to m = " + std::to_string(m) + " keys");
}

// -------------------------------------------------------------------------------------------- one that serves several

/// The block (n, m) that a mask or a bias has for one head of one sequence. An axis that it lacks, or that has the size 1,
/// serves all.
template <class Container>
auto block_of(const Container& any, std::size_t sequence, std::size_t head)
{
    const Shape shape = shape_of(any);
    std::size_t block = 0;
    if (shape.size() > 2)
        block = sequence % shape[0];
    if (shape.size() > 3)
        block = block * shape[1] + head % shape[1];
    return any.data() + block * shape.end()[-2] * shape.end()[-1];
}

/// Does something with each score and the number that a mask or a bias has for it.
template <class Scores, class Container, class Work>
void pair_by_pair(Scores& scores, const Container& any, const Work& work)
{
    const Shape shape = shape_of(scores);
    const std::size_t heads = shape.size() == 4 ? shape[1] : 1, pairs = shape.end()[-2] * shape.end()[-1];
    for (std::size_t block = 0; block * pairs < scores.size(); ++block) {
        const auto of_block = block_of(any, block / heads, block % heads);
        for (std::size_t i = 0; i < pairs; ++i)
            work(scores.data()[block * pairs + i], of_block[i]);
    }
}

/// Padding forbids a key to all n queries of its sequence.
BatchMask for_all_queries(const Mask& padding, std::size_t n)
{
    expect_memory("mask", {padding.shape(0), n, padding.shape(1)}, sizeof(bool));
    BatchMask batch(BatchMask::shape_type{padding.shape(0), n, padding.shape(1)});
    for (std::size_t b = 0; b < batch.shape(0); ++b)
        for (std::size_t i = 0; i < n; ++i)
            std::ranges::copy(xt::row(padding, b), &batch(b, i, 0));
    return batch;
}

/// The same mask for all heads: (b, 1, n, m).
HeadMask for_all_heads(const BatchMask& mask)
{
    HeadMask heads(HeadMask::shape_type{mask.shape(0), 1, mask.shape(1), mask.shape(2)});
    std::ranges::copy(mask, heads.begin());
    return heads;
}

/// Everything allowed, for as many sequences and heads as either mask has.
template <class Left, class Right>
auto all_allowed(const Left& left, const Right& right)
{
    using Larger = std::conditional_t<
        (std::tuple_size_v<typename Left::shape_type> >= std::tuple_size_v<typename Right::shape_type>), Left, Right>;
    typename Larger::shape_type shape;
    std::ranges::fill(shape, 1);
    for (const Shape& given : {shape_of(left), shape_of(right)})
        for (std::size_t i = 1; i <= given.size(); ++i)
            shape.end()[-static_cast<std::ptrdiff_t>(i)] =
                std::max(shape.end()[-static_cast<std::ptrdiff_t>(i)], given.end()[-static_cast<std::ptrdiff_t>(i)]);
    Larger mask(shape);
    std::ranges::fill(mask, true);
    return mask;
}

/// What both masks allow.
AnyMask both(const AnyMask& left, const AnyMask& right)
{
    const auto join = [](const auto& first, const auto& second) -> AnyMask {
        auto result = all_allowed(first, second);
        const auto allow = [](bool& allowed, bool further) { allowed = allowed && further; };
        pair_by_pair(result, first, allow);
        pair_by_pair(result, second, allow);
        return result;
    };
    return std::visit(join, left, right);
}

/// What a mask allows, and another one of all sequences, too.
AnyMask either(AnyMask mask, const Mask& other)
{
    std::visit(
        [&](auto& any) { pair_by_pair(any, other, [](auto& allowed, bool further) { allowed = allowed || further; }); },
        mask);
    return mask;
}

/// Where the first query of each sequence stands among the keys, and how a formula says it.
struct Places {
    std::vector<std::ptrdiff_t> first;
    std::string text; ///< "6 - 4"
    bool is_batch = false;
};

Places places_of(std::size_t n, std::size_t m, const MaskParts& parts, const std::optional<Integers>& lengths)
{
    const auto before = [n](std::size_t keys) {
        return static_cast<std::ptrdiff_t>(keys) - static_cast<std::ptrdiff_t>(n);
    };
    const Causal alignment = parts.causal.value_or(parts.window.alignment);
    if (alignment == Causal::top_left)
        return {{static_cast<std::ptrdiff_t>(parts.past)}, std::to_string(parts.past)};
    if (alignment != Causal::by_length)
        return {{before(m)}, std::to_string(m) + " - " + std::to_string(n)};
    Places places{{}, "lengths[:, None, None] - " + std::to_string(n), true};
    for (const std::int64_t length : *lengths)
        places.first.push_back(before(static_cast<std::size_t>(length)));
    return places;
}

std::string window_formula(std::size_t n, std::size_t m, const Window& window, const std::string& first)
{
    const auto limit = [&](const char* comparison, const char* sign, std::size_t far) {
        return "arange(" + std::to_string(m) + ") " + comparison + " arange(" + std::to_string(n) + ")[:, None] + (" +
               first + sign + std::to_string(far) + ")";
    };
    if (!window.left)
        return limit("<=", " + ", *window.right);
    if (!window.right)
        return limit(">=", " - ", *window.left);
    return in_parentheses(limit(">=", " - ", *window.left)) + " & " + in_parentheses(limit("<=", " + ", *window.right));
}

/// The keys that are not further from each query than the window says.
AnyMask window_mask(std::size_t n, std::size_t m, const Window& window, const Places& places, const Trace& trace)
{
    expect_memory("window", {places.first.size(), n, m}, sizeof(bool));
    BatchMask near(BatchMask::shape_type{places.first.size(), n, m});
    for (std::size_t b = 0; b < near.shape(0); ++b)
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < m; ++j) {
                const std::ptrdiff_t after =
                    static_cast<std::ptrdiff_t>(j) - static_cast<std::ptrdiff_t>(i) - places.first[b];
                near(b, i, j) = (!window.left || -after <= static_cast<std::ptrdiff_t>(*window.left)) &&
                                (!window.right || after <= static_cast<std::ptrdiff_t>(*window.right));
            }
    const auto formula = [&] { return window_formula(n, m, window, places.text); };
    if (places.is_batch)
        return trace("window[b, n, m]", formula, std::move(near));
    return trace("window[n, m]", formula, Mask(xt::view(near, 0, xt::all(), xt::all())));
}

/// The first keys, for every query.
Mask first_keys(std::size_t n, std::size_t m, std::size_t kept)
{
    Mask first(Mask::shape_type{n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            first(i, j) = j < kept;
    return first;
}

/// The keys of each query's own chunk. The last query stands at the last key.
Mask chunk_mask(std::size_t n, std::size_t m, std::size_t chunk, const Trace& trace)
{
    if (chunk == 0 || n > m)
        throw Error("chunks have at least one token, and there are as many keys as queries, or more");
    expect_memory("chunk", {n, m}, sizeof(bool));
    Mask same(Mask::shape_type{n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            same(i, j) = j / chunk == (i + m - n) / chunk;
    const auto formula = [&] {
        const std::string size = " / " + std::to_string(chunk) + ")", of_keys = std::to_string(m);
        return "floor(arange(" + of_keys + ")" + size + " == floor((arange(" + std::to_string(n) + ")[:, None] + (" +
               of_keys + " - " + std::to_string(n) + "))" + size;
    };
    return trace("chunk[n, m]", formula, std::move(same));
}

/// Collects what allows a pair, and how the formula of the joined mask reads.
struct Joined {
    bool has_heads = false;
    std::optional<AnyMask> mask = {};
    std::string formula = {};

    /// @param subscript  that gives it the axes of the scores
    void add(AnyMask part, const std::string& name, const std::string& subscript = "")
    {
        const bool lacks_heads = has_heads && std::holds_alternative<BatchMask>(part);
        if (lacks_heads)
            part = for_all_heads(std::get<BatchMask>(part));
        formula += (mask ? " & " : "") + name + (lacks_heads && subscript.empty() ? "[:, None]" : subscript);
        mask = mask ? both(*mask, part) : std::move(part);
    }
};

} // namespace

Mask causal_mask(std::size_t n, std::size_t m, Causal alignment, const Trace& trace, std::size_t past)
{
    const bool is_bottom_right = alignment == Causal::bottom_right;
    const std::size_t further = is_bottom_right ? m : n + past; // the last query's position, plus one
    expect_memory("mask", {n, m}, sizeof(bool));
    Mask mask(Mask::shape_type{n, m});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            mask(i, j) = j + n <= i + further;
    return trace(
        "causal[n, m]",
        [&] {
            if (further == n)
                return causal_formula(n, m, "");
            return causal_formula(n, m,
                                  is_bottom_right ? in_parentheses(std::to_string(m) + " - " + std::to_string(n))
                                                  : std::to_string(past));
        },
        std::move(mask));
}

BatchMask causal_by_length(const Integers& given, std::size_t n, std::size_t m, const Trace& trace)
{
    const Integers& lengths = trace.input("lengths[b]", given);
    expect_lengths("causal_by_length", lengths, m);
    expect_memory("mask", {lengths.size(), n, m}, sizeof(bool));
    BatchMask mask(BatchMask::shape_type{lengths.size(), n, m});
    for (std::size_t b = 0; b < lengths.size(); ++b)
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < m; ++j)
                mask(b, i, j) = j + n <= i + static_cast<std::size_t>(lengths(b));
    return trace(
        "causal[b, n, m]", [&] { return causal_formula(n, m, "(lengths[:, None, None] - " + std::to_string(n) + ")"); },
        std::move(mask));
}

Mask padding_mask(const Integers& given, std::size_t m, const Trace& trace)
{
    const Integers& lengths = trace.input("lengths[b]", given);
    expect_lengths("padding_mask", lengths, m);
    Mask mask(Mask::shape_type{lengths.size(), m});
    for (std::size_t b = 0; b < lengths.size(); ++b)
        for (std::size_t j = 0; j < m; ++j)
            mask(b, j) = j < static_cast<std::size_t>(lengths(b));
    return trace(
        "padding[b, m]", [&] { return "arange(" + std::to_string(m) + ") < lengths[:, None]"; }, std::move(mask));
}

namespace {

Joined joined_parts(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace)
{
    const bool is_by_length = parts.causal == Causal::by_length;
    if ((is_by_length || parts.window.alignment == Causal::by_length) && !parts.key_lengths)
        throw Error("a mask or a window that is causal by length needs lengths: how many keys of each "
                    "sequence are real");
    std::optional<Integers> lengths = parts.key_lengths;
    if (is_by_length)
        lengths = trace.input("lengths[b]", *parts.key_lengths);

    Joined joined{parts.has_heads || (parts.given && std::holds_alternative<HeadMask>(*parts.given))};
    if (parts.given)
        joined.add(std::visit([&](const auto& any) -> AnyMask { return trace.input("given_mask[(b,) n, m]", any); },
                              *parts.given),
                   "given_mask");
    if (is_by_length)
        joined.add(causal_by_length(*lengths, n, m, trace), "causal");
    else if (parts.causal)
        joined.add(causal_mask(n, m, *parts.causal, trace, parts.past), "causal");
    std::optional<Mask> padding;
    if (parts.padding)
        padding = trace.input("padding[b, m]", *parts.padding);
    else if (lengths && !is_by_length) // which hides padding, too
        padding = padding_mask(*lengths, m, trace);
    if (padding)
        joined.add(for_all_queries(*padding, n), "padding", joined.has_heads ? "[:, None, None, :]" : "[:, None, :]");
    if (parts.window.is_limited()) {
        AnyMask window = window_mask(n, m, parts.window, places_of(n, m, parts, lengths), trace);
        if (parts.window.kept == 0)
            joined.add(std::move(window), "window");
        else
            joined.add(either(std::move(window), first_keys(n, m, parts.window.kept)),
                       "(window | (arange(" + std::to_string(m) + ") < " + std::to_string(parts.window.kept) + "))");
    }
    if (parts.chunk)
        joined.add(chunk_mask(n, m, *parts.chunk, trace), "chunk");
    return joined;
}

} // namespace

OptionalMask join_masks(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace,
                        std::string_view label)
{
    if (parts.given)
        expect_fit(parts, n, m);
    expect_padding(parts, m);
    const bool is_given_alone =
        !parts.causal && !parts.key_lengths && !parts.padding && !parts.window.is_limited() && !parts.chunk;
    if (is_given_alone)
        return share(label, parts.given, trace);

    Joined joined = joined_parts(n, m, parts, trace);
    if (joined.formula == "causal" || joined.formula == "window" || joined.formula == "chunk") {
        if (trace.has_listener())
            trace.alias(parse_step_label(label).name, joined.formula);
        return std::move(*joined.mask);
    }
    // Padding by itself has no axis of queries to broadcast with.
    if (!parts.given && !parts.causal && !parts.window.is_limited() && !parts.chunk)
        joined.formula =
            "repeat(" + joined.formula + ", " + std::to_string(n) + (joined.has_heads ? ", axis=2)" : ", axis=1)");
    return std::visit([&](auto& any) -> AnyMask { return trace(label, joined.formula, std::move(any)); }, *joined.mask);
}

std::string_view name_of(Causal alignment) { return row_for<alignments>(alignment).name; }

std::string describe(const OptionalMask& given, const std::optional<Causal>& causal)
{
    if (!causal)
        return given ? "given" : "none";
    return std::string(given ? "given, " : "") + std::string(name_of(*causal));
}

template <Attending T>
T apply_mask(const AnyMask& mask, T scores, double otherwise)
{
    expect_fit("mask", mask, shape_of(scores));
    const auto hide = [otherwise](double& score, bool allowed) { score = allowed ? score : otherwise; };
    std::visit([&](const auto& any) { pair_by_pair(scores, any, hide); }, mask);
    return scores;
}

template <Attending T>
T add_bias(const AnyBias& bias, T scores)
{
    expect_fit("bias", bias, shape_of(scores));
    const auto add = [](double& score, double further) { score += further; };
    std::visit([&](const auto& any) { pair_by_pair(scores, any, add); }, bias);
    return scores;
}

template <Attending T>
Term<T> where_allowed(const AnyMask& mask, Term<T> scores, double otherwise, const Trace& trace)
{
    Wording wording = call_of("where", {trace.worded("mask"), scores.wording()}, exact_text(otherwise));
    return {apply_mask(mask, std::move(scores).take(), otherwise), std::move(wording)};
}

template <Attending T>
Term<T> plus_bias(Term<T> scores, const AnyBias& bias, const Trace& trace)
{
    Wording wording = operator_between(scores.wording(), "+", trace.worded("bias"), Wording::adds);
    return {add_bias(bias, std::move(scores).take()), std::move(wording)};
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T apply_mask(const AnyMask&, T, double);                                                                  \
    template T add_bias(const AnyBias&, T);                                                                            \
    template Term<T> where_allowed(const AnyMask&, Term<T>, double, const Trace&);                                     \
    template Term<T> plus_bias(Term<T>, const AnyBias&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
ATTN_INSTANTIATE(Tensor4)
#undef ATTN_INSTANTIATE

} // namespace attn
