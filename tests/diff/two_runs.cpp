// Two runs that are compared without a reference. Their numbers are made here, by a small attention in float32 or bfloat16.

#include "attn/diff/runs.hpp"

#include "test.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace attn;
using namespace attn::diff;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// How a small decoder is run.
struct Way {
    NumberType type = NumberType::float32;
    bool is_backward = false; ///< sums are added from their end
    std::size_t batch = 1, padding = 0, layers = 3;
    std::size_t faulty_layer = 99; ///< whose scores are scaled by 1.02 too much
    double hidden = -infinity;     ///< the score of a key that a query can't attend to
    std::string prefix = {};       ///< of all names
};

/// Arrays as attn_record has them: in order, each with its line and what it was computed from.
class Writer {
public:
    explicit Writer(const Way& way) : way_(way) {}

    Array add(const std::string& name, Shape shape, const std::vector<std::string>& reads,
              const std::function<double(const Shape&)>& number)
    {
        Array array{std::move(shape), {}};
        for (std::size_t i = 0; i < element_count(array.shape); ++i)
            array.values.push_back(rounded_to(way_.type, number(index_at(i, array.shape))));
        put(name, array, reads);
        return array;
    }

    void put(const std::string& name, const Array& array, const std::vector<std::string>& reads)
    {
        Origin origin{"model.py", run.arrays.size() + 1, name, "forward", true, {}};
        for (const std::string& read : reads)
            origin.reads.push_back(way_.prefix + read);
        run.origins[way_.prefix + name] = origin;
        run.arrays.emplace_back(way_.prefix + name, array);
    }

    /// A sum in the type of sums.
    double sum(std::size_t count, const std::function<double(std::size_t)>& term) const
    {
        const NumberType type = way_.type == NumberType::float64 ? way_.type : NumberType::float32;
        double total = 0;
        for (std::size_t i = 0; i < count; ++i)
            total = rounded_to(type, total + rounded_to(type, term(way_.is_backward ? count - 1 - i : i)));
        return total;
    }

    RecordedRun run;

private:
    Way way_;
};

constexpr std::size_t tokens = 5, width = 8;

double given(std::size_t b, std::size_t i, std::size_t j)
{
    return std::sin(static_cast<double>(1 + 3 * j + 17 * i + 101 * b)) * 1.7;
}

RecordedRun run_decoder(const Way& way)
{
    Writer writer(way);
    const std::size_t n = tokens + way.padding;
    const auto at = [](const Array& array, std::size_t b, std::size_t i, std::size_t j) {
        return array.values[(b * array.shape[1] + i) * array.shape[2] + j];
    };
    Array x = writer.add("x", {way.batch, n, width}, {},
                         [&](const Shape& k) { return k[1] < tokens ? given(k[0], k[1], k[2]) : 0.25; });
    std::string last = "x";
    for (std::size_t layer = 0; layer < way.layers; ++layer) {
        const std::string in = "layers." + std::to_string(layer) + ".";
        const double factor = layer == way.faulty_layer ? 1.02 : 1.0;
        const Array scores = writer.add(in + "scores", {way.batch, n, n}, {last}, [&](const Shape& k) {
            return factor *
                   writer.sum(width, [&](std::size_t j) { return at(x, k[0], k[1], j) * at(x, k[0], k[2], j); }) / 4;
        });
        const Array masked = writer.add(in + "masked", {way.batch, n, n}, {in + "scores"}, [&](const Shape& k) {
            return k[2] > k[1] || (k[2] >= tokens && k[1] < tokens) ? way.hidden : at(scores, k[0], k[1], k[2]);
        });
        const Array weights = writer.add(in + "weights", {way.batch, n, n}, {in + "masked"}, [&](const Shape& k) {
            const auto term = [&](std::size_t j) { return std::exp(at(masked, k[0], k[1], j)); };
            return term(k[2]) / writer.sum(n, term);
        });
        x = writer.add(in + "output", {way.batch, n, width}, {in + "weights", last}, [&](const Shape& k) {
            return writer.sum(n, [&](std::size_t j) { return at(weights, k[0], k[1], j) * at(x, k[0], j, k[2]); });
        });
        last = in + "output";
    }
    return writer.run;
}

std::vector<std::string> names_of(const RunsDiff& result, Likeness likeness)
{
    std::vector<std::string> names;
    for (const RunPair& pair : result.pairs)
        if (pair.likeness == likeness)
            names.push_back(pair.a);
    return names;
}

/// Each array cut to some of its tokens, under another name: what a call for these alone computes, with a cache.
RecordedRun calls_of(const RecordedRun& whole, const std::vector<std::pair<std::size_t, std::size_t>>& tokens_of)
{
    RecordedRun run;
    for (std::size_t call = 0; call < tokens_of.size(); ++call) {
        const auto [begin, end] = tokens_of[call];
        const std::string prefix = call == 0 ? "" : "call" + std::to_string(call + 1) + ".";
        for (const auto& [name, array] : whole.arrays) {
            const bool is_map = array.shape[1] == array.shape[2];
            Array part{{1, end - begin, is_map ? end : width}, {}};
            for (std::size_t i = begin; i < end; ++i)
                for (std::size_t j = 0; j < part.shape[2]; ++j)
                    part.values.push_back(array.values[i * array.shape[2] + j]);
            Origin origin = whole.origins.at(name);
            for (std::string& read : origin.reads)
                read = prefix + read;
            run.origins[prefix + name] = origin;
            run.arrays.emplace_back(prefix + name, part);
        }
    }
    return run;
}

} // namespace

