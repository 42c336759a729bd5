// attn run: what comes out of it, its flags, its files. tests/cli/modules has its inputs.

#include "cli/desk.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/files/weights/recurrent.hpp"
#include "attn/reference/layers/activation.hpp"

#include <map>
#include <set>
#include <sstream>

using namespace attn;
using namespace attn::cli;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::test;

namespace {

bool equal(const Array& left, const Array& right) { return identical(left, right); }

Array output_of(const std::string& module, const std::string& flags = "")
{
    const Example example = example_of(module);
    return Desk(example.input, example.weights).output(module, example.flags(flags));
}

std::string refusal_of(const std::string& module, const std::string& flags)
{
    const Example example = example_of(module);
    return Desk(example.input, example.weights).refusal(module, example.flags(flags));
}

} // namespace

// ----------------------------------------------------------------------------------------------------- what comes of it

TEST_CASE("attn run has every module, and says what each takes", "[cli][run]")
{
    const auto of_folders = std::ranges::count_if(modules(), [](const Module& module) {
        return static_cast<bool>(module.describe_folder); // see model.cpp
    });
    REQUIRE(examples().size() + static_cast<std::size_t>(of_folders) == modules().size());
    const std::string list = run({"attn", "run", "--help"}).output;
    for (const Module& module : modules()) {
        CHECK_THAT(list, ContainsSubstring("  " + module.name + " "));
        const Ended help = run({"attn", "run", module.name, "--help"});
        CHECK(help.code == 0);
        for (const ModuleInput& input : module.inputs)
            CHECK_THAT(help.output, ContainsSubstring("  " + input.name + " "));
        for (const Flag& flag : module.flags)
            CHECK_THAT(help.output, ContainsSubstring("  " + flag.name));
        CHECK_THAT(help.output, ContainsSubstring("--input FILE.npz"));
        CHECK((help.output.find("--weights") == std::string::npos) == (module.weights == Weights::none));
    }
}

TEST_CASE("attn run prints every step, and writes them, twice the same bytes", "[cli][run]")
{
    for (const Example& example : examples()) {
        CAPTURE(example.module);
        const Desk desk(example.input, example.weights);
        const Ended first = desk.run_module(example.module, example.needed + Words{"--trace", desk / "a.npz"});
        const Ended second = desk.run_module(example.module, example.needed + Words{"--trace", desk / "b.npz"});
        REQUIRE(first.code == 0);
        CHECK(first.errors.empty());
        CHECK(first.output == second.output);
        CHECK(bytes_of(desk / "a.npz") == bytes_of(desk / "b.npz"));
        CHECK(read_npz(desk / "a.npz").contains("output"));
        for (const Step& step : read_trace(desk / "a.npz").steps)
            CHECK_THAT(first.output, ContainsSubstring(step.path));
    }
}

TEST_CASE("attn run --only keeps some steps, and what follows from others becomes an input", "[cli][run]")
{
    const Example example = example_of("multi-head-attention");
    const Desk desk(example.input, example.weights);
    const Recording all = desk.recording("multi-head-attention", example.needed);
    const auto kept = [&](const Words& only) {
        const Recording some = desk.recording("multi-head-attention", example.needed + only);
        for (const Step& step : some.steps)
            CHECK(equal(step.value, all.at(step.path).value));
        return some;
    };
    const Recording two = kept({"--only", "head.0.s*d", "--only", "head.1.scores"});
    REQUIRE(two.steps.size() == 2);
    CHECK(two.steps[0].path == "head.0.scaled");
    CHECK(two.steps[0].formula.empty());
    CHECK(two.steps[1].path == "head.1.scores");

    const Recording whole = kept({"--only", "*"});
    REQUIRE(whole.steps.size() == all.steps.size());
    for (const Step& step : whole.steps)
        CHECK(step.formula == all.at(step.path).formula);

    for (const std::string pattern : {"head.7.scores", "scores", "head.*.scores.*", "Head.*"})
        CHECK_THAT(desk.refusal("multi-head-attention", example.needed + Words{"--only", pattern}),
                   ContainsSubstring("--only " + pattern + " fits no step"));
    for (const Alias& alias : all.aliases)
        CHECK_THAT(desk.refusal("multi-head-attention", example.needed + Words{"--only", alias.path}),
                   ContainsSubstring("is another name of " + alias.target));
    CHECK_THAT(desk.run_module("multi-head-attention", example.needed + Words{"--only", "*"}).errors,
               ContainsSubstring("--trace"));
}

