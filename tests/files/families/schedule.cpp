// The law over time: each token of each sequence gets the same logits in every schedule. Those of all tokens at once are
// transformers', see tests/families/make.py.

#include "attn/reference/models/schedule.hpp"

#include "attn/core/recorder.hpp"
#include "attn/files/families/model.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"

#include "by_hand.hpp"
#include "masked.hpp"
#include "sources.hpp"
#include "test.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

const std::filesystem::path golden_families =
    std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests" / "golden" / "families";

bool depends_on_length(const LanguageModelDescription& description)
{
    return std::ranges::any_of(description.layers, [](const BlockDescription& layer) {
        const RotaryScaling& scaling = layer.attention.rotary.scaling;
        return std::holds_alternative<DynamicScaling>(scaling) || std::holds_alternative<LongRopeScaling>(scaling);
    });
}

/// A decoder, some sequences, and what transformers, or the model whole, gives of each.
struct Served {
    std::string name;
    Model model;
    std::vector<Integers> sequences;
    std::vector<Matrix> expected;

    std::vector<std::size_t> lengths() const
    {
        std::vector<std::size_t> all;
        for (const Integers& sequence : sequences)
            all.push_back(sequence.size());
        return all;
    }
};

std::vector<Served> decoders()
{
    std::vector<Served> all;
    for (const auto& entry : std::filesystem::directory_iterator(golden_families)) {
        const NamedArrays expected = read_npz(entry.path() / "expected.npz");
        if (!expected.contains("ids") || !expected.contains("logits") || expected.contains("decoder_ids"))
            continue;
        Served decoder{entry.path().filename().string(), read_model(entry.path(), read_weights(entry.path())), {}, {}};
        if (!decoder.model.description.is_causal || decoder.model.description.padding_id)
            continue;
        const auto add = [&](Integers ids, Matrix logits) {
            decoder.sequences.push_back(std::move(ids));
            decoder.expected.push_back(std::move(logits));
        };
        const auto ids = from_array<Integers>(expected.at("ids"));
        add(ids, from_array<Matrix>(expected.at("logits")));
        const auto lengths = from_array<Integers>(expected.at("batch_lengths"));
        const auto batch = from_array<IntegerMatrix>(expected.at("batch_ids"));
        const auto logits = from_array<Tensor3>(expected.at("batch_logits"));
        for (std::size_t b = 0; b < lengths.size(); ++b) {
            const auto length = static_cast<std::size_t>(lengths(b));
            add(xt::view(batch, b, xt::range(std::size_t{0}, length)),
                xt::view(logits, b, xt::range(std::size_t{0}, length), xt::all()));
        }
        // The first of them again, with another end.
        Integers other = ids;
        for (std::size_t i = ids.size() / 2; i < ids.size(); ++i)
            other(i) = ids(ids.size() - 1 - i);
        add(other, language_model(other, decoder.model.weights, decoder.model.description));
        all.push_back(std::move(decoder));
    }
    REQUIRE(all.size() >= 25);
    return all;
}

/// Of decoders whose layers keep the same of earlier tokens, and ask the same of their places, the first.
std::vector<Served> one_of_each_kind()
{
    std::vector<Served> all = decoders();
    std::ranges::sort(all, {}, &Served::name);
    std::set<std::string> kinds;
    std::erase_if(all, [&](const Served& decoder) {
        std::string kind;
        for (std::size_t i = 0; i < decoder.model.weights.layers.size(); ++i) {
            const auto& attention = decoder.model.weights.layers[i].self_attention;
            const auto* heads = std::get_if<MultiHeadWeights>(&attention);
            const BlockDescription& layer = decoder.model.description.layers[i];
            for (const bool has : {layer.window.has_value(), layer.chunk.has_value(),
                                   layer.attention.temperature.has_value(), heads != nullptr && heads->sinks})
                kind += has ? '1' : '0';
            kind += std::to_string(attention.index()) + std::string(name_of(layer.attention.positions)) + " ";
        }
        return !kinds.insert(kind).second;
    });
    REQUIRE(all.size() >= 10);
    return all;
}

/// Compared as far as the schedule gave tokens.
void check_law(const Served& decoder, const Schedule& schedule, const std::vector<std::size_t>& given)
{
    const auto found = run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description);
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        REQUIRE(found[i].shape(0) == given[i]);
        if (given[i] == 0)
            continue;
        const Matrix expected = xt::view(decoder.expected[i], xt::range(std::size_t{0}, given[i]), xt::all());
        CHECK(close(found[i], expected));
    }
}

/// Any calls: of any sequences, uneven, with tokens that are taken back, requests that begin again, and one that goes on from
/// what another has.
struct Drawn {
    Schedule schedule;
    std::vector<std::size_t> given;
};

