#include "attn/reference/attention/mask.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "reference/layers/laws.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

#include <limits>

using namespace attn;
using namespace attn::test;

namespace {

using Paths = std::vector<std::string>;

Paths paths(const Recorder& recorder)
{
    Paths result;
    for (const Step& step : recorder.steps())
        result.push_back(step.path);
    return result;
}

/// Whether every part allows the pair.
bool allowed_by_hand(const MaskParts& parts, const Shape& pairs, std::size_t b, std::size_t i, std::size_t j)
{
    bool allowed = true;
    if (parts.given && std::holds_alternative<Mask>(*parts.given))
        allowed = allowed && std::get<Mask>(*parts.given)(i, j);
    if (parts.given && std::holds_alternative<BatchMask>(*parts.given))
        allowed = allowed && std::get<BatchMask>(*parts.given)(b, i, j);
    if (parts.causal) { // a key at j stands at or before the query's place
        const bool is_last = *parts.causal == Causal::bottom_right;
        allowed = allowed && (is_last ? j + pairs[0] <= i + pairs[1] : j <= i);
    }
    if (parts.key_lengths)
        allowed = allowed && j < static_cast<std::size_t>((*parts.key_lengths)(b));
    return allowed;
}

} // namespace

// -------------------------------------------------------------------------------------------------------------- causal

TEST_CASE("a causal mask of as many queries as keys is the lower triangle, however aligned", "[mask]")
{
    const Mask triangle{{true, false, false}, {true, true, false}, {true, true, true}};
    CHECK(same_bits(causal_mask(3, 3), triangle));
    CHECK(same_bits(causal_mask(3, 3, Causal::top_left), triangle));
    CHECK(same_bits(causal_mask(1, 1), Mask{{true}}));
}

TEST_CASE("with fewer queries than keys, a bottom-right last query has every key, a top-left first query one", "[mask]")
{
    CHECK(same_bits(causal_mask(2, 4), Mask{{true, true, true, false}, {true, true, true, true}}));
    CHECK(
        same_bits(causal_mask(2, 4, Causal::top_left), Mask{{true, false, false, false}, {true, true, false, false}}));
    CHECK(same_bits(causal_mask(1, 3), Mask{{true, true, true}}));
}

TEST_CASE("with more queries than keys, a bottom-right first query has no key, a top-left last query every key",
          "[mask]")
{
    CHECK(same_bits(causal_mask(3, 2), Mask{{false, false}, {true, false}, {true, true}}));
    CHECK(same_bits(causal_mask(3, 2, Causal::top_left), Mask{{true, false}, {true, true}, {true, true}}));
}

TEST_CASE("a causal mask is bottom right unless told otherwise, and may be empty", "[mask]")
{
    CHECK(same_bits(causal_mask(2, 5), causal_mask(2, 5, Causal::bottom_right)));
    CHECK(shape_of(causal_mask(0, 3)) == Shape{0, 3});
    CHECK(shape_of(causal_mask(3, 0)) == Shape{3, 0});
}

TEST_CASE("a traced causal mask gives the same bits, and its formula holds at every small shape", "[mask][trace]")
{
    for (const Causal alignment : {Causal::bottom_right, Causal::top_left})
        for (const std::size_t n : {1, 2, 4})
            for (const std::size_t m : {1, 2, 4}) {
                CAPTURE(n, m, alignment == Causal::top_left);
                const Recorder recorder =
                    traced([&](const Trace& trace) { return causal_mask(n, m, alignment, trace); });
                CHECK(paths(recorder) == Paths{"causal"});
                CHECK(recorder.steps()[0].value.type == ElementType::boolean);
            }
}

// ------------------------------------------------------------------------------------------------------------- padding

TEST_CASE("a padding mask is true where there is a token", "[mask]")
{
    CHECK(same_bits(padding_mask(Integers{3, 0, 2}, 3),
                    Mask{{true, true, true}, {false, false, false}, {true, true, false}}));
    CHECK(shape_of(padding_mask(Integers(Integers::shape_type{0}), 3)) == Shape{0, 3});
}

TEST_CASE("a traced padding mask gives the same bits, and its formula holds", "[mask][trace]")
{
    const Recorder recorder = traced([&](const Trace& trace) { return padding_mask(Integers{3, 0, 2}, 4, trace); });
    CHECK(paths(recorder) == Paths{"lengths", "padding"});
    CHECK(recorder.steps()[0].value.values == std::vector<double>{3, 0, 2});
    CHECK(recorder.steps()[0].value.type == ElementType::integer);
}

