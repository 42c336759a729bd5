// attn run model --positions and --past: tokens where they are said to stand, after those of an earlier run.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

using namespace attn;
using namespace attn::files;

namespace {

const std::filesystem::path golden_families =
    std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests" / "golden" / "families";

/// A folder in which a model of tests/golden/families is run on some tokens.
class Runs {
public:
    explicit Runs(std::string family) : family_(std::move(family)) {}

    std::string file(const std::string& name) const { return folder_ / name; }

    Ended on(const Array& ids, const std::vector<std::string>& flags, const std::string& trace = "t.npz") const
    {
        return on_arrays({{"ids", ids}}, flags, trace);
    }
    Ended on_arrays(const std::vector<std::pair<std::string, Array>>& input, const std::vector<std::string>& flags,
                    const std::string& trace = "t.npz") const
    {
        write_npz(folder_ / "in.npz", {{}, input, {}});
        std::vector<std::string> words{"attn",
                                       "run",
                                       "model",
                                       "--input",
                                       folder_ / "in.npz",
                                       "--weights",
                                       (golden_families / family_).string(),
                                       "--quiet",
                                       "--trace",
                                       file(trace)};
        words.insert(words.end(), flags.begin(), flags.end());
        return run(words);
    }

    std::vector<double> result(const std::string& trace = "t.npz") const
    {
        return read_trace(file(trace)).find("output")->value.values;
    }

    /// A trace with something else in it.
    void change(const std::string& from, const std::string& to, const std::function<void(Recording&)>& change) const
    {
        Recording all = read_trace(file(from));
        change(all);
        write_trace(file(to), all);
    }

private:
    TemporaryFolder folder_;
    std::string family_;
};

Array ids_of(std::vector<double> numbers) { return {{numbers.size()}, numbers, ElementType::integer}; }

Array part(const Array& all, std::size_t begin, std::size_t end)
{
    return ids_of({all.values.begin() + static_cast<std::ptrdiff_t>(begin),
                   all.values.begin() + static_cast<std::ptrdiff_t>(end)});
}

Step& step(Recording& all, const std::string& path) { return *std::ranges::find(all.steps, path, &Step::path); }

} // namespace

TEST_CASE("a run that goes on from the cache of another gives what transformers gives at once, in every family",
          "[cli][run][families][schedule][slow]")
{
    std::size_t continued = 0;
    for (const auto& entry : std::filesystem::directory_iterator(golden_families)) {
        const NamedArrays expected = read_npz(entry.path() / "expected.npz");
        if (!expected.contains("ids") || !expected.contains("logits"))
            continue;
        CAPTURE(entry.path());
        const Runs runs(entry.path().filename().string());
        const Array& ids = expected.at("ids");
        const std::size_t n = ids.size(), third = std::max<std::size_t>(n / 3, 1);
        const Ended first = runs.on(part(ids, 0, third), {"--positions", "0:"}, "a.npz");
        CAPTURE(first.errors);
        if (first.code != 0) {
            const auto says = [&](const char* why) { return first.errors.find(why) != std::string::npos; };
            CHECK((says("an encoder has no cache") || says("depends on how long a text is") ||
                   says("counts its tokens by their ids") || says("with an encoder and a decoder")));
            continue;
        }
        const Ended second = runs.on(part(ids, third, n - 1), {"--past", runs.file("a.npz")}, "b.npz");
        const Ended last =
            runs.on(part(ids, n - 1, n), {"--past", runs.file("b.npz"), "--positions", std::to_string(n - 1)}, "c.npz");
        CAPTURE(second.errors, last.errors);
        REQUIRE(second.code == 0);
        REQUIRE(last.code == 0);
        CHECK(run({"attn", "verify", runs.file("b.npz")}).code == 0);
        std::vector<double> all;
        for (const char* trace : {"a.npz", "b.npz", "c.npz"})
            std::ranges::copy(runs.result(trace), std::back_inserter(all));
        const std::vector<double>& right = expected.at("logits").values;
        REQUIRE(all.size() == right.size());
        double off = 0, largest = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            off = std::max(off, std::abs(all[i] - right[i]));
            largest = std::max(largest, std::abs(right[i]));
        }
        CHECK(off <= 1e-12 * largest);
        ++continued;
    }
    CHECK(continued >= 40);
}

