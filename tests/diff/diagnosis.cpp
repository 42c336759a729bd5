#include "formula/trace_of.hpp"
#include "runs.hpp"
#include "test.hpp"

#include "attn/reference/ops/softmax.hpp"

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

/// What a run gives with a well-known mistake in every step that it concerns.
NamedArrays mistaken(const Run& run, std::string_view pitfall)
{
    Mistaken mistake(find_pitfall(pitfall));
    return arrays_of(recording_of(run, mistake));
}

/// Diagnosed from those arrays alone whose names are given; ids with the first step that they were made in.
std::vector<std::string> diagnosed(const Run& run, const NamedArrays& all, const std::vector<std::string>& kept)
{
    const Recording reference = recording_of(run);
    NamedArrays mine;
    for (const std::string& name : kept)
        mine.emplace(name, all.at(name));
    std::vector<std::string> found;
    const Diff result = diff::compare(reference, std::move(mine));
    for (const Diagnosis& diagnosis : diagnose(result))
        found.push_back(std::string(diagnosis.pitfall->id).append(" in ").append(diagnosis.steps.front()->path));
    return found;
}

} // namespace

TEST_CASE("a mistake is recognised in the first wrong step, and in steps that MINE does not have", "[diff][diagnose]")
{
    const NamedArrays all = mistaken(run_stack, "scale_d_k");
    const std::vector<std::string> expected{"scale_d_k in layers.0.self_attn.head.0.scaled"};
    CHECK(diagnosed(run_stack, all, {"layers.0.self_attn.head.0.scaled"}) == expected);
    CHECK(diagnosed(run_stack, all, {"layers.0.self_attn.output", "output"}) == expected);
    CHECK(diagnosed(run_stack, all, {"output"}) == expected);
}

TEST_CASE("those mistakes are made first that are likely, so that a budget for few of them is enough",
          "[diff][diagnose]")
{
    const unsigned seed = GENERATE(21, 22); // by luck one can be found in any order
    CAPTURE(seed);
    const auto run = [&](const Trace& trace) {
        Numbers numbers(seed);
        EncoderWeights weights;
        for (std::size_t i = 0; i < 6; ++i)
            weights.layers.push_back(random_encoder_layer(numbers));
        EncoderOptions options;
        options.attention.heads = 3;
        options.feed_forward.activation = Activation::gelu;
        encoder(numbers.matrix(64, 6), weights, options, trace);
    };
    const Recording reference = recording_of(run);
    for (const std::string_view pitfall : {"gelu_tanh", "norm_bessel", "norm_epsilon_value"}) {
        CAPTURE(pitfall);
        constexpr double operations = 2e8; // in the order of the list the first takes ten times as many
        const BudgetScope budget(Budget::of_operations(operations));
        const Diff result =
            diff::compare(reference, {{"output", mistaken(run, pitfall).at("output")}}, {.type = NumberType::float64});
        const std::vector<Diagnosis> found = diagnose(result);
        REQUIRE_FALSE(found.empty());
        CHECK(found.front().pitfall->id == pitfall);
    }
}

TEST_CASE("a mistake between two steps that MINE has is looked for there only", "[diff][diagnose]")
{
    NamedArrays all = arrays_of(recording_of(run_stack));
    const NamedArrays wrong = mistaken(run_stack, "gelu_tanh");
    all["layers.0.feed_forward.output"] = wrong.at("layers.0.feed_forward.output");
    const Recording reference = recording_of(run_stack);
    const Diff result =
        diff::compare(reference, {{"layers.0.feed_forward.x", all["layers.0.feed_forward.x"]},
                                  {"layers.0.feed_forward.output", all["layers.0.feed_forward.output"]}});
    const std::vector<Diagnosis> found = diagnose(result);
    REQUIRE(found.size() == 1);
    CHECK(found.front().pitfall->id == "gelu_tanh");
    REQUIRE(found.front().steps.size() == 1);
    CHECK(found.front().steps.front()->path == "layers.0.feed_forward.activated");
}

