#include "stored_cache.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace attn {
namespace {

using Tokens = std::vector<std::size_t>;

/// The groups of consecutive tokens that are whole since the newest are there, each of one sequence.
std::vector<Tokens> completed(const Places& places, std::size_t added, std::size_t size)
{
    std::map<std::pair<std::int64_t, std::int64_t>, Tokens> groups;
    const auto& [sequences, positions] = places;
    for (std::size_t token = 0; token < positions.size(); ++token)
        groups[{sequences(token), positions(token) / static_cast<std::int64_t>(size)}].push_back(token);
    std::vector<Tokens> whole;
    for (auto& [place, tokens] : groups)
        if (tokens.size() == size && tokens.back() >= positions.size() - added)
            whole.push_back(std::move(tokens));
    return whole;
}

Tokens newest(const Places& places, std::size_t added)
{
    Tokens tokens(added);
    std::iota(tokens.begin(), tokens.end(), places.positions.size() - added);
    return tokens;
}

/// Rounds the rows of some tokens.
/// @param name  of the step that all rows are
void round_rows(Matrix& all, const std::string& name, const Tokens& tokens, const StoredFormat& format,
                const Trace& trace)
{
    Integers numbers(Integers::shape_type{tokens.size()});
    std::ranges::copy(tokens, numbers.begin());
    const Term chosen = take_rows(named(all, name, trace), trace.given("tokens[n]", std::move(numbers)));
    const Matrix stored = *quantize(chosen, format, trace).stored;
    for (std::size_t i = 0; i < tokens.size(); ++i)
        xt::row(all, static_cast<std::ptrdiff_t>(tokens[i])) = xt::row(stored, static_cast<std::ptrdiff_t>(i));
}

/// @param role   "keys" or "values"
/// @param layer  the scope of what is rounded of a layer
void store_rows(Matrix& all, std::string_view role, const std::string& name, const Places& places, std::size_t added,
                const StoredFormat& format, const Trace& layer)
{
    if (format.scale != SharedScale::channel)
        return round_rows(all, name, newest(places, added), format, layer.scope(role));
    const std::vector<Tokens> groups = completed(places, added, format.group);
    for (std::size_t i = 0; i < groups.size(); ++i)
        round_rows(all, name, groups[i], format, layer.scope(role, i));
}

} // namespace

CacheFormat cache_format_called(std::string_view text)
{
    const std::size_t comma = text.find(',');
    const StoredFormat keys = stored_format_called(text.substr(0, comma));
    const CacheFormat format{keys,
                             comma == std::string_view::npos ? keys : stored_format_called(text.substr(comma + 1))};
    expect_storable(format, {});
    return format;
}

void expect_storable(const CacheFormat& format, const std::optional<std::size_t>& ring)
{
    for (const StoredFormat& each : {format.keys, format.values}) {
        if (each.scale == SharedScale::tensor)
            throw Error("a cache can't be " + name_of(each) +
                        ": each later token would change the scale of those before it; expected one for each token, "
                        "block or channel");
        if (each.scale == SharedScale::channel && each.group == 0)
            throw Error("a cache can't be " + name_of(each) + ": expected groups of one token or more");
        if (ring && each.scale == SharedScale::channel && each.group > *ring)
            throw Error("run_schedule: a ring of " + std::to_string(*ring) +
                        " tokens never has all of a group of channels, as " + name_of(each) + " has them");
    }
}

void store(PlacedCache& cache, std::size_t added, const CacheFormat& format, std::size_t first_layer, const Trace& call)
{
    const auto& [keys, values] = format;
    const Trace all = call.scope("cache");
    for (std::size_t i = 0; i < cache.layers.size(); ++i) {
        auto* heads = std::get_if<KeyValueCache>(&cache.layers[i]);
        if (heads == nullptr)
            throw Error("run_schedule: a cache of fewer bits has keys and values, and layer " +
                        std::to_string(first_layer + i) + " has latents in their place");
        const Trace layer = all.scope("layers", first_layer + i);
        const std::string attention = "layers." + std::to_string(first_layer + i) + ".self_attn.";
        store_rows(heads->keys, "keys", attention + "cache_keys", cache.places, added, keys, layer);
        store_rows(heads->values, "values", attention + "cache_values", cache.places, added, values, layer);
    }
}

} // namespace attn
