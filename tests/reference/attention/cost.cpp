#include "attn/reference/attention/cost.hpp"

#include "test.hpp"

#include <algorithm>
#include <vector>

using namespace attn;

// The cost of each scoring function, counted: plain loops over a number that counts what is done with it.

namespace {

struct Count {
    std::size_t multiplications = 0;
    std::size_t tanhs = 0; // or exp, or sigmoid
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

Row sum(const Row& left, const Row& right)
{
    Row result;
    for (std::size_t i = 0; i < left.size(); ++i)
        result.push_back(left[i] + right[i]);
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

/// Zeros, as many as a window wants.
Row window(const Rows& x, std::size_t i, std::size_t width)
{
    Row tokens;
    for (std::size_t w = 0; w < width; ++w)
        tokens = concat(tokens,
                        i + w >= width / 2 && i + w - width / 2 < x.size() ? x[i + w - width / 2] : Row(x[i].size()));
    return tokens;
}

Row bent(Row x)
{
    for (Counted& unit : x)
        unit = tanh(unit);
    return x;
}

void read_by_gru(const EncodingSizes& s)
{
    Row hidden(s.d_out);
    for (const Row& token : rows(s.n, s.d_in)) {
        const Row reset = bent(sum(project(token, s.d_out), project(hidden, s.d_out)));
        const Row update = bent(sum(project(token, s.d_out), project(hidden, s.d_out)));
        const Row of_input = project(token, s.d_out), of_state = project(hidden, s.d_out);
        for (std::size_t j = 0; j < s.d_out; ++j) {
            const Counted candidate = tanh(of_input[j] + reset[j] * of_state[j]);
            hidden[j] = (Counted{} + update[j]) * candidate + update[j] * hidden[j];
        }
    }
}

void read_by_lstm(const EncodingSizes& s)
{
    Row hidden(s.d_out), cell(s.d_out);
    for (const Row& token : rows(s.n, s.d_in)) {
        Rows gates;
        for (std::size_t gate = 0; gate < 4; ++gate)
            gates.push_back(bent(sum(project(token, s.d_out), project(hidden, s.d_out))));
        for (std::size_t j = 0; j < s.d_out; ++j) {
            cell[j] = gates[1][j] * cell[j] + gates[0][j] * gates[2][j];
            hidden[j] = gates[3][j] * tanh(cell[j]);
        }
    }
}

void convolve(const EncodingSizes& s)
{
    const Rows x = rows(s.n, s.d_in);
    for (std::size_t i = 0; i < s.n; ++i)
        project(window(x, i, 3), s.d_out);
}

void attend_to_itself(const EncodingSizes& s)
{
    Rows queries, keys, values;
    for (const Row& token : rows(s.n, s.d_in)) {
        queries.push_back(project(token, s.d_out));
        keys.push_back(project(token, s.d_out));
        values.push_back(project(token, s.d_out));
    }
    for (const Row& query : queries) {
        Row weights;
        for (const Row& key : keys)
            weights.push_back(tanh(dot(query, key) / Counted{}));
        for (Counted& weight : weights)
            weight = weight / Counted{};
        for (std::size_t j = 0; j < s.d_out; ++j)
            dot(weights, Row(s.n));
    }
}

bool costs(const EncodingCost& claimed, void (*encode)(const EncodingSizes&), const EncodingSizes& sizes)
{
    count = {};
    encode(sizes);
    CAPTURE(claimed.multiplications, count.multiplications, claimed.exponentials, count.tanhs);
    return claimed.multiplications == count.multiplications && claimed.exponentials == count.tanhs;
}

bool costs(const ScoringCost& claimed, void (*score)(const ScoringSizes&), const ScoringSizes& sizes)
{
    count = {};
    score(sizes);
    CAPTURE(claimed.multiplications, count.multiplications, claimed.tanhs, count.tanhs);
    return claimed.multiplications == count.multiplications && claimed.tanhs == count.tanhs;
}

/// Attention among the pairs that a rule allows, with so many columns of scores.
template <class Allows>
AttentionCost attend(std::size_t n, std::size_t d_k, std::size_t d_v, std::size_t columns, const Allows& allows)
{
    count = {};
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j)
            if (allows(i, j)) {
                dot(Row(d_k), Row(d_k));
                for (const Counted& value : Row(d_v))
                    Counted{} + Counted{} * value;
            }
        for (const Counted& score : Row(columns))
            score* Counted{} / Counted{};
    }
    return {count.multiplications, n * columns};
}

bool same(const AttentionCost& left, const AttentionCost& right)
{
    CAPTURE(left.multiplications, right.multiplications, left.weights, right.weights);
    return left.multiplications == right.multiplications && left.weights == right.weights;
}

} // namespace

TEST_CASE("full and restricted attention cost what plain loops count", "[attention][cost][restricted]")
{
    for (const std::size_t n : {1, 2, 7, 11}) {
        CAPTURE(n);
        CHECK(same(full_attention_cost(n, 3, 5), attend(n, 3, 5, n, [](std::size_t, std::size_t) { return true; })));
        const auto apart = [](std::size_t i, std::size_t j) { return i < j ? j - i : i - j; };
        for (const std::size_t size : {1, 2, 3, 20}) {
            const Neighbourhood local{.radius = size}, strided{.stride = size},
                past{.radius = size, .side = Side::causal};
            CHECK(same(restricted_attention_cost(n, 3, 5, local),
                       attend(n, 3, 5, std::min(2 * size + 1, 2 * n - 1),
                              [&](std::size_t i, std::size_t j) { return apart(i, j) <= size; })));
            CHECK(same(restricted_attention_cost(n, 3, 5, strided),
                       attend(n, 3, 5, 2 * ((n - 1) / size) + 1,
                              [&](std::size_t i, std::size_t j) { return apart(i, j) % size == 0; })));
            CHECK(same(restricted_attention_cost(n, 3, 5, past),
                       attend(n, 3, 5, std::min(size + 1, n),
                              [&](std::size_t i, std::size_t j) { return j <= i && i - j <= size; })));
        }
    }
}

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

TEST_CASE("each way to encode a sequence costs what plain loops count", "[attention][cost]")
{
    const EncodingSizes sizes =
        GENERATE(EncodingSizes{2, 3, 5}, EncodingSizes{7, 5, 2}, EncodingSizes{1, 1, 1}, EncodingSizes{0, 2, 3});
    CAPTURE(sizes.n, sizes.d_in, sizes.d_out);
    CHECK(costs(gru_cost(sizes), read_by_gru, sizes));
    CHECK(costs(lstm_cost(sizes), read_by_lstm, sizes));
    CHECK(costs(convolution_cost(sizes, 3), convolve, sizes));
    CHECK(costs(self_attention_cost(sizes), attend_to_itself, sizes));
}

TEST_CASE("the three maps of self-attention cost what a convolution of width 3 does", "[attention][cost]")
{
    // Of one token: its score and its share of the context come on top, and are all that grows with the square of n.
    const EncodingSizes sizes{16, 8, 8};
    const std::size_t pairs = 2 * 16 * 16 * 8 + 2 * 16 * 16;
    CHECK(self_attention_cost(sizes).multiplications == convolution_cost(sizes, 3).multiplications + pairs);
}
