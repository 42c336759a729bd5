#include "expect.hpp"

#include "attn/core/shape.hpp"

#include <algorithm>
#include <string>

namespace attn::fast {
namespace {

/// "queries (1, 2, 3, 4)"
std::string shape_text(std::string_view name, const Const& x)
{
    return std::string(name) + " " + to_string(Shape(x.shape.begin(), x.shape.end()));
}

[[noreturn]] void fail(std::string_view who, const std::string& what) { throw ShapeError(who, ": ", what); }

void expect_address(std::string_view who, std::string_view role, const float* numbers, const Shape& shape)
{
    if (numbers == nullptr && std::ranges::find(shape, 0U) == shape.end())
        throw Error(who, ": the pointer to the numbers of ", role, " ", shape,
                    " is null; expected the address of the first number");
}

/// @param at  the axis, 0 to 3
void expect_same(std::string_view who, std::string_view axis, std::size_t at, std::string_view left, const Const& a,
                 std::string_view right, const Const& b)
{
    if (a.shape[at] != b.shape[at])
        fail(who, shape_text(left, a) + " and " + shape_text(right, b) + " must agree in " + std::string(axis));
}

void expect_heads(std::string_view who, std::size_t query_heads, std::size_t key_heads)
{
    if (key_heads == 0 ? query_heads != 0 : query_heads % key_heads != 0)
        fail(who, std::to_string(query_heads) + " query heads can't be divided evenly among " +
                      std::to_string(key_heads) + " key/value heads");
}

void expect_lengths(std::string_view who, const Scoring& scoring, std::size_t batch, std::size_t m)
{
    const std::span<const std::int64_t>& lengths = scoring.key_lengths;
    if (!lengths.empty() && lengths.size() != batch)
        fail(who, std::to_string(lengths.size()) + " lengths for " + std::to_string(batch) + " sequences");
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (lengths[b] < 0 || static_cast<std::size_t>(lengths[b]) > m)
            fail(who, "key_lengths[" + std::to_string(b) + "] is " + std::to_string(lengths[b]) +
                          ", expected 0 to m = " + std::to_string(m) + " keys");
    if (scoring.causal == Causal::by_length && lengths.empty() && batch != 0)
        throw Error(who, ": it is causal by length, and there are no key_lengths");
}

} // namespace

void expect_same_shape(std::string_view who, std::string_view left, const Const& a, std::string_view right,
                       const Const& b)
{
    if (a.shape != b.shape)
        fail(who, shape_text(left, a) + " and " + shape_text(right, b) + " must agree in shape");
}

void expect_numbers(std::string_view who, std::string_view role, const Const& x)
{
    expect_address(who, role, x.numbers, Shape(x.shape.begin(), x.shape.end()));
}

void expect_numbers(std::string_view who, std::string_view role, const Tokens<const float>& x)
{
    expect_address(who, role, x.numbers, x.batch ? Shape{*x.batch, x.n, x.d} : Shape{x.n, x.d});
}

void expect_fit(std::string_view who, const Const& queries, const Const& keys, const Const& values,
                const Const& context, const Scoring& scoring)
{
    expect_same(who, "b", 0, "queries", queries, "keys", keys);
    expect_same(who, "b", 0, "keys", keys, "values", values);
    expect_same(who, "b", 0, "queries", queries, "context", context);
    expect_same(who, "g", 1, "keys", keys, "values", values);
    expect_same(who, "h", 1, "queries", queries, "context", context);
    expect_same(who, "m", 2, "keys", keys, "values", values);
    expect_same(who, "n", 2, "queries", queries, "context", context);
    expect_same(who, "d_k", 3, "queries", queries, "keys", keys);
    expect_same(who, "d_v", 3, "values", values, "context", context);
    expect_heads(who, queries.heads(), keys.heads());
    if (!scoring.alibi_slopes.empty() && scoring.alibi_slopes.size() != queries.heads())
        fail(who,
             std::to_string(scoring.alibi_slopes.size()) + " slopes for " + std::to_string(queries.heads()) + " heads");
    if (scoring.window.kept > 0)
        fail(who,
             "the window keeps " + std::to_string(scoring.window.kept) + " first keys, expected none: give a mask");
    expect_lengths(who, scoring, queries.batch(), keys.rows());
    expect_numbers(who, "queries", queries);
    expect_numbers(who, "keys", keys);
    expect_numbers(who, "values", values);
    expect_numbers(who, "context", context);
}

void expect_sums(std::string_view who, std::span<const float> sums, const Const& queries)
{
    const std::size_t all = queries.batch() * queries.heads() * queries.rows();
    if (sums.size() != all)
        fail(who, "sums of " + std::to_string(sums.size()) + " numbers, expected b h n = " + std::to_string(all));
}

} // namespace attn::fast
