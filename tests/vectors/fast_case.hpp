#pragma once

#include "attn/engines/fast/attention.hpp"

// The runner for C and C++. A program of one file: what it defines is used here.
#include "../../vectors/runners/check.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

/// A case of the vectors as attn::fast takes it.
namespace attn::test {

struct FastCase {
    std::array<std::size_t, 4> of_queries, of_keys, of_values, of_context; ///< (b, h, n, d)
    std::vector<float> queries, keys, values, bias;
    std::unique_ptr<bool[]> mask;
    std::vector<std::int64_t> lengths;
    fast::Scoring scoring;
};

inline std::vector<float> numbers_of(const attn_array& array) { return {array.values, array.values + array.size}; }

/// (n, d) as (1, 1, n, d).
inline std::array<std::size_t, 4> heads_of(const attn_array& array)
{
    std::array<std::size_t, 4> shape{1, 1, 1, 1};
    std::copy_n(array.shape, array.rank, shape.end() - array.rank);
    return shape;
}

/// The earlier tokens' rows of one head, then the new ones.
inline std::vector<float> continued(const attn_array* past, const attn_array& array)
{
    std::vector<float> all = past == nullptr ? std::vector<float>{} : numbers_of(*past);
    all.insert(all.end(), array.values, array.values + array.size);
    return all;
}

/// Nothing where the case is of another function, or has what the fast kernel does not compute: learned scores, sinks, first keys
/// that a window keeps.
inline std::optional<FastCase> fast_case(const attn_case& one)
{
    if (std::string_view(one.function) != "attention" || attn_parameter_of(&one, "score") ||
        attn_parameter_of(&one, "kept") || attn_input(&one, "sinks"))
        return std::nullopt;
    const attn_array &queries = *attn_input(&one, "queries"), &keys = *attn_input(&one, "keys"),
                     &values = *attn_input(&one, "values");
    const attn_array *past = attn_input(&one, "past_keys"), *mask = attn_input(&one, "mask"),
                     *bias = attn_input(&one, "bias"), *lengths = attn_input(&one, "lengths");
    FastCase fast;
    fast.of_queries = fast.of_context = heads_of(queries);
    fast.of_keys = heads_of(keys);
    fast.of_values = heads_of(values);
    fast.of_context[3] = fast.of_values[3];
    const std::size_t earlier = past == nullptr ? 0 : past->shape[0];
    fast.of_keys[2] += earlier;
    fast.of_values[2] += earlier;
    fast.queries = numbers_of(queries);
    fast.keys = continued(past, keys);
    fast.values = continued(attn_input(&one, "past_values"), values);

    const auto number = [&](const char* name) -> std::optional<float> {
        const char* text = attn_parameter_of(&one, name);
        return text == nullptr ? std::nullopt : std::optional(std::stof(text));
    };
    const auto whole = [&](const char* name) -> std::optional<std::size_t> {
        const auto found = number(name);
        return found ? std::optional(static_cast<std::size_t>(*found)) : std::nullopt;
    };
    fast::Scoring& scoring = fast.scoring;
    scoring.scale = number("scale");
    scoring.softcap = number("softcap");
    scoring.past = earlier;
    scoring.window = {.left = whole("left_window"), .right = whole("right_window"), .alignment = Causal::top_left};
    if (const char* causal = attn_parameter_of(&one, "causal"))
        scoring.causal = std::string_view(causal) == "top-left" ? Causal::top_left : Causal::bottom_right;
    if (mask != nullptr) {
        fast.mask = std::make_unique<bool[]>(mask->size);
        std::transform(mask->values, mask->values + mask->size, fast.mask.get(), [](double can) { return can != 0; });
        scoring.mask = {fast.mask.get(), {0, 0, mask->shape[1]}};
    }
    if (bias != nullptr) {
        fast.bias = numbers_of(*bias);
        scoring.bias = {fast.bias.data(), {0, 0, bias->shape[1]}};
    }
    if (lengths != nullptr) {
        fast.lengths.assign(lengths->values, lengths->values + lengths->size);
        scoring.key_lengths = fast.lengths;
    }
    return fast;
}

} // namespace attn::test