TEST_CASE("two equal runs are equal bit by bit", "[diff]")
{
    const RunsDiff result = compare_runs(run_decoder({}), run_decoder({}));
    CHECK(result.passed());
    CHECK(result.count(Likeness::equal) == 13);
    CHECK(result.first_different() == nullptr);
    CHECK(result.only_a.empty());
}

TEST_CASE("sums in another order, and shorter types, differ by roundings", "[diff]")
{
    const RecordedRun plain = run_decoder({});
    const RunsDiff backward = compare_runs(plain, run_decoder({.is_backward = true}));
    CHECK(backward.passed());
    CHECK(backward.count(Likeness::rounding) > 6);
    CHECK(backward.type == NumberType::float32);
    REQUIRE(backward.layers.size() == 3);
    CHECK(backward.layers[2].layer == "layers.2");
    CHECK(backward.layers[2].worst < 1e-5);

    const RunsDiff exact = compare_runs(run_decoder({.type = NumberType::float64}), plain);
    CHECK(exact.passed());
    CHECK(exact.type == NumberType::float32);
    const RunsDiff shorter = compare_runs(plain, run_decoder({.type = NumberType::bfloat16}));
    CHECK(shorter.passed());
    CHECK(shorter.type == NumberType::bfloat16);
}

TEST_CASE("the first array that roundings don't explain is shown, with its line in both runs", "[diff]")
{
    for (const NumberType type : {NumberType::float64, NumberType::float32}) {
        const RunsDiff result = compare_runs(run_decoder({.type = type, .is_backward = true}),
                                             run_decoder({.type = type, .faulty_layer = 1}));
        CHECK_FALSE(result.passed());
        const RunPair* first = result.first_different();
        REQUIRE(first != nullptr);
        CHECK(first->a == "layers.1.scores");
        CHECK(first->a_origin->line == 6);
        CHECK(first->b_origin->line == 6);
        CHECK_FALSE(first->follows);
        CHECK(first->off > 0.01);
        CHECK(first->allowed < 0.0001);
        CHECK(std::abs(first->b_value / first->a_value - 1.02) < 1e-5);
        for (const RunPair& pair : result.pairs)
            CHECK(pair.follows == (pair.likeness == Likeness::different && &pair != first));
    }
}

TEST_CASE("a sentence alone is compared with its rows of a padded batch", "[diff]")
{
    const RecordedRun alone = run_decoder({});
    const RecordedRun batch = run_decoder({.is_backward = true, .batch = 3, .padding = 2});
    for (const bool is_turned : {false, true}) {
        const RunsDiff result = is_turned ? compare_runs(batch, alone) : compare_runs(alone, batch);
        CHECK(result.passed());
        CHECK(result.pairs.size() == 13);
        CHECK(result.pairs[1].part == (is_turned ? "[0:1, 0:5, 0:5] of A" : "[0:1, 0:5, 0:5] of B"));
    }
    const RunsDiff faulty = compare_runs(alone, run_decoder({.batch = 3, .padding = 2, .faulty_layer = 2}));
    REQUIRE(faulty.first_different() != nullptr);
    CHECK(faulty.first_different()->a == "layers.2.scores");
    CHECK(faulty.first_different()->part == "[0:1, 0:5, 0:5] of B");
}

TEST_CASE("calls with a cache are compared with their tokens of one call for all", "[diff]")
{
    const RecordedRun at_once = run_decoder({});
    const RecordedRun cached = calls_of(run_decoder({.is_backward = true}), {{0, 3}, {3, 4}, {4, 5}});
    const RunsDiff result = compare_runs(at_once, cached);
    CHECK(result.passed());
    CHECK(result.pairs.size() == 39);
    CHECK(result.only_b.empty());
    const auto last = std::ranges::find(result.pairs, "call3.layers.2.weights", &RunPair::b);
    REQUIRE(last != result.pairs.end());
    CHECK(last->a == "layers.2.weights");
    CHECK(last->part == "[:, 4:5, :] of A");

    const RunsDiff faulty = compare_runs(at_once, calls_of(run_decoder({.faulty_layer = 1}), {{0, 3}, {3, 4}, {4, 5}}));
    REQUIRE(faulty.first_different() != nullptr);
    CHECK(faulty.first_different()->b == "layers.1.scores");
}