TEST_CASE("a sequence can't have more tokens than there are keys", "[mask]")
{
    CHECK_THROWS_AS(padding_mask(Integers{2, 4}, 3), ShapeError);
    CHECK_THROWS_WITH(padding_mask(Integers{2, 4}, 3),
                      ContainsSubstring("padding_mask: lengths[1] is 4, expected 0 to m = 3 keys"));
    CHECK_THROWS_WITH(padding_mask(Integers{-1}, 3), ContainsSubstring("lengths[0] is -1"));
    CHECK_NOTHROW(padding_mask(Integers{3}, 3));
}

// -------------------------------------------------------------------------------------------------------------- joined

TEST_CASE("whatever is joined, a pair is allowed where every part allows it", "[mask][trace]")
{
    Numbers numbers(1);
    const Integers lengths{3, 0, 2};
    for (const Shape& pairs : {Shape{3, 3}, Shape{2, 4}, Shape{4, 3}})
        for (const int given : {0, 2, 3})
            for (const int causal : {0, 1, 2})
                for (const bool padded : {false, true}) {
                    const std::size_t n = pairs[0], m = pairs[1];
                    CAPTURE(n, m, given, causal, padded);
                    MaskParts parts;
                    if (given == 2)
                        parts.given = numbers.mask(n, m);
                    if (given == 3)
                        parts.given = random_batch_mask(numbers, 3, n, m);
                    if (causal != 0)
                        parts.causal = causal == 1 ? Causal::bottom_right : Causal::top_left;
                    if (padded)
                        parts.key_lengths = lengths;

                    OptionalMask traced;
                    const Recorder recorder =
                        recorded([&](const Trace& trace) { traced = join_masks(n, m, parts, trace); });
                    const OptionalMask joined = join_masks(n, m, parts);
                    REQUIRE(joined.has_value() == (given != 0 || causal != 0 || padded));
                    REQUIRE(traced.has_value() == joined.has_value());
                    if (!joined) {
                        CHECK(recorder.steps().empty());
                        continue;
                    }
                    const bool is_batch = given == 3 || padded;
                    REQUIRE(std::holds_alternative<BatchMask>(*joined) == is_batch);
                    bool agrees = true;
                    for (std::size_t b = 0; b < (is_batch ? 3U : 1U); ++b)
                        for (std::size_t i = 0; i < n; ++i)
                            for (std::size_t j = 0; j < m; ++j) {
                                const bool is_open =
                                    is_batch ? std::get<BatchMask>(*joined)(b, i, j) : std::get<Mask>(*joined)(i, j);
                                agrees = agrees && is_open == allowed_by_hand(parts, pairs, b, i, j);
                            }
                    CHECK(agrees);
                    const Array found = std::visit([](const auto& mask) { return to_array(mask); }, *joined);
                    CHECK(found.shape == (is_batch ? Shape{3, n, m} : Shape{n, m}));
                    CHECK(identical(std::visit([](const auto& mask) { return to_array(mask); }, *traced), found));

                    Paths expected;
                    if (given != 0 && (causal != 0 || padded))
                        expected.emplace_back("given_mask");
                    if (causal != 0)
                        expected.emplace_back("causal");
                    if (padded) {
                        expected.emplace_back("lengths");
                        expected.emplace_back("padding");
                    }
                    if (given != 0 || padded) // a causal mask alone has another name
                        expected.emplace_back("mask");
                    CHECK(paths(recorder) == expected);
                    if (recorder.steps().size() > 1)
                        CHECK(wrong_steps(recorder) == std::vector<std::string>{});
                }
}

TEST_CASE("the joined mask's formula is the conjunction of what it is made of", "[mask][trace]")
{
    const auto formula_of = [](const MaskParts& parts) {
        return recorded([&](const Trace& trace) { join_masks(2, 3, parts, trace); }).steps().back().formula;
    };
    const Mask given(Mask::shape_type{2, 3}, true);
    CHECK(formula_of({.given = given}).empty());
    CHECK(formula_of({.key_lengths = Integers{1}}) == "repeat(padding[:, None, :], 2, axis=1)");
    CHECK(formula_of({.given = given, .causal = Causal::top_left}) == "given_mask & causal");
    CHECK(formula_of({.given = given, .key_lengths = Integers{1}}) == "given_mask & padding[:, None, :]");
    CHECK(formula_of({.causal = Causal::top_left, .key_lengths = Integers{1}}) == "causal & padding[:, None, :]");
    CHECK(formula_of({given, Causal::top_left, Integers{1}}) == "given_mask & causal & padding[:, None, :]");
}

