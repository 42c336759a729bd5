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
    CHECK(names_of(result, Likeness::without_effect) ==
          std::vector<std::string>{"layers.0.masked", "layers.1.masked", "layers.2.masked"});
    CHECK(result.passed());

    // where it is a result, or what follows was not recorded, nothing says so
    for (const bool is_result : {true, false}) {
        RecordedRun a = run_decoder({.layers = 1}), b = run_decoder({.layers = 1, .hidden = -1e9});
        for (RecordedRun* run : {&a, &b})
            if (is_result)
                run->results = {"layers.0.masked", "layers.0.output"};
            else
                run->arrays.resize(3);
        CHECK(names_of(compare_runs(a, b), Likeness::different) == std::vector<std::string>{"layers.0.masked"});
    }
}

TEST_CASE("a mask of large negative numbers does not make what follows nothing but roundings", "[diff]")
{
    const RunsDiff result =
        compare_runs(run_decoder({.hidden = -1e9}), run_decoder({.faulty_layer = 0, .hidden = -1e9}));
    REQUIRE(result.first_different() != nullptr);
    CHECK(result.first_different()->a == "layers.0.scores");
    CHECK(result.count(Likeness::different) == 12);
}

TEST_CASE("a mask that hides nothing in one run makes its results different", "[diff]")
{
    RecordedRun a = run_decoder({.layers = 1}), b = a;
    const Array shape{{1, 5, 5}, std::vector<double>(25, 0)};
    Array causal = shape;
    for (std::size_t i = 0; i < 25; ++i)
        causal.values[i] = i % 5 > i / 5 ? -3.4028234663852886e38 : 0;
    for (RecordedRun* run : {&a, &b}) {
        run->arrays.insert(run->arrays.begin() + 1, {"mask", run == &a ? causal : shape});
        run->origins["mask"] = {"model.py", 50, "mask", "forward", true, {}};
        run->origins["layers.0.output"].reads.push_back("mask");
    }
    for (double& number : b.arrays.back().second.values)
        number *= -0.4;
    CHECK(names_of(compare_runs(a, b), Likeness::different) == std::vector<std::string>{"mask", "layers.0.output"});
}

TEST_CASE("what follows from numbers that are nothing but roundings is compared as closely as anything else", "[diff]")
{
    const auto run = [](double noise, double factor) {
        Writer writer({.type = NumberType::float32});
        writer.add("x", {4, 6}, {}, [](const Shape& k) { return given(0, k[0], k[1]); });
        writer.add("mean", {4}, {"x"}, [&](const Shape& k) { return noise * (1 + static_cast<double>(k[0])); });
        writer.add("y", {4, 6}, {"x", "mean"}, [&](const Shape& k) { return factor * given(1, k[0], k[1]); });
        return writer.run;
    };
    CHECK(compare_runs(run(1e-8, 1), run(-3e-8, 1)).passed());
    CHECK_FALSE(compare_runs(run(1e-8, 1), run(-3e-8, 1.3)).passed());
}

TEST_CASE("a result without a partner leaves two runs undecided", "[diff]")
{
    const RecordedRun whole = run_decoder({});
    RecordedRun short_run = whole;
    short_run.arrays.resize(9); // it ended after the second layer
    for (const bool is_turned : {false, true}) {
        const RunsDiff result = is_turned ? compare_runs(short_run, whole) : compare_runs(whole, short_run);
        CHECK(result.verdict() == Likeness::undecided);
        CHECK(result.count(Likeness::equal) == 9);
        REQUIRE(result.why_undecided.size() == 1);
        CHECK(result.why_undecided[0].starts_with(std::string("layers.2.output of ") + (is_turned ? "B" : "A")));
    }

    RecordedRun more = whole; // a result is twice another
    Array twice = whole.arrays.back().second;
    for (double& number : twice.values)
        number *= 2;
    more.arrays.emplace_back("twice", twice);
    more.origins["twice"] = {"model.py", 99, "twice", "forward", true, {"layers.2.output"}};
    CHECK(compare_runs(whole, more).verdict() == Likeness::undecided);
    more.results = {"layers.2.output"}; // and is not what it returned
    CHECK(compare_runs(whole, more).verdict() == Likeness::equal);
    more.incomplete = "it crashed";
    CHECK(compare_runs(whole, more).verdict() == Likeness::undecided);
}

