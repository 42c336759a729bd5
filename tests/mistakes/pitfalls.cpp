// The proof that the goldens can fail: every well-known mistake is made in every lesson and module that it concerns.

#include "attn/mistakes/pitfalls.hpp"

#include "golden_cases.hpp"
#include "lesson_run.hpp"
#include "program.hpp"
#include "sources.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/scope.hpp"
#include "attn/mistakes/interventions.hpp"
#include "attn/reference/layers/rotary.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::mistakes;

namespace {

/// What became of one mistake: who noticed it at its step, and who has the step and did not.
struct Kills {
    std::vector<std::string> killed, survived;
};

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// True where the golden comparison fails, and first at the step that the pitfall names.
bool is_killed(const Pitfall& pitfall, const std::string& difference)
{
    const std::string path = difference.substr(0, difference.find_first_of(" ~"));
    return !difference.empty() && last_name(path) == last_name(std::string(pitfall.shown().step));
}

/// Makes a mistake in each module's cases; a module is killed where one of its cases is.
Kills kills_among(const Pitfall& pitfall, const std::vector<GoldenCase>& cases)
{
    std::map<std::string, bool> modules;
    for (const GoldenCase& one : cases) {
        Mistaken mistaken(pitfall);
        Recorder recorder;
        Listeners listeners({&mistaken, &recorder});
        one.run(Trace(listeners));
        if (mistaken.broken().empty())
            continue;
        bool& killed = modules[one.name.substr(0, one.name.find('.'))];
        killed = killed || is_killed(pitfall, difference(recorder.recording(), one.steps));
    }
    Kills kills;
    for (const auto& [module, killed] : modules)
        (killed ? kills.killed : kills.survived).push_back(module);
    return kills;
}

/// True where a mistake can be made in a lesson, by what the lesson records.
bool can_be_made(const Pitfall& pitfall, const std::string& topic)
{
    const Recording& recording = lesson_recording(topic);
    Mistaken mistaken(pitfall);
    for (const Alias& alias : recording.aliases)
        mistaken.record(alias);
    for (const Step& step : recording.steps)
        mistaken.record(step);
    return !mistaken.broken().empty();
}

/// Makes a mistake in every lesson where it can be made, but the one of the paper's size, which computes nothing that a smaller
/// one doesn't, and those that write, where after any mistake other tokens follow, which is where their goldens notice.
Kills kills_among_lessons(const Pitfall& pitfall)
{
    Kills kills;
    for (const std::string& topic : lesson_topics()) {
        if (topic == "11_encoder_stack" || topic == "23_pitfalls" || topic == "17_story" || topic == "30_choosing" ||
            !can_be_made(pitfall, topic))
            continue;
        const TemporaryFolder folder;
        const Ended ended =
            run({"lesson_" + topic, "--quiet", "--pitfall", std::string(pitfall.id), "--trace", folder / "t.npz"});
        if (ended.code ==
            2) { // of what ranks compute, no step is replaced; what is no number can't be stored in fewer bits
            CHECK_THAT(ended.errors, ContainsSubstring("can't be made here") || ContainsSubstring("can be stored as"));
            continue;
        }
        REQUIRE(ended.code == 0);
        const std::string found = difference(read_trace(folder / "t.npz"), read_golden(topic));
        (is_killed(pitfall, found) ? kills.killed : kills.survived).push_back(topic.substr(0, 2));
    }
    return kills;
}

std::string joined(const std::vector<std::string>& words)
{
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : ", ") + word;
    return text;
}

/// The tiles of fast attention, two per tile of queries.
Recording of_tiles()
{
    constexpr std::size_t n = 200, d = 2;
    std::vector<float> numbers(n * d), context(n * d);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    const fast::HeadRows<const float> rows = fast::head_rows<const float>(numbers.data(), {1, 1, n, d});
    Recorder recorder;
    fast::attention(rows, rows, rows, {}, fast::head_rows(context.data(), {1, 1, n, d}), {}, Trace(recorder));
    return recorder.recording();
}

const Vector short_factors{1, 1.5, 2}, long_factors{3, 5, 9};

/// A rotation, a mistake in it (by its form), and the rotation that one has then; `longer` is what the result is multiplied by.
struct MistakenRotation {
    std::string_view id;
    std::size_t form;
    RotaryOptions right, mistaken;
    double longer = 1;
};

