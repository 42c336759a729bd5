#include "attn/reference/layers/pooler.hpp"

#include "examples.hpp"
#include "interventions.hpp"
#include "laws.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/reference/layers/activation.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const PoolerDescription like_bert{.has_tanh = true};
const PoolerDescription like_siglip{.token = PooledToken::query, .heads = 2, .activation = Activation::gelu_tanh};

PoolerWeights bert_weights(Numbers& numbers) { return {.map = random_linear(numbers, 4, 3)}; }

PoolerWeights siglip_weights(Numbers& numbers)
{
    const auto map = [&](std::size_t in, std::size_t out) { return random_linear(numbers, in, out); };
    return {.query = numbers.vector(4),
            .attention = MultiHeadWeights{map(4, 4), map(4, 4), map(4, 4), map(4, 4)},
            .norm = LayerNormWeights{numbers.vector(4), numbers.vector(4)},
            .feed_forward = FeedForwardWeights{map(4, 6), map(6, 4)}};
}

} // namespace

TEST_CASE("a pooler takes the first token, the last, or the first that has an id", "[layers][pooler]")
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(5, 4);
    const Integers ids{3, 9, 7, 9, 7};
    const auto taken = [&](PooledToken token, std::size_t id = 0) {
        return pool(x, {}, {.token = token, .id = id}, {.ids = &ids});
    };
    const auto row = [&](std::size_t i) { return Matrix(xt::view(x, xt::range(i, i + 1), xt::all())); };
    CHECK(same_bits(taken(PooledToken::first), row(0)));
    CHECK(same_bits(taken(PooledToken::last), row(4)));
    CHECK(same_bits(taken(PooledToken::of_id, 7), row(2)));
    CHECK(same_bits(taken(PooledToken::highest_id), row(1)));
}

TEST_CASE("a learned query that attends evenly gets the mean of what it can attend to", "[layers][pooler]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(3, 4);
    const Matrix unit = xt::eye<double>(4), nothing = xt::zeros<double>({4, 4});
    const PoolerWeights weights{.query = numbers.vector(4),
                                .attention = MultiHeadWeights{{nothing}, {nothing}, {unit}, LinearWeights{unit}}};
    const Matrix all = pool(x, weights, like_siglip);
    const Matrix two = pool(x, weights, like_siglip, {.mask = Mask{{true, false, true}}});
    REQUIRE(shape_of(all) == Shape{1, 4});
    for (std::size_t j = 0; j < 4; ++j) {
        CHECK(std::abs(all(0, j) - (x(0, j) + x(1, j) + x(2, j)) / 3) < 1e-14);
        CHECK(std::abs(two(0, j) - (x(0, j) + x(2, j)) / 2) < 1e-14);
    }
}

TEST_CASE("a pooler of a batch gives what it gives of each sequence, traced or not", "[layers][pooler][batch]")
{
    Numbers numbers(3);
    const Tensor3 x = numbers.tensor3(2, 4, 4);
    const IntegerMatrix ids{{5, 2, 8, 5}, {8, 8, 2, 0}};
    const PoolerWeights plain = bert_weights(numbers), attending = siglip_weights(numbers);
    const Integers rows[] = {{5, 2, 8, 5}, {8, 8, 2, 0}};
    for (const PooledToken token : enumerators<PooledToken>) {
        const bool attends = token == PooledToken::query;
        const PoolerDescription description{.token = token, .id = 2, .heads = 2, .has_tanh = !attends};
        const auto call = [&](const auto& tokens, const auto& of_tokens, const Trace& trace = {}) {
            return pool(tokens, attends ? attending : plain, description, {.ids = &of_tokens}, trace);
        };
        const Tensor3 all = call(x, ids);
        for (std::size_t b = 0; b < 2; ++b) {
            CHECK(close(sequence_by_hand(all, b), call(sequence_by_hand(x, b), rows[b])));
            traced([&](const Trace& trace) { return call(sequence_by_hand(x, b), rows[b], trace); });
        }
        traced([&](const Trace& trace) { return call(x, ids, trace); });
        CHECK(expect_replacements_used([&](const Trace& trace) { (void)call(x, ids, trace); }) >= 5);
    }
}

TEST_CASE("the doc comment of pool() lists its steps", "[steps][layers][pooler][source]")
{
    Numbers numbers(4);
    const PoolerWeights weights = bert_weights(numbers);
    const Recorder found =
        recorded([&](const Trace& trace) { (void)pool(numbers.matrix(3, 4), weights, like_bert, {}, trace); });
    CHECK(different_rows(promised("reference/layers/pooler.hpp", "pool"), found, "pool") == "");
}

TEST_CASE("a pooler says what does not fit", "[layers][pooler][error]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(3, 4);
    const Integers ids{1, 2, 3}, two{1, 2};
    CHECK_THROWS_WITH(pool(x, {}, {.token = PooledToken::of_id, .id = 9}, {.ids = &ids}),
                      ContainsSubstring("no token of id 9, the end of a text"));
    CHECK_THROWS_WITH(pool(x, {}, {.token = PooledToken::of_id, .id = 1}), ContainsSubstring("there are no ids"));
    CHECK_THROWS_WITH(pool(x, {}, {.token = PooledToken::highest_id}, {.ids = &two}),
                      ContainsSubstring("ids (2,), expected one for each token, (3,)"));
    CHECK_THROWS_WITH(pool(x, {}, like_siglip), ContainsSubstring("the weights have no query"));
    CHECK_THROWS_WITH(pool(x, siglip_weights(numbers), like_bert), ContainsSubstring("the weights have a query"));
    PoolerWeights weights = siglip_weights(numbers);
    weights.query = numbers.vector(5);
    CHECK_THROWS_AS(pool(x, weights, like_siglip), ShapeError);
    weights = siglip_weights(numbers);
    weights.attention.reset();
    CHECK_THROWS_WITH(pool(x, weights, like_siglip), ContainsSubstring("no attention"));
    CHECK_THROWS_WITH(pool(numbers.matrix(0, 4), {}, {}), ContainsSubstring("no tokens"));
    CHECK_THROWS_AS(pool(x, {.map = random_linear(numbers, 5, 4)}, {}), ShapeError);
}