TEST_CASE("a mask that is causal by length ends with each sequence's last real key", "[mask]")
{
    const BatchMask expected{{{true, true, false, false}, {true, true, true, false}},
                             {{false, false, false, false}, {true, false, false, false}}};
    CHECK(same_bits(causal_by_length(Integers{3, 1}, 2, 4), expected));
    const auto steps = [](const MaskParts& parts) {
        return recorded([&](const Trace& trace) { join_masks(2, 4, parts, trace); });
    };
    const MaskParts by_length{.causal = Causal::by_length, .key_lengths = Integers{3, 1}};
    CHECK(same_bits(std::get<BatchMask>(*join_masks(2, 4, by_length)), expected));
    CHECK(paths(steps(by_length)) == Paths{"lengths", "causal"}); // which hides padding, too
    CHECK(wrong_steps(steps(by_length)) == Paths{});
    CHECK(steps(by_length).steps()[1].formula == "arange(4) <= arange(2)[:, None] + (lengths[:, None, None] - 2)");
    CHECK_THROWS_WITH(join_masks(2, 4, {.causal = Causal::by_length}), ContainsSubstring("needs lengths"));
}

TEST_CASE("from the top left, the first query sees the past and the first new key", "[mask]")
{
    const Mask expected{{true, true, true, false, false}, {true, true, true, true, false}};
    CHECK(same_bits(causal_mask(2, 5, Causal::top_left, {}, 2), expected));
    const Recorder recorder =
        recorded([](const Trace& trace) { join_masks(2, 5, {.causal = Causal::top_left, .past = 2}, trace); });
    CHECK(recorder.steps().front().formula == "arange(5) <= arange(2)[:, None] + 2");
    CHECK(wrong_steps(recorder) == Paths{});
}

TEST_CASE("a window that keeps first keys has them for every query, but for later ones", "[mask]")
{
    for (const std::optional<Causal> causal : {std::optional<Causal>{}, {Causal::bottom_right}})
        for (const std::size_t kept : {1, 2, 9}) {
            const MaskParts parts{.causal = causal, .window = {.left = 1, .right = 0, .kept = kept}};
            const auto run = [&](const Trace& trace) { return join_masks(4, 6, parts, trace); };
            const AnyMask found = *run({});
            for (std::size_t i = 0; i < 4; ++i)
                for (std::size_t j = 0; j < 6; ++j) {
                    const std::size_t place = i + 2;
                    const bool is_near = j + 1 >= place && j <= place;
                    CHECK(std::get<Mask>(found)(i, j) == ((is_near || j < kept) && (!causal || j <= place)));
                }
            CHECK(wrong_steps(recorded([&](const Trace& trace) { run(trace); })) == Paths{});
        }
}