Drawn drawn(const Served& decoder, std::uint64_t seed)
{
    std::mt19937_64 engine(seed);
    const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(engine() % below); };
    const bool has_states_of = has_states(decoder.model.weights);
    const std::vector<std::size_t> lengths = decoder.lengths();
    const std::size_t last = lengths.size() - 1, shared = lengths[0] / 2; // the last begins as the first does
    Drawn all{{}, std::vector<std::size_t>(lengths.size(), 0)};
    for (int i = 0; i < 12; ++i) {
        std::vector<Segment> call;
        const std::vector<std::size_t> before = all.given;
        for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
            if (draw(3) == 0)
                continue;
            Segment segment{sequence, before[sequence], 0};
            if (sequence == last && before[0] > 0 && draw(2) == 0) {
                segment.after = 0;
                segment.begin = has_states_of ? before[0] : std::min(shared, 1 + draw(before[0]));
                if (segment.begin > shared)
                    continue;
            } else if (before[sequence] == lengths[sequence] || draw(4) == 0) {
                segment.begin = has_states_of ? 0 : draw(before[sequence] + 1);
            }
            if (segment.begin == lengths[sequence])
                continue;
            segment.end = segment.begin + 1 + draw(lengths[sequence] - segment.begin);
            all.given[sequence] = segment.end;
            call.push_back(segment);
        }
        if (!call.empty())
            all.schedule.calls.push_back(std::move(call));
    }
    return all;
}

} // namespace

TEST_CASE("every family with a cache gives each token what transformers gives, in every schedule",
          "[families][schedule]")
{
    for (const Served& decoder : decoders()) {
        CAPTURE(decoder.name);
        const std::vector<std::size_t> lengths = decoder.lengths();
        if (depends_on_length(decoder.model.description)) { // which has no law
            CHECK_THROWS_WITH(
                run_schedule(decoder.sequences, packed(lengths), decoder.model.weights, decoder.model.description),
                ContainsSubstring("depends on how long a text is"));
            continue;
        }
        for (const char* name :
             {"at-once", "packed", "steps:1", "steps:4", "chunks:2", "chunks:5", "chunks:16", "joined:3"}) {
            CAPTURE(name);
            check_law(decoder, schedule_called(name, lengths), lengths);
        }
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
            CAPTURE(seed);
            const auto [schedule, given] = drawn(decoder, seed);
            check_law(decoder, schedule, given);
        }
    }
}

TEST_CASE("a ring of a window's width forgets nothing that is attended to", "[families][schedule]")
{
    std::size_t rings = 0;
    for (const Served& decoder : decoders()) {
        CAPTURE(decoder.name);
        std::size_t widest = 0;
        for (const BlockDescription& layer : decoder.model.description.layers)
            widest = std::max(widest, layer.window.value_or(1000));
        Schedule schedule = step_by_step(decoder.lengths(), 2);
        schedule.ring = widest;
        if (depends_on_length(decoder.model.description) || has_states(decoder.model.weights))
            continue;
        if (widest == 1000) {
            schedule.ring = 3;
            CHECK_THROWS_WITH(
                run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description),
                ContainsSubstring("forgets what a layer attends to"));
            continue;
        }
        check_law(decoder, schedule, decoder.lengths());
        ++rings;
    }
    CHECK(rings >= 1);
}

TEST_CASE("a ring that keeps the first tokens gives what the window with these gives all at once",
          "[families][schedule][slow]")
{
    constexpr std::size_t width = 4, kept = 2;
    std::size_t matters = 0;
    for (Served& decoder : one_of_each_kind()) {
        CAPTURE(decoder.name);
        auto& layers = decoder.model.description.layers;
        const bool has_chunks =
            std::ranges::any_of(layers, [](const BlockDescription& layer) { return layer.chunk.has_value(); });
        if (depends_on_length(decoder.model.description) || has_states(decoder.model.weights) || has_chunks)
            continue;
        for (BlockDescription& layer : layers)
            layer.window = width;
        const Matrix without = language_model(decoder.sequences[0], decoder.model.weights, decoder.model.description);
        for (BlockDescription& layer : layers)
            layer.kept = kept;
        for (std::size_t i = 0; i < decoder.sequences.size(); ++i)
            decoder.expected[i] =
                language_model(decoder.sequences[i], decoder.model.weights, decoder.model.description);
        matters += close(without, decoder.expected[0]) ? 0 : 1;
        for (const char* name : {"packed", "steps:1", "steps:4", "chunks:2", "chunks:5", "joined:3"}) {
            CAPTURE(name);
            Schedule schedule = schedule_called(name, decoder.lengths());
            schedule.ring = width;
            schedule.kept = kept;
            check_law(decoder, schedule, decoder.lengths());
            schedule.kept = kept + 1; // more than is needed changes nothing
            check_law(decoder, schedule, decoder.lengths());
            schedule.ring = std::numeric_limits<std::size_t>::max();
            schedule.kept = std::numeric_limits<std::size_t>::max();
            check_law(decoder, schedule, decoder.lengths());
        }
    }
    CHECK(matters >= 10);
}

