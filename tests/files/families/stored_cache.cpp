// Caches of fewer bits: what a schedule keeps of each token is what quantize() says, and each token gets the same in every schedule in
// which it reads the same. The models are those of tests/families/make.py.

#include "attn/reference/models/schedule.hpp"

#include "attn/core/recorder.hpp"
#include "attn/files/families/model.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"

#include "by_hand.hpp"
#include "test.hpp"

#include <algorithm>
#include <filesystem>

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

/// A model, and three sequences of different lengths.
struct Kept {
    Model model;
    std::vector<Integers> sequences;

    std::vector<std::size_t> lengths() const
    {
        std::vector<std::size_t> all;
        for (const Integers& sequence : sequences)
            all.push_back(sequence.size());
        return all;
    }
    std::vector<Matrix> run(Schedule schedule, const std::optional<CacheFormat>& cache, const Trace& trace = {}) const
    {
        schedule.cache = cache;
        return run_schedule(sequences, schedule, model.weights, model.description, trace);
    }
};

Kept kept_by(const std::string& name)
{
    const auto folder = std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests" / "golden" / "families" / name;
    const auto ids = from_array<Integers>(read_npz(folder / "expected.npz").at("ids"));
    const auto first = [&](std::size_t count) { return Integers(xt::view(ids, xt::range(std::size_t{0}, count))); };
    REQUIRE(ids.size() > 6);
    return {read_model(folder, read_weights(folder)), {ids, first(ids.size() - 2), first(3)}};
}

const char* const families[] = {"llama", "gpt2", "gemma2", "qwen3", "bloom"};

double largest_off(const std::vector<Matrix>& a, const std::vector<Matrix>& b)
{
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        most = std::max(most, xt::amax(xt::abs(a[i] - b[i]))());
    return most;
}

} // namespace

TEST_CASE("with a cache of fewer bits a token gets the same in every schedule of single tokens", "[families][schedule]")
{
    for (const char* name : families) {
        const Kept kept = kept_by(name);
        for (const char* format : {"float8_e4m3", "int8:token", "int4:block2", "uint2:channel2,uint2:token"}) {
            CAPTURE(name, format);
            const CacheFormat cache = cache_format_called(format);
            const auto one_by_one = kept.run(step_by_step(kept.lengths(), 1), cache);
            const auto joined = kept.run(joined_later(kept.lengths(), 3), cache);
            for (std::size_t i = 0; i < joined.size(); ++i)
                CHECK(close(joined[i], one_by_one[i]));
            // Alone, from the last to the first.
            Schedule alone;
            for (std::size_t sequence = kept.sequences.size(); sequence-- > 0;)
                for (std::size_t i = 0; i < kept.sequences[sequence].size(); ++i)
                    alone.calls.push_back({{sequence, i, i + 1}});
            const auto apart = kept.run(alone, cache);
            for (std::size_t i = 0; i < apart.size(); ++i)
                CHECK(close(apart[i], one_by_one[i]));
            // In one call no token reads the cache.
            const auto whole = kept.run(at_once(kept.lengths()), cache), exact = kept.run(at_once(kept.lengths()), {});
            for (std::size_t i = 0; i < whole.size(); ++i)
                CHECK(same_bits(whole[i], exact[i]));
            CHECK(largest_off(one_by_one, exact) > 0);
        }
    }
}

TEST_CASE("eight bits change less than four, and four less than two, in every schedule", "[families][schedule]")
{
    for (const char* name : families) {
        const Kept kept = kept_by(name);
        const auto exact = kept.run(at_once(kept.lengths()), {});
        for (const char* schedule : {"steps:1", "chunks:2", "joined:2"}) {
            CAPTURE(name, schedule);
            const auto off = [&](const char* format) {
                return largest_off(kept.run(schedule_called(schedule, kept.lengths()), cache_format_called(format)),
                                   exact);
            };
            const double eight = off("uint8:token"), four = off("uint4:token"), two = off("uint2:token");
            CHECK(eight < four / 4); // codes are 17 times as far apart, and then 5 times
            CHECK(four < two);
        }
    }
}