TEST_CASE("results of other names and numbers are not the same", "[diff]")
{
    RecordedRun a, b;
    const auto array = [](double factor) {
        Array made{{2, 4}, {}};
        for (std::size_t i = 0; i < 8; ++i)
            made.values.push_back(factor * given(0, 1, i));
        return made;
    };
    a.arrays = {{"x", array(1)}, {"h", array(1.7)}, {"logits", array(2.3)}};
    b.arrays = {{"inp_embd", array(1)}, {"l_out", array(1.9)}, {"result_output", array(6.9)}};
    const RunsDiff result = compare_runs(a, b);
    REQUIRE(result.first_different() != nullptr);
    CHECK(result.first_different()->b == "result_output");

    b.arrays.back().second = array(2.3); // which of the others are results is not known
    CHECK(compare_runs(a, b).verdict() == Likeness::undecided);
    b.arrays.erase(b.arrays.begin() + 1); // A just keeps more
    CHECK(compare_runs(a, b).verdict() == Likeness::equal);
}

TEST_CASE("a step that only one run keeps is no part of the other's, however near", "[diff]")
{
    RecordedRun a, b;
    Array x{{6, 16}, {}}, out;
    for (std::size_t i = 0; i < 96; ++i)
        x.values.push_back(given(0, i / 16, i % 16) +
                           (i % 16 == 5 ? 200 : 0)); // a feature as language models have them
    Array mid = x;
    for (std::size_t i = 0; i < 96; ++i)
        mid.values[i] += given(1, i / 16, i % 16);
    out = mid;
    for (std::size_t i = 0; i < 96; ++i)
        out.values[i] += given(2, i / 16, i % 16);
    a.arrays = {{"emb", x}, {"mid", mid}, {"out", out}};
    b.arrays = {{"emb", x}, {"out", out}};
    const RunsDiff result = compare_runs(a, b);
    CHECK(result.verdict() == Likeness::equal);
    CHECK(result.only_a == std::vector<std::string>{"mid"});
}

TEST_CASE("what lies between the last that is the same and the first that is not is an interval", "[diff]")
{
    const RecordedRun plain = run_decoder({});
    RecordedRun other = run_decoder({.faulty_layer = 1});
    for (auto& [name, array] : other.arrays)
        if (name == "layers.1.scores" || name == "layers.1.masked")
            name = "other_" + name.substr(9);
    for (const auto& [from, to] :
         {std::pair("layers.1.scores", "other_scores"), std::pair("layers.1.masked", "other_masked")}) {
        other.origins[to] = other.origins[from];
        other.origins.erase(from);
        for (auto& [name, origin] : other.origins)
            std::ranges::replace(origin.reads, std::string(from), std::string(to));
    }
    const RunsDiff result = compare_runs(plain, other);
    REQUIRE(result.first_different() != nullptr);
    CHECK(result.first_different()->b == "layers.1.weights");
    REQUIRE(result.between);
    CHECK(result.between->last_name == "layers.0.output");
    CHECK(result.between->last_same->line == 5);
    CHECK(result.between->first_different.line == 8);
    CHECK(result.first_different()->unshared.size() == 4);
    CHECK_FALSE(compare_runs(plain, run_decoder({.faulty_layer = 1})).between);
}

TEST_CASE("sequences of a batch in another order are the same where the inputs are in that order", "[diff]")
{
    const RecordedRun plain = run_decoder({.batch = 3});
    const auto reordered = [](RecordedRun run, bool with_input) {
        for (auto& [name, array] : run.arrays) {
            const std::size_t row = array.size() / 3;
            if (with_input || name != "x")
                std::ranges::rotate(array.values, array.values.begin() + static_cast<std::ptrdiff_t>(row));
        }
        return run;
    };
    CHECK(compare_runs(plain, reordered(plain, true)).verdict() == Likeness::equal);
    CHECK_FALSE(compare_runs(plain, reordered(plain, false)).passed());

    RecordedRun faulty = reordered(run_decoder({.batch = 3, .faulty_layer = 1}), true);
    const RunsDiff result = compare_runs(plain, faulty);
    REQUIRE(result.first_different() != nullptr);
    CHECK(result.first_different()->a == "layers.1.scores");

    RecordedRun a, b; // without inputs nothing says which order is right
    a.arrays.push_back(plain.arrays.back());
    b.arrays.push_back(reordered(plain, true).arrays.back());
    const RunsDiff alone = compare_runs(a, b);
    CHECK(alone.verdict() == Likeness::undecided);
    REQUIRE(alone.why_undecided.size() == 1);
    CHECK(alone.why_undecided[0].find("in another order") != std::string::npos);
}