TEST_CASE("attn run takes a batch wherever it takes a sequence", "[cli][run][batch]")
{
    for (const Example& example : examples_of_tokens()) {
        CAPTURE(example.module);
        NamedArrays batched = example.input;
        for (auto& [name, array] : batched) {
            array.shape.insert(array.shape.begin(), 2);
            for (const double value : example.input.at(name).values)
                array.values.push_back(-value);
        }
        const Array alone = Desk(example.input, example.weights).output(example.module, example.needed);
        const Array both = Desk(batched, example.weights).output(example.module, example.needed);
        REQUIRE(both.shape == Shape{2, alone.shape[0], alone.shape[1]});
        for (std::size_t i = 0; i < alone.size(); ++i)
            CHECK(std::abs(both.values[i] - alone.values[i]) < 1e-12);
    }
}

TEST_CASE("weights from .safetensors are the same as from .npz, and of a larger model with a prefix", "[cli][run]")
{
    for (const Example& example : examples()) {
        if (example.weights.empty() || example.module == "llama") // whose embedding is looked for first
            continue;
        CAPTURE(example.module);
        Desk desk(example.input, example.weights);
        const Array expected = desk.output(example.module, example.needed);
        desk.put_weights("w.safetensors", example.weights);
        CHECK(equal(desk.output(example.module, example.needed), expected));
        NamedArrays larger{{"other.weight", {{1}, {1}}}};
        for (const auto& [name, array] : example.weights)
            larger["model." + name] = array;
        desk.put_weights("large.safetensors", larger);
        CHECK(equal(desk.output(example.module, example.needed + Words{"--prefix", "model."}), expected));
        CHECK_THAT(desk.refusal(example.module, example.needed),
                   ContainsSubstring("other.weight (1,) is not expected"));
        const Words as_prefix{"--prefix", "model.", "--rename", "*=*"};
        CHECK(equal(desk.output(example.module, example.needed + as_prefix), expected));
        CHECK_THAT(desk.refusal(example.module, example.needed + Words{"--rename", "model.*=*", "--rename", "none=x"}),
                   ContainsSubstring("--rename: none=x fits no tensor"));
        CHECK_THAT(desk.refusal(example.module, example.needed + Words{"--prefix", "encoder."}),
                   ContainsSubstring("large.safetensors") && ContainsSubstring("\"encoder.\""));
    }
}

TEST_CASE("attn run --parameters groups the digits of large counts", "[cli][run]")
{
    const auto zeros = [](const Shape& shape) { return Array{shape, std::vector<double>(element_count(shape))}; };
    const NamedArrays weights{{"linear1.weight", zeros({1000, 3})},
                              {"linear1.bias", zeros({1000})},
                              {"linear2.weight", zeros({3, 1000})},
                              {"linear2.bias", zeros({3})}};
    const std::string output =
        Desk({{"x", zeros({1, 3})}}, weights).run_module("feed-forward", {"--parameters"}).output;
    for (const char* count : {" 3,000\n", " 1,000\n", " 3\n", " 7,003\n"})
        CHECK_THAT(output, ContainsSubstring(count));
}

TEST_CASE("attn run --parameters prints names, shapes, counts and the total of the weights", "[cli][run]")
{
    const Example example = example_of("encoder-layer");
    const Ended ended = Desk(example.input, example.weights).run_module("encoder-layer", example.flags("--parameters"));
    CHECK(ended.code == 0);
    std::size_t total = 0;
    for (const auto& [name, array] : example.weights) {
        total += array.size();
        const std::size_t at = ended.output.find("\n" + name + " ");
        REQUIRE(at != std::string::npos);
        const std::string line = ended.output.substr(at + 1, ended.output.find('\n', at + 1) - at - 1);
        CHECK_THAT(line, ContainsSubstring("  " + to_string(array.shape) + " "));
        CHECK(line.ends_with(" " + std::to_string(array.size())));
    }
    CHECK(ended.output.ends_with(" " + std::to_string(total) + "\n"));
    CHECK(lines_in(ended.output) == example.weights.size() + 2);
    std::istringstream lines(ended.output);
    std::set<std::size_t> widths; // of the lines of a table
    for (std::string line; std::getline(lines, line);)
        widths.insert(line.size());
    CHECK(widths.size() == 1);
    CHECK_THAT(refusal_of("attention", "--parameters"), ContainsSubstring("no effect without --weights"));
}

// --------------------------------------------------------------------------------------------------------------- flags