TEST_CASE("a ring's first tokens are counted, in what is taken back and in what a window needs", "[schedule]")
{
    Served decoder = decoders().front();
    auto& layers = decoder.model.description.layers;
    const auto refused = [&](const Schedule& schedule, const char* why) {
        CHECK_THROWS_WITH(run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description),
                          ContainsSubstring(why));
    };
    refused({.calls = {{{0, 0, 3}}}, .kept = 1}, "1 first tokens are kept beside a ring, and there is none");
    layers[0].kept = 2;
    refused({.calls = {{{0, 0, 3}}}}, "keeps 2 first tokens in its window, and has no window");
    for (BlockDescription& layer : layers) {
        layer.window = 2;
        layer.kept = 2;
    }
    refused({.calls = {{{0, 0, 3}}}, .ring = 2, .kept = 1}, "its window keeps more of them");
    refused({.calls = {{{0, 0, 3}}}, .ring = 1, .kept = 2}, "a ring of 1 tokens forgets");
    // Of tokens 0 to 5 the cache has 0, 1, 4 and 5.
    refused({.calls = {{{0, 0, 6}}, {{0, 5, 6}}}, .ring = 2, .kept = 2}, "the cache has 3 of these");
    const Schedule back{.calls = {{{0, 0, 4}}, {{0, 3, 5}}}, .ring = 2, .kept = 2}; // 0, 1, 2: all there is
    CHECK_NOTHROW(run_schedule(decoder.sequences, back, decoder.model.weights, decoder.model.description));
}

TEST_CASE("pages give each token what it gets without them, in any schedule", "[families][schedule][slow]")
{
    for (const Served& decoder : one_of_each_kind()) {
        CAPTURE(decoder.name);
        const std::vector<std::size_t> lengths = decoder.lengths();
        if (depends_on_length(decoder.model.description))
            continue;
        if (has_states(decoder.model.weights)) {
            CHECK_THROWS_WITH(
                run_schedule(decoder.sequences, paged(lengths, 4), decoder.model.weights, decoder.model.description),
                ContainsSubstring("a state is no row of each token"));
            continue;
        }
        for (const std::size_t size : {1, 3, 4, 16}) {
            CAPTURE(size);
            check_law(decoder, schedule_called("pages:" + std::to_string(size), lengths), lengths);
            auto [schedule, given] = drawn(decoder, size);
            schedule.pages = PagePool{.size = size};
            check_law(decoder, schedule, given);
            schedule = joined_later(lengths, 3);
            schedule.pages = PagePool{.size = size};
            check_law(decoder, schedule, lengths);
        }
    }
}

TEST_CASE("requests that leave make room for those that come, and a full pool is refused", "[schedule]")
{
    Served decoder = decoders().front();
    const std::vector<std::size_t> lengths = decoder.lengths();
    Schedule schedule = at_once(lengths);
    std::size_t longest = 0, all = 0;
    for (const std::size_t length : lengths) {
        longest = std::max(longest, (length + 3) / 4);
        all += (length + 3) / 4;
    }
    REQUIRE(longest < all);
    schedule.pages = PagePool{.size = 4, .blocks = longest}; // enough for one after the other
    check_law(decoder, schedule, lengths);
    schedule.pages = PagePool{.size = 4, .blocks = longest - 1};
    const auto refused = [&](const char* why) {
        CHECK_THROWS_WITH(run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description),
                          ContainsSubstring(why));
    };
    refused("the pool is full");
    schedule = packed(lengths);
    schedule.pages = PagePool{.size = 4, .blocks = all - 1};
    refused("the pool is full");
    schedule.pages = PagePool{.size = 0};
    refused("a page has 0 tokens");
    for (const std::size_t many : {std::size_t{1} << 40, ~std::size_t{0}}) {
        schedule.pages = PagePool{.size = many};
        refused("the pool of pages would be");
        schedule.pages = PagePool{.size = 4, .blocks = many};
        refused("the pool of pages would be");
    }
    schedule.pages = PagePool{.size = 4};
    schedule.ring = 100;
    refused("a ring or in pages");
    schedule = {{{{0, 2, 3}}}};
    schedule.pages = PagePool{.size = 4};
    refused("the cache has 0 of these");
}