TEST_CASE("a beam that the other run has dropped leaves nothing undecided where the tokens show it", "[diff]")
{
    const auto run = [](const std::string& name, const std::vector<std::vector<std::size_t>>& ids) {
        Writer writer({.type = NumberType::float64});
        const Shape shape{ids.size(), ids[0].size(), width};
        Array tokens{{shape[0], shape[1]}, {}, ElementType::integer};
        for (const auto& row : ids)
            tokens.values.insert(tokens.values.end(), row.begin(), row.end());
        writer.put(name + ".ids", tokens, {});
        std::string last = name + ".ids";
        for (const auto& [step, seed] : {std::pair(".x", 0), std::pair(".output", 1)}) {
            const auto number = [&](const Shape& k) {
                return given(static_cast<std::size_t>(seed), ids[k[0]][k[1]], k[2]);
            };
            writer.add(name + step, shape, {last}, number);
            last = name + step;
        }
        return writer.run;
    };
    const RecordedRun prompts = run("b", {{3, 1, 4}, {2, 7, 5}});
    CHECK(compare_runs(run("a", {{3, 1, 4, 6}, {3, 1, 4, 2}}), prompts).verdict() == Likeness::equal);
    CHECK_FALSE(compare_runs(run("a", {{3, 1, 4, 6}, {3, 1, 9, 2}}), prompts).passed());
}

TEST_CASE("calls that end before the tokens do leave two runs undecided", "[diff]")
{
    const RunsDiff result = compare_runs(run_decoder({}), calls_of(run_decoder({}), {{0, 3}, {3, 4}}));
    CHECK(result.count(Likeness::equal) == result.pairs.size());
    CHECK(result.verdict() == Likeness::undecided);
}

TEST_CASE("heads in groups are the same as heads", "[diff]")
{
    RecordedRun a, b;
    Array heads{{1, 4, 3, 3}, {}};
    for (std::size_t i = 0; i < 36; ++i)
        heads.values.push_back(given(0, i / 9, i % 9));
    Array groups = heads;
    groups.shape = {1, 2, 2, 3, 3};
    a.arrays = {{"scores", heads}};
    b.arrays = {{"s", permuted(groups, {0, 3, 1, 2, 4})}}; // (b, n, g, r, m)
    CHECK(compare_runs(a, b).verdict() == Likeness::equal);
}

TEST_CASE("numbers in another order of the same shape are another result", "[diff]")
{
    RecordedRun a, b; // heads that are merged without their axes being exchanged
    Array heads{{4, 6, 2}, {}};
    for (std::size_t i = 0; i < 48; ++i)
        heads.values.push_back(given(0, i / 12, i % 12));
    a.arrays = {{"merged", permuted(heads, {1, 0, 2})}};
    b.arrays = {{"merged", heads}};
    a.arrays[0].second.shape = b.arrays[0].second.shape = {6, 8};
    CHECK(compare_runs(a, b).verdict() == Likeness::different);
}