TEST_CASE("a window hides keys that are further away than its limits, from each query's own position", "[mask]")
{
    const Integers lengths{5, 2};
    for (const std::optional<Causal> causal :
         {std::optional<Causal>{}, {Causal::bottom_right}, {Causal::top_left}, {Causal::by_length}})
        for (const std::optional<std::size_t> left : {std::optional<std::size_t>{}, {0}, {1}, {9}})
            for (const std::optional<std::size_t> right : {std::optional<std::size_t>{}, {0}, {2}}) {
                CAPTURE(causal.has_value(), left.value_or(77), right.value_or(77));
                const MaskParts parts{.causal = causal, .key_lengths = lengths, .window = {left, right}, .past = 1};
                const auto run = [&](const Trace& trace) { return join_masks(3, 5, parts, trace); };
                const AnyMask found = *run({});
                for (std::size_t b = 0; b < 2; ++b)
                    for (std::size_t i = 0; i < 3; ++i)
                        for (std::size_t j = 0; j < 5; ++j) {
                            const int length = b == 0 ? 5 : 2;
                            const int place = static_cast<int>(i) + (causal == Causal::top_left    ? 1
                                                                     : causal == Causal::by_length ? length - 3
                                                                                                   : 2);
                            const int key = static_cast<int>(j);
                            const bool is_near = (!left || key >= place - static_cast<int>(*left)) &&
                                                 (!right || key <= place + static_cast<int>(*right));
                            CHECK(std::get<BatchMask>(found)(b, i, j) ==
                                  (is_near && key < length && (!causal || key <= place)));
                        }
                CHECK(wrong_steps(recorded([&](const Trace& trace) { run(trace); })) == Paths{});
            }
    for (const Causal alignment :
         {Causal::bottom_right, Causal::top_left, Causal::by_length}) { // without a causal mask
        const MaskParts parts{
            .key_lengths = lengths, .window = {.left = 1, .right = 0, .alignment = alignment}, .past = 1};
        const auto run = [&](const Trace& trace) { return join_masks(3, 5, parts, trace); };
        const AnyMask found = *run({});
        for (std::size_t b = 0; b < 2; ++b)
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 5; ++j) {
                    const int length = b == 0 ? 5 : 2, by_length = length - 3;
                    const int place = i + (alignment == Causal::top_left    ? 1
                                           : alignment == Causal::by_length ? by_length
                                                                            : 2);
                    CHECK(std::get<BatchMask>(found)(b, i, j) == (j >= place - 1 && j <= place && j < length));
                }
        CHECK(wrong_steps(recorded([&](const Trace& trace) { run(trace); })) == Paths{});
    }
    CHECK_THROWS_WITH(join_masks(3, 5, {.window = {.left = 1, .alignment = Causal::by_length}}),
                      ContainsSubstring("needs lengths"));
    const Recorder alone = recorded([](const Trace& trace) { join_masks(3, 5, {.window = {.left = 1}}, trace); });
    CHECK(paths(alone) == Paths{"window"}); // mask is another name
    CHECK(alone.steps().front().formula == "arange(5) >= arange(3)[:, None] + (5 - 3 - 1)");
}

TEST_CASE("a chunk hides the keys of other chunks, which begin at the first key", "[mask]")
{
    const Mask expected{
        {true, true, true, false, false}, {false, false, false, true, true}, {false, false, false, true, true}};
    CHECK(same_bits(std::get<Mask>(*join_masks(3, 5, {.chunk = 3})), expected));
    const Recorder alone = recorded([](const Trace& trace) { join_masks(3, 5, {.chunk = 3}, trace); });
    CHECK(paths(alone) == Paths{"chunk"}); // mask is another name
    CHECK(alone.steps().front().formula == "floor(arange(5) / 3) == floor((arange(3)[:, None] + (5 - 3)) / 3)");
    const MaskParts all{.causal = Causal::bottom_right, .key_lengths = Integers{5, 4}, .chunk = 3};
    const Recorder joined = recorded([&](const Trace& trace) { join_masks(3, 5, all, trace); });
    CHECK(joined.steps().back().formula == "causal & padding[:, None, :] & chunk");
    CHECK(wrong_steps(joined) == Paths{});
    CHECK_THROWS_WITH(join_masks(3, 5, {.chunk = 0}), ContainsSubstring("at least one token"));
    CHECK_THROWS_WITH(join_masks(6, 5, {.chunk = 3}), ContainsSubstring("as many keys as queries"));
}

TEST_CASE("padding that is given hides keys anywhere, and is no second set of lengths", "[mask]")
{
    const Mask padding{{false, true, true}, {true, true, false}};
    const Recorder recorder = recorded(
        [&](const Trace& trace) { join_masks(2, 3, {.causal = Causal::bottom_right, .padding = padding}, trace); });
    CHECK(paths(recorder) == Paths{"causal", "padding", "mask"});
    CHECK(wrong_steps(recorder) == Paths{});
    const auto found = std::get<BatchMask>(*join_masks(2, 3, {.causal = Causal::bottom_right, .padding = padding}));
    CHECK(same_bits(
        found, BatchMask{{{false, true, false}, {false, true, true}}, {{true, true, false}, {true, true, false}}}));
    CHECK_THROWS_WITH(join_masks(2, 4, {.padding = padding}),
                      ContainsSubstring("padding (2, 3) is not for m = 4 keys"));
    CHECK_THROWS_WITH(join_masks(2, 3, {.key_lengths = Integers{1, 1}, .padding = padding}),
                      ContainsSubstring("give one of them"));
    CHECK_THROWS_AS(join_masks(2, 3, {.given = BatchMask(BatchMask::shape_type{3, 2, 3}, true), .padding = padding}),
                    ShapeError);
}