TEST_CASE("where a reference has another shape than its own formula, nothing is diagnosed", "[diff][diagnose][hostile]")
{
    const Step x{"x", "", {}, "", {}, {{2, 3}, {1, 2, 3, 4, 5, 6}}};
    const Recording reference{{x, {"y", "max(x, axis=0)", {}, "", {}, {{2, 3}, {1, 2, 3, 4, 5, 6}}}}, {}};
    const Diff result = diff::compare(reference, {{"y", {{2, 3}, {1.5, 2.5, 3, 4, 5, 7}}}});
    CHECK_FALSE(result.passed());
    CHECK(diagnose(result).empty());
}

TEST_CASE("what is right, and what no known mistake gives, is not diagnosed", "[diff][diagnose]")
{
    CHECK(diagnosed(run_layer, arrays_of(recording_of(run_layer)), {"output"}).empty());
    Planted planted("self_attn.head.0.scaled", 0.5);
    const NamedArrays wrong = arrays_of(recording_of(run_layer, planted));
    CHECK(diagnosed(run_layer, wrong, {"self_attn.head.0.scaled"}).empty());
    CHECK(diagnosed(run_layer, wrong, {"self_attn.output"}).empty());
}

TEST_CASE("scores that are not masked at all do not look like a mask of another form", "[diff][diagnose]")
{
    const Run run = [](const Trace& trace) {
        const Matrix square = Numbers(31).matrix(5, 5);
        scaled_dot_product_attention(square, square, square, {.causal = Causal{}}, trace);
    };
    CHECK(diagnosed(run, mistaken(run, "mask_missing"), {"scaled", "masked"}) ==
          std::vector<std::string>{"mask_missing in masked"});
}

TEST_CASE("a mistake in what a step is given is recognised where it is saved, and where it is not", "[diff][aliases]")
{
    NamedArrays all = mistaken(run_layer, "norm_skipped");
    CHECK(diagnosed(run_layer, all, {"norm1.output", "feed_forward.hidden"}) ==
          std::vector<std::string>{"norm_skipped in feed_forward.hidden"});
    all["feed_forward.x"] = all["residual1"];
    CHECK(diagnosed(run_layer, all, {"residual1", "norm1.output", "feed_forward.x", "feed_forward.hidden"}) ==
          std::vector<std::string>{"norm_skipped in feed_forward.x"});
}

TEST_CASE("where no mistake explains the first wrong step, a later one that is wrong by itself is explained",
          "[diff][diagnose]")
{
    const Recording reference = recording_of(run_heads);
    Planted planted("merged", 0.5);
    const NamedArrays all = arrays_of(recording_of(run_heads, planted));
    Array dropped = all.at("output");
    for (std::size_t i = 0; i < dropped.size(); ++i)
        dropped.values[i] = i % 7 == 0 ? 0 : dropped.values[i] / 0.9;
    const Diff result = diff::compare(reference, {{"merged", all.at("merged")}, {"output", dropped}});
    CHECK(result.first_wrong()->step->path == "merged");
    const std::vector<Diagnosis> found = diagnose(result);
    REQUIRE(found.size() == 1);
    CHECK(found.front().pitfall->id == "dropout_on");
    REQUIRE(found.front().later != nullptr);
    CHECK(found.front().later->path == "output");
}

TEST_CASE("of later wrong steps, the first that a mistake explains is the one that is named", "[diff][diagnose]")
{
    const Recording reference = recording_of(run_layer);
    Planted planted("self_attn.merged", 0.5);
    NamedArrays mine = arrays_of(recording_of(run_layer, planted));
    std::erase_if(mine, [](const auto& array) {
        return array.first != "self_attn.merged" && array.first != "self_attn.output" && array.first != "norm2.mean";
    });
    Array& dropped = mine.at("self_attn.output");
    for (std::size_t i = 0; i < dropped.size(); ++i)
        dropped.values[i] = i % 7 == 0 ? 0 : dropped.values[i] / 0.9;
    for (double& value : mine.at("norm2.mean").values)
        value = value * value + 1;
    const Diff result = diff::compare(reference, mine);
    CHECK(result.count(DiffVerdict::bug) == 3);
    const std::vector<Diagnosis> found = diagnose(result);
    REQUIRE(found.size() == 1);
    CHECK(found.front().pitfall->id == "dropout_on");
    CHECK(found.front().later->path == "self_attn.output");
}