TEST_CASE("a result alone that is off by what a shorter type can do is undecided", "[diff]")
{
    const auto run = [](double factor) {
        RecordedRun made;
        Array logits{{2, 8}, {}};
        for (std::size_t i = 0; i < 16; ++i)
            logits.values.push_back(
                rounded_to(NumberType::float32, given(0, i / 8, i % 8) * (i % 2 == 0 ? factor : 1)));
        made.arrays = {{"logits", logits}};
        return made;
    };
    CHECK(compare_runs(run(1), run(1 + 1e-7)).verdict() == Likeness::rounding);
    CHECK(compare_runs(run(1), run(1.004)).verdict() == Likeness::undecided);
    CHECK(compare_runs(run(1), run(1.1)).verdict() == Likeness::different);
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

TEST_CASE("variables are not related by the round of the loop that they were assigned in", "[diff]")
{
    const auto run = [](const std::string& variable, double share) {
        Writer writer({});
        writer.add("x", {4, 6}, {}, [](const Shape& k) { return given(0, k[0], k[1]); });
        const auto part = [&](double of) { return [of](const Shape& k) { return of * given(1, k[0], k[1]); }; };
        writer.add("f." + variable + ".0", {4, 6}, {"x"}, part(share));
        writer.add("f." + variable + ".1", {4, 6}, {"f." + variable + ".0", "x"}, part(share * share));
        writer.add("y", {4, 6}, {"f." + variable + ".1"}, part(1));
        return writer.run;
    };
    const RunsDiff result = compare_runs(run("acc", 0.7), run("total", 0.3));
    CHECK(result.passed());
    CHECK(result.pairs.size() == 2);
}

TEST_CASE("what follows an array of no account is off by what that was computed from", "[diff]")
{
    // one scales the scores, the other the keys: the products differ, the scaled scores by roundings of queries and keys
    const auto run = [](double noise, double product) {
        Writer writer({.type = NumberType::float64});
        const auto x = [&](const Shape& k) { return given(0, k[0], k[1]); };
        const auto off = [&](double size) {
            return [size, noise](const Shape& k) {
                return given(1, k[0], k[1]) * (1 + size * noise * std::sin(1.0 + static_cast<double>(7 * k[0] + k[1])));
            };
        };
        writer.add("x", {4, 6}, {}, x);
        writer.add("queries", {4, 6}, {"x"}, off(5e-15));
        writer.add("product", {4, 6}, {"queries"}, [&](const Shape& k) { return product * given(2, k[0], k[1]); });
        writer.add("scores", {4, 6}, {"product"}, off(2e-14));
        return writer.run;
    };
    CHECK(compare_runs(run(0, 1), run(1, 0.5)).passed());
    CHECK(compare_runs(run(0, 1), run(10, 0.5)).verdict() == Likeness::different);
}

TEST_CASE("what a mask's numbers are added to is compared at its own size", "[diff]")
{
    const auto run = [](double factor) {
        Writer writer({});
        writer.add("x", {3, 3}, {}, [](const Shape& k) { return given(0, k[0], k[1]); });
        writer.add("masked", {3, 3}, {"x"},
                   [&](const Shape& k) { return factor * given(1, k[0], k[1]) - (k[1] > k[0] ? 1e4 : 0); });
        return writer.run;
    };
    CHECK(compare_runs(run(1), run(1 + 2e-7)).passed());
    CHECK(compare_runs(run(1), run(1 + 5e-5)).verdict() == Likeness::different);

    // roundings of a number that stands apart are those of its own size
    RecordedRun a = run(1), b = a;
    b.arrays.back().second.values[2] += 0.0009765625;
    CHECK(compare_runs(a, b).passed());
}

TEST_CASE("a few numbers of a short type have the roundings of those that they were computed from", "[diff]")
{
    const auto run = [](double mean) {
        Writer writer({.type = NumberType::bfloat16});
        writer.add("x", {3, 6}, {}, [](const Shape& k) { return given(0, k[0], k[1]); });
        writer.add("mean", {3}, {"x"}, [&](const Shape& k) { return k[0] == 0 ? mean : 0.5; });
        return writer.run;
    };
    CHECK(compare_runs(run(0.80078125), run(0.796875)).passed()); // a rounding of bfloat16
    CHECK(compare_runs(run(0.80078125), run(0.8984375)).verdict() == Likeness::different);
}

TEST_CASE("arrays without reads that differ before the same result leave two runs undecided", "[diff]")
{
    // tiles of other sizes: sums so far have one name and other numbers
    RecordedRun a = run_decoder({.layers = 1}), b = a;
    for (double& number : b.arrays[1].second.values)
        number *= 0.6;
    CHECK(compare_runs(a, b).passed()); // what was computed from them is the same, as reads say
    for (RecordedRun* run : {&a, &b})
        run->origins.clear();
    const RunsDiff result = compare_runs(a, b);
    CHECK(result.verdict() == Likeness::undecided);
    REQUIRE(result.why_undecided.size() == 1);
    CHECK(result.why_undecided[0].find("layers.0.scores") != std::string::npos);
    for (double& number : b.arrays.back().second.values)
        number *= 0.6;
    CHECK(names_of(compare_runs(a, b), Likeness::different) ==
          std::vector<std::string>{"layers.0.scores", "layers.0.output"});
}