namespace {

/// What a module gives with those flags; nothing where the weights do not fit them.
std::optional<Array> outcome(const Example& example, const std::string& flags)
{
    Words words = example.flags(flags);
    std::erase(words, "--without-config"); // of the program
    Recorder recorder;
    try {
        run_module(Words{example.module} + words, example.input, example.weights, Trace(recorder));
    } catch (const ShapeError&) {
        return std::nullopt;
    } catch (const WeightsError&) {
        return std::nullopt;
    }
    const Recording recording = recorder.recording();
    return recording.steps.at(*StepNames(recording).find("output")).value;
}

} // namespace

TEST_CASE("the example of every flag of attn run changes what comes out, or which weights fit", "[cli][run]")
{
    for (const Example& example : examples())
        for (const Flag& flag : module_of(example.module).flags) {
            const auto& [text, among] = std::pair(flag.value.example, flag.value.among);
            CAPTURE(example.module, flag.name, text, among);
            CHECK(text.empty() != flag.value.takes_text);
            const std::optional<Array> before = outcome(example, among),
                                       after = outcome(example, among + " " + flag.name + " " + text);
            REQUIRE(before);
            CHECK_FALSE((after && equal(*before, *after)));
        }
}

TEST_CASE("the flags of attn run mean what the library's options mean", "[cli][run]")
{
    CHECK(equal(output_of("multi-head-attention", "--scale 0.3 --positions rotary --rotary-base 50 --rotary-layout "
                                                  "halves --mask causal"),
                to_array(multi_head_attention(tokens(), heads_with_norms(),
                                              {.heads = 2,
                                               .mask = causal_mask(3, 3),
                                               .scale = 0.3,
                                               .positions = HeadPositions::rotary,
                                               .rotary = {.base = 50, .layout = RotaryLayout::halves}})
                             .output)));
    CHECK(equal(output_of("encoder", "--norm pre --activation gelu --epsilon 1e-3 --positions alibi --layers 2"),
                to_array(encoder(tokens(), stack_of(2),
                                 {.attention = {.heads = 2, .positions = HeadPositions::alibi},
                                  .feed_forward = {Activation::gelu},
                                  .norm = {1e-3},
                                  .placement = NormPlacement::pre}))));
}

TEST_CASE("attn run --fast gives in float32 what it gives without, and its steps are verified as such",
          "[cli][run][fast]")
{
    for (const std::string module : {"encoder-layer", "encoder", "decoder-layer", "llama"}) {
        CAPTURE(module);
        const Example example = example_of(module);
        const Desk desk(example.input, example.weights);
        const Array exact = desk.output(module, example.needed);
        const Recording fast = desk.recording(module, example.needed + Words{"--fast"});
        const Array& output = fast.steps[*StepNames(fast).find("output")].value;
        REQUIRE(output.shape == exact.shape);
        for (std::size_t i = 0; i < exact.size(); ++i)
            CHECK(output.values[i] == Approx(exact.values[i]).epsilon(1e-4).margin(1e-4));
        const auto type = std::pair<std::string, std::string>("type", "float32");
        for (const Step& step : fast.steps)
            CHECK((step.formula.empty() || std::ranges::find(step.options, type) != step.options.end()));
    }
}

TEST_CASE("attn run --fast refuses every flag that asks what if", "[cli][run][fast]")
{
    for (const std::string module : {"attention", "encoder-layer", "encoder", "decoder-layer", "llama"})
        for (const std::string flag : {"--round float32", "--ablate context", "--pitfall no_scaling"}) {
            CAPTURE(module, flag);
            CHECK_THAT(refusal_of(module, "--fast " + flag),
                       ContainsSubstring(words_of(flag)[0] + " can't be given with --fast"));
        }
}

TEST_CASE("defaults of attn run, spelled out, change nothing", "[cli][run]")
{
    const std::string layer = "--norm post --activation relu --epsilon 1e-5 ";
    const std::map<std::string, std::string> spelled{
        {"attention", "--score scaled --normalization softmax"},
        {"multi-head-attention", "--positions none"},
        {"feed-forward", "--activation relu"},
        {"layer-norm", "--epsilon 1e-5"},
        {"encoder-layer", layer + "--positions none"},
        {"encoder", layer + "--layers 2"},
        {"decoder-layer", layer + "--positions none"},
        {"decoder", layer + "--layers 2 --final-epsilon 1e-5"},
        {"transformer", layer + "--layers 2"},
        {"restricted-attention", "--radius 1 --stride 4 --scale 0.5"}, // the root of 4 features
        {"talking-heads-attention", "--scale 0.7071067811865475"},
        {"differential-attention", "--lambda-init 0.2 --scale 1 --epsilon 1e-5"}, // the root of 1 feature
        {"gru", "--reset after"},
        {"gpt", "--activation relu --epsilon 1e-5"},
        {"llama", "--rotary-layout halves --rotary-base 10000 --epsilon 1e-5"},
        {"keras-attention", "--mask-right --penalty 1e10"},
        {"rms-norm", "--epsilon 1e-5"},
        {"activation", "--activation relu"},
        {"gated-feed-forward", "--activation silu"},
        {"rotary", "--rotary-base 10000 --rotary-layout pairs --first 0"},
        {"positions", "--base 10000 --layout interleaved --first 0"},
        {"embedding", "--scale 1"}};
    for (const auto& [module, flags] : spelled) {
        CAPTURE(module);
        const bool is_masked = module == "keras-attention";
        CHECK(equal(output_of(module, is_masked ? "--mask-right" : ""), output_of(module, flags)));
    }
}