TEST_CASE("tiled key/value heads are named by the result, with norms of queries and keys and without",
          "[diff][diagnose]")
{
    constexpr std::size_t heads = 4, width = 2;
    Numbers numbers(29);
    const Matrix x = numbers.matrix(5, 6);
    MultiHeadWeights shared{{numbers.matrix(6, 8), std::nullopt},
                            {numbers.matrix(6, 4), std::nullopt},
                            {numbers.matrix(6, 4), std::nullopt},
                            LinearWeights{numbers.matrix(8, 6), std::nullopt}};
    const auto tiled = [](const LinearWeights& map) { // 0 1 0 1
        Matrix columns(Matrix::shape_type{6, heads * width});
        for (std::size_t row = 0; row < 6; ++row)
            for (std::size_t column = 0; column < heads * width; ++column)
                columns(row, column) = map.weight(row, column % (2 * width));
        return LinearWeights{columns, std::nullopt};
    };
    for (const bool has_norms : {false, true}) {
        CAPTURE(has_norms);
        if (has_norms)
            shared.query_norms = shared.key_norms = {{numbers.vector(width)}};
        MultiHeadWeights mine = shared;
        mine.key = tiled(shared.key);
        mine.value = tiled(shared.value);
        const MultiHeadOptions options{.heads = heads, .positions = HeadPositions::rotary};
        const auto run_with = [&](const MultiHeadWeights& weights) {
            return [&](const Trace& trace) { multi_head_attention(x, weights, options, trace); };
        };
        const Run right = run_with(shared), wrong = run_with(mine);
        const std::string step = has_norms ? "head.0.key_norm.x" : "head.0.rotary_key.x";
        CHECK(diagnosed(right, arrays_of(recording_of(wrong)), {"output"}) ==
              std::vector<std::string>{"kv_tiled in " + step});
    }
}

TEST_CASE("half of a mistake that is made in two steps together is not that mistake", "[diff][diagnose]")
{
    const Run run = [](const Trace& trace) { (void)sinusoidal_positions(4, 6, {}, trace); };
    const Recording reference = recording_of(run);
    const Array& angles = named(reference, "angles").value;
    Array positions = named(reference, "positions").value;
    for (std::size_t i = 0; i < angles.size(); ++i) // as fits an exponent that counts features, which this has not
        positions.values[2 * i + 1] =
            std::cos(angles.values[i] * std::sqrt(named(reference, "frequencies").value.values[1]));
    const Diff result =
        diff::compare(reference, {{"frequencies", named(reference, "frequencies").value}, {"positions", positions}});
    CHECK_FALSE(result.passed());
    CHECK(diagnose(result).empty());
}

TEST_CASE("another epsilon is not taken for one outside the root", "[diff][diagnose]")
{
    Numbers numbers(41);
    const Matrix x = numbers.matrix(5, 8);
    const Recording reference =
        recording_of([&](const Trace& trace) { (void)layer_norm(x, random_norm(numbers, 8), {}, trace); });
    const NamedArrays right = arrays_of(reference);
    const auto normalized = [&](auto deviation) {
        Array found = right.at("normalized");
        for (std::size_t i = 0; i < found.size(); ++i)
            found.values[i] = static_cast<float>((x.flat(i) - right.at("mean").values[i / 8]) /
                                                 deviation(right.at("variance").values[i / 8]));
        return NamedArrays{{"normalized", found}};
    };
    const auto named = [&](NamedArrays mine) {
        std::vector<std::string_view> ids;
        const Diff result = diff::compare(reference, std::move(mine));
        for (const Diagnosis& diagnosis : diagnose(result))
            ids.push_back(diagnosis.pitfall->id);
        return ids;
    };
    using Ids = std::vector<std::string_view>;
    CHECK(named(normalized([](double variance) { return std::sqrt(variance + 1e-6); })) == Ids{"norm_epsilon_value"});
    CHECK(named(normalized([](double variance) { return std::sqrt(variance) + 1e-4; })) == Ids{});
    CHECK(named(normalized([](double variance) { return std::sqrt(variance) + 1e-5; })) == Ids{"norm_epsilon_outside"});
    CHECK(named(normalized([](double variance) { return std::sqrt(variance * 8 / 7) + 1e-6; })) ==
          Ids{"norm_epsilon_outside"});
}

