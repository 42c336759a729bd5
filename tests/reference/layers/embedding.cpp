#include "attn/reference/layers/embedding.hpp"

#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("an embedding is a row of the table times the root of d_model, plus its position", "[layers][embedding]")
{
    Numbers numbers(1);
    const Matrix table = numbers.matrix(5, 4);
    const Integers ids{3, 0, 3};
    const Matrix found = embed(ids, table);
    const Matrix places = sinusoidal_positions(3, 4);
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 4; ++j)
            CHECK(std::abs(found(i, j) - (2 * table(static_cast<std::size_t>(ids(i)), j) + places(i, j))) < 1e-14);
    const Matrix later = embed(Integers{3}, table, {.scale = 1, .positions = {.first = 2}});
    for (std::size_t j = 0; j < 4; ++j)
        CHECK(std::abs(later(0, j) - (table(3, j) + places(2, j))) < 1e-14);
}

TEST_CASE("logits are the dot products with every row of the table", "[layers][embedding]")
{
    Numbers numbers(2);
    const Matrix table = numbers.matrix(5, 4), x = numbers.matrix(3, 4);
    CHECK(close(unembed(x, table), product_by_hand(x, transpose_by_hand(table))));
    CHECK_THROWS_WITH(unembed(numbers.matrix(3, 6), table), ContainsSubstring("x (3, 6) and table (5, 4)"));
    CHECK_THROWS_AS(embed(Integers{5}, table), ShapeError);
    CHECK_THROWS_AS(embed(Integers{-1}, table), ShapeError);
}

TEST_CASE("the steps of an embedding and of logits are those in the doc comments, and right",
          "[steps][layers][embedding][source]")
{
    Numbers numbers(3);
    const Matrix table = numbers.matrix(5, 8), x = numbers.matrix(3, 8);
    const Recorder embedding = recorded([&](const Trace& trace) { embed(Integers{4, 1, 0}, table, {}, trace); });
    const Lines of_embed = promised("reference/layers/embedding.hpp", "embed");
    CHECK(different_rows(with_numbers(of_embed, {{"PAIRS", "4"}, {"N", "3"}, {"D", "8"}}), embedding) == "");
    CHECK(wrong_steps(embedding) == std::vector<std::string>{});
    const Recorder logits = recorded([&](const Trace& trace) { unembed(x, table, trace); });
    CHECK(different_rows(promised("reference/layers/embedding.hpp", "unembed"), logits) == "");
    CHECK(wrong_steps(logits) == std::vector<std::string>{});
    const Recorder scaled = recorded(
        [&](const Trace& trace) { embed(Integers{4}, table, {.scale = 0.5, .positions = {.first = 2}}, trace); });
    CHECK(scaled.steps()[3].formula == "tokens * 0.5");
    CHECK(wrong_steps(scaled) == std::vector<std::string>{});
}