TEST_CASE("attn run refuses a flag of another module, and names it", "[cli][run]")
{
    std::set<std::string> names;
    for (const Module& module : modules())
        for (const Flag& flag : module.flags)
            names.insert(flag.name);
    std::size_t turn = 0; // each flag is tried on some modules, and each module with some flags
    for (const Module& module : modules())
        for (const std::string& name : names)
            if (++turn % 7 == 0 && std::ranges::find(module.flags, name, &Flag::name) == module.flags.end()) {
                const Words weights = module.weights == Weights::none ? Words{} : words_of("--weights w.npz");
                const Ended ended = run(Words{"attn", "run", module.name, "--input", "in.npz", name} + weights);
                CHECK(ended.code == 2);
                CHECK_THAT(ended.errors, ContainsSubstring(name + " is not expected"));
            }
}

TEST_CASE("attn run refuses a value that a flag does not have, a second one and none, and names the flag", "[cli][run]")
{
    const auto [module, flag, value] = GENERATE(table<std::string, std::string, std::string>({
        {"attention", "--score", "cosine"},
        {"attention", "--mask", "anticausal"},
        {"attention", "--scale", "much"},
        {"multi-head-attention", "--rotary-base", "0"},
        {"multi-head-attention", "--rotary-base", "-1"},
        {"rotary", "--rotary-features", "1"},
        {"rotary", "--rotary-scaling", "linear"},
        {"layer-norm", "--epsilon", "-1"},
        {"layer-norm", "--epsilon", "0x1"},
        {"encoder", "--layers", "0"},
        {"encoder", "--layers", "-1"},
        {"encoder", "--layers", "2.0"},
        {"encoder", "--layers", "+2"},
        {"encoder", "--heads", "two"},
        {"encoder", "--heads", "0"},
        {"restricted-attention", "--stride", "0"},
        {"restricted-attention", "--radius", "-1"},
        {"layer-norm", "--precision", "18"},
        {"layer-norm", "--color", "sometimes"},
        {"layer-norm", "--round", "float8"},
        {"layer-norm", "--pitfall", ""},
        {"layer-norm", "--prefix", ""},
        {"layer-norm", "--trace", ""},
    }));
    const Example example = example_of(module);
    const Desk desk(example.input, example.weights);
    const Ended ended = desk.run_module(module, example.flags(flag) + Words{value});
    CHECK(ended.code == 2);
    CHECK(ended.output.empty());
    CHECK(lines_in(ended.errors) == 1);
    CHECK_THAT(ended.errors,
               ContainsSubstring(flag + ": ") && ContainsSubstring("(see attn run " + module + " --help)"));
    if (!value.empty())
        CHECK_THAT(ended.errors, ContainsSubstring(value));
    CHECK_THAT(desk.refusal(module, example.needed + Words{flag}), ContainsSubstring(flag));
    CHECK_THAT(desk.refusal(module, example.needed + Words{flag, value, flag, value}),
               ContainsSubstring(flag + " is given "));
}

TEST_CASE("attn run refuses a number that is none, where it is an option's", "[cli][run][hostile]")
{
    for (const std::string value : {"nan", "inf", "-inf", "1e999"}) {
        CHECK_THAT(refusal_of("multi-head-attention", "--scale=" + value), ContainsSubstring("finite number"));
        CHECK_THAT(refusal_of("layer-norm", "--epsilon=" + value), ContainsSubstring("finite number"));
        CHECK_THAT(refusal_of("multi-head-attention", "--positions rotary --rotary-base=" + value),
                   ContainsSubstring("finite number"));
    }
}

TEST_CASE("attn run gated-delta-net takes both states of a past, or none", "[cli][run]")
{
    const Example example = example_of("gated-delta-net");
    CHECK_THAT(Desk(with(example.input, "past_recurrent_state", {{2, 2, 2}, std::vector<double>(8)}), example.weights)
                   .refusal("gated-delta-net"),
               ContainsSubstring("past_conv_state and past_recurrent_state belong together"));
}