namespace {

/// Rows one after the other.
Array rows(Array first, const Array& second)
{
    first.shape[0] += second.shape[0];
    first.values.insert(first.values.end(), second.values.begin(), second.values.end());
    return first;
}

/// The keys and values of two layers, whose caches hold three tokens; one is new.
Recording two_cached_layers()
{
    Numbers numbers(29);
    Recording recording;
    for (const std::string layer : {"layers.0.self_attn.", "layers.1.self_attn."})
        for (const std::string what : {"keys", "values"}) {
            const Array past = to_array(numbers.matrix(3, 4)), added = to_array(numbers.matrix(1, 4));
            recording.steps.push_back(input(layer + "past_" + what, past));
            recording.steps.push_back(input(layer + "new_" + what, added));
            recording.steps.push_back(
                {layer + what, "concat(past_" + what + ", new_" + what + ", axis=0)", {}, "", {}, rows(past, added)});
        }
    return recording;
}

} // namespace

TEST_CASE("a cache that all layers share is named where a layer reads another one's", "[diff][diagnose]")
{
    const Recording reference = two_cached_layers();
    const auto of = [&](const std::string& path) { return named(reference, path).value; };
    NamedArrays mine;
    for (const std::string what : {"keys", "values"}) {
        mine.emplace("layers.0.self_attn." + what,
                     rows(of("layers.1.self_attn.past_" + what), of("layers.0.self_attn.new_" + what)));
        mine.emplace("layers.1.self_attn." + what, of("layers.1.self_attn." + what));
    }
    const Diff result = diff::compare(reference, mine);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "layers.0.self_attn.keys");
    const std::vector<Diagnosis> found = diagnose(result);
    REQUIRE(found.size() == 1);
    CHECK(found.front().pitfall->id == "cache_shared");
}

namespace {

/// The first name, and those that give the same numbers.
std::vector<std::string> names_of(const Recording& reference, NamedArrays mine)
{
    const Diff result = diff::compare(reference, std::move(mine));
    std::vector<std::string> names;
    for (const Diagnosis& diagnosis : diagnose(result))
        names.push_back((diagnosis.is_alternative ? "also " : "") + std::string(diagnosis.pitfall->id));
    return names;
}

/// What is recorded of attention by formulas, one of which can be another.
struct Written {
    std::map<std::string, std::string> formulas{
        {"scores", "queries @ keys.T"},     {"scaled", "scores / sqrt(keys.shape[-1])"},
        {"capped", "4 * tanh(scaled / 4)"}, {"masked", "where(mask, capped, -inf)"},
        {"weights", "softmax(masked)"},     {"context", "weights @ values"}};

    Recording recording() const
    {
        Numbers numbers(41);
        ByFormulas all;
        const auto given = [&](const char* name, std::size_t rows, std::size_t columns) {
            const Matrix matrix = 3.0 * numbers.matrix(rows, columns);
            all.given(name, real({rows, columns}, {matrix.begin(), matrix.end()}));
        };
        given("queries", 6, 4);
        given("keys", 6, 4);
        given("values", 6, 3);
        all.computed("mask", "arange(6) <= arange(6)[:, None]");
        for (const char* step : {"scores", "scaled", "capped", "masked", "weights", "context"})
            all.computed(step, formulas.at(step));
        return all.recording;
    }

    Written with(const std::string& step, const std::string& formula) const
    {
        Written other = *this;
        other.formulas[step] = formula;
        return other;
    }

    NamedArrays result() const { return {{"context", recording().steps.back().value}}; }
};

} // namespace