TEST_CASE("arrays of other names are found by the ends of these and by numbers, with their axes in any order", "[diff]")
{
    const RecordedRun plain = run_decoder({.batch = 2});
    RecordedRun other = run_decoder({.batch = 2, .prefix = "model."});
    for (auto& [name, array] : other.arrays)
        if (name.ends_with("weights"))
            array = permuted(array, {1, 0, 2});
    CHECK(compare_runs(plain, other).count(Likeness::equal) == 13);

    for (std::size_t i = 0; i < other.arrays.size(); ++i)
        other.arrays[i].first = "a" + std::to_string(i);
    other.origins.clear();
    const RunsDiff found = compare_runs(plain, other);
    CHECK(found.count(Likeness::equal) == 13);
    CHECK(found.pairs[3].how == "by its numbers");
}

TEST_CASE("a large negative score instead of minus infinity has no effect", "[diff]")
{
    const RunsDiff result = compare_runs(run_decoder({}), run_decoder({.hidden = -1e9}));
    CHECK(names_of(result, Likeness::different) ==
          std::vector<std::string>{"layers.0.masked", "layers.1.masked", "layers.2.masked"});
    CHECK(std::ranges::none_of(
        result.pairs, [](const RunPair& pair) { return pair.likeness == Likeness::different && pair.has_effect; }));
    CHECK_FALSE(result.passed());
}

TEST_CASE("numbers that are nothing but roundings of their operands are no difference", "[diff]")
{
    const auto run = [](double noise) {
        Writer writer({.type = NumberType::float32});
        writer.add("x", {4, 6}, {}, [](const Shape& k) { return given(0, k[0], k[1]); });
        writer.add("mean", {4}, {"x"}, [&](const Shape& k) { return noise * (1 + static_cast<double>(k[0])); });
        return writer.run;
    };
    CHECK(compare_runs(run(1e-8), run(-3e-8)).passed());
    CHECK_FALSE(compare_runs(run(1e-3), run(-3e-3)).passed());
}

TEST_CASE("whole numbers and NaN have no roundings", "[diff]")
{
    RecordedRun a = run_decoder({}), b = a;
    a.arrays.emplace_back("next", Array{{2}, {4, 7}, ElementType::integer});
    b.arrays.emplace_back("next", Array{{2}, {4, 8}, ElementType::integer});
    CHECK(names_of(compare_runs(a, b), Likeness::different) == std::vector<std::string>{"next"});

    b = a;
    b.arrays[4].second.values[3] = std::numeric_limits<double>::quiet_NaN();
    const RunsDiff result = compare_runs(a, b);
    REQUIRE(result.first_different() != nullptr);
    CHECK(result.first_different()->a == "layers.0.output");
    CHECK(result.first_different()->b_worst == Shape{0, 0, 3});
    a.arrays[4].second.values[3] = std::numeric_limits<double>::quiet_NaN();
    CHECK(compare_runs(a, b).passed());
}

TEST_CASE("a variable that is assigned once more in one run is told from its other values by numbers", "[diff]")
{
    const auto run = [](bool has_more) {
        Writer writer({});
        writer.add("x", {4, 6}, {}, [](const Shape& k) { return given(0, k[0], k[1]); });
        if (has_more)
            writer.add("x#2", {4, 6}, {"x"}, [](const Shape& k) { return 100 * given(0, k[0], k[1]); });
        writer.add(has_more ? "x#3" : "x#2", {4, 6}, {has_more ? "x#2" : "x"},
                   [&](const Shape& k) { return std::exp(given(0, k[0], k[1])) * (has_more ? 1.01 : 1); });
        return writer.run;
    };
    const RunsDiff result = compare_runs(run(false), run(true));
    REQUIRE(result.first_different() != nullptr);
    CHECK(result.first_different()->b == "x#3");
    REQUIRE(result.first_different()->unshared.size() == 1);
    CHECK(result.first_different()->unshared[0].name == "x#2");
    CHECK(result.only_b == std::vector<std::string>{"x#2"});
}

TEST_CASE("arrays without numbers, and single numbers, are compared, too", "[diff]")
{
    RecordedRun a;
    a.arrays = {{"none", Array{{0, 3}, {}}}, {"one", Array{{}, {2.5}}}};
    RecordedRun b = a;
    CHECK(compare_runs(a, b).count(Likeness::equal) == 2);
    b.arrays[0].second.shape = {3, 0};
    b.arrays[1].second.values = {2.75};
    CHECK(names_of(compare_runs(a, b), Likeness::different) == std::vector<std::string>{"none", "one"});
}

TEST_CASE("runs that have nothing in common are not the same", "[diff]")
{
    const RecordedRun plain = run_decoder({});
    RecordedRun other;
    other.arrays.emplace_back("y", Array{{3}, {0.1, 0.7, 0.3}});
    const RunsDiff result = compare_runs(plain, other);
    CHECK(result.pairs.empty());
    CHECK_FALSE(result.passed());
    CHECK(result.only_b == std::vector<std::string>{"y"});

    other.arrays[0].first = "x"; // of a shape that is no part of the other's
    const RunsDiff shaped = compare_runs(plain, other);
    REQUIRE(shaped.first_different() != nullptr);
    CHECK(shaped.first_different()->is_shape_wrong);
}