TEST_CASE("a mask of heads is joined with what all heads share", "[mask]")
{
    Numbers numbers(5);
    HeadMask given(HeadMask::shape_type{2, 3, 2, 4});
    for (bool& allowed : given)
        allowed = numbers.number() < 1;
    for (const Causal causal : {Causal::bottom_right, Causal::by_length}) {
        const MaskParts parts{.given = given, .causal = causal, .key_lengths = Integers{4, 3}};
        const auto run = [&](const Trace& trace) { return join_masks(2, 4, parts, trace); };
        const HeadMask joined = std::get<HeadMask>(*run({}));
        for (std::size_t b = 0; b < 2; ++b)
            for (std::size_t h = 0; h < 3; ++h)
                for (std::size_t i = 0; i < 2; ++i)
                    for (std::size_t j = 0; j < 4; ++j) {
                        const std::size_t length = b == 0 ? 4 : 3, last = causal == Causal::by_length ? length : 4;
                        CHECK(joined(b, h, i, j) == (given(b, h, i, j) && j < length && j + 2 <= i + last));
                    }
        CHECK(wrong_steps(recorded([&](const Trace& trace) { run(trace); })) == Paths{});
    }
    const auto formula_of = [](const MaskParts& parts) {
        return recorded([&](const Trace& trace) { join_masks(2, 4, parts, trace); }).steps().back().formula;
    };
    CHECK(formula_of({.given = given, .causal = Causal::top_left, .key_lengths = Integers{4, 3}}) ==
          "given_mask & causal & padding[:, None, None, :]");
    CHECK(formula_of({.given = given, .causal = Causal::by_length, .key_lengths = Integers{4, 3}}) ==
          "given_mask & causal[:, None]");
    CHECK(formula_of({.key_lengths = Integers{4, 3}, .has_heads = true}) ==
          "repeat(padding[:, None, None, :], 2, axis=2)");
    const MaskParts three_for_two{.given = HeadMask(HeadMask::shape_type{3, 3, 2, 4}, true),
                                  .key_lengths = Integers{4, 3}};
    CHECK_THROWS_WITH(join_masks(2, 4, three_for_two), ContainsSubstring("mask (3, 3, 2, 4)"));
    CHECK_THROWS_WITH(apply_mask(AnyMask(BatchMask(BatchMask::shape_type{1, 2, 4}, true)), Tensor4({1, 1, 2, 4}), 0),
                      ContainsSubstring("expected a mask (n, m) or (b, h, n, m)"));
}

TEST_CASE("a given mask that does not fit is refused, not broadcast", "[mask]")
{
    const auto given = [](const AnyMask& mask) { return MaskParts{.given = mask}; };
    CHECK_THROWS_AS(join_masks(2, 3, given(Mask(Mask::shape_type{3, 2}, true))), ShapeError);
    CHECK_THROWS_WITH(join_masks(2, 3, given(Mask(Mask::shape_type{1, 3}, true))),
                      ContainsSubstring("(2, 3)") && ContainsSubstring("mask (1, 3)"));
    CHECK_THROWS_AS(join_masks(2, 3, given(BatchMask(BatchMask::shape_type{2, 2, 1}, true))), ShapeError);
    const MaskParts three_for_two{.given = BatchMask(BatchMask::shape_type{3, 2, 3}, true),
                                  .key_lengths = Integers{1, 2}};
    CHECK_THROWS_AS(join_masks(2, 3, three_for_two), ShapeError);
    CHECK_THROWS_WITH(join_masks(2, 3, three_for_two), ContainsSubstring("(2, 2, 3) and mask (3, 2, 3)"));
    const MaskParts too_long{.causal = Causal::bottom_right, .key_lengths = Integers{1, 4}};
    CHECK_THROWS_WITH(join_masks(2, 3, too_long), ContainsSubstring("lengths[1] is 4"));
}

// ------------------------------------------------------------------------------------------------------------- applied

TEST_CASE("a mask keeps the allowed scores and replaces all others, even NaN", "[mask]")
{
    const Matrix scores{{1, 2, minus_infinity}, {std::nan(""), 5, 6}};
    const Mask mask{{true, false, true}, {false, true, false}};
    CHECK(same_bits(apply_mask(mask, scores, minus_infinity),
                    Matrix{{1, minus_infinity, minus_infinity}, {minus_infinity, 5, minus_infinity}}));
    CHECK(same_bits(apply_mask(mask, scores, 0), Matrix{{1, 0, minus_infinity}, {0, 5, 0}}));
}