TEST_CASE("mistakes of caps, scales and parts of the keys are named by the result", "[diff][diagnose]")
{
    const Written right;
    const Recording reference = right.recording();
    const std::string left = "masked[..., 0:3]", other = "masked[..., 3:6]";
    const std::string ratio =
        "(sum(exp(" + other + "), axis=-1, keepdims=True) / sum(exp(" + left + "), axis=-1, keepdims=True)) ** log(2)";
    const std::map<std::string, Written> cases{
        {"softcap_missing", right.with("capped", "1 * scaled")},
        {"softcap_after_mask", right.with("masked", "where(mask, capped, -4)")},
        {"scale_every_block", right.with("scaled", "scores / sqrt(4) * where(arange(6) < 4, 1, 1 / log(2))")},
        {"lse_base_2", right.with("weights", "concat(softmax(" + left + ") / (1 + " + ratio + "), softmax(" + other +
                                                 ") / (1 + 1 / (" + ratio + ")), axis=-1)")},
    };
    for (const auto& [id, wrong] : cases) {
        CAPTURE(id);
        const std::vector<std::string> names = names_of(reference, wrong.result());
        REQUIRE_FALSE(names.empty());
        CHECK(names.front() == id);
    }
}

TEST_CASE("a second scale after scores that are scaled is named", "[diff][diagnose]")
{
    const Written right;
    const Written twice = right.with("weights", "softmax(masked / 2)");
    NamedArrays mine = arrays_of(twice.recording());
    CHECK(names_of(right.recording(), std::move(mine)).front() == "scale_d_k");
}

TEST_CASE("of mistakes that give the same numbers one is named, and the others stand behind it", "[diff][diagnose]")
{
    Written right;
    right.formulas["capped"] = "1 * scaled";
    const Recording reference = right.recording();
    const std::vector<std::string> names = names_of(reference, right.with("masked", "1 * capped").result());
    REQUIRE_FALSE(names.empty());
    CHECK(names.front() == "mask_missing");
    for (std::size_t i = 1; i < names.size(); ++i)
        CHECK(names[i].starts_with("also "));
}

TEST_CASE("a result of nothing but NaN has no name", "[diff][diagnose]")
{
    const Written right;
    NamedArrays mine = right.result();
    std::ranges::fill(mine.at("context").values, std::nan(""));
    CHECK(names_of(right.recording(), std::move(mine)).empty());
}

TEST_CASE("NaN that one step makes of what is given has a name", "[diff][diagnose]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Vector scores = trace("scores[m]", "", Vector{1000, 1001, 1002});
    (void)trace("weights[m]", "softmax(scores)", softmax(scores));
    const std::vector<std::string> names =
        names_of(recorder.recording(), {{"weights", Array{{3}, std::vector<double>(3, std::nan(""))}}});
    REQUIRE_FALSE(names.empty());
    CHECK(names.front() == "softmax_overflow");
}

TEST_CASE("a mistake of a program that computes in float32 and saves float64 is named by the result",
          "[diff][diagnose]")
{
    const Recording reference = recording_of(run_stack);
    for (const std::string id : {"scale_d_k", "norm_bessel"}) {
        CAPTURE(id);
        Mistaken mistake(find_pitfall(id));
        RoundSteps rounding(Precision::float32);
        Recorder recorder;
        Listeners listeners({&mistake, &rounding, &recorder});
        run_stack(Trace(listeners));
        Array output = recorder.recording().steps.back().value;
        for (double& value : output.values)
            value *= 1 + 0x1p-40; // so that no float32 is stored
        const std::vector<std::string> names = names_of(reference, {{"output", output}});
        REQUIRE_FALSE(names.empty());
        CHECK(names.front() == id);
    }
}

