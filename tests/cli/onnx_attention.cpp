// attn run attention against ONNX's operator Attention, in all its modes: tests/golden/onnx_attention.py.

#include "cli/desk.hpp"
#include "golden_cases.hpp"

#include "attn/core/recorder.hpp"
#include "attn/diff/diff.hpp"

#include <map>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::test;

namespace {

Recording recording_of(const GoldenCase& one)
{
    Recorder recorder;
    one.run(Trace(recorder));
    return recorder.recording();
}

} // namespace

TEST_CASE("attn run attention is ONNX's Attention in each of its modes, result by result", "[cli][run][onnx][golden]")
{
    const std::vector<GoldenCase> cases = module_cases({"onnx_attention"});
    CHECK(cases.size() == 44);
    for (const GoldenCase& one : cases) {
        const Recording recording = recording_of(one);
        CHECK(verify(recording).passed());
        for (const auto& [step, expected] : one.steps) {
            CAPTURE(one.name, one.command, step);
            const std::optional<std::size_t> found = StepNames(recording).find(step);
            REQUIRE(found);
            const Array& value = recording.steps[*found].value;
            REQUIRE(value.shape == expected.shape);
            for (std::size_t i = 0; i < expected.size(); ++i)
                if (value.values[i] != expected.values[i]) // minus infinity, where a mask hides
                    CHECK(std::abs(value.values[i] - expected.values[i]) <= 1e-12);
        }
    }
}

TEST_CASE("attn diff --names onnx finds ONNX's Attention right in each of its modes", "[cli][diff][onnx][golden]")
{
    const std::map<std::string, std::string> theirs{{"queries", "Q"},
                                                    {"keys", "K"},
                                                    {"values", "V"},
                                                    {"mask", "attn_mask"},
                                                    {"bias", "attn_mask"},
                                                    {"past_keys", "past_key"},
                                                    {"past_values", "past_value"},
                                                    {"lengths", "nonpad_kv_seqlen"}};
    const std::map<std::string, std::string> their_results{{"output", "Y"},
                                                           {"keys", "present_key"},
                                                           {"values", "present_value"},
                                                           {"scaled", "qk_matmul_output"},
                                                           {"group_keys", "present_key"},
                                                           {"group_values", "present_value"}};
    const NameTable* table = &*std::ranges::find(name_tables(), "onnx", &NameTable::name);
    for (const GoldenCase& one : module_cases({"onnx_attention"})) {
        if (one.name == "lengths_add_short") // whose mask has fewer columns than the step
            continue;
        NamedArrays mine;
        for (const auto& [name, array] : one.input)
            mine[theirs.at(name)] = array;
        for (const auto& [step, array] : one.steps)
            if (their_results.contains(step))
                mine[their_results.at(step)] = array;
        const Diff found = diff::compare(recording_of(one), mine, {.table = table, .by_numbers = false});
        CAPTURE(one.name, found.extra);
        CHECK(found.passed());
        CHECK(found.extra.empty());
        CHECK(found.steps.size() == mine.size());
    }
}

TEST_CASE("attn run attention --fast is ONNX's Attention in each of its modes, in float32",
          "[cli][run][onnx][fast][golden]")
{
    for (const GoldenCase& one : module_cases({"onnx_attention"})) {
        CAPTURE(one.name);
        Recorder recorder;
        run_module(words_of(one.command + " --fast"), one.input, {}, Trace(recorder));
        const Recording recording = recorder.recording();
        CHECK(verify(recording).passed());
        const Array& output = recording.steps.at(*StepNames(recording).find("output")).value;
        const auto expected = std::ranges::find(one.steps, "output", &Golden::value_type::first);
        REQUIRE(output.shape == expected->second.shape);
        for (std::size_t i = 0; i < output.size(); ++i)
            CHECK(std::abs(output.values[i] - expected->second.values[i]) <= 1e-6);
    }
}