std::vector<MistakenRotation> mistaken_rotations()
{
    const YarnScaling yarn{.factor = 4, .original_length = 40, .attention_factor = 1.25};
    const Llama3Scaling llama3{.factor = 8, .original_length = 40};
    const LongRopeScaling above{short_factors, long_factors, 4, 2, 1}, below{short_factors, long_factors, 400, 2, 1};
    const auto with = [](const RotaryScaling& scaling) {
        return RotaryOptions{.base = 50, .first = 3, .scaling = scaling};
    };
    const auto of_part = [](RotaryLayout layout, std::optional<std::size_t> features) {
        return RotaryOptions{50, layout, 3, features};
    };
    return {{"rotary_scaling_missing", 0, with(llama3), with({})},
            {"rotary_scaling_missing", 0, with(yarn), with({}), 1.25},
            {"rotary_scaling_missing", 1, with(LinearScaling{8}), with({})},
            {"rotary_scaling_missing", 2, with(DynamicScaling{8, 4}), with({})},
            {"rotary_factors_swapped", 0, with(above), with(below)},
            {"rotary_factors_swapped", 0, with(below), with(above)},
            {"rotary_attention_factor_missing", 0, with(yarn), with(yarn), 1 / 1.25},
            {"rotary_attention_factor_twice", 0, with(yarn), with(yarn), 1.25},
            {"rotary_features_all", 0, of_part(RotaryLayout::halves, 4), of_part(RotaryLayout::halves, {})},
            {"rotary_features_all", 1, of_part(RotaryLayout::pairs, 4), of_part(RotaryLayout::pairs, {})}};
}

/// What a rotation records, with a mistake or without.
Recording rotation(const RotaryOptions& options, Listener* mistaken)
{
    Matrix x(Matrix::shape_type{4, 6});
    for (std::size_t i = 0; i < x.size(); ++i)
        x.data()[i] = std::sin(static_cast<double>(i));
    Recorder recorder;
    std::vector<Listener*> listening{&recorder};
    if (mistaken != nullptr)
        listening.insert(listening.begin(), mistaken);
    Listeners listeners(listening);
    rotary(x, options, Trace(listeners));
    return recorder.recording();
}

} // namespace

TEST_CASE("a mistake of scaled or partial rotary positions is a rotation with other options", "[pitfalls][rotary]")
{
    for (const auto& [id, form, right, mistaken, longer] : mistaken_rotations()) {
        CAPTURE(id, form, name_of(right.scaling));
        Pitfall pitfall = find_pitfall(id);
        REQUIRE(form < pitfall.forms.size());
        pitfall.forms = pitfall.forms.subspan(form, 1);
        Mistaken listener(pitfall);
        const Array found = rotation(right, &listener).steps.back().value,
                    expected = rotation(mistaken, nullptr).steps.back().value;
        CHECK(listener.broken().size() == 1);
        for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(found.values[i] == Approx(longer * expected.values[i]).epsilon(1e-12).margin(1e-12));
    }
}

TEST_CASE("a rotation of neighbours by the angles of halves is a form of the other layout", "[pitfalls][rotary]")
{
    const RotaryOptions halves{.base = 50, .layout = RotaryLayout::halves, .first = 3};
    Pitfall pitfall = find_pitfall("rotary_layout");
    pitfall.forms = pitfall.forms.subspan(2, 1);
    Mistaken listener(pitfall);
    const Array found = rotation(halves, &listener).steps.back().value;
    CHECK(listener.broken().size() == 1);
    for (std::size_t token = 0; token < 4; ++token)
        for (std::size_t feature = 0; feature < 6; ++feature) {
            const auto x = [&](std::size_t of) { return std::sin(static_cast<double>(token * 6 + of)); };
            const double angle =
                             static_cast<double>(token + 3) * std::pow(50, -2.0 * static_cast<double>(feature % 3) / 6),
                         other = feature % 2 == 0 ? -x(feature + 1) : x(feature - 1);
            const double expected = x(feature) * std::cos(angle) + other * std::sin(angle);
            CHECK(found.values[token * 6 + feature] == Approx(expected).epsilon(1e-12).margin(1e-12));
        }
}

