// attn run attention against ONNX's operator Attention, in all its modes: tests/golden/onnx_attention.py.

#include "cli/desk.hpp"
#include "golden.hpp"

#include "attn/diff/diff.hpp"

#include <map>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// One case of tests/golden/onnx_attention.py as attn is called for it.
struct OnnxCase {
    std::string name;
    std::string input; ///< "queries=q keys=k values=v"
    std::string flags; ///< of attn run attention
    std::string steps; ///< what the operator's results are called: "Y=output qk=scaled"
};

const std::string of_heads = "queries=q keys=k values=v", of_groups = "queries=q keys=kg values=vg";
const std::string packed = "queries=q3 keys=k3 values=v3", packed_groups = "queries=q3 keys=kg3 values=vg3";
const std::string after_past = " past_keys=past_k past_values=past_v",
                  after_past_groups = " past_keys=past_kg past_values=past_vg";
const std::string present = "Y=output present_key=keys present_value=values";
const std::string present_groups = "Y=output present_key=group_keys present_value=group_values";

const std::vector<OnnxCase> cases{
    {"heads", of_heads, "", "Y=output"},
    {"scale", of_heads, "--scale 0.3", "Y=output"},
    {"softcap", of_heads, "--softcap 0.75", "Y=output"},
    {"groups", of_groups, "", "Y=output"},
    {"one_group_of_values", of_groups + " mask=bool_nm", "--softcap 1.5 --mask causal-top-left", "Y=output"},
    {"bool_nm", of_heads + " mask=bool_nm", "", "Y=output"},
    {"bool_bnm", of_heads + " mask=bool_bnm", "", "Y=output"},
    {"bool_bhnm", of_heads + " mask=bool_bhnm", "", "Y=output"},
    {"add_nm", of_heads + " mask=add_nm", "", "Y=output"},
    {"add_bnm", of_heads + " bias=add_bnm", "", "Y=output"},
    {"add_bhnm", of_heads + " mask=add_bhnm", "", "Y=output"},
    {"add_hnm", of_heads + " bias=add_hnm", "", "Y=output"},
    {"causal", of_heads, "--mask causal-top-left", "Y=output"},
    {"causal_add_bhnm", of_heads + " mask=add_bhnm", "--mask causal-top-left", "Y=output"},
    {"causal_bool_bnm", of_heads + " mask=bool_bnm", "--mask causal-top-left", "Y=output"},
    {"past", of_heads + after_past, "", present},
    {"past_add", of_heads + after_past + " mask=add_past", "", present + " qk=biased"},
    {"past_causal", of_heads + after_past, "--mask causal-top-left", present},
    {"past_groups_causal", of_groups + after_past_groups + " mask=bool_past", "--mask causal-top-left", present_groups},
    {"lengths", of_heads + " lengths=lengths", "", "Y=output"},
    {"lengths_add_short", of_heads + " mask=add_short lengths=lengths", "", "Y=output"},
    {"lengths_causal", of_heads + " lengths=lengths", "--mask causal-by-length", "Y=output"},
    {"lengths_causal_few", of_groups + " mask=bool_bhnm lengths=few", "--mask causal-by-length", "Y=output"},
    {"mode_0", of_heads + " mask=add_nm", "", "Y=output qk=scaled"},
    {"mode_1", of_heads + " mask=add_nm", "--softcap 0.75", "Y=output qk=capped"},
    {"mode_2", of_heads + " mask=add_nm", "--softcap 0.75", "Y=output qk=biased"},
    {"mode_2_bool", of_heads + " mask=bool_bhnm", "", "Y=output qk=masked"},
    {"mode_3", of_heads + " mask=bool_nm", "", "Y=output qk=weights"},
    {"packed", packed, "--heads 4", "Y=output"},
    {"packed_groups", packed_groups, "--heads 4", "Y=output"},
    {"packed_bool_bhnm", packed + " mask=bool_bhnm", "--heads 4", "Y=output"},
    {"packed_causal", packed_groups, "--heads 4 --mask causal-top-left --scale 0.3", "Y=output"},
    {"packed_past", packed_groups + after_past_groups + " mask=add_past", "--heads 4 --softcap 0.75",
     present_groups + " qk=capped"},
    {"window", of_heads, "--left-window 1 --right-window 1", "Y=output"},
    {"window_left", of_groups + " mask=bool_nm", "--left-window 0", "Y=output"},
    {"window_right_add", of_heads + " mask=add_bhnm", "--right-window 0", "Y=output"},
    {"window_causal", of_heads, "--left-window 1 --mask causal-top-left", "Y=output"},
    {"window_past", of_groups + after_past_groups + " mask=bool_past", "--left-window 2 --right-window 1",
     present_groups},
    {"window_lengths", of_heads + " lengths=lengths", "--left-window 1 --right-window 1", "Y=output"},
    {"window_lengths_causal", of_heads + " lengths=lengths", "--left-window 1 --mask causal-by-length", "Y=output"},
    {"packed_window", packed_groups, "--heads 4 --left-window 1", "Y=output"},
    {"packed_window_past", packed_groups + after_past_groups, "--heads 4 --left-window 2 --right-window 0",
     present_groups},
    {"packed_window_lengths", packed + " lengths=few", "--heads 4 --right-window 0", "Y=output"},
    {"packed_lengths", packed + " lengths=lengths", "--heads 4 --mask causal-by-length", "Y=output qk=weights"}};

