#include "paged_cache.hpp"

#include "attn/core/error.hpp"
#include "attn/core/memory.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <variant>

namespace attn {
namespace {

/// One of the two matrices that a layer keeps, by the names that the steps of attention have.
struct PagedPart {
    std::string_view past, whole;
};
using PartsOfLayer = std::array<PagedPart, 2>;

const PartsOfLayer& parts_of(const SelfAttentionCacheOf<Matrix>& layer)
{
    static constexpr PartsOfLayer of_heads{{{"past_keys", "cache_keys"}, {"past_values", "cache_values"}}},
        of_latents{{{"past_latent", "latent"}, {"past_shared_key", "shared_key"}}};
    return std::holds_alternative<LatentCache>(layer) ? of_latents : of_heads;
}

std::array<const Matrix*, 2> matrices_of(const SelfAttentionCacheOf<Matrix>& layer)
{
    if (const auto* latents = std::get_if<LatentCache>(&layer))
        return {&latents->latent, &latents->shared_key};
    const auto& heads = std::get<KeyValueCache>(layer);
    return {&heads.keys, &heads.values};
}

/// The same kind of cache, of these.
SelfAttentionCacheOf<Matrix> made_of(std::array<Matrix, 2> matrices, const SelfAttentionCacheOf<Matrix>& kind)
{
    auto& [first, second] = matrices;
    if (std::holds_alternative<LatentCache>(kind))
        return LatentCache{std::move(first), std::move(second)};
    return KeyValueCache{std::move(first), std::move(second)};
}

/// Numbers without places, as a tensor.
Integers whole_numbers(const std::vector<std::int64_t>& numbers)
{
    Integers all(Integers::shape_type{numbers.size()});
    std::ranges::copy(numbers, all.begin());
    return all;
}

} // namespace

PagedCache::PagedCache(const PagePool& pool, const std::vector<std::size_t>& lengths, std::size_t first_layer)
    : pages_{pool.size, 0, std::vector<PageTable>(lengths.size())}, first_layer_(first_layer)
{
    if (pool.size == 0)
        throw Error("run_schedule: a page has 0 tokens, expected 1 or more");
    for (const std::size_t length : lengths)
        pages_.count += length / pool.size + (length % pool.size > 0 ? 1 : 0);
    pages_.count = pool.blocks.value_or(pages_.count);
    expect_memory("the pool of pages", {pages_.count, pool.size});
}

PlacedCache PagedCache::before(const std::vector<Segment>& call, const Trace& trace)
{
    // Go on from the tables before the call: beams can change places.
    const std::vector<PageTable> old = pages_.tables;
    for (const Segment& segment : call)
        pages_.tables[segment.sequence] =
            beginning_of(old[segment.after.value_or(segment.sequence)], segment.begin, pages_.size);

    // Find the rows of each sequence's tokens.
    const Trace inside = trace.scope("pages");
    std::vector<Term<Integers>> slots_of_each;
    PlacedCache past;
    std::vector<std::int64_t> sequences, positions;
    for (const Segment& segment : call) {
        if (segment.begin == 0)
            continue;
        slots_of_each.push_back(
            slots_of(pages_.tables[segment.sequence], pages_, inside.scope("sequence", segment.sequence)));
        for (std::size_t i = 0; i < segment.begin; ++i) {
            sequences.push_back(static_cast<std::int64_t>(segment.sequence));
            positions.push_back(static_cast<std::int64_t>(i));
        }
    }
    if (slots_of_each.empty())
        return past;
    const Term slots = inside("slots[past]", concat(slots_of_each, 0));
    past.places = {whole_numbers(sequences), whole_numbers(positions)};

    // Gather them: that is what attention has of the past.
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        const Trace of_layer = inside.scope("layers", i), layer = trace.scope("layers", first_layer_ + i),
                    attention = layer.scope("self_attn");
        std::array<Matrix, 2> gathered;
        for (std::size_t part = 0; part < 2; ++part) {
            const std::string name(parts_of(kinds_[i])[part].past);
            const Term rows = of_layer(name + "[past, features]", take_rows(pools_[i][part], slots));
            gathered[part] = *attention.alias(name, rows);
        }
        past.layers.push_back(made_of(std::move(gathered), kinds_[i]));
    }
    return past;
}

void PagedCache::keep(const std::vector<Segment>& call, const PlacedCache& after, const Trace& trace)
{
    const Trace inside = trace.scope("pages");
    if (pools_.empty()) {
        kinds_ = after.layers;
        for (std::size_t i = 0; i < kinds_.size(); ++i) {
            const Trace of_layer = inside.scope("layers", i), empty = of_layer.scope("empty");
            PoolOfLayer& pool = pools_.emplace_back();
            for (std::size_t part = 0; part < 2; ++part) {
                const std::size_t features = matrices_of(kinds_[i])[part]->shape(1);
                pool[part] = empty.given(std::string(parts_of(kinds_[i])[part].whole) + "[slots, features]",
                                         Matrix(Matrix::shape_type{pages_.count * pages_.size, features}, 0.0));
            }
        }
    }

    // Write the new rows, and copy the blocks that other sequences have, too.
    std::size_t past = 0;
    for (const Segment& segment : call)
        past += segment.begin;
    const Term rows = inside.given("written[slots]", written(call, past));
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        const Trace of_layer = inside.scope("layers", i);
        const std::string attention = "layers." + std::to_string(first_layer_ + i) + ".self_attn.";
        for (std::size_t part = 0; part < 2; ++part) {
            const std::string name(parts_of(kinds_[i])[part].whole);
            const Term now(Matrix(*matrices_of(after.layers[i])[part]), trace.known(attention + name));
            Term<Matrix>& pool = pools_[i][part];
            pool = of_layer(name + "[slots, features]", take_rows(concat_rows(pool, now), rows));
        }
    }
}

/// For each row of the pool where what it has after a call comes from: a row of the pool before, or after these one of the tokens that
/// attention had, `past` old ones and the new ones.
Integers PagedCache::written(const std::vector<Segment>& call, std::size_t past)
{
    std::vector<std::int64_t> from(pages_.count * pages_.size);
    std::iota(from.begin(), from.end(), 0);
    auto next = static_cast<std::int64_t>(from.size() + past);
    for (const Segment& segment : call) {
        auto [pages, copy] = grown(std::move(pages_), segment.sequence, segment.end - segment.begin);
        pages_ = std::move(pages);
        for (std::size_t row = 0; copy && row < pages_.size; ++row)
            from[copy->to * pages_.size + row] = static_cast<std::int64_t>(copy->from * pages_.size + row);
        const Integers slots = *slots_of(pages_.tables[segment.sequence], pages_);
        for (std::size_t i = segment.begin; i < segment.end; ++i)
            from[static_cast<std::size_t>(slots(i))] = next++;
    }
    return whole_numbers(from);
}

} // namespace attn