TEST_CASE("whole numbers of attn are decimal", "[cli][run]")
{
    CHECK(equal(output_of("encoder", "--heads 02"), output_of("encoder", "--heads 2")));
    CHECK_THAT(refusal_of("encoder", "--layers 010"), ContainsSubstring("layers.9")); // ten, not eight
}

TEST_CASE("attn run refuses flags that contradict each other, or have no effect", "[cli][run]")
{
    const auto [module, flags, complaint] = GENERATE(table<std::string, std::string, std::string>({
        {"attention", "--normalization none", "always normalised"},
        {"attention", "--score dot --scale 2", "only the scaled score has a scale"},
        {"attention", "--score dot --softcap 2", "only the scaled score has a softcap"},
        {"attention", "--score dot --heads 2", "only the scaled score has heads"},
        {"attention", "--heads 3", "--heads 3 to divide the queries' features"},
        {"attention", "--mask causal-by-length", "causal by length needs lengths"},
        {"gated-delta-net", "--key-heads 3", "2 heads can't be divided evenly among 3 heads of keys"},
        {"attention", "--prefix a.", "--prefix has no effect without --weights"},
        {"encoder-layer", "--rotary-base 100", "--rotary-base has no effect without --positions rotary"},
        {"encoder-layer", "--positions alibi --rotary-layout halves", "no effect without --positions rotary"},
        {"encoder-layer", "--rotary-features 2", "no effect without --positions rotary"},
        {"encoder-layer", "--heads 1 --positions rotary --rotary-features 2 --fast",
         "attn::fast: there is no kernel that rotates 2 of 4 features"},
        {"encoder-layer", R"(--heads 1 --positions rotary --rotary-scaling {"type":"linear","factor":8} --fast)",
         "attn::fast: there is no kernel of the rotary scaling linear"},
        {"rotary", R"(--rotary-scaling {"type":"ntk"})",
         "--rotary-scaling: type ntk is not known; known are default, "},
        {"rotary", R"(--rotary-scaling {"type":"linear","rope_theta":8})",
         "rope_theta is not known for the rope_type linear"},
        {"rotary", R"(--rotary-scaling {"factor":8})",
         "--rotary-scaling: factor is not known for the rope_type default"},
        {"rotary", R"(--rotary-scaling {"type":"yarn","factor":8})", "original_max_position_embeddings is missing"},
        {"encoder-layer", "--heads 3", "can't be divided evenly among 3 heads"},
        {"encoder-layer", "--heads 4 --positions rotary", "1 features do not make pairs"},
        {"restricted-attention", "--radius 1 --weights w.npz", "--weights"},
        {"restricted-attention", "--scale 1", "Give --radius, --stride, or both"},
        {"keras-attention", "--penalty 2", "--penalty has no effect"},
        {"gpt", "--heads 3", "can't be divided evenly among 3 heads"},
        {"llama", "--heads 3 --without-config", "can't be divided evenly among 3 heads"},
    }));
    Example example = example_of(module);
    if (flags == "--scale 1")
        example.needed.clear();
    CHECK_THAT(Desk(example.input, example.weights).refusal(module, example.flags(flags)),
               ContainsSubstring(complaint));
    CHECK_THAT(Desk(queries_keys_values(), {{"bilinear_weights", to_array(Matrix{{1}})}}).refusal("attention"),
               ContainsSubstring("--weights has no effect"));
    const Desk without_norms({{"x", to_array(tokens())}}, state_dict(heads_of_four()));
    for (const std::string flag : {"--norm-epsilon 1e-6", "--norm-kind layer", "--norm-adds-one"})
        CHECK_THAT(without_norms.refusal("multi-head-attention", words_of("--heads 2 " + flag)),
                   ContainsSubstring(words_of(flag)[0] + " has no effect"));
}

TEST_CASE("the norm after a stack can have an epsilon of its own, where there is such a norm", "[cli][run]")
{
    NamedArrays weights = example_of("encoder").weights;
    const Desk desk(example_of("encoder").input, weights);
    for (const Step& step : desk.recording("encoder", words_of("--heads 2 --final-epsilon 0.5")).steps)
        if (step.path.ends_with(".normalized"))
            CHECK(step.formula.ends_with(step.path == "norm.normalized" ? " + 0.5)" : " + 1e-05)"));
    std::erase_if(weights, [](const auto& entry) { return entry.first.starts_with("norm."); });
    CHECK_THAT(Desk(example_of("encoder").input, weights).refusal("encoder", words_of("--heads 2 --final-epsilon 0.5")),
               ContainsSubstring("--final-epsilon has no effect"));
}

