#include "attn/reference/attention/mask.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <string>
#include <variant>

namespace attn {
namespace {

constexpr Choice<Causal> alignments[] = {
    {Causal::bottom_right, "causal"}, {Causal::top_left, "causal-top-left"}, {Causal::by_length, "causal-by-length"}};

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
        throw ShapeError("attention: scores ", scores, " and ", role, " ", shape, " do not fit: expected a ", role,
                         " (n, m)", (scores.size() == 4 ? " or (b, h, n, m)" : ", or for a batch also (b, n, m)"));
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
        throw ShapeError("padding ", shape_of(*parts.padding), " is not for m = ", m, " keys");
}

void expect_lengths(std::string_view function, const Integers& lengths, std::size_t m)
{
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (lengths(b) < 0 || static_cast<std::size_t>(lengths(b)) > m)
            throw ShapeError(function, ": lengths[", b, "] is ", lengths(b), ", expected 0 to m = ", m, " keys");
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

// ------------------------------------------------------------------------------------------- which key a query can see

/// The places of n tokens, one below the other: arange(n)[:, None].
Term<Matrix> places_below(std::size_t n, const Trace& trace) { return each_row(arange(number(n, trace))); }
/// The places of m tokens, side by side: arange(m).
Term<Vector> places_beside(std::size_t m, const Trace& trace) { return arange(number(m, trace)); }

/// The same numbers in another shape, with what a formula writes behind it.
template <class To, class From>
Term<To> seen_as(const Term<From>& x, const typename To::shape_type& shape, std::string_view subscript)
{
    To numbers(shape);
    std::ranges::copy(*x, numbers.begin());
    return {std::move(numbers), with_suffix(x.wording(), subscript)};
}

/// Where the first query of each sequence stands among m keys: its length, less n.
Term<Tensor3> first_places(const Term<Integers>& lengths, std::size_t n)
{
    return seen_as<Tensor3>(lengths, {lengths.size(), 1, 1}, "[:, None, None]") - static_cast<double>(n);
}

/// The same where the last query stands at the last key.
Term<double> first_place(std::size_t n, std::size_t m, const Trace& trace)
{
    return number(m, trace) - number(n, trace);
}

/// The keys that are not further from each query than the window says.
/// @param first  where the first query stands
template <class Place>
auto window_mask(std::size_t n, std::size_t m, const Window& window, const Term<Place>& first, const Trace& trace)
{
    const Term queries = places_below(n, trace);
    const Term keys = places_beside(m, trace);
    const auto reaches_back = [&] { return keys >= queries + (first - static_cast<double>(*window.left)); };
    const auto reaches_on = [&] { return keys <= queries + (first + static_cast<double>(*window.right)); };
    const auto near = !window.left ? reaches_on() : !window.right ? reaches_back() : reaches_back() & reaches_on();
    return trace(std::same_as<Place, double> ? "window[n, m]" : "window[b, n, m]", near);
}

/// The first keys, for every query.
/// @param keys  where each stands
Term<Mask> first_keys(const Term<Vector>& keys, std::size_t kept, const Trace& trace)
{
    Mask first(Mask::shape_type{1, keys.size()});
    for (std::size_t j = 0; j < keys.size(); ++j)
        first(0, j) = (*keys)(j) < static_cast<double>(kept);
    return {std::move(first), operator_between(keys.wording(), "<", number(kept, trace).wording(), Wording::compares)};
}

/// The keys of each query's own chunk. The last query stands at the last key.
Term<Mask> chunk_mask(std::size_t n, std::size_t m, std::size_t chunk, const Trace& trace)
{
    if (chunk == 0 || n > m)
        throw Error("chunks have at least one token, and there are as many keys as queries, or more");
    const auto size = static_cast<double>(chunk);
    return trace("chunk[n, m]", floor(places_beside(m, trace) / size) ==
                                    floor((places_below(n, trace) + first_place(n, m, trace)) / size));
}

Term<Mask> causal_term(std::size_t n, std::size_t m, Causal alignment, std::size_t past, const Trace& trace)
{
    expect_memory("mask", {n, m}, sizeof(bool));
    const Term queries = places_below(n, trace);
    const Term keys = places_beside(m, trace);
    const bool is_bottom_right = alignment == Causal::bottom_right;
    if (is_bottom_right ? n == m : past == 0)
        return trace("causal[n, m]", keys <= queries);
    return trace("causal[n, m]", keys <= queries + (is_bottom_right ? first_place(n, m, trace) : number(past, trace)));
}

Term<BatchMask> causal_by_length(const Term<Integers>& given, std::size_t n, std::size_t m, const Trace& trace)
{
    const Term lengths = trace.input("lengths[b]", given);
    expect_lengths("causal_by_length", *lengths, m);
    expect_memory("mask", {lengths.size(), n, m}, sizeof(bool));
    return trace("causal[b, n, m]", places_beside(m, trace) <= places_below(n, trace) + first_places(lengths, n));
}

Term<Mask> padding_term(const Term<Integers>& given, std::size_t m, const Trace& trace)
{
    const Term lengths = trace.input("lengths[b]", given);
    expect_lengths("padding_mask", *lengths, m);
    return trace("padding[b, m]", places_beside(m, trace) < seen_as<Matrix>(lengths, {lengths.size(), 1}, "[:, None]"));
}

// -------------------------------------------------------------------------------------------- what several masks allow

using MaskTerm = std::variant<Term<Mask>, Term<BatchMask>, Term<HeadMask>>;

/// What all masks allow.
class Joined {
public:
    explicit Joined(bool has_heads) : has_heads_(has_heads) {}

    template <class Truth>
    void add(const Term<Truth>& part)
    {
        if constexpr (std::same_as<Truth, BatchMask>)
            if (has_heads_) // the same mask for all heads
                return add(seen_as<HeadMask>(part, {part.shape(0), 1, part.shape(1), part.shape(2)}, "[:, None]"));
        mask = mask ? std::visit([&](const auto& before) -> MaskTerm { return before & part; }, *mask) : part;
    }

    /// Padding forbids a key to all queries of its sequence.
    void add_padding(const Term<Mask>& padding)
    {
        const std::size_t b = padding.shape(0), m = padding.shape(1);
        if (has_heads_)
            add(seen_as<HeadMask>(padding, {b, 1, 1, m}, "[:, None, None, :]"));
        else
            add(seen_as<BatchMask>(padding, {b, 1, m}, "[:, None, :]"));
    }

    std::optional<MaskTerm> mask;

private:
    bool has_heads_;
};

/// Whole numbers of tokens, which a scope around can have named already.
struct PlacesTerm {
    PlacesTerm(const Places& places, const char* sequences_label, const char* positions_label, const Trace& trace)
        : sequences(trace.shared_input(sequences_label, Term(places.sequences))),
          positions(trace.shared_input(positions_label, Term(places.positions)))
    {
    }
    static Term<Matrix> below(const Term<Integers>& x) { return seen_as<Matrix>(x, {x.size(), 1}, "[:, None]"); }
    static Term<Vector> beside(const Term<Integers>& x) { return seen_as<Vector>(x, {x.size()}, ""); }

    Term<Integers> sequences, positions;
};

/// Adds what the places of tokens allow: keys of the query's own sequence, no later ones, those in its window and its chunk.
void add_places(Joined& joined, const MaskParts& parts, const Trace& trace)
{
    const PlacesTerm of_queries(parts.places->queries, "sequences[n]", "positions[n]", trace);
    const PlacesTerm of_keys(parts.places->keys, "key_sequences[m]", "key_positions[m]", trace);
    const Term queries = PlacesTerm::below(of_queries.positions);
    const Term keys = PlacesTerm::beside(of_keys.positions);
    const auto& [left, right, kept, alignment] = parts.window; // where queries stand is given
    joined.add(
        trace("same_sequence[n, m]", PlacesTerm::beside(of_keys.sequences) == PlacesTerm::below(of_queries.sequences)));
    if (parts.causal)
        joined.add(trace("causal[n, m]", keys <= queries));
    if (parts.window.is_limited()) {
        const auto reaches_back = [&] { return keys >= queries - static_cast<double>(*left); };
        const auto reaches_on = [&] { return keys <= queries + static_cast<double>(*right); };
        const Term near = !left ? reaches_on() : !right ? reaches_back() : reaches_back() & reaches_on();
        joined.add(trace("window[n, m]", kept == 0 ? near : near | first_keys(keys, kept, trace)));
    }
    if (parts.chunk) {
        const auto size = static_cast<double>(*parts.chunk);
        joined.add(trace("chunk[n, m]", floor(keys / size) == floor(queries / size)));
    }
}

void expect_places(std::size_t n, std::size_t m, const MaskParts& parts)
{
    const auto expect = [](const char* role, const Places& places, std::size_t count) {
        if (places.positions.size() != count || places.sequences.size() != count)
            throw ShapeError("there are places of ", places.positions.size(), " ", role, " in ",
                             places.sequences.size(), " sequences, expected one of each for ", count);
    };
    expect("queries", parts.places->queries, n);
    expect("keys", parts.places->keys, m);
    if (parts.key_lengths || parts.padding || parts.past != 0 ||
        parts.causal.value_or(Causal::bottom_right) != Causal::bottom_right)
        throw Error("places say which keys are real and where tokens stand: lengths, padding, a past and another "
                    "alignment have no place beside them");
    if (parts.chunk == 0)
        throw Error("chunks have at least one token");
}

MaskTerm joined_parts(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace)
{
    const bool is_by_length = parts.causal == Causal::by_length;
    const bool window_is_by_length = parts.window.alignment == Causal::by_length;
    if ((is_by_length || window_is_by_length) && !parts.key_lengths)
        throw Error(
            "a mask or a window that is causal by length needs lengths: how many keys of each sequence are real");
    std::optional<Term<Integers>> lengths;
    if (parts.key_lengths)
        lengths = is_by_length ? trace.input("lengths[b]", Term(*parts.key_lengths)) : Term(*parts.key_lengths);

    Joined joined(parts.has_heads || (parts.given && std::holds_alternative<HeadMask>(*parts.given)));
    if (parts.given)
        std::visit([&](const auto& any) { joined.add(trace.input("given_mask[(b,) n, m]", Term(any))); }, *parts.given);
    if (parts.places) {
        expect_places(n, m, parts);
        expect_memory("mask", {n, m}, sizeof(bool));
        add_places(joined, parts, trace);
        return *std::move(joined.mask);
    }
    if (is_by_length)
        joined.add(causal_by_length(*lengths, n, m, trace)); // which hides padding, too
    else if (parts.causal)
        joined.add(causal_term(n, m, *parts.causal, parts.past, trace));
    if (parts.padding)
        joined.add_padding(trace.input("padding[b, m]", Term(*parts.padding)));
    else if (lengths && !is_by_length)
        joined.add_padding(padding_term(*lengths, m, trace));
    if (parts.window.is_limited()) {
        const auto add_window = [&](const auto& first) {
            expect_memory("window", {lengths ? lengths->size() : 1, n, m}, sizeof(bool));
            const auto window = window_mask(n, m, parts.window, first, trace);
            joined.add(parts.window.kept == 0 ? window
                                              : window | first_keys(places_beside(m, trace), parts.window.kept, trace));
        };
        const Causal alignment = parts.causal.value_or(parts.window.alignment);
        if (alignment == Causal::by_length)
            add_window(first_places(trace.input("lengths[b]", *lengths), n));
        else
            add_window(alignment == Causal::top_left ? number(parts.past, trace) : first_place(n, m, trace));
    }
    if (parts.chunk)
        joined.add(chunk_mask(n, m, *parts.chunk, trace));
    // Padding by itself has no axis of queries to broadcast with.
    if (!parts.given && !parts.causal && !parts.window.is_limited() && !parts.chunk)
        return std::visit(
            [&]<class T>(const Term<T>& padding) -> MaskTerm {
                return repeat(padding, n, static_cast<int>(rank_of<T>) - 2);
            },
            *joined.mask);
    return *std::move(joined.mask);
}

} // namespace

Mask causal_mask(std::size_t n, std::size_t m, Causal alignment, const Trace& trace, std::size_t past)
{
    return Mask(causal_term(n, m, alignment, past, trace));
}

BatchMask causal_by_length(const Integers& lengths, std::size_t n, std::size_t m, const Trace& trace)
{
    return BatchMask(causal_by_length(Term(lengths), n, m, trace));
}

Mask padding_mask(const Integers& lengths, std::size_t m, const Trace& trace)
{
    return Mask(padding_term(Term(lengths), m, trace));
}

OptionalMask join_masks(std::size_t n, std::size_t m, const MaskParts& parts, const Trace& trace,
                        std::string_view label)
{
    if (parts.given)
        expect_fit(parts, n, m);
    expect_padding(parts, m);
    const bool is_given_alone = !parts.causal && !parts.key_lengths && !parts.padding && !parts.window.is_limited() &&
                                !parts.chunk && !parts.places;
    if (is_given_alone)
        return share(label, parts.given, trace);

    const auto finish = [&](auto&& mask) -> AnyMask {
        if (trace.has_listener() && !mask.wording().path().empty()) // one part, which has a name
            return std::move(trace.alias(parse_step_label(label).name, mask)).take();
        return trace(label, std::move(mask)).take();
    };
    return std::visit(finish, joined_parts(n, m, parts, trace));
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