TEST_CASE("a beginning that two sequences have in common takes its blocks once", "[schedule]")
{
    Served decoder = decoders().front();
    const Integers& ids = decoder.sequences[0];
    const std::size_t n = ids.size();
    REQUIRE(n > 6);
    Schedule schedule{{{{0, 0, 5}}, {{1, 5, 6, 0}, {0, 5, 6}}, {{0, 6, n}, {1, 6, n}}}};
    const std::size_t blocks = (n + 3) / 4;
    schedule.pages = PagePool{.size = 4, .blocks = 2 * blocks - 1}; // the first block of both is the same
    decoder.sequences = {ids, ids};
    const auto found = run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description);
    CHECK(close(found[0], decoder.expected[0]));
    CHECK(close(found[1], decoder.expected[0]));
    schedule.pages->blocks = 2 * blocks - 2;
    CHECK_THROWS_WITH(run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description),
                      ContainsSubstring("the pool is full"));
}

TEST_CASE("a cache in another order, as pages have it, gives the same logits", "[families][schedule][slow]")
{
    for (const Served& decoder : one_of_each_kind()) {
        CAPTURE(decoder.name);
        const auto& [name, model, sequences, expected] = decoder;
        if (depends_on_length(model.description) || has_states(model.weights))
            continue;
        const Integers &ids = sequences[0], zeros = Integers(Integers::shape_type{1}, 0);
        PlacedCache cache;
        std::mt19937_64 engine(5);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const Integers here = Integers(Integers::shape_type{1}, static_cast<std::int64_t>(i));
            auto step = language_model(Integers(Integers::shape_type{1}, ids(i)), {zeros, here}, cache, model.weights,
                                       model.description);
            CHECK(close(step.logits, Matrix(xt::view(expected[0], xt::range(i, i + 1), xt::all()))));
            std::vector<std::size_t> order(i + 1);
            std::iota(order.begin(), order.end(), std::size_t{0});
            std::ranges::shuffle(order, engine);
            cache = chosen(step.cache, order);
        }
    }
}

TEST_CASE("every step of a schedule follows from its formula", "[families][schedule][slow]")
{
    for (const Served& decoder : one_of_each_kind()) {
        CAPTURE(decoder.name);
        if (depends_on_length(decoder.model.description))
            continue;
        auto [schedule, given] = drawn(decoder, 1);
        for (const bool has_pages : {false, true}) {
            if (has_pages && has_states(decoder.model.weights))
                continue;
            if (has_pages)
                schedule.pages = PagePool{.size = 3};
            Recorder recorder;
            const auto found = run_schedule(decoder.sequences, schedule, decoder.model.weights,
                                            decoder.model.description, Trace(recorder));
            CHECK(formula::verify(recorder.recording()).passed());
            const auto silent =
                run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description);
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(same_bits(found[i], silent[i]));
        }
    }
}

TEST_CASE("a decoder without logits gives its last tokens, and a sequence without a token is no step", "[schedule]")
{
    Served decoder = decoders().front();
    decoder.model.description.has_logits = false;
    decoder.sequences.push_back(Integers(Integers::shape_type{0}));
    for (const char* name : {"at-once", "packed", "chunks:2"}) {
        CAPTURE(name);
        Recorder recorder;
        const auto found = run_schedule(decoder.sequences, schedule_called(name, decoder.lengths()),
                                        decoder.model.weights, decoder.model.description, Trace(recorder));
        CHECK(formula::verify(recorder.recording()).passed());
        CHECK(close(found[0], language_model(decoder.sequences[0], decoder.model.weights, decoder.model.description)));
        CHECK(found.back().shape(0) == 0);
    }
}

TEST_CASE("what no schedule means is refused", "[schedule]")
{
    const Served decoder = decoders().front();
    const auto refused = [&](const Schedule& schedule, const char* why) {
        CHECK_THROWS_WITH(run_schedule(decoder.sequences, schedule, decoder.model.weights, decoder.model.description),
                          ContainsSubstring(why));
    };
    refused({{{{0, 2, 3}}}}, "the cache has 0 of these");
    refused({{{{9, 0, 1}}}}, "there are");
    refused({{{{0, 0, 1, 9}}}}, "there are");
    refused({{{}}}, "a call has no segment");
    refused({{{{0, 1, 1}}}}, "a segment at least one");
    refused({{{{0, 0, 1000}}}}, "a segment at least one");
    refused({{{{0, 0, 1}, {0, 1, 2}}}}, "twice in one call");
    for (const char* name : {"", "steps", "chunks:", "chunks:x", "chunks:3 ", "packed:1", "chunks:-1", "pages"})
        CHECK_THROWS_WITH(schedule_called(name, {3}), ContainsSubstring("steps:N"));
    CHECK_THROWS_WITH(schedule_called("chunks:0", {3}), ContainsSubstring("expected 1 or more"));
    CHECK_THROWS_WITH(schedule_called("ring:0", {3}), ContainsSubstring("expected 1 or more"));
    CHECK_THROWS_WITH(schedule_called("steps:0", {3}), ContainsSubstring("expected 1 or more"));
    CHECK_THROWS_WITH(schedule_called("pages:0", {3}), ContainsSubstring("expected 1 or more"));
}