TEST_CASE("attn run's heads can stay side by side", "[cli][run]")
{
    Numbers numbers(9);
    const MultiHeadWeights weights = random_heads(numbers, {4, 6, 2, 4, 4, false, false});
    const NamedArrays arrays{{"q_proj_weight", to_array(transpose_by_hand(weights.query.weight))},
                             {"k_proj_weight", to_array(transpose_by_hand(weights.key.weight))},
                             {"v_proj_weight", to_array(transpose_by_hand(weights.value.weight))}};
    const Desk desk({{"x", to_array(tokens())}}, arrays);
    CHECK(equal(desk.output("multi-head-attention", {"--heads", "2", "--without-output-map"}),
                to_array(multi_head_attention(tokens(), weights, {.heads = 2}).output)));
    CHECK_THAT(desk.refusal("multi-head-attention", {"--heads", "2"}), ContainsSubstring("out_proj.weight is missing"));

    NamedArrays packed = state_dict(heads_of_four()); // as nn.MultiheadAttention has it
    MultiHeadWeights without_map = heads_of_four();
    without_map.output.reset();
    packed.erase("out_proj.weight");
    packed.erase("out_proj.bias");
    CHECK(equal(Desk({{"x", to_array(tokens())}}, packed)
                    .output("multi-head-attention", {"--heads", "2", "--without-output-map"}),
                to_array(multi_head_attention(tokens(), without_map, {.heads = 2}).output)));
}

TEST_CASE("attn run prints as many digits and colours as asked for", "[cli][run]")
{
    const Example example = example_of("layer-norm");
    const Desk desk(example.input, example.weights);
    const std::string few = desk.run_module("layer-norm", {"--precision", "1"}).output;
    CHECK(few.size() < desk.run_module("layer-norm", {"--precision", "12"}).output.size());
    CHECK(few.find('\x1b') == std::string::npos);
    CHECK_THAT(desk.run_module("layer-norm", {"--color", "always"}).output, ContainsSubstring("\x1b["));
}

TEST_CASE("attn run takes the sinks of multi-head attention from the weights, and refuses those without effect",
          "[cli][run][sinks]")
{
    const NamedArrays input = queries_keys_values();
    const Desk desk(with(input, "sinks", to_array(Vector{0.5})), {});
    CHECK_THAT(desk.refusal("attention", {"--score", "dot"}), ContainsSubstring("sinks has no effect"));
    CHECK_THAT(desk.refusal("attention", {"--fast"}), ContainsSubstring("--fast does not compute sinks"));
    const Desk of_heads(with(input, "sinks", to_array(Vector{0.5, -1.0})), {});
    CHECK_THAT(of_heads.refusal("attention"), ContainsSubstring("sinks (2,) are for 2 heads, but there is 1"));

    MultiHeadWeights weights = heads_of_four();
    weights.sinks = Vector{0.5, -1.0};
    CHECK(equal(Desk({{"x", to_array(tokens())}}, state_dict(weights)).output("multi-head-attention", {"--heads", "2"}),
                to_array(multi_head_attention(tokens(), weights, {.heads = 2}).output)));
}

// -------------------------------------------------------------------------------------------------------------- memory

TEST_CASE("attn run makes values of another memory only where there is one for keys", "[cli][run][cross]")
{
    const NamedArrays input{{"x", to_array(tokens())}, {"value_memory", to_array(memory_tokens())}};
    CHECK_THAT(Desk(input, state_dict(heads_of_four())).input_refusal("multi-head-attention", {"--heads", "2"}),
               ContainsSubstring("there is an array value_memory but no memory"));
}