/// "queries=q keys=k": {{"queries", "q"}, {"keys", "k"}}
std::vector<std::pair<std::string, std::string>> pairs_in(const std::string& text)
{
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string& word : words_of(text))
        pairs.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
    return pairs;
}

} // namespace

TEST_CASE("attn run attention is ONNX's Attention in each of its modes, result by result", "[cli][run][onnx][golden]")
{
    std::map<std::string, Array> golden;
    for (const auto& [name, array] : read_golden("onnx_attention"))
        golden[name] = array;
    std::size_t compared = 0;
    for (const auto& [name, input, flags, steps] : cases) {
        NamedArrays arrays;
        for (const auto& [here, there] : pairs_in(input))
            arrays[here] = golden.at("input." + there);
        const Desk desk(arrays, {});
        const Recording recording = desk.recording("attention", words_of(flags));
        for (const auto& [result, step] : pairs_in(steps)) {
            CAPTURE(name, result, step);
            const Array& expected = golden.at(name + "." + result);
            const std::optional<std::size_t> found = StepNames(recording).find(step);
            REQUIRE(found);
            const Array& value = recording.steps[*found].value;
            REQUIRE(value.shape == expected.shape);
            for (std::size_t i = 0; i < expected.size(); ++i)
                if (value.values[i] != expected.values[i]) // minus infinity, where a mask hides
                    CHECK(std::abs(value.values[i] - expected.values[i]) <= 1e-12);
            ++compared;
        }
    }
    const auto is_result = [](const auto& entry) { return !entry.first.starts_with("input."); };
    CHECK(compared == static_cast<std::size_t>(std::ranges::count_if(golden, is_result)));
}

TEST_CASE("attn diff --names onnx finds ONNX's Attention right in each of its modes", "[cli][diff][onnx][golden]")
{
    std::map<std::string, Array> golden;
    for (const auto& [name, array] : read_golden("onnx_attention"))
        golden[name] = array;
    const std::map<std::string, std::string> theirs{{"queries", "Q"},
                                                    {"keys", "K"},
                                                    {"values", "V"},
                                                    {"mask", "attn_mask"},
                                                    {"bias", "attn_mask"},
                                                    {"past_keys", "past_key"},
                                                    {"past_values", "past_value"},
                                                    {"lengths", "nonpad_kv_seqlen"}};
    const NameTable* table = &*std::ranges::find(name_tables(), "onnx", &NameTable::name);
    for (const auto& [name, input, flags, steps] : cases) {
        if (name == "lengths_add_short") // whose mask has fewer columns than the step
            continue;
        NamedArrays arrays, mine;
        for (const auto& [here, there] : pairs_in(input)) {
            arrays[here] = golden.at("input." + there);
            mine[theirs.at(here)] = arrays[here];
        }
        for (const auto& [result, step] : pairs_in(steps))
            if (result != "qk")
                mine[result] = golden.at(name + "." + result);
            else if (step == "scaled")
                mine["qk_matmul_output"] = golden.at(name + ".qk");
        const Recording recording = Desk(arrays, {}).recording("attention", words_of(flags));
        const Diff found = diff::compare(recording, mine, {.table = table, .by_numbers = false});
        CAPTURE(name, found.extra);
        CHECK(found.passed());
        CHECK(found.extra.empty());
        CHECK(found.steps.size() == mine.size());
    }
}

TEST_CASE("attn run attention --fast is ONNX's Attention in each of its modes, in float32",
          "[cli][run][onnx][fast][golden]")
{
    std::map<std::string, Array> golden;
    for (const auto& [name, array] : read_golden("onnx_attention"))
        golden[name] = array;
    for (const auto& [name, input, flags, steps] : cases) {
        NamedArrays arrays;
        for (const auto& [here, there] : pairs_in(input))
            arrays[here] = golden.at("input." + there);
        CAPTURE(name);
        const Array output = Desk(arrays, {}).output("attention", words_of(flags + " --fast"));
        const Array& expected = golden.at(name + ".Y");
        REQUIRE(output.shape == expected.shape);
        for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(std::abs(output.values[i] - expected.values[i]) <= 1e-6);
    }
}
