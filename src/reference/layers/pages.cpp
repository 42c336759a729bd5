#include "attn/reference/layers/pages.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

std::size_t blocks_for(std::size_t tokens, std::size_t size) { return tokens / size + (tokens % size > 0 ? 1 : 0); }

void expect_rows(std::size_t size)
{
    if (size == 0)
        throw Error("pages: a block has no row, expected 1 or more");
}

void expect_table(const PageTable& table, const Pages& pages)
{
    expect_rows(pages.size);
    for (const std::size_t block : table.blocks)
        if (block >= pages.count)
            throw Error("pages: a table has block ", block, ", and the pool has ", pages.count,
                        " blocks, the first of them block 0");
    if (const std::size_t needed = blocks_for(table.tokens, pages.size); table.blocks.size() != needed)
        throw Error("pages: a table has ", table.blocks.size(), " blocks of ", pages.size, " tokens each, and ",
                    table.tokens, " tokens need ", needed);
}

} // namespace

Term<Integers> slots_of(const PageTable& table, const Pages& pages, const Trace& trace)
{
    expect_table(table, pages);
    Integers blocks(Integers::shape_type{table.blocks.size()}), slots(Integers::shape_type{table.tokens});
    std::ranges::copy(table.blocks, blocks.begin());
    const Integers given = *trace.given("table[blocks]", std::move(blocks));
    const auto size = static_cast<std::int64_t>(pages.size);
    for (std::size_t i = 0; i < table.tokens; ++i)
        slots(i) = size * given(i / pages.size) + static_cast<std::int64_t>(i % pages.size);
    // Whole numbers, which terms don't compute with.
    const auto formula = [&] {
        const std::string rows = std::to_string(pages.size), place = "arange(" + std::to_string(table.tokens) + ")";
        return rows + " * table[" + place + " // " + rows + "] + " + place + " % " + rows;
    };
    return trace("slots[m]", formula, Term(std::move(slots)));
}

std::vector<std::size_t> users_of(const Pages& pages)
{
    std::vector<std::size_t> users(pages.count, 0);
    for (const PageTable& table : pages.tables) {
        expect_table(table, pages);
        for (const std::size_t block : table.blocks)
            ++users[block];
    }
    return users;
}

PageTable beginning_of(const PageTable& table, std::size_t tokens, std::size_t size)
{
    expect_rows(size);
    if (tokens > table.tokens)
        throw Error("pages: a sequence has ", table.tokens, " tokens, and its first ", tokens, " are asked for");
    PageTable beginning = table;
    beginning.blocks.resize(blocks_for(tokens, size));
    beginning.tokens = tokens;
    return beginning;
}

GrownPages grown(Pages pages, std::size_t sequence, std::size_t tokens)
{
    if (sequence >= pages.tables.size())
        throw Error("pages: there is no sequence ", sequence, ", there are ", pages.tables.size());
    std::vector<std::size_t> users = users_of(pages);
    PageTable& table = pages.tables[sequence];
    const bool writes_into_last = tokens > 0 && table.tokens % pages.size > 0;
    const bool is_shared = writes_into_last && users[table.blocks.back()] > 1;

    // What is needed: blocks for what the last one has no room for, and a copy of that one where others have it.
    const std::size_t more = blocks_for(table.tokens + tokens, pages.size) - table.blocks.size(),
                      needed = more + (is_shared ? 1 : 0);
    const auto free = static_cast<std::size_t>(std::ranges::count(users, 0U));
    if (needed > free)
        throw Error("pages: the pool is full: sequence ", sequence, " needs ", needed, " more of its ", pages.count,
                    " blocks for ", tokens, (tokens == 1 ? " token after " : " tokens after "), table.tokens, ", and ",
                    free, (free == 1 ? " is free" : " are free"));
    const auto take = [&] {
        const auto found = std::ranges::find(users, 0U);
        *found = 1;
        return static_cast<std::size_t>(found - users.begin());
    };
    std::optional<BlockCopy> copy;
    if (is_shared) {
        copy = {table.blocks.back(), take()};
        table.blocks.back() = copy->to;
    }
    for (std::size_t i = 0; i < more; ++i)
        table.blocks.push_back(take());
    table.tokens += tokens;
    return {std::move(pages), copy};
}

} // namespace attn
