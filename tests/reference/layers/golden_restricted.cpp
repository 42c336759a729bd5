// Restricted attention and talking heads on every case that NumPy computed on all pairs, step by step.

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/attention/restricted.hpp"
#include "attn/reference/layers/talking_heads.hpp"

#include "golden.hpp"
#include "masked.hpp"
#include "test.hpp"

#include <algorithm>
#include <map>

using namespace attn;
using namespace attn::formula;

namespace {

/// A neighbourhood by the name that tests/golden/restricted.py has for it.
RestrictedOptions restricted_options(const std::string& name)
{
    static const std::map<std::string, RestrictedOptions> options{
        {"alone", {.neighbourhood = {.radius = 0}}},
        {"next", {.neighbourhood = {.radius = 1}}},
        {"wide", {.neighbourhood = {.radius = 6}}},
        {"past", {.neighbourhood = {.radius = 2, .side = Side::causal}}},
        {"strided", {.neighbourhood = {.stride = 3}}},
        {"every", {.neighbourhood = {.stride = 1}}},
        {"strided_past", {.neighbourhood = {.stride = 4, .side = Side::causal}}},
        {"union", {.neighbourhood = {.radius = 1, .stride = 4}}},
        {"union_past", {.neighbourhood = {.radius = 2, .stride = 3, .side = Side::causal}}},
        {"union_overlapping", {.neighbourhood = {.radius = 4, .stride = 2}}},
        {"scaled", {.neighbourhood = {.radius = 2}, .scale = 0.25}},
    };
    return options.at(name);
}

const Array* find(const Golden& steps, const std::string& name)
{
    const auto found = std::ranges::find(steps, name, &Golden::value_type::first);
    return found == steps.end() ? nullptr : &found->second;
}

template <Traceable T>
T get(const Golden& steps, const std::string& name)
{
    const Array* found = find(steps, name);
    if (found == nullptr)
        throw std::out_of_range(name);
    return from_array<T>(*found);
}

LinearWeights map_of(const Golden& steps, const std::string& role)
{
    LinearWeights weights{get<Matrix>(steps, role + "_weights")};
    if (find(steps, role + "_bias") != nullptr)
        weights.bias = get<Vector>(steps, role + "_bias");
    return weights;
}

TalkingHeadsWeights talking_weights_of(const Golden& steps)
{
    MultiHeadWeights maps{map_of(steps, "query"), map_of(steps, "key"), map_of(steps, "value")};
    if (find(steps, "output_weights") != nullptr)
        maps.output = map_of(steps, "output");
    return {std::move(maps), get<Matrix>(steps, "talking_scores"), get<Matrix>(steps, "talking_weights")};
}

/// What stands between one dot and the next.
std::string word(const std::string& name, std::size_t which)
{
    std::size_t begin = 0;
    for (std::size_t i = 0; i < which; ++i)
        begin = name.find('.', begin) + 1;
    return name.substr(begin, name.find('.', begin) - begin);
}

void compute(const std::string& name, const Golden& steps, const Trace& trace)
{
    if (word(name, 0) == "restricted") {
        restricted_attention(get<Matrix>(steps, "queries"), get<Matrix>(steps, "keys"), get<Matrix>(steps, "values"),
                             restricted_options(word(name, 2)), trace);
        return;
    }
    TalkingHeadsOptions options;
    OptionalMask given;
    const Array* mask = find(steps, "mask");
    if (mask != nullptr && mask->rank() == 3)
        given = from_array<BatchMask>(*mask);
    else if (mask != nullptr)
        given = from_array<Mask>(*mask);
    if (word(name, 1) == "scaled")
        options.scale = 0.25;
    if (word(name, 2) == "batch")
        talking_heads_attention(get<Tensor3>(steps, "x"), talking_weights_of(steps), attn::test::masked(options, given),
                                trace);
    else
        talking_heads_attention(get<Matrix>(steps, "x"), talking_weights_of(steps), attn::test::masked(options, given),
                                trace);
}

} // namespace

std::vector<GoldenCase> restricted_cases()
{
    std::vector<GoldenCase> result;
    for (const auto& [path, array] : read_golden("restricted")) {
        const std::size_t words = path.starts_with("restricted.") ? 3 : 4;
        std::size_t dot = path.find('.');
        for (std::size_t i = 1; i < words; ++i)
            dot = path.find('.', dot + 1);
        const std::string name = path.substr(0, dot);
        if (result.empty() || result.back().name != name)
            result.push_back({name, {}, {}});
        result.back().steps.emplace_back(path.substr(dot + 1), array);
    }
    for (GoldenCase& one : result)
        one.run = [name = one.name, steps = one.steps](const Trace& trace) { compute(name, steps, trace); };
    return result;
}

TEST_CASE("every step of restricted attention and of talking heads is NumPy's", "[restricted][talking][golden]")
{
    const std::vector<GoldenCase> all = restricted_cases();
    CHECK(all.size() == 72); // 5 sizes of 11 neighbourhoods, 17 of talking heads
    for (const GoldenCase& one : all) {
        CAPTURE(one.name);
        Recorder recorder;
        one.run(Trace(recorder));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
    }
}