TEST_CASE("a token stands where it is said to: positions move learned rows, and rotary ones by their distances",
          "[cli][run][families][schedule]")
{
    const Array ids = ids_of({4, 0, 2, 7});
    for (const std::string family : {"gpt2", "llama"}) {
        CAPTURE(family);
        const Runs runs(family);
        REQUIRE(runs.on(ids, {}).code == 0);
        const std::vector<double> usual = runs.result();
        const auto at = [&](const std::string& positions) {
            const Ended ended = runs.on(ids, {"--positions", positions});
            CAPTURE(ended.errors);
            REQUIRE(ended.code == 0);
            CHECK(run({"attn", "verify", runs.file("t.npz")}).code == 0);
            return runs.result();
        };
        const auto is_usual = [&](const std::vector<double>& found) {
            return std::ranges::equal(found, usual, [](double a, double b) { return std::abs(a - b) <= 1e-9; });
        };
        CHECK(is_usual(at("0,1,2,3")));
        CHECK(is_usual(at("3:")) == (family == "llama"));
        CHECK(is_usual(at("3,4,5,6")) == (family == "llama"));
        CHECK(!is_usual(at("0,1,2,5")));
        // The last token, said to be the first, attends to itself alone.
        const std::vector<double> moved = at("1,2,3,0");
        REQUIRE(runs.on(part(ids, 3, 4), {}).code == 0);
        const std::vector<double> alone = runs.result();
        for (std::size_t i = 0; i < alone.size(); ++i)
            REQUIRE_THAT(moved[moved.size() - alone.size() + i], Catch::Matchers::WithinAbs(alone[i], 1e-10));
    }
}

TEST_CASE("the rows of a batch stand in sequences of their own, and each goes on by itself",
          "[cli][run][families][schedule]")
{
    const Runs runs("gemma2");
    const auto rows = [](std::vector<double> numbers) {
        return Array{{2, 3}, std::move(numbers), ElementType::integer};
    };
    const Array ids = rows({4, 0, 2, 7, 1, 5}), padding = rows({0, 1, 1, 1, 1, 1});
    write_npz(runs.file("p.npz"), {{}, {{"positions", rows({9, 0, 1, 0, 1, 2})}}, {}});
    for (const std::string& positions : {std::string("0:"), runs.file("p.npz")}) {
        const Ended ended =
            runs.on_arrays({{"ids", ids}, {"attention_mask", padding}}, {"--positions", positions}, "a.npz");
        CAPTURE(positions, ended.errors);
        REQUIRE(ended.code == 0);
        if (positions == "0:") // padding counts there, which rotary positions do not see: all distances are the same
            CHECK(read_trace(runs.file("a.npz")).find("positions")->value.values == std::vector<double>{1, 2, 0, 1, 2});
        else
            CHECK(read_trace(runs.file("a.npz")).find("positions")->value.values == std::vector<double>{0, 1, 0, 1, 2});
    }
    REQUIRE(
        runs.on_arrays({{"ids", Array{{2, 1}, {3, 6}, ElementType::integer}}}, {"--past", runs.file("a.npz")}).code ==
        0);
    CHECK(read_trace(runs.file("t.npz")).find("positions")->value.values == std::vector<double>{2, 3});
    const std::vector<double> both = runs.result();
    std::vector<double> alone;
    for (const auto& all : {ids_of({0, 2, 3}), ids_of({7, 1, 5, 6})}) {
        REQUIRE(runs.on(all, {}).code == 0);
        const std::vector<double> found = runs.result();
        alone.insert(alone.end(), found.end() - static_cast<std::ptrdiff_t>(both.size() / 2), found.end());
    }
    for (std::size_t i = 0; i < both.size(); ++i)
        REQUIRE_THAT(both[i], Catch::Matchers::WithinAbs(alone[i], 1e-10));
}

