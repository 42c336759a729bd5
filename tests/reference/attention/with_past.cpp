// Heads that are ready: layouts, shared heads, a past. ONNX's results are in tests/cli/onnx_attention.cpp.

#include "attn/reference/attention/with_past.hpp"

#include "generators.hpp"
#include "masked.hpp"
#include "reference/layers/examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/heads.hpp"

using namespace attn;
using namespace attn::test;

namespace {

Tensor4 heads_of(Numbers& numbers, std::size_t b, std::size_t h, std::size_t n, std::size_t d)
{
    return as_heads(numbers.tensor3(b * h, n, d), b, h);
}

Matrix head(const Tensor4& heads, std::size_t b, std::size_t h) { return xt::view(heads, b, h, xt::all(), xt::all()); }

} // namespace

TEST_CASE("each ready head attends by itself, with the keys and values of its group after those of the past",
          "[attention][ready]")
{
    Numbers numbers(1);
    const std::size_t b = 2, h = 4;
    for (const std::size_t g : {1, 2, 4})
        for (const bool has_past : {false, true}) {
            CAPTURE(g, has_past);
            const Tensor4 queries = heads_of(numbers, b, h, 3, 2), keys = heads_of(numbers, b, g, 5, 2),
                          values = heads_of(numbers, b, g, 5, 3);
            std::optional<PastOf<Tensor4>> past;
            if (has_past)
                past = {heads_of(numbers, b, g, 2, 2), heads_of(numbers, b, g, 2, 3)};
            const Tensor4 bias = heads_of(numbers, b, h, 3, has_past ? 7 : 5);
            const AttentionOptions options{.causal = Causal::bottom_right, .softcap = 0.5};
            const auto run = [&](const Trace& trace) {
                return attention_with_past(queries, keys, values, past, masked(options, {}, bias), trace);
            };
            const Recorder recorder = recorded([&](const Trace& trace) { run(trace); });
            CHECK(wrong_steps(recorder) == std::vector<std::string>{});
            const HeadsAttention found = run({});
            for (std::size_t sequence = 0; sequence < b; ++sequence)
                for (std::size_t i = 0; i < h; ++i) {
                    const std::size_t group = i / (h / g);
                    Matrix key = head(keys, sequence, group), value = head(values, sequence, group);
                    if (past) {
                        key = concat_rows(head(past->keys, sequence, group), key);
                        value = concat_rows(head(past->values, sequence, group), value);
                    }
                    const Attention alone = scaled_dot_product_attention(
                        head(queries, sequence, i), key, value, masked(options, {}, AnyBias(head(bias, sequence, i))));
                    CHECK(close(head(found.context, sequence, i), alone.context));
                    CHECK(close(head(found.weights, sequence, i), alone.weights));
                }
        }
}

TEST_CASE("heads side by side are the same heads as on an axis", "[attention][ready]")
{
    Numbers numbers(2);
    const Tensor4 queries = heads_of(numbers, 2, 4, 3, 2), keys = heads_of(numbers, 2, 2, 5, 2),
                  values = heads_of(numbers, 2, 2, 5, 3);
    const Tensor3 packed = packed_attention(pack_heads(queries), pack_heads(keys), pack_heads(values), {4, 2});
    CHECK(same_bits(packed, pack_heads(attention_with_past(queries, keys, values).context)));
    const auto first = [](const Tensor3& batch) -> Matrix { return xt::view(batch, 0, xt::all(), xt::all()); };
    CHECK(
        close(packed_attention(first(pack_heads(queries)), first(pack_heads(keys)), first(pack_heads(values)), {4, 2}),
              first(packed)));
}

TEST_CASE("the steps of ready heads are the ones that the doc comments list", "[attention][ready][steps][source]")
{
    Numbers numbers(3);
    const Tensor4 queries = heads_of(numbers, 1, 2, 3, 2), keys = heads_of(numbers, 1, 1, 3, 2);
    const PastOf<Tensor4> past{keys, keys};
    const Recorder shared =
        recorded([&](const Trace& trace) { attention_with_past(queries, keys, keys, {past}, {}, trace); });
    const Lines listed = promised("reference/attention/with_past.hpp", "attention_with_past"), found = kept(shared);
    REQUIRE(listed.size() == 9);
    CHECK(different_rows(listed, Lines(found.begin(), found.begin() + 9)) == "");

    const Matrix query = numbers.matrix(3, 8), value = numbers.matrix(3, 10);
    const Recorder packed = recorded([&](const Trace& trace) {
        packed_attention(query, query, value, {2, 2}, {}, {}, trace);
    });
    CHECK(different_rows(promised("reference/attention/with_past.hpp", "packed_attention"), packed) == "");
}

TEST_CASE("ready heads that do not fit are refused", "[attention][ready]")
{
    Numbers numbers(4);
    const Tensor4 three = heads_of(numbers, 1, 3, 2, 2), two = heads_of(numbers, 1, 2, 2, 2);
    CHECK_THROWS_WITH(attention_with_past(three, two, two),
                      ContainsSubstring("3 query heads can't be divided evenly among 2"));
    CHECK_THROWS_WITH(attention_with_past(two, two, heads_of(numbers, 1, 1, 2, 2)),
                      ContainsSubstring("must agree in g"));
    CHECK_THROWS_WITH(attention_with_past(two, two, two, {PastOf<Tensor4>{three, three}}),
                      ContainsSubstring("past_keys (1, 3, 2, 2)") && ContainsSubstring("must agree in h"));
    CHECK_THROWS_WITH(attention_with_past(two, two, two, {PastOf<Tensor4>{heads_of(numbers, 1, 2, 2, 5), two}}),
                      ContainsSubstring("must agree in d_k"));
    CHECK_THROWS_AS(packed_attention(Matrix(Matrix::shape_type{2, 5}), Matrix(Matrix::shape_type{2, 4}),
                                     Matrix(Matrix::shape_type{2, 4}), {2, 2}),
                    ShapeError);
    CHECK_THROWS_WITH(scaled_dot_product_attention(two, two, two,
                                                   {.mask = AnyMask(HeadMask(HeadMask::shape_type{1, 3, 2, 2}, true))}),
                      ContainsSubstring("mask (1, 3, 2, 2)"));
}