TEST_CASE("one mask for a batch begins again with each sequence, and each may have its own", "[mask][batch]")
{
    Numbers numbers(2);
    const Tensor3 scores = numbers.tensor3(3, 2, 4);
    const Mask one = numbers.mask(2, 4);
    const BatchMask own = random_batch_mask(numbers, 3, 2, 4);
    const Tensor3 by_one = apply_mask(one, scores, -1);
    const Tensor3 by_own = apply_mask(own, scores, -1);
    for (std::size_t b = 0; b < 3; ++b)
        for (std::size_t i = 0; i < 2; ++i)
            for (std::size_t j = 0; j < 4; ++j) {
                CHECK(by_one(b, i, j) == (one(i, j) ? scores(b, i, j) : -1));
                CHECK(by_own(b, i, j) == (own(b, i, j) ? scores(b, i, j) : -1));
            }
}

TEST_CASE("a mask of another shape than the scores is refused", "[mask]")
{
    const Matrix scores(Matrix::shape_type{2, 3}, 0.0);
    const Tensor3 batch(Tensor3::shape_type{4, 2, 3}, 0.0);
    CHECK_THROWS_AS(apply_mask(Mask(Mask::shape_type{1, 3}, true), scores, 0), ShapeError);
    CHECK_THROWS_WITH(apply_mask(Mask(Mask::shape_type{3, 2}, true), scores, 0),
                      ContainsSubstring("scores (2, 3) and mask (3, 2) do not fit: expected a mask (n, m)"));
    CHECK_THROWS_AS(apply_mask(BatchMask(BatchMask::shape_type{1, 2, 3}, true), scores, 0), ShapeError);
    CHECK_THROWS_AS(apply_mask(BatchMask(BatchMask::shape_type{1, 2, 3}, true), batch, 0), ShapeError);
    CHECK_THROWS_AS(apply_mask(BatchMask(BatchMask::shape_type{4, 3, 2}, true), batch, 0), ShapeError);
    CHECK_THROWS_AS(apply_mask(Mask(Mask::shape_type{4, 2}, true), batch, 0), ShapeError);
    CHECK_THROWS_WITH(apply_mask(BatchMask(BatchMask::shape_type{2, 2, 3}, true), batch, 0),
                      ContainsSubstring("scores (4, 2, 3) and mask (2, 2, 3)"));
}

TEST_CASE("a mask that the heads share is recorded outside of them, once", "[mask][trace]")
{
    const Problem p = random_problem({}, 4);
    const Recorder recorder = recorded([&](const Trace& trace) {
        const OptionalMask mask = join_masks(3, 4, {.given = p.mask, .causal = Causal::bottom_right}, trace);
        for (std::size_t i = 0; i < 3; ++i) {
            const Trace head = trace.scope("head", i);
            scaled_dot_product_attention(p.queries, p.keys, p.values, {.mask = mask}, head);
        }
    });
    CHECK(count_of(recorder, "mask") == 1);
    CHECK(count_of(recorder, "masked") == 3);
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
}

TEST_CASE("attention of a batch under any mask gives what each sequence gives under its own mask", "[mask][batch]")
{
    Numbers numbers(5);
    const Tensor3 queries = numbers.tensor3(3, 2, 5);
    const Tensor3 keys = numbers.tensor3(3, 4, 5);
    const Tensor3 values = numbers.tensor3(3, 4, 6);
    const Mask one = numbers.mask(2, 4);
    const BatchMask own = random_batch_mask(numbers, 3, 2, 4);
    const BatchAttention under_one = scaled_dot_product_attention(queries, keys, values, {.mask = one});
    const BatchAttention under_own = dot_product_attention(queries, keys, values, {.mask = own});
    for (std::size_t b = 0; b < 3; ++b) {
        const Matrix q = sequence_by_hand(queries, b);
        const Matrix k = sequence_by_hand(keys, b);
        const Matrix v = sequence_by_hand(values, b);
        const Attention by_one = attention_by_hand(q, k, v, {.mask = one});
        const Attention by_own = attention_by_hand(q, k, v, {.mask = sequence_by_hand(own, b), .scale = 1});
        CHECK(close(sequence_by_hand(under_one.context, b), by_one.context));
        CHECK(close(sequence_by_hand(under_one.weights, b), by_one.weights));
        CHECK(close(sequence_by_hand(under_own.context, b), by_own.context));
        CHECK(close(sequence_by_hand(under_own.weights, b), by_own.weights));
    }
}