TEST_CASE("every pitfall is found by a lesson's golden and by a module's, at its step", "[pitfalls][golden][slow]")
{
    const std::vector<GoldenCase> cases = module_cases({"attention", "layers", "decoder", "restricted"});
    std::string table = "pitfall\tlessons that notice\tlessons that don't\tmodules that notice\tmodules that don't\n";
    for (const Pitfall& pitfall : pitfalls()) {
        if (!pitfall.is_exhibit)
            continue; // made by tests/oracle/strangers.py, tests/mpi/mistakes.cpp, or seen in public only
        CAPTURE(pitfall.id);
        const Kills modules = kills_among(pitfall, cases), lessons = kills_among_lessons(pitfall);
        CHECK_FALSE(modules.killed.empty());
        CHECK_FALSE(lessons.killed.empty());
        table += std::string(pitfall.id) + '\t' + joined(lessons.killed) + '\t' + joined(lessons.survived) + '\t' +
                 joined(modules.killed) + '\t' + joined(modules.survived) + '\n';
    }
    if (const char* file = std::getenv("ATTN_KILL_TABLE")) // to write a new one
        std::ofstream(file) << table;
    CHECK(table == attn::test::source_file("docs/kill_table.tsv").text);
}

TEST_CASE("every pitfall has an id, a sentence, a place where it was seen, and a formula of its own", "[pitfalls]")
{
    CHECK(pitfalls().size() >= 24);
    std::set<std::string_view> ids;
    for (const Pitfall& pitfall : pitfalls()) {
        CAPTURE(pitfall.id);
        CHECK(ids.insert(pitfall.id).second);
        CHECK(pitfall.sentence.ends_with('.'));
        CHECK(pitfall.why.ends_with('.'));
        CHECK(pitfall.seen.size() > 20);
        CHECK(pitfall.link.starts_with("https://"));
        CHECK(pitfall.shown().right != pitfall.shown().mistaken);
    }
}

TEST_CASE("every edit of every pitfall is about a step of some module", "[pitfalls]")
{
    // Steps that no golden case has: of first tokens that a window keeps, of pages, of codes and scales, of words that are
    // chosen; exercises 25 and 29 to 31 and the vectors make them.
    const std::set<std::string_view> elsewhere{"sink_tokens_missing",
                                               "sink_tokens_early",
                                               "nucleus_before_temperature",
                                               "nucleus_without_crossing",
                                               "nucleus_not_normalized",
                                               "speculation_from_target",
                                               "speculation_sides_swapped",
                                               "speculation_excess_signed",
                                               "page_table_ignored",
                                               "page_size_missing",
                                               "rest_of_page_read",
                                               "scales_dropped",
                                               "scales_axis",
                                               "scales_signed",
                                               "codes_truncated",
                                               "padding_counted"};
    std::vector<Recording> recordings{of_tiles()};
    for (const MistakenRotation& one : mistaken_rotations())
        recordings.push_back(rotation(one.right, nullptr));
    for (const GoldenCase& one :
         module_cases({"attention", "layers", "decoder", "sinks", "experts", "latent_attention", "gated_attention",
                       "gated_delta_net", "differential_attention", "recurrent", "llama", "onnx_attention"})) {
        Recorder recorder;
        one.run(Trace(recorder));
        recordings.push_back(recorder.recording());
    }
    const auto is_made = [&](const StepEdit& edit, std::string_view value) {
        return std::ranges::any_of(recordings, [&](const Recording& recording) {
            const StepNames names(recording);
            for (std::size_t i = 0; i < recording.steps.size(); ++i) {
                const StepOf step_of = [&](std::string_view name) {
                    const auto found = names.resolve(i, name);
                    return found ? &recording.steps[*found] : nullptr;
                };
                if (mistaken_formula(edit, value, recording.steps[i], step_of))
                    return true;
            }
            return false;
        });
    };
    for (const Pitfall& pitfall : pitfalls()) {
        if (pitfall.shown().step.starts_with(gradient_scope))
            continue; // tests/diff/gradients.cpp makes them
        if (pitfall.id.starts_with("ranks_"))
            continue; // tests/mpi/mistakes.cpp makes them, on two to five ranks, and fails where one is not made
        if (pitfall.id.starts_with("train_"))
            continue; // tests/diff/training.cpp makes them
        CAPTURE(pitfall.id);
        bool is_any_made = false;
        for (const PitfallForm& form : pitfall.forms)
            for (const StepEdit& edit : form.edits)
                is_any_made = is_any_made || is_made(edit, form.values.front());
        CHECK(is_any_made != elsewhere.contains(pitfall.id));
    }
}