TEST_CASE("the next call reads what the last one stored, and its own tokens as they are", "[families][schedule]")
{
    const Kept kept = kept_by("llama");
    for (const char* format : {"int4:token", "int4:channel2,int4:token", "uint2:channel4"}) {
        CAPTURE(format);
        const CacheFormat cache = cache_format_called(format);
        Recorder recorder;
        const auto found = kept.run(in_chunks({kept.sequences[0].size(), 0, 0}, 3), cache, Trace(recorder));
        const Recording& run = recorder.recording();
        CHECK(formula::verify(run).passed());
        const auto at = [&](const std::string& path) { return from_array<Matrix>(run.at(path).value); };
        const Matrix all = at("calls.0.layers.0.self_attn.cache_keys"),
                     read = at("calls.1.layers.0.self_attn.past_keys");
        Matrix expected = all;
        const std::size_t group = cache.keys.scale == SharedScale::channel ? cache.keys.group : 1,
                          whole = 3 / group * group;
        if (whole > 0)
            xt::view(expected, xt::range(std::size_t{0}, whole)) =
                *quantize(Term(Matrix(xt::view(all, xt::range(std::size_t{0}, whole)))), cache.keys).stored;
        CHECK(same_bits(read, expected));
        CHECK(same_bits(found[0], kept.run(in_chunks({kept.sequences[0].size(), 0, 0}, 3), cache)[0]));
    }
}

TEST_CASE("a group of channels is rounded when its last token comes, in its own sequence only", "[families][schedule]")
{
    const Kept kept = kept_by("llama");
    Recorder recorder;
    kept.run(step_by_step({4, 3, 2}, 1), cache_format_called("int8:channel2"), Trace(recorder));
    const Recording& run = recorder.recording();
    const auto tokens = [&](const std::string& path) { return from_array<Integers>(run.at(path).value); };
    CHECK_FALSE(run.find("calls.0.cache.layers.0.keys.0.tokens") != nullptr);
    // After two calls the cache has token 0 of the three sequences, in the order of before(), and then token 1 of each.
    CHECK(tokens("calls.1.cache.layers.0.keys.0.tokens").size() == 2);
    CHECK(run.find("calls.1.cache.layers.0.keys.2.tokens") != nullptr);
    CHECK_FALSE(run.find("calls.2.cache.layers.0.keys.0.tokens") != nullptr); // one token of each is left over
    CHECK(run.find("calls.3.cache.layers.0.keys.0.tokens") != nullptr);
    CHECK_FALSE(run.find("calls.3.cache.layers.0.keys.1.tokens") != nullptr);
}

TEST_CASE("tokens that were taken back leave no trace in a cache with a scale for each token", "[families][schedule]")
{
    const Kept kept = kept_by("gpt2");
    const CacheFormat cache = cache_format_called("int4:token");
    const Schedule straight{{{{0, 0, 2}}, {{0, 2, 3}}, {{0, 3, 6}}}},
        guessed{{{{0, 0, 2}}, {{0, 2, 6}}, {{0, 2, 3}}, {{0, 3, 6}}}};
    CHECK(close(kept.run(guessed, cache)[0], kept.run(straight, cache)[0]));
}

TEST_CASE("a cache of fewer bits that can't be kept is refused", "[families][schedule]")
{
    const Kept kept = kept_by("llama");
    Schedule ring = step_by_step(kept.lengths(), 1);
    const auto refused = [&](const Kept& by, const Schedule& schedule, const CacheFormat& format, const char* why) {
        CHECK_THROWS_WITH(by.run(schedule, format), ContainsSubstring(why));
    };
    const StoredFormat token{}, tensor{StoredType::int8, SharedScale::tensor};
    refused(kept, ring, {token, tensor}, "a cache can't be int8:tensor");
    refused(kept, ring, {{StoredType::int8, SharedScale::channel, 0}, token}, "expected groups of one token or more");
    refused(kept, ring, {{StoredType::int8, SharedScale::block, 7}, token}, "blocks of 7 don't divide");
    const Kept latents = kept_by("deepseek-v2"), states = kept_by("qwen3-next");
    refused(latents, step_by_step(latents.lengths(), 1), {token, token}, "has latents in their place");
    refused(states, step_by_step(states.lengths(), 1), {token, token}, "has a state in their place");
    CHECK_THROWS_WITH(cache_format_called("int8:tensor"), ContainsSubstring("a cache can't be int8:tensor"));
    for (const char* name :
         {"", ",", "int8:token,", ",int8:token", "int8:token,int8:token,int8:token", "int8:token "}) {
        CAPTURE(name);
        CHECK_THROWS_WITH(cache_format_called(name), ContainsSubstring("there is no type of stored numbers"));
    }
    const Kept windowed = kept_by("mistral");
    Schedule narrow = step_by_step(windowed.lengths(), 1);
    narrow.ring = 5;
    narrow.cache = cache_format_called("int8:channel8");
    CHECK_THROWS_WITH(run_schedule(windowed.sequences, narrow, windowed.model.weights, windowed.model.description),
                      ContainsSubstring("a ring of 5 tokens never has all of a group"));
}