TEST_CASE("heads that take every h-th feature before they are rotated are named by the result", "[diff][diagnose]")
{
    constexpr std::size_t heads = 2, width = 4;
    Numbers numbers(43);
    const Matrix x = numbers.matrix(5, 6);
    const auto map = [&] { return LinearWeights{numbers.matrix(6, heads * width), std::nullopt}; };
    const MultiHeadWeights right{map(), map(), map(), LinearWeights{numbers.matrix(8, 6), std::nullopt}};
    const auto interleaved = [](const LinearWeights& given) {
        LinearWeights taken = given;
        for (std::size_t row = 0; row < 6; ++row)
            for (std::size_t head = 0; head < heads; ++head)
                for (std::size_t i = 0; i < width; ++i)
                    taken.weight(row, head * width + i) = given.weight(row, i * heads + head);
        return taken;
    };
    MultiHeadWeights mine = right;
    mine.query = interleaved(right.query);
    mine.key = interleaved(right.key);
    mine.value = interleaved(right.value);
    const auto run_with = [&](const MultiHeadWeights& weights) {
        return [&](const Trace& trace) {
            multi_head_attention(x, weights, {.heads = heads, .positions = HeadPositions::rotary}, trace);
        };
    };
    const Recording wrong = recording_of(run_with(mine));
    CHECK(names_of(recording_of(run_with(right)), {{"output", named(wrong, "output").value}}) ==
          std::vector<std::string>{"heads_interleaved"});
}

TEST_CASE("norms of queries and keys that are left out, or of queries alone, are named by the result",
          "[diff][diagnose]")
{
    Numbers numbers(44);
    const Matrix x = numbers.matrix(5, 6);
    const auto map = [&] { return LinearWeights{numbers.matrix(6, 8), std::nullopt}; };
    MultiHeadWeights right{map(), map(), map(), LinearWeights{numbers.matrix(8, 6), std::nullopt}};
    right.query_norms = right.key_norms = {{numbers.vector(4)}};
    const auto result_with = [&](const MultiHeadWeights& weights) {
        const auto run = [&](const Trace& trace) {
            multi_head_attention(x, weights, {.heads = 2, .positions = HeadPositions::rotary}, trace);
        };
        return recording_of(run);
    };
    const Recording reference = result_with(right);
    MultiHeadWeights mine = right;
    mine.query_norms.clear();
    for (int i = 0; i < 2; ++i, mine.key_norms.clear()) {
        CAPTURE(i);
        CHECK(names_of(reference, {{"output", named(result_with(mine), "output").value}}) ==
              std::vector<std::string>{"qk_norm_missing"});
    }
}

TEST_CASE("biases that all output maps of attention lack, and no other map, are named by the result",
          "[diff][diagnose]")
{
    Numbers numbers(45);
    EncoderWeights right{{random_encoder_layer(numbers), random_encoder_layer(numbers)}, random_norm(numbers, 6)};
    const Tensor3 x = numbers.tensor3(2, 5, 6);
    EncoderOptions options;
    options.attention.heads = 2;
    const auto output_of = [&](const EncoderWeights& weights) {
        return recording_of([&](const Trace& trace) { encoder(x, weights, options, trace); });
    };
    EncoderWeights mine = right;
    for (EncoderLayerWeights& layer : mine.layers)
        layer.self_attention.output->bias->fill(0);
    const Array output = output_of(mine).steps.back().value;
    CHECK(names_of(output_of(right), {{"output", output}}) == std::vector<std::string>{"bias_lost"});
}

TEST_CASE("the last tokens' mistakes after a cache are named beside a reference of all at once", "[diff][diagnose]")
{
    Written right;
    right.formulas["capped"] = "1 * scaled";
    const Recording reference = right.recording();
    const Written lost = right.with(
        "masked", "where(mask & ((arange(6)[:, None] < 4) | (arange(6) == arange(6)[:, None])), capped, -inf)");
    CHECK(names_of(reference, lost.result()).front() == "cache_lost");
}

TEST_CASE("dropout of a block's result is named where it is added", "[diff][diagnose]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    const Array x = mine.at("x"), block = mine.at("self_attn.output");
    Array& sum = mine.at("residual1");
    for (std::size_t i = 0; i < sum.size(); ++i)
        sum.values[i] = x.values[i] + (i % 7 == 2 ? 0 : block.values[i] / (1 - 0.1));
    CHECK(names_of(reference, {{"x", x}, {"self_attn.output", block}, {"residual1", sum}}) ==
          std::vector<std::string>{"dropout_on"});
}
