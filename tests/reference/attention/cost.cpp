#include "attn/reference/attention/cost.hpp"

#include "test.hpp"

#include <vector>

using namespace attn;

// The cost of each scoring function, counted: plain loops over a number that counts what is done with it.

namespace {

struct Count {
    std::size_t multiplications = 0;
    std::size_t tanhs = 0;
};

Count count;

/// A number of no value: only what happens to it matters.
struct Counted {
    friend Counted operator*(Counted, Counted)
    {
        ++count.multiplications;
        return {};
    }
    friend Counted operator/(Counted, Counted)
    {
        ++count.multiplications;
        return {};
    }
    friend Counted operator+(Counted, Counted) { return {}; }
};

Counted tanh(Counted)
{
    ++count.tanhs;
    return {};
}

using Row = std::vector<Counted>;
using Rows = std::vector<Row>;

Rows rows(std::size_t n, std::size_t m) { return Rows(n, Row(m)); }

Counted dot(const Row& left, const Row& right)
{
    Counted sum;
    for (std::size_t i = 0; i < left.size(); ++i)
        sum = sum + left[i] * right[i];
    return sum;
}

/// x W, for W of so many columns.
Row project(const Row& x, std::size_t columns)
{
    Row result;
    for (std::size_t j = 0; j < columns; ++j)
        result.push_back(dot(x, Row(x.size())));
    return result;
}

Row tanh_of_sum(const Row& left, const Row& right)
{
    Row result;
    for (std::size_t i = 0; i < left.size(); ++i)
        result.push_back(tanh(left[i] + right[i]));
    return result;
}

Row concat(Row left, const Row& right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

void score_by_dot_product(const ScoringSizes& s)
{
    for (const Row& query : rows(s.n, s.d_k))
        for (const Row& key : rows(s.m, s.d_k))
            dot(query, key);
}

void score_by_scaled_dot_product(const ScoringSizes& s)
{
    for (const Row& query : rows(s.n, s.d_k))
        for (const Row& key : rows(s.m, s.d_k))
            dot(query, key) / Counted{};
}

void score_additively(const ScoringSizes& s)
{
    Rows query_parts;
    for (const Row& query : rows(s.n, s.d_q))
        query_parts.push_back(project(query, s.d_hidden));
    Rows key_parts;
    for (const Row& key : rows(s.m, s.d_k))
        key_parts.push_back(project(key, s.d_hidden));
    for (const Row& query_part : query_parts)
        for (const Row& key_part : key_parts)
            dot(tanh_of_sum(query_part, key_part), Row(s.d_hidden));
}

void score_concatenated(const ScoringSizes& s)
{
    for (const Row& query : rows(s.n, s.d_q))
        for (const Row& key : rows(s.m, s.d_k)) {
            Row hidden = project(concat(query, key), s.d_hidden);
            for (Counted& unit : hidden)
                unit = tanh(unit);
            dot(hidden, Row(s.d_hidden));
        }
}

void score_bilinearly(const ScoringSizes& s)
{
    for (const Row& query : rows(s.n, s.d_q)) {
        const Row projected = project(query, s.d_k);
        for (const Row& key : rows(s.m, s.d_k))
            dot(projected, key);
    }
}

bool costs(const ScoringCost& claimed, void (*score)(const ScoringSizes&), const ScoringSizes& sizes)
{
    count = {};
    score(sizes);
    CAPTURE(claimed.multiplications, count.multiplications, claimed.tanhs, count.tanhs);
    return claimed.multiplications == count.multiplications && claimed.tanhs == count.tanhs;
}

} // namespace

TEST_CASE("each scoring function costs what plain loops count", "[attention][cost]")
{
    // Primes, so that no two terms can be mistaken for each other; then one of everything, and nothing.
    const ScoringSizes sizes = GENERATE(ScoringSizes{2, 3, 5, 7, 11}, ScoringSizes{7, 2, 3, 5, 13},
                                        ScoringSizes{1, 1, 1, 1, 1}, ScoringSizes{0, 3, 5, 7, 11});
    CAPTURE(sizes.n, sizes.m, sizes.d_q, sizes.d_k, sizes.d_hidden);
    CHECK(costs(dot_product_cost(sizes), score_by_dot_product, sizes));
    CHECK(costs(scaled_dot_product_cost(sizes), score_by_scaled_dot_product, sizes));
    CHECK(costs(additive_cost(sizes), score_additively, sizes));
    CHECK(costs(concatenated_cost(sizes), score_concatenated, sizes));
    CHECK(costs(bilinear_cost(sizes), score_bilinearly, sizes));
}

TEST_CASE("projecting each token once is cheaper than sending every pair through the hidden layer", "[attention][cost]")
{
    const ScoringSizes sizes{64, 64, 32, 32, 32};
    CHECK(additive_cost(sizes).multiplications < concatenated_cost(sizes).multiplications);
    CHECK(additive_cost(sizes).tanhs == concatenated_cost(sizes).tanhs);
}