TEST_CASE("every mistake of a mixture of experts is found by the golden of one, at its step",
          "[pitfalls][experts][golden]")
{
    const std::vector<GoldenCase> cases = module_cases({"experts"});
    std::size_t made = 0;
    for (const Pitfall& pitfall : pitfalls()) {
        if (!pitfall.id.starts_with("experts_") && !pitfall.id.starts_with("swiglu_limit") &&
            !pitfall.id.starts_with("swiglu_shift"))
            continue;
        CAPTURE(pitfall.id);
        CHECK_FALSE(kills_among(pitfall, cases).killed.empty());
        ++made;
    }
    CHECK(made == 14);
}

TEST_CASE("every mistake of latent attention is found by the golden of one, at its step",
          "[pitfalls][latent_attention][golden]")
{
    const std::vector<GoldenCase> cases = module_cases({"latent_attention"});
    for (const std::string id : {"scale_default", "scale_divided", "scale_head_width", "scale_absorbed",
                                 "rotary_mscale", "rotary_layout", "rotary_queries_only"}) {
        CAPTURE(id);
        CHECK_FALSE(kills_among(find_pitfall(id), cases).killed.empty());
    }
}

TEST_CASE("every mistake of gated attention and of the gated DeltaNet is found by the golden of one, at its step",
          "[pitfalls][gated_attention][gated_delta_net][golden]")
{
    const auto find_all = [](const std::vector<GoldenCase>& cases, std::initializer_list<std::string_view> ids) {
        for (const std::string_view id : ids) {
            CAPTURE(id);
            CHECK_FALSE(kills_among(find_pitfall(std::string(id)), cases).killed.empty());
        }
    };
    find_all(module_cases({"gated_attention"}),
             {"gate_activation", "head_gate_missing", "head_gate_raw", "norm_gain_without_one", "qk_norm_all_heads"});
    find_all(module_cases({"gated_delta_net"}),
             {"delta_error_before_decay", "delta_write_keys", "delta_chunk_mask", "delta_query_scale", "state_lost"});
}

TEST_CASE("heads that are not normalised are found by the golden of differential attention, at their step",
          "[pitfalls][differential_attention][golden]")
{
    CHECK(kills_among(find_pitfall("differential_norm_missing"), module_cases({"differential_attention"}))
              .killed.size() == 6);
}

TEST_CASE("a sink that is left out is found by the golden of attention with sinks, at its step",
          "[pitfalls][sinks][golden]")
{
    const Pitfall& pitfall = *std::ranges::find(pitfalls(), "sink_missing", &Pitfall::id);
    CHECK(kills_among(pitfall, module_cases({"sinks"})).killed ==
          std::vector<std::string>{"batch-masked", "heads-causal", "heads-plain", "sequence-causal", "sequence-plain"});
}

TEST_CASE("an unknown pitfall is refused with pitfalls of similar names", "[pitfalls]")
{
    CHECK_THROWS_WITH(find_pitfall("mask_wrong"), ContainsSubstring("mask_inverted") && !ContainsSubstring("no_scale"));
    CHECK_THROWS_WITH(find_pitfall("zzz"), ContainsSubstring("no_scale"));
    const Ended ended = run({"lesson_05_masking", "--pitfall", "mask_wrong"});
    CHECK(ended.code == 2);
    CHECK_THAT(ended.errors, ContainsSubstring("there is no pitfall mask_wrong"));
}

TEST_CASE("of all mistakes only a finite fill is named where it has no effect, since other scores can give it one",
          "[pitfalls]")
{
    std::set<std::string_view> named_anyway;
    for (const Pitfall& pitfall : pitfalls())
        for (const PitfallForm& form : pitfall.forms)
            if (form.is_named_without_effect)
                named_anyway.insert(pitfall.id);
    CHECK(named_anyway == std::set<std::string_view>{"mask_finite"});
}