TEST_CASE("attn run goes on after the keys and values of earlier tokens, side by side or as heads", "[cli][run]")
{
    const auto rows = [](const Array& matrix, std::size_t begin, std::size_t end) {
        const auto width = static_cast<std::ptrdiff_t>(matrix.shape[1]);
        const auto from = matrix.values.begin() + static_cast<std::ptrdiff_t>(begin) * width;
        const auto to = matrix.values.begin() + static_cast<std::ptrdiff_t>(end) * width;
        return Array{{end - begin, matrix.shape[1]}, {from, to}};
    };
    const auto in_shape = [](Array array, const Shape& shape) {
        array.shape = shape;
        return array;
    };
    constexpr std::size_t n = 5, past = 3, d = 4, heads = 2;
    const std::string module = "multi-head-attention";
    const Words flags = words_of("--heads 2 --mask causal");
    const NamedArrays weights = state_dict(heads_of_four());
    const Array x = to_array(Numbers(11).matrix(n, d));
    const Desk whole({{"x", x}}, weights);
    const Array expected = rows(whole.output(module, flags), past, n);
    const Array keys = rows(whole.step("key", module, flags), 0, past),
                values = rows(whole.step("value", module, flags), 0, past), rest = rows(x, past, n);
    const auto as_heads = [&](const Array& side_by_side) { // (past, h, d_k) with the heads in front
        return permuted(in_shape(side_by_side, {past, heads, d / heads}), {1, 0, 2});
    };
    const auto continued = [&](const Array& tokens, const Array& past_keys, const Array& past_values) {
        return Desk({{"x", tokens}, {"past_keys", past_keys}, {"past_values", past_values}}, weights)
            .output(module, flags);
    };
    const Array one = continued(rest, keys, values), of_heads = continued(rest, as_heads(keys), as_heads(values)),
                in_batch = continued(in_shape(rest, {1, n - past, d}), in_shape(keys, {1, past, d}),
                                     in_shape(as_heads(values), {1, heads, past, d / heads}));
    REQUIRE(one.shape == expected.shape);
    for (const Array* found : {&one, &of_heads, &in_batch}) { // a BLAS can sum a batch in another order
        REQUIRE(found->size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(std::abs(found->values[i] - expected.values[i]) <= 1e-14);
    }
}

TEST_CASE("attn run decoder-layer goes on from keys and values of earlier tokens, and refuses those that do not fit",
          "[cli][run]")
{
    const Example example = example_of("decoder-layer");
    const std::size_t d = example.input.at("x").shape.back();
    const Array past{{3, d}, std::vector<double>(3 * d, 0.5)}, narrow{{3, d + 1}, std::vector<double>(3 * d + 3, 0.5)};
    const NamedArrays continued = with(with(example.input, "past_keys", past), "past_values", past);
    CHECK(Desk(continued, example.weights).step("self_attn.past_keys", "decoder-layer", example.needed).shape ==
          Shape{3, d});
    CHECK_THAT(
        Desk(with(example.input, "past_keys", past), example.weights).input_refusal("decoder-layer", example.needed),
        ContainsSubstring("belong together"));
    CHECK_THAT(
        Desk(with(continued, "past_keys", narrow), example.weights).input_refusal("decoder-layer", example.needed),
        ContainsSubstring("past_keys has the shape"));
    Words fast = example.needed;
    fast.push_back("--fast");
    CHECK_THAT(Desk(continued, example.weights).input_refusal("decoder-layer", fast),
               ContainsSubstring("without a past"));
}

TEST_CASE("attn run refuses states and lengths that do not fit a GRU or an LSTM", "[cli][run][recurrent]")
{
    Numbers numbers(30);
    const RecurrentWeights three = random_recurrent(numbers, 4, 3, 3, 2, true);
    const RecurrentWeights four = random_recurrent(numbers, 4, 3, 4, 2, true);
    const Tensor3 hidden = numbers.tensor3(4, 2, 3);
    const NamedArrays of_gru{
        {"x", to_array(batch())}, {"lengths", {{2}, {3, 1}}}, {"initial_hidden", to_array(hidden)}};
    CHECK_THAT(Desk(of_gru, state_dict(four)).input_refusal("lstm"), ContainsSubstring("belong together"));
    CHECK_THAT(Desk(with(of_gru, "lengths", {{2}, {4, 1}}), state_dict(three)).input_refusal("gru"),
               ContainsSubstring("a length is 4"));
    CHECK_THAT(Desk(with(of_gru, "initial_hidden", to_array(numbers.tensor3(2, 2, 3))), state_dict(three))
                   .input_refusal("gru"),
               ContainsSubstring("expected (4, 2, 3)"));
    CHECK_THAT(Desk(of_gru, state_dict(four)).refusal("gru"), ContainsSubstring("do not fit a GRU with d_in 4"));
}

// ------------------------------------------------------------------------------------------------------ weights, files

TEST_CASE("attn run says which weights do not fit, and in which file", "[cli][run]")
{
    const Example example = example_of("encoder-layer");
    const Desk desk(example.input, with(without(example.weights, "norm1.weight"), "self_attn.in_proj_weight",
                                        {{12, 5}, std::vector<double>(60, 1)}));
    CHECK(desk.refusal("encoder-layer", example.needed) ==
          "attn run: " + (desk / "w.npz").string() +
              ": 2 tensors do not fit an encoder layer with d_model 4:\n"
              "  self_attn.in_proj_weight is (12, 5), expected (3*d_model, d_model) = (12, 4)\n"
              "  norm1.weight is missing\n");
    CHECK_THAT(refusal_of("encoder", "--layers 3"), ContainsSubstring("layers.2.linear1.weight is missing"));
    CHECK_THAT(refusal_of("encoder", "--layers 1"),
               ContainsSubstring("layers.1.linear1.weight (3, 4) is not expected"));
}

TEST_CASE("a learned score of attn run wants its weights, finite and of its shapes", "[cli][run]")
{
    for (const std::string score : {"additive", "concatenated", "bilinear"}) {
        const std::string message = refusal_of("attention", "--score " + score); // names no file, for there is none
        CHECK_THAT(message, ContainsSubstring("--weights FILE") && ContainsSubstring(score));
        CHECK_THAT(message, !ContainsSubstring(" :") && !ContainsSubstring("::"));
    }
    CHECK_THAT(Desk(queries_keys_values(), {{"hidden_weights", to_array(Numbers(7).matrix(8, 6))}})
                   .refusal("attention", {"--score", "concatenated"}),
               ContainsSubstring("w.npz") && ContainsSubstring("score_weights"));
    for (const Array& wrong : {Array{{16}, std::vector<double>(16, 1)}, Array{{3, 4}, std::vector<double>(12, 1)},
                               Array{{4, 4}, std::vector<double>(16, std::nan(""))}})
        CHECK_THAT(
            Desk(queries_keys_values(), {{"bilinear_weights", wrong}}).refusal("attention", {"--score", "bilinear"}),
            ContainsSubstring("w.npz") && ContainsSubstring("bilinear_weights"));
}

TEST_CASE("attn run refuses files that are missing, damaged or of another kind, and names them", "[cli][run]")
{
    const Example example = example_of("layer-norm");
    const Desk desk(example.input, example.weights);
    put_bytes(desk / "text.npz", "hello");
    put_bytes(desk / "text.safetensors", "hello");
    put_bytes(desk / "model.pt", "PK");
    const std::string input = desk / "in.npz", weights = desk / "w.npz", trace = desk / "t.npz";
    const auto expect_refusal_of = [&](const std::string& in, const std::string& from, const std::string& to,
                                       const std::string& culprit) {
        const Ended ended =
            run({"attn", "run", "layer-norm", "--input", in, "--weights", from, "--trace", to, "--quiet"});
        CHECK(ended.code == 2);
        CHECK(ended.output.empty());
        CHECK(lines_in(ended.errors) == 1);
        CHECK_FALSE(std::filesystem::exists(desk / "t.npz"));
        CHECK_THAT(ended.errors, ContainsSubstring(culprit));
    };
    for (const std::string name : {"text.npz", "missing.npz"})
        expect_refusal_of(desk / name, weights, trace, name);
    for (const std::string name :
         {"text.npz", "missing.npz", "text.safetensors", "missing.safetensors", "model.pt", "missing"})
        expect_refusal_of(input, desk / name, trace, (desk / name).string());
    expect_refusal_of(input, weights, desk / "no/folder/t.npz", "no/folder/t.npz");

    for (const std::string& read : {input, weights}) {
        const std::string before = bytes_of(read);
        const Ended ended = run({"attn", "run", "layer-norm", "--input", input, "--weights", weights, "--trace", read});
        CHECK(ended.code == 2);
        CHECK_THAT(ended.errors, ContainsSubstring("would replace " + read));
        CHECK(bytes_of(read) == before);
    }
}

TEST_CASE("attn run without a module, with another one or without its files is wrong usage", "[cli][run]")
{
    const auto [words, complaint] = GENERATE(table<std::string, std::string>({
        {"", "which command?"},
        {"decoder-of-dreams", "decoder-of-dreams"},
        {"layer_norm --input x.npz", "layer_norm"},
        {"layer-norm --weights w.npz", "--input is required"},
        {"layer-norm --input x.npz", "--weights is required"},
        {"layer-norm --input x.npz --weights", "--weights"},
        {"layer-norm feed-forward", "feed-forward"},
        {"encoder --input x.npz --weights w.npz", "--heads is required"},
    }));
    const Ended ended = run(Words{"attn", "run"} + words_of(words));
    CHECK(ended.code == 2);
    CHECK(ended.output.empty());
    CHECK(lines_in(ended.errors) == 1);
    CHECK_THAT(ended.errors,
               ContainsSubstring("attn run: ") && ContainsSubstring(" --help)") && ContainsSubstring(complaint));
}