TEST_CASE("positions that can't be, and a file that is no cache of the model, are refused",
          "[cli][run][hostile][schedule]")
{
    const Runs runs("llama");
    const Array ids = ids_of({4, 0, 2, 7}), next = ids_of({1});
    const auto refused = [&](const Array& given, const std::vector<std::string>& flags, const std::string& why) {
        std::filesystem::remove(runs.file("t.npz"));
        const Ended ended = runs.on(given, flags);
        CAPTURE(flags, ended.errors);
        CHECK(ended.code == 2);
        CHECK_THAT(ended.errors, ContainsSubstring(why));
        CHECK(!std::filesystem::exists(runs.file("t.npz")));
    };
    const auto lists = [&](const std::string& text, const std::string& why) {
        refused(ids, {"--positions", text}, why);
    };
    lists("0,1,2", "--positions lists 3 positions of one sequence, and ids is (4,)");
    lists("0,1,2,3,4", "--positions lists 5 positions");
    for (const char* text : {"0,1,,3", ":", "0:1", "0,1,2,", "0::"})
        lists(text, "");
    lists("0,1,2,9007199254740993", "9007199254740993");
    lists("99999999999999999999:", "99999999999999999999");
    for (const char* text : {"-1,0,1,2", "0,1,2,nan", "none.npz", "1e9,1,2,3"})
        lists(text, "cannot be read");
    const auto of_file = [&](const Array& positions, const std::string& why) {
        write_npz(runs.file("p.npz"), {{}, {{"positions", positions}}, {}});
        lists(runs.file("p.npz"), runs.file("p.npz"));
        lists(runs.file("p.npz"), why);
    };
    of_file({{4}, {0, 1, -2, 3}}, "positions[2] is -2, expected whole numbers from 0");
    of_file({{4}, {0, 1, std::nan(""), 3}}, "positions[2] is nan, expected whole numbers from 0");
    of_file({{4}, {0, 1, 1.5, 3}}, "positions[2] is 1.5");
    of_file({{2, 2}, {0, 1, 2, 3}}, "positions is (2, 2), and ids (4,)");
    write_npz(runs.file("p.npz"), {{}, {{"position_ids", ids}}, {}});
    lists(runs.file("p.npz"), "has no array called positions");
    for (const std::vector<std::string>& beside :
         {std::vector<std::string>{"--first", "1"}, {"--schedule", "packed"}, {"--layers", "1:"}})
        refused(ids, std::vector<std::string>{"--positions", "0:"} + beside, "");
    CHECK(Runs("bert").on(ids, {"--positions", "0:"}).code == 2);
    const Ended beyond = Runs("gpt2").on(ids, {"--positions", "0,1,2,1000000"});
    CHECK(beyond.code == 2);
    CHECK_THAT(beyond.errors, ContainsSubstring("1000000"));

    REQUIRE(runs.on(ids, {"--positions", "0:"}, "a.npz").code == 0);
    const auto past = [&](const std::string& file, const std::string& why) {
        refused(next, {"--past", runs.file(file)}, runs.file(file));
        refused(next, {"--past", runs.file(file)}, why);
    };
    past("missing.npz", "there is no such file");
    REQUIRE(runs.on(ids, {}, "plain.npz").code == 0);
    past("plain.npz",
         "has no step key_sequences, expected the --trace of a run of this model with --positions or --past");
    const auto changed = [&](const std::string& path, const std::function<void(Array&)>& change,
                             const std::string& why) {
        runs.change("a.npz", "b.npz", [&](Recording& all) {
            Step& one = step(all, path);
            one.formula.clear();
            change(one.value);
        });
        past("b.npz", why);
    };
    const std::string keys = "layers.0.self_attn.cache_keys";
    for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()})
        changed(
            keys, [&](Array& value) { value.values[3] = wrong; }, keys + " has a number that is not finite");
    changed(
        keys, [](Array& value) { value.values.resize(value.size() - value.shape[1]), --value.shape[0]; },
        keys + " is of 3 tokens, and key_positions of 4");
    changed(
        keys, [](Array& value) { std::swap(value.shape[0], value.shape[1]); }, "is of another model");
    changed(
        "key_positions", [](Array& value) { value.values[0] = -1; },
        "key_positions has -1, expected whole numbers from 0");
    changed(
        "key_positions",
        [](Array& value) {
            value = ids_of({0, 1, 2});
        },
        "and key_positions of 3");
    changed(
        "layers.1.self_attn.key_weights", [](Array& value) { value.values[0] += 1e-9; },
        "is of another model: its layers.1.self_attn.key_weights is not this model's");
    for (const char* other : {"qwen2", "deepseek-v2", "gpt2"}) {
        const Runs others(other);
        REQUIRE(others.on(ids, {"--positions", "0:"}, "a.npz").code == 0);
        std::filesystem::copy_file(others.file("a.npz"), runs.file("other.npz"),
                                   std::filesystem::copy_options::overwrite_existing);
        past("other.npz", "");
    }
    const auto size = std::filesystem::file_size(runs.file("a.npz"));
    for (const double part_of : {0.0, 0.3, 0.99}) {
        std::filesystem::copy_file(runs.file("a.npz"), runs.file("cut.npz"),
                                   std::filesystem::copy_options::overwrite_existing);
        std::filesystem::resize_file(runs.file("cut.npz"),
                                     static_cast<std::uintmax_t>(part_of * static_cast<double>(size)));
        past("cut.npz", "");
    }
    const Ended same = runs.on(next, {"--past", runs.file("a.npz")}, "a.npz");
    CHECK(same.code == 2);
    CHECK_THAT(same.errors, ContainsSubstring("--trace would replace"));

    // A state has its tokens one after the other.
    const Runs states("qwen3-next");
    const Ended jump = states.on(ids, {"--positions", "0,1,3,4"});
    CHECK(jump.code == 2);
    CHECK_THAT(jump.errors, ContainsSubstring("token 2 is at position 3 of sequence 0, expected 2 of sequence 0"));
    CHECK(states.on({{2, 2}, {1, 2, 3, 4}, ElementType::integer}, {"--positions", "0:"}).code == 2);
}
