// attn run, as a user runs it: arrays in a file, weights in another, a module, its flags.

#include "layers/decoder_examples.hpp"
#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/attention/restricted.hpp"
#include "cli/modules/modules.hpp"
#include "attn/weights/state_dict.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <map>

using namespace attn;
using namespace attn::test;

namespace {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

Array masked(const Shape& shape, std::vector<double> values)
{
    return {shape, std::move(values), ElementType::boolean};
}

/// A folder with an input and weights, in which modules are run.
class Desk {
public:
    Desk(const NamedArrays& input, const NamedArrays& weights)
    {
        put_input(input);
        if (!weights.empty())
            put_weights("w.npz", weights);
    }

    void put_input(const NamedArrays& arrays)
    {
        write_npz(folder_ / "in.npz", {{}, {arrays.begin(), arrays.end()}, {}});
    }

    void put_weights(const std::string& name, const NamedArrays& weights)
    {
        weights_ = folder_ / name;
        write_weights(*weights_, weights);
    }

    /// attn run MODULE --input … --weights … and those flags.
    Ended run_module(const std::string& module, const Words& flags = {}) const
    {
        Words words{"attn", "run", module, "--input", folder_ / "in.npz"};
        if (weights_)
            words = words + Words{"--weights", *weights_};
        return run(words + flags);
    }

    /// The steps of a run that has to succeed.
    std::vector<Step> steps(const std::string& module, const Words& flags = {}) const
    {
        const Ended ended = run_module(module, flags + Words{"--quiet", "--trace", folder_ / "t.npz"});
        CAPTURE(module, flags, ended.errors);
        REQUIRE(ended.code == 0);
        CHECK(ended.output.empty());
        CHECK(ended.errors.empty());
        return read_trace(folder_ / "t.npz").steps;
    }

    /// The step `output`, the last one.
    Array output(const std::string& module, const Words& flags = {}) const
    {
        const std::vector<Step> all = steps(module, flags);
        CHECK(all.back().path == "output");
        return all.back().value;
    }

    /// What a run says that has to be refused: in one message, without a file or a word on standard output.
    std::string refusal(const std::string& module, const Words& flags = {}) const
    {
        std::filesystem::remove(folder_ / "t.npz"); // of an earlier run
        const std::ptrdiff_t before = folder_.count();
        const Ended ended = run_module(module, flags + Words{"--quiet", "--trace", folder_ / "t.npz"});
        CAPTURE(module, flags, ended.output, ended.errors);
        CHECK(ended.code == 2);
        CHECK(ended.output.empty());
        CHECK(ended.errors.rfind("attn: ", 0) == 0);
        CHECK(folder_.count() == before);
        return ended.errors;
    }

    /// The same, where the fault is the input's.
    std::string input_refusal(const std::string& module, const Words& flags = {}) const
    {
        const std::string message = refusal(module, flags);
        CHECK_THAT(message, ContainsSubstring((folder_ / "in.npz").string()));
        return message;
    }

    std::filesystem::path operator/(std::string_view name) const { return folder_ / name; }

private:
    TemporaryFolder folder_;
    std::optional<std::filesystem::path> weights_;
};

/// What each module is given here, and the flags that it can't do without.
struct Example {
    std::string module;
    Words needed;
    NamedArrays input;
    NamedArrays weights;
};

EncoderWeights stack_of(std::size_t layers)
{
    Numbers numbers(1);
    EncoderWeights weights;
    for (std::size_t i = 0; i < layers; ++i)
        weights.layers.push_back(random_encoder_layer(numbers, 4, 3));
    weights.norm = random_norm(numbers, 4);
    return weights;
}

MultiHeadWeights heads_of_four()
{
    Numbers numbers(2);
    return random_heads(numbers, {4, 4, 4, 4, 4});
}

NamedArrays queries_keys_values()
{
    Numbers numbers(3);
    return {{"queries", to_array(numbers.matrix(2, 4))},
            {"keys", to_array(numbers.matrix(3, 4))},
            {"values", to_array(numbers.matrix(3, 5))}};
}

NamedArrays as_many_keys_as_queries()
{
    Numbers numbers(8);
    return {{"queries", to_array(numbers.matrix(9, 4))},
            {"keys", to_array(numbers.matrix(9, 4))},
            {"values", to_array(numbers.matrix(9, 5))}};
}

TalkingHeadsWeights talking_heads_of_four()
{
    Numbers numbers(9);
    return {heads_of_four(), numbers.matrix(2, 3), numbers.matrix(3, 2)};
}

Matrix tokens() { return Numbers(4).matrix(3, 4); }
Tensor3 batch() { return Numbers(5).tensor3(2, 3, 4); }

Matrix memory_tokens() { return Numbers(14).matrix(5, 4); }

TransformerWeights whole_of(std::size_t layers)
{
    Numbers numbers(13);
    return random_transformer(numbers, layers, true, 4);
}

NamedArrays with_memory() { return {{"x", to_array(tokens())}, {"memory", to_array(memory_tokens())}}; }
NamedArrays source_and_target() { return {{"source", to_array(memory_tokens())}, {"target", to_array(tokens())}}; }
/// Two heads that share keys and values, three words.
LlamaWeights small_decoder()
{
    Numbers numbers(8);
    LlamaWeights weights{numbers.matrix(3, 4)};
    for (int i = 0; i < 2; ++i) {
        LlamaLayerWeights& layer = weights.layers.emplace_back();
        layer.norm1 = {numbers.vector(4)};
        layer.self_attention = {{numbers.matrix(4, 8)},
                                {numbers.matrix(4, 4)},
                                {numbers.matrix(4, 4)},
                                LinearWeights{numbers.matrix(8, 4)}};
        layer.norm2 = {numbers.vector(4)};
        layer.feed_forward = {{numbers.matrix(4, 5)}, {numbers.matrix(4, 5)}, {numbers.matrix(5, 4)}};
    }
    weights.norm = {numbers.vector(4)};
    return weights;
}

NamedArrays keras_weights()
{
    Numbers numbers(9);
    return {{"query_weights", to_array(numbers.matrix(4, 4))},
            {"key_weights", to_array(numbers.matrix(4, 4))},
            {"value_weights", to_array(numbers.matrix(4, 6))}};
}

std::vector<Example> examples()
{
    Numbers numbers(6);
    const NamedArrays x{{"x", to_array(tokens())}};
    return {{"attention", {}, queries_keys_values(), {}},
            {"multi-head-attention", {"--heads", "2"}, x, state_dict(heads_of_four())},
            {"feed-forward", {}, x, state_dict(random_feed_forward(numbers, 4, 3))},
            {"layer-norm", {}, x, state_dict(random_norm(numbers, 4))},
            {"encoder-layer", {"--heads", "2"}, x, state_dict(stack_of(1).layers[0])},
            {"encoder", {"--heads", "2"}, x, state_dict(stack_of(2))},
            {"decoder-layer", {"--heads", "2"}, with_memory(), state_dict(whole_of(1).decoder.layers[0])},
            {"decoder", {"--heads", "2"}, with_memory(), state_dict(whole_of(2).decoder)},
            {"transformer", {"--heads", "2"}, source_and_target(), state_dict(whole_of(2))},
            {"restricted-attention", {"--radius", "1", "--stride", "4"}, as_many_keys_as_queries(), {}},
            {"talking-heads-attention", {}, x, state_dict(talking_heads_of_four())},
            {"gru", {}, x, state_dict(random_recurrent(numbers, 4, 3, 3, 2, true))},
            {"lstm", {}, x, state_dict(random_recurrent(numbers, 4, 3, 4))},
            {"llama", {"--heads", "2"}, {{"ids", {{3}, {2, 0, 1}}}}, state_dict(small_decoder())},
            {"keras-attention", {"--heads", "2"}, x, keras_weights()}};
}

/// The examples of modules that work on tokens as they are, one sequence or a batch, and not on words by their numbers.
std::vector<Example> examples_of_tokens()
{
    std::vector<Example> all = examples();
    std::erase_if(all, [](const Example& example) { return example.input.contains("ids"); });
    return all;
}

Example example_of(const std::string& module)
{
    for (const Example& example : examples())
        if (example.module == module)
            return example;
    throw std::out_of_range(module);
}

/// The input that a module can't do without.
std::string first_input_of(const Example& example)
{
    for (const char* name : {"queries", "source", "ids"})
        if (example.input.contains(name))
            return name;
    return "x";
}

bool equal(const Array& left, const Array& right) { return identical(left, right); }

/// Weights of the scores that PyTorch has no module for; those of one of them by name.
NamedArrays score_weights(const Words& names = {})
{
    Numbers numbers(7);
    NamedArrays weights{{"query_weights", to_array(numbers.matrix(4, 6))},
                        {"key_weights", to_array(numbers.matrix(4, 6))},
                        {"score_weights", to_array(numbers.vector(6))},
                        {"hidden_weights", to_array(numbers.matrix(8, 6))},
                        {"bilinear_weights", to_array(numbers.matrix(4, 4))}};
    std::erase_if(weights, [&](const auto& entry) {
        return !names.empty() && std::ranges::find(names, entry.first) == names.end();
    });
    return weights;
}

} // namespace

// ----------------------------------------------------------------------------------------------------- what comes of it

TEST_CASE("attn run has every module, and says what each takes", "[cli][run]")
{
    REQUIRE(examples().size() == modules().size());
    for (const ModuleEntry& entry : modules()) {
        const Ended help = run({"attn", "run", std::string(entry.name), "--help"});
        CHECK(help.code == 0);
        for (const ModuleInput& input : entry.inputs)
            CHECK_THAT(help.output, ContainsSubstring(std::string(input.name)));
        CHECK_THAT(help.output, ContainsSubstring("--input FILE.npz"));
        CHECK_THAT(run({"attn", "run", "--help"}).output, ContainsSubstring(std::string(entry.name)));
    }
}

TEST_CASE("attn run prints every step, writes them, and attn verify finds nothing wrong", "[cli][run]")
{
    for (const Example& example : examples()) {
        CAPTURE(example.module);
        const Desk desk(example.input, example.weights);
        const Ended ended = desk.run_module(example.module, example.needed + Words{"--trace", desk / "t.npz"});
        REQUIRE(ended.code == 0);
        CHECK(ended.errors.empty());
        const std::vector<Step> steps = read_trace(desk / "t.npz").steps;
        CHECK(steps.back().path == "output");
        for (const Step& step : steps)
            CHECK_THAT(ended.output, ContainsSubstring(step.path));
        const Ended verified = run({"attn", "verify", desk / "t.npz"});
        CHECK(verified.code == 0);
        CHECK_THAT(verified.output, ContainsSubstring(" 0 wrong"));
    }
}

TEST_CASE("attn run gives the library's numbers, bit for bit", "[cli][run]")
{
    const auto output_of = [](const std::string& module, const Words& flags = {}) {
        const Example example = example_of(module);
        return Desk(example.input, example.weights).output(module, example.needed + flags);
    };
    Numbers numbers(6);
    const FeedForwardWeights fed = random_feed_forward(numbers, 4, 3);
    const LayerNormWeights norm = random_norm(numbers, 4);
    const EncoderOptions two_heads{.attention = {.heads = 2}};
    CHECK(equal(output_of("multi-head-attention"),
                to_array(multi_head_attention(tokens(), heads_of_four(), {.heads = 2}).output)));
    CHECK(equal(output_of("feed-forward"), to_array(feed_forward(tokens(), fed))));
    CHECK(equal(output_of("layer-norm"), to_array(layer_norm(tokens(), norm))));
    CHECK(equal(output_of("encoder-layer"), to_array(encoder_layer(tokens(), stack_of(1).layers[0], two_heads))));
    CHECK(equal(output_of("encoder"), to_array(encoder(tokens(), stack_of(2), two_heads))));
    const DecoderOptions two_decoding{.attention = {.heads = 2}};
    CHECK(equal(output_of("decoder-layer"),
                to_array(decoder_layer(tokens(), memory_tokens(), whole_of(1).decoder.layers[0], two_decoding))));
    CHECK(equal(output_of("decoder"), to_array(decoder(tokens(), memory_tokens(), whole_of(2).decoder, two_decoding))));
    CHECK(equal(output_of("transformer"), to_array(transformer(memory_tokens(), tokens(), whole_of(2), {.heads = 2}))));
    CHECK(equal(output_of("talking-heads-attention"),
                to_array(talking_heads_attention(tokens(), talking_heads_of_four()).output)));
    const NamedArrays nine = as_many_keys_as_queries();
    CHECK(equal(output_of("restricted-attention"),
                to_array(restricted_attention(
                             from_array<Matrix>(nine.at("queries")), from_array<Matrix>(nine.at("keys")),
                             from_array<Matrix>(nine.at("values")), {.neighbourhood = {.radius = 1, .stride = 4}})
                             .context)));
    const NamedArrays given = queries_keys_values();
    const Matrix queries = from_array<Matrix>(given.at("queries"));
    const Matrix keys = from_array<Matrix>(given.at("keys"));
    const Matrix values = from_array<Matrix>(given.at("values"));
    CHECK(equal(output_of("attention"), to_array(scaled_dot_product_attention(queries, keys, values).context)));

    const auto by_score = [&](const std::string& score, const Words& names) {
        return Desk(given, score_weights(names)).output("attention", {"--score", score});
    };
    const auto matrix = [](const char* name) { return from_array<Matrix>(score_weights().at(name)); };
    const Vector score = from_array<Vector>(score_weights().at("score_weights"));
    CHECK(equal(output_of("attention", {"--score", "dot"}),
                to_array(dot_product_attention(queries, keys, values).context)));
    CHECK(equal(
        by_score("additive", {"query_weights", "key_weights", "score_weights"}),
        to_array(additive_attention(queries, keys, values, {matrix("query_weights"), matrix("key_weights"), score})
                     .context)));
    CHECK(equal(by_score("concatenated", {"hidden_weights", "score_weights"}),
                to_array(concatenated_attention(queries, keys, values, {matrix("hidden_weights"), score}).context)));
    CHECK(equal(by_score("bilinear", {"bilinear_weights"}),
                to_array(bilinear_attention(queries, keys, values, matrix("bilinear_weights")).context)));
}

TEST_CASE("attn run takes a batch wherever it takes a sequence", "[cli][run][batch]")
{
    for (Example example : examples_of_tokens()) {
        CAPTURE(example.module);
        NamedArrays batched;
        for (const auto& [name, array] : example.input) {
            Array twice = array;
            twice.shape.insert(twice.shape.begin(), 2);
            for (const double value : array.values)
                twice.values.push_back(-value);
            batched[name] = twice;
        }
        const Array alone = Desk(example.input, example.weights).output(example.module, example.needed);
        const Desk desk(batched, example.weights);
        const Array both = desk.output(example.module, example.needed);
        REQUIRE(both.shape == Shape{2, alone.shape[0], alone.shape[1]});
        for (std::size_t i = 0; i < alone.size(); ++i)
            CHECK(std::abs(both.values[i] - alone.values[i]) < 1e-12);
        CHECK(run({"attn", "verify", desk / "t.npz"}).code == 0);
    }
}

TEST_CASE("two runs of attn write the same bytes, on the screen too", "[cli][run]")
{
    for (const Example& example : examples()) {
        CAPTURE(example.module);
        const Desk desk(example.input, example.weights);
        const Ended first = desk.run_module(example.module, example.needed + Words{"--trace", desk / "a.npz"});
        const Ended second = desk.run_module(example.module, example.needed + Words{"--trace", desk / "b.npz"});
        CHECK(first.output == second.output);
        CHECK(bytes_of(desk / "a.npz") == bytes_of(desk / "b.npz"));
        CHECK_FALSE(bytes_of(desk / "a.npz").empty());
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
        const Ended without = desk.run_module(example.module, example.needed);
        CHECK(without.code == 2);
        CHECK_THAT(without.errors, ContainsSubstring("other.weight (1,) is not expected"));
        const Ended wrong = desk.run_module(example.module, example.needed + Words{"--prefix", "encoder."});
        CHECK(wrong.code == 2);
        CHECK_THAT(wrong.errors, ContainsSubstring("large.safetensors") && ContainsSubstring("\"encoder.\""));
    }
}

// --------------------------------------------------------------------------------------------------------------- flags

TEST_CASE("every flag of attn run changes what comes out", "[cli][run]")
{
    const auto [module, base, flags] = GENERATE(table<std::string, Words, Words>({
        {"attention", {}, {"--score", "dot"}},
        {"attention", {"--score", "dot"}, {"--score", "dot", "--normalization", "none"}},
        {"attention", {}, {"--scale", "2"}},
        {"attention", {}, {"--mask", "causal"}},
        {"attention", {"--mask", "causal"}, {"--mask", "causal-top-left"}},
        {"multi-head-attention", {"--heads", "2"}, {"--heads", "1"}},
        {"multi-head-attention", {"--heads", "2"}, {"--heads", "2", "--scale", "0.1"}},
        {"multi-head-attention", {"--heads", "2"}, {"--heads", "2", "--mask", "causal"}},
        {"multi-head-attention", {"--heads", "2"}, {"--heads", "2", "--positions", "alibi"}},
        {"multi-head-attention", {"--heads", "1"}, {"--heads", "1", "--positions", "rotary"}},
        {"multi-head-attention",
         {"--heads", "1", "--positions", "rotary"},
         {"--heads", "1", "--positions", "rotary", "--rotary-base", "3"}},
        {"multi-head-attention",
         {"--heads", "1", "--positions", "rotary"},
         {"--heads", "1", "--positions", "rotary", "--rotary-layout", "halves"}},
        {"feed-forward", {}, {"--activation", "gelu"}},
        {"feed-forward", {"--activation", "gelu"}, {"--activation", "gelu-tanh"}},
        {"layer-norm", {}, {"--epsilon", "0.5"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "4"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "2", "--scale", "0.1"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "2", "--mask", "causal"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "2", "--positions", "rotary"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "2", "--norm", "pre"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "2", "--activation", "gelu"}},
        {"encoder-layer", {"--heads", "2"}, {"--heads", "2", "--epsilon", "0.5"}},
        {"encoder", {"--heads", "2"}, {"--heads", "2", "--norm", "pre"}},
        {"encoder", {"--heads", "2"}, {"--heads", "2", "--activation", "gelu-tanh"}},
        {"encoder", {"--heads", "2"}, {"--heads", "2", "--epsilon", "0"}},
        {"encoder", {"--heads", "2"}, {"--heads", "2", "--mask", "causal"}},
        {"encoder", {"--heads", "2"}, {"--heads", "2", "--positions", "alibi"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "4"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "2", "--scale", "0.1"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "2", "--mask", "causal"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "2", "--positions", "rotary"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "2", "--norm", "pre"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "2", "--activation", "gelu"}},
        {"decoder-layer", {"--heads", "2"}, {"--heads", "2", "--epsilon", "0.5"}},
        {"decoder", {"--heads", "2"}, {"--heads", "2", "--mask", "causal"}},
        {"decoder", {"--heads", "2"}, {"--heads", "2", "--norm", "pre"}},
        {"decoder", {"--heads", "2"}, {"--heads", "2", "--final-epsilon", "0.5"}},
        {"transformer", {"--heads", "2"}, {"--heads", "4"}},
        {"transformer", {"--heads", "2"}, {"--heads", "2", "--mask", "causal"}},
        {"transformer", {"--heads", "2"}, {"--heads", "2", "--norm", "pre"}},
        {"transformer", {"--heads", "2"}, {"--heads", "2", "--activation", "gelu-tanh"}},
        {"transformer", {"--heads", "2"}, {"--heads", "2", "--epsilon", "0.5"}},
        {"transformer", {"--heads", "2"}, {"--heads", "2", "--final-epsilon", "0.5"}},
        {"restricted-attention", {"--radius", "1"}, {"--radius", "2"}},
        {"restricted-attention", {"--radius", "1"}, {"--radius", "1", "--stride", "4"}},
        {"restricted-attention", {"--stride", "4"}, {"--stride", "3"}},
        {"restricted-attention", {"--radius", "1"}, {"--radius", "1", "--scale", "2"}},
        {"restricted-attention", {"--radius", "1"}, {"--radius", "1", "--mask", "causal"}},
        {"talking-heads-attention", {}, {"--scale", "2"}},
        {"talking-heads-attention", {}, {"--mask", "causal"}},
        {"gru", {}, {"--reset", "before"}},
    }));
    const Example example = example_of(module);
    CAPTURE(example.module, flags);
    const Desk desk(example.input, example.weights);
    const Array before = desk.output(example.module, base);
    const Array after = desk.output(example.module, flags);
    CHECK(before.shape == after.shape);
    CHECK_FALSE(equal(before, after));
    CHECK(run({"attn", "verify", desk / "t.npz"}).code == 0);
}

TEST_CASE("the flags of attn run mean what the library's options mean", "[cli][run]")
{
    const Example heads = example_of("multi-head-attention");
    const Desk attention(heads.input, heads.weights);
    CHECK(
        equal(attention.output(heads.module, {"--heads", "2", "--scale", "0.3", "--positions", "rotary",
                                              "--rotary-base", "50", "--rotary-layout", "halves", "--mask", "causal"}),
              to_array(multi_head_attention(tokens(), heads_of_four(),
                                            {.heads = 2,
                                             .mask = causal_mask(3, 3),
                                             .scale = 0.3,
                                             .positions = HeadPositions::rotary,
                                             .rotary = {.base = 50, .layout = RotaryLayout::halves}})
                           .output)));
    const Example encoders = example_of("encoder");
    const Desk stack(encoders.input, encoders.weights);
    CHECK(equal(stack.output("encoder", {"--heads", "2", "--norm", "pre", "--activation", "gelu", "--epsilon", "1e-3",
                                         "--positions", "alibi", "--layers", "2"}),
                to_array(encoder(tokens(), stack_of(2),
                                 {.attention = {.heads = 2, .positions = HeadPositions::alibi},
                                  .feed_forward = {Activation::gelu},
                                  .norm = {1e-3},
                                  .placement = NormPlacement::pre}))));
}

TEST_CASE("attn run wants to know who is a neighbour, and takes no weights where nothing is learned", "[cli][run]")
{
    const Example example = example_of("restricted-attention");
    const Desk desk(example.input, {});
    CHECK_THAT(desk.refusal(example.module), ContainsSubstring("Give --radius, --stride, or both"));
    CHECK_THAT(desk.refusal(example.module, {"--radius", "1", "--weights", "w.npz"}), ContainsSubstring("--weights"));
    CHECK_THAT(desk.refusal(example.module, {"--stride", "0"}), ContainsSubstring("--stride"));
    CHECK_THAT(desk.refusal(example.module, {"--radius", "-1"}), ContainsSubstring("--radius"));
    CHECK_THAT(Desk(queries_keys_values(), {}).input_refusal(example.module, {"--radius", "1"}),
               ContainsSubstring("queries (2, 4) and keys (3, 4) must agree in n"));
}

TEST_CASE("defaults of attn run, spelled out, change nothing", "[cli][run]")
{
    const std::map<std::string, Words> spelled{
        {"attention", {"--score", "scaled", "--normalization", "softmax"}},
        {"multi-head-attention", {"--positions", "none"}},
        {"feed-forward", {"--activation", "relu"}},
        {"layer-norm", {"--epsilon", "1e-5"}},
        {"encoder-layer", {"--norm", "post", "--activation", "relu", "--epsilon", "1e-5", "--positions", "none"}},
        {"encoder", {"--norm", "post", "--layers", "2"}},
        {"decoder-layer", {"--norm", "post", "--activation", "relu", "--epsilon", "1e-5", "--positions", "none"}},
        {"decoder", {"--norm", "post", "--layers", "2"}},
        {"transformer", {"--norm", "post", "--layers", "2", "--epsilon", "1e-5"}},
        {"restricted-attention", {"--scale", "0.5"}}, // the root of 4 features
        {"talking-heads-attention", {"--scale", "0.7071067811865475"}},
        {"gru", {"--reset", "after"}},
        {"lstm", {}},
        {"llama", {"--rotary-layout", "halves", "--rotary-base", "10000", "--epsilon", "1e-5"}},
        {"keras-attention", {"--penalty", "1e10"}}};
    for (const Example& example : examples()) {
        CAPTURE(example.module);
        const Desk desk(example.input, example.weights);
        CHECK(equal(desk.output(example.module, example.needed),
                    desk.output(example.module, example.needed + spelled.at(example.module))));
    }
}

TEST_CASE("attn run refuses a flag of another module, and names it", "[cli][run]")
{
    const Words values{"--score",       "dot",    "--normalization", "none",   "--scale",      "2",
                       "--mask",        "causal", "--heads",         "2",      "--positions",  "rotary",
                       "--rotary-base", "100",    "--rotary-layout", "halves", "--activation", "gelu",
                       "--epsilon",     "1e-3",   "--norm",          "pre",    "--layers",     "2",
                       "--reset",       "before"};
    const std::map<std::string, Words> taken{
        {"attention", {"--score", "--normalization", "--scale", "--mask"}},
        {"multi-head-attention", {"--heads", "--scale", "--mask", "--positions", "--rotary-base", "--rotary-layout"}},
        {"feed-forward", {"--activation"}},
        {"layer-norm", {"--epsilon"}},
        {"encoder-layer",
         {"--heads", "--scale", "--mask", "--positions", "--rotary-base", "--rotary-layout", "--activation",
          "--epsilon", "--norm"}},
        {"encoder",
         {"--heads", "--scale", "--mask", "--positions", "--rotary-base", "--rotary-layout", "--activation",
          "--epsilon", "--norm", "--layers"}},
        {"decoder-layer",
         {"--heads", "--scale", "--mask", "--positions", "--rotary-base", "--rotary-layout", "--activation",
          "--epsilon", "--norm"}},
        {"decoder",
         {"--heads", "--scale", "--mask", "--positions", "--rotary-base", "--rotary-layout", "--activation",
          "--epsilon", "--norm", "--layers"}},
        {"transformer", {"--heads", "--mask", "--activation", "--epsilon", "--norm", "--layers"}},
        {"restricted-attention", {"--scale", "--mask"}},
        {"talking-heads-attention", {"--scale", "--mask"}},
        {"gru", {"--reset"}},
        {"lstm", {}},
        {"llama", {"--heads", "--rotary-base", "--rotary-layout", "--epsilon"}},
        {"keras-attention", {"--heads"}}};
    for (const Example& example : examples()) {
        const Desk desk(example.input, example.weights);
        const Words& own = taken.at(example.module);
        for (std::size_t i = 0; i < values.size(); i += 2) {
            if (std::ranges::find(own, values[i]) != own.end())
                continue;
            CHECK_THAT(desk.refusal(example.module, example.needed + Words{values[i], values[i + 1]}),
                       ContainsSubstring(values[i]));
        }
        if (example.module != "multi-head-attention")
            CHECK_THAT(desk.refusal(example.module, example.needed + Words{"--without-output-map"}),
                       ContainsSubstring("--without-output-map"));
    }
}

TEST_CASE("attn run refuses a value that no flag has, and names flag and value", "[cli][run]")
{
    const auto [module, flag, value] = GENERATE(table<std::string, std::string, std::string>({
        {"attention", "--score", "cosine"},
        {"attention", "--normalization", "sparsemax"},
        {"attention", "--mask", "anticausal"},
        {"attention", "--scale", "much"},
        {"multi-head-attention", "--positions", "learned"},
        {"multi-head-attention", "--rotary-layout", "thirds"},
        {"multi-head-attention", "--rotary-base", "0"},
        {"multi-head-attention", "--rotary-base", "-1"},
        {"feed-forward", "--activation", "swish"},
        {"layer-norm", "--epsilon", "-1"},
        {"encoder-layer", "--norm", "both"},
        {"encoder", "--layers", "0"},
        {"encoder", "--layers", "-1"},
        {"gru", "--reset", "both"},
        {"layer-norm", "--precision", "18"},
        {"layer-norm", "--color", "sometimes"},
    }));
    const Example example = example_of(module);
    const Desk desk(example.input, example.weights);
    const std::string message = desk.refusal(example.module, example.needed + Words{flag, value});
    CHECK_THAT(message, ContainsSubstring(flag));
}

TEST_CASE("attn run refuses a number that is none, where it is an option's", "[cli][run][hostile]")
{
    const std::string value = GENERATE(as<std::string>{}, "nan", "inf", "-inf", "1e999");
    CAPTURE(value);
    const Example heads = example_of("multi-head-attention");
    const Desk desk(heads.input, heads.weights);
    desk.refusal("multi-head-attention", {"--heads", "2", "--scale", value});
    desk.refusal("multi-head-attention", {"--heads", "2", "--positions", "rotary", "--rotary-base", value});
    const Example norm = example_of("layer-norm");
    const Desk other(norm.input, norm.weights);
    other.refusal("layer-norm", {"--epsilon", value});
}

TEST_CASE("attn run refuses options that contradict each other", "[cli][run]")
{
    Numbers numbers(8);
    NamedArrays given = queries_keys_values();
    const Desk plain(given, {});
    CHECK_THAT(plain.input_refusal("attention", {"--normalization", "none"}), ContainsSubstring("always normalised"));
    CHECK_THAT(plain.input_refusal("attention", {"--score", "dot", "--scale", "2"}),
               ContainsSubstring("only the scaled score takes a scale"));
    given["bias"] = to_array(numbers.matrix(2, 3));
    const Desk biased(given, {});
    CHECK_THAT(biased.input_refusal("attention", {"--score", "dot"}), ContainsSubstring("a bias"));
    Example heads = example_of("multi-head-attention");
    heads.input["bias"] = to_array(numbers.matrix(3, 3));
    const Desk alibi(heads.input, heads.weights);
    CHECK_THAT(alibi.input_refusal(heads.module, {"--heads", "2", "--positions", "alibi"}), ContainsSubstring("ALiBi"));
}

TEST_CASE("attn run's heads have to share out the weights evenly, and be asked for", "[cli][run]")
{
    for (const std::string module : {"multi-head-attention", "encoder-layer", "encoder"}) {
        const Example example = example_of(module);
        const Desk desk(example.input, example.weights);
        CHECK_THAT(desk.refusal(module, {"--heads", "3"}), ContainsSubstring("to 3 heads"));
        CHECK_THAT(desk.refusal(module), ContainsSubstring("--heads"));
        CHECK_THAT(desk.refusal(module, {"--heads", "0"}), ContainsSubstring("--heads"));
        CHECK_THAT(desk.refusal(module, {"--heads", "two"}), ContainsSubstring("--heads"));
        CHECK_THAT(desk.refusal(module, {"--heads", "4", "--positions", "rotary"}),
                   ContainsSubstring("1 features do not make pairs"));
    }
}

TEST_CASE("attn run's heads may stay side by side", "[cli][run]")
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
}

TEST_CASE("attn run prints as many digits and colours as asked for", "[cli][run]")
{
    const Example example = example_of("layer-norm");
    const Desk desk(example.input, example.weights);
    const std::string few = desk.run_module("layer-norm", {"--precision", "1"}).output;
    const std::string many = desk.run_module("layer-norm", {"--precision", "12"}).output;
    CHECK(few.size() < many.size());
    CHECK(few.find('\x1b') == std::string::npos);
    CHECK_THAT(desk.run_module("layer-norm", {"--color", "always"}).output, ContainsSubstring("\x1b["));
    const Ended quiet = desk.run_module("layer-norm", {"--quiet"});
    CHECK(quiet.code == 0);
    CHECK(quiet.output.empty());
    CHECK(quiet.errors.empty());
}

// -------------------------------------------------------------------------------------------------------------- inputs

TEST_CASE("attn run attends to a memory where there is one, and makes values of another", "[cli][run][cross]")
{
    Numbers numbers(10);
    const Matrix memory = numbers.matrix(5, 6);
    const Matrix value_memory = numbers.matrix(5, 2);
    const MultiHeadWeights cross = random_heads(numbers, {4, 4, 4, 6, 6});
    const MultiHeadWeights general = random_heads(numbers, {4, 4, 4, 6, 2});
    Desk desk({{"x", to_array(tokens())}, {"memory", to_array(memory)}}, state_dict(cross));
    CHECK(equal(desk.output("multi-head-attention", {"--heads", "2"}),
                to_array(multi_head_attention(tokens(), memory, cross, {.heads = 2}).output)));
    CHECK(run({"attn", "verify", desk / "t.npz"}).code == 0);
    const Desk other(
        {{"x", to_array(tokens())}, {"memory", to_array(memory)}, {"value_memory", to_array(value_memory)}},
        state_dict(general));
    CHECK(equal(
        other.output("multi-head-attention", {"--heads", "2", "--mask", "causal"}),
        to_array(multi_head_attention(tokens(), memory, value_memory, general, {.heads = 2, .mask = causal_mask(3, 5)})
                     .output)));
    CHECK(run({"attn", "verify", other / "t.npz"}).code == 0);
    const Desk lonely({{"x", to_array(tokens())}, {"value_memory", to_array(value_memory)}}, state_dict(general));
    CHECK_THAT(lonely.input_refusal("multi-head-attention", {"--heads", "2"}), ContainsSubstring("value_memory"));
}

TEST_CASE("attn run joins the input's mask and lengths and the flag's", "[cli][run][mask]")
{
    Numbers numbers(11);
    const Mask one = numbers.mask(3, 3);
    BatchMask own(BatchMask::shape_type{2, 3, 3});
    for (bool& allowed : own)
        allowed = numbers.number() < 1;
    const EncoderLayerWeights weights = stack_of(1).layers[0];
    for (const AnyMask& mask : {AnyMask(one), AnyMask(own)}) {
        const Array array = std::visit([](const auto& any) { return to_array(any); }, mask);
        const Desk desk({{"x", to_array(batch())}, {"mask", array}, {"lengths", {{2}, {3, 1}, ElementType::integer}}},
                        state_dict(weights));
        const auto joined = join_masks(3, 3, {mask, Causal::bottom_right, {3, 1}});
        CHECK(equal(desk.output("encoder-layer", {"--heads", "2", "--mask", "causal"}),
                    to_array(encoder_layer(batch(), weights, {.attention = {.heads = 2, .mask = joined}}))));
        CHECK(run({"attn", "verify", desk / "t.npz"}).code == 0);
        const auto narrower = join_masks(3, 3, {.given = mask, .key_lengths = {3, 1}});
        CHECK(equal(desk.output("encoder-layer", {"--heads", "2"}),
                    to_array(encoder_layer(batch(), weights, {.attention = {.heads = 2, .mask = narrower}}))));
    }
}

TEST_CASE("a bias of attn run is added to the scores, and may forbid with minus infinity", "[cli][run]")
{
    NamedArrays given = queries_keys_values();
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    given["bias"] = {{2, 3}, {0, 1, minus_infinity, -1, 0, 0}};
    const Desk desk(given, {});
    const Matrix bias{{0, 1, minus_infinity}, {-1, 0, 0}};
    CHECK(equal(
        desk.output("attention"),
        to_array(scaled_dot_product_attention(from_array<Matrix>(given["queries"]), from_array<Matrix>(given["keys"]),
                                              from_array<Matrix>(given["values"]), {.bias = bias})
                     .context)));
    CHECK(run({"attn", "verify", desk / "t.npz"}).code == 0);
    given["bias"].values[0] = -minus_infinity;
    CHECK_THAT(Desk(given, {}).input_refusal("attention"), ContainsSubstring("bias at (0, 0) is inf"));
}

TEST_CASE("attn run says which inputs are missing, and which a module does not take", "[cli][run]")
{
    NamedArrays given = queries_keys_values();
    given.erase("keys");
    given.erase("values");
    CHECK_THAT(Desk(given, {}).input_refusal("attention"),
               ContainsSubstring("\n  keys is missing\n  values is missing\n") && ContainsSubstring("((b,) m, d_k)"));
    for (const Example& example : examples()) {
        if (example.module == "attention")
            continue;
        CHECK_THAT(
            Desk({{"tokens", to_array(tokens())}}, example.weights).input_refusal(example.module, example.needed),
            ContainsSubstring(first_input_of(example) + " is missing"));
    }
    Example fed = example_of("feed-forward");
    fed.input["mask"] = masked({3, 3}, std::vector<double>(9, 1));
    CHECK_THAT(Desk(fed.input, fed.weights).input_refusal("feed-forward"), ContainsSubstring("mask is not taken"));
    Example encoders = example_of("encoder");
    encoders.input["memory"] = to_array(tokens());
    CHECK_THAT(Desk(encoders.input, encoders.weights).input_refusal("encoder", encoders.needed),
               ContainsSubstring("memory is not taken"));
}

TEST_CASE("arrays of names that nobody knows are ignored, so a trace will do for an input", "[cli][run]")
{
    Example example = example_of("layer-norm");
    const Array expected = Desk(example.input, example.weights).output("layer-norm");
    example.input["labels"] = {{1}, {std::nan("")}};
    CHECK(equal(Desk(example.input, example.weights).output("layer-norm"), expected));
}

TEST_CASE("attn run refuses an input of another rank", "[cli][run]")
{
    for (const Shape& shape : {Shape{}, Shape{12}, Shape{1, 1, 3, 4}}) {
        const Array array{shape, std::vector<double>(element_count(shape), 1)};
        for (const Example& example : examples_of_tokens()) {
            NamedArrays input = example.input;
            const std::string name = first_input_of(example);
            input[name] = array;
            CHECK_THAT(Desk(input, example.weights).input_refusal(example.module, example.needed),
                       ContainsSubstring(name + " has the shape " + to_string(shape)));
        }
    }
    NamedArrays given = queries_keys_values();
    given["keys"].shape = {1, 3, 4};
    CHECK_THAT(Desk(given, {}).input_refusal("attention"), ContainsSubstring("keys: "));
    given = queries_keys_values();
    given["bias"] = {{1, 2, 3}, std::vector<double>(6, 0)};
    CHECK_THAT(Desk(given, {}).input_refusal("attention"), ContainsSubstring("bias: "));
}

TEST_CASE("attn run refuses inputs that are not finite, not numbers, or not there", "[cli][run]")
{
    for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
        for (const Example& example : examples_of_tokens())
            for (const auto& [name, array] : example.input) {
                NamedArrays input = example.input;
                input[name].values[5] = value;
                CHECK_THAT(Desk(input, example.weights).input_refusal(example.module, example.needed),
                           ContainsSubstring(name + " at (1, ") && ContainsSubstring("expected finite numbers"));
            }
    Example norm = example_of("layer-norm");
    norm.input["x"] = masked({1, 4}, {1, 0, 1, 0});
    CHECK_THAT(Desk(norm.input, norm.weights).input_refusal("layer-norm"), ContainsSubstring("x holds booleans"));
    norm.input["x"] = {{0, 4}, {}};
    CHECK_THAT(Desk(norm.input, norm.weights).input_refusal("layer-norm"), ContainsSubstring("x has the shape (0, 4)"));
}

TEST_CASE("attn run refuses a mask of numbers, and one that does not fit", "[cli][run][mask]")
{
    for (const std::string module : {"attention", "multi-head-attention", "encoder-layer", "encoder"}) {
        Example example = example_of(module);
        const Shape pairs = module == "attention" ? Shape{2, 3} : Shape{3, 3};
        const std::size_t count = element_count(pairs);
        for (const ElementType type : {ElementType::real, ElementType::integer}) {
            example.input["mask"] = {pairs, std::vector<double>(count, 1), type};
            CHECK_THAT(Desk(example.input, example.weights).input_refusal(module, example.needed),
                       ContainsSubstring("mask: "));
        }
        example.input["mask"] = masked({4, 4}, std::vector<double>(16, 1));
        CHECK_THAT(Desk(example.input, example.weights).input_refusal(module, example.needed),
                   ContainsSubstring("mask (4, 4)"));
        example.input["mask"] = masked({1, pairs[0], pairs[1]}, std::vector<double>(count, 1));
        CHECK_THAT(Desk(example.input, example.weights).input_refusal(module, example.needed),
                   ContainsSubstring("mask (1, "));
        example.input["mask"] = masked({count}, std::vector<double>(count, 1));
        CHECK_THAT(Desk(example.input, example.weights).input_refusal(module, example.needed),
                   ContainsSubstring("mask: "));
    }
}

TEST_CASE("attn run refuses lengths of a single sequence, too long, not whole or too many", "[cli][run][mask]")
{
    for (const std::string module : {"attention", "multi-head-attention", "encoder-layer", "encoder"}) {
        CAPTURE(module);
        Example example = example_of(module);
        example.input["lengths"] = {{1}, {2}, ElementType::integer};
        CHECK_THAT(Desk(example.input, example.weights).input_refusal(module, example.needed),
                   ContainsSubstring("lengths") && ContainsSubstring("only one sequence"));
        for (auto& [name, array] : example.input)
            if (name != "lengths")
                array.shape.insert(array.shape.begin(), 1);
        const auto refusal_of = [&](const Array& lengths) {
            example.input["lengths"] = lengths;
            return Desk(example.input, example.weights).input_refusal(module, example.needed);
        };
        CHECK_THAT(refusal_of({{1}, {4}, ElementType::integer}),
                   ContainsSubstring("lengths[0] is 4, expected at most"));
        CHECK_THAT(refusal_of({{1}, {-1}, ElementType::integer}), ContainsSubstring("lengths holds -1"));
        CHECK_THAT(refusal_of({{1}, {1.5}}), ContainsSubstring("lengths holds 1.5"));
        CHECK_THAT(refusal_of({{1}, {std::nan("")}}), ContainsSubstring("lengths") && ContainsSubstring("nan"));
        CHECK_THAT(refusal_of({{2}, {1, 1}}), ContainsSubstring("lengths has the shape (2,)"));
        CHECK_THAT(refusal_of({{1, 1}, {1}}), ContainsSubstring("lengths has the shape (1, 1)"));
        CHECK_THAT(refusal_of({{}, {1}}), ContainsSubstring("lengths has the shape ()"));
        CHECK_THAT(refusal_of({{0}, {}}), ContainsSubstring("lengths has the shape (0,)"));
    }
}

TEST_CASE("attn run refuses inputs that disagree, and says in what", "[cli][run]")
{
    Numbers numbers(12);
    NamedArrays given = queries_keys_values();
    given["values"] = to_array(numbers.matrix(4, 5));
    CHECK_THAT(Desk(given, {}).input_refusal("attention"), ContainsSubstring("must agree in m"));
    given = queries_keys_values();
    given["queries"] = to_array(numbers.matrix(2, 3));
    CHECK_THAT(Desk(given, {}).input_refusal("attention"), ContainsSubstring("must agree in d_k"));
    const Desk batches({{"queries", to_array(numbers.tensor3(2, 1, 3))},
                        {"keys", to_array(numbers.tensor3(3, 1, 3))},
                        {"values", to_array(numbers.tensor3(3, 1, 3))}},
                       {});
    CHECK_THAT(batches.input_refusal("attention"), ContainsSubstring("must agree in b"));
    const Desk learned({{"queries", to_array(numbers.tensor3(2, 1, 4))},
                        {"keys", to_array(numbers.tensor3(2, 1, 4))},
                        {"values", to_array(numbers.tensor3(2, 1, 4))}},
                       score_weights());
    CHECK_THAT(learned.input_refusal("attention", {"--score", "bilinear"}), ContainsSubstring("not a batch"));
}

// ------------------------------------------------------------------------------------------------------ weights, files

TEST_CASE("attn run says which weights do not fit, and in which file", "[cli][run]")
{
    Example example = example_of("encoder-layer");
    example.weights["self_attn.in_proj_weight"] = {{12, 5}, std::vector<double>(60, 1)};
    example.weights.erase("norm1.bias");
    const Desk desk(example.input, example.weights);
    CHECK(desk.refusal("encoder-layer", example.needed) ==
          "attn: run: " + (desk / "w.npz").string() +
              ": 2 tensors do not fit an encoder layer with d_model 4:\n"
              "  self_attn.in_proj_weight is (12, 5), expected (3*d_model, d_model) = (12, 4)\n"
              "  norm1.bias is missing\n");
    const Example stack = example_of("encoder");
    CHECK_THAT(Desk(stack.input, stack.weights).refusal("encoder", {"--heads", "2", "--layers", "3"}),
               ContainsSubstring("layers.2.linear1.weight is missing"));
    CHECK_THAT(Desk(stack.input, stack.weights).refusal("encoder", {"--heads", "2", "--layers", "1"}),
               ContainsSubstring("layers.1.linear1.weight (3, 4) is not expected"));
}

TEST_CASE("a learned score of attn run wants its weights, finite and of its shapes", "[cli][run]")
{
    const Desk without(queries_keys_values(), {});
    CHECK_THAT(without.refusal("attention", {"--score", "additive"}), ContainsSubstring("query_weights"));
    NamedArrays weights = score_weights();
    weights.erase("score_weights");
    CHECK_THAT(Desk(queries_keys_values(), weights).refusal("attention", {"--score", "concatenated"}),
               ContainsSubstring("w.npz") && ContainsSubstring("score_weights"));
    weights = score_weights();
    weights["bilinear_weights"] = {{16}, std::vector<double>(16, 1)};
    CHECK_THAT(Desk(queries_keys_values(), weights).refusal("attention", {"--score", "bilinear"}),
               ContainsSubstring("w.npz") && ContainsSubstring("bilinear_weights"));
    weights["bilinear_weights"] = {{3, 4}, std::vector<double>(12, 1)};
    CHECK_THAT(Desk(queries_keys_values(), weights).refusal("attention", {"--score", "bilinear"}),
               ContainsSubstring("(3, 4)"));
    weights["bilinear_weights"] = {{4, 4}, std::vector<double>(16, std::nan(""))};
    CHECK_THAT(Desk(queries_keys_values(), weights).refusal("attention", {"--score", "bilinear"}),
               ContainsSubstring("bilinear_weights"));
}

TEST_CASE("attn run refuses files that are missing, damaged or of another kind, and names them", "[cli][run]")
{
    const Example example = example_of("layer-norm");
    const Desk desk(example.input, example.weights);
    put_bytes(desk / "text.npz", "hello");
    put_bytes(desk / "text.safetensors", "hello");
    put_bytes(desk / "model.pt", "PK");
    const std::string input = desk / "in.npz", weights = desk / "w.npz";
    const auto refusal_of = [&](const std::string& in, const std::string& from, const std::string& to) {
        const Ended ended =
            run({"attn", "run", "layer-norm", "--input", in, "--weights", from, "--trace", to, "--quiet"});
        CHECK(ended.code == 2);
        CHECK(ended.output.empty());
        CHECK(lines_in(ended.errors) == 1);
        CHECK_FALSE(std::filesystem::exists(desk / "t.npz"));
        return ended.errors;
    };
    const std::string trace = desk / "t.npz";
    for (const std::string name : {"text.npz", "missing.npz"}) {
        CHECK_THAT(refusal_of(desk / name, weights, trace), ContainsSubstring(name));
        CHECK_THAT(refusal_of(input, desk / name, trace), ContainsSubstring(name));
    }
    for (const std::string name : {"text.safetensors", "missing.safetensors", "model.pt", "missing"})
        CHECK_THAT(refusal_of(input, desk / name, trace), ContainsSubstring((desk / name).string()));
    CHECK_THAT(refusal_of(desk / "w.safetensors", weights, trace), ContainsSubstring("w.safetensors"));
    CHECK_THAT(refusal_of(input, weights, desk / "no/folder/t.npz"), ContainsSubstring("no/folder/t.npz"));
    CHECK(std::filesystem::exists(input));
}

TEST_CASE("attn run without a module, with another one or without its files is wrong usage", "[cli][run]")
{
    const auto refusal_of = [](const Words& words) {
        const Ended ended = run(Words{"attn", "run"} + words);
        CHECK(ended.code == 2);
        CHECK(ended.output.empty());
        CHECK_THAT(ended.errors, ContainsSubstring("attn: ") && ContainsSubstring(" --help"));
        return ended.errors;
    };
    CHECK_THAT(refusal_of({}), ContainsSubstring("which module?"));
    CHECK_THAT(refusal_of({"decoder-of-dreams"}), ContainsSubstring("decoder-of-dreams"));
    CHECK_THAT(refusal_of({"layer_norm", "--input", "x.npz"}), ContainsSubstring("layer_norm"));
    CHECK_THAT(refusal_of({"layer-norm", "--weights", "w.npz"}), ContainsSubstring("--input"));
    CHECK_THAT(refusal_of({"layer-norm", "--input", "x.npz"}), ContainsSubstring("--weights"));
    CHECK_THAT(refusal_of({"layer-norm", "--input", "x.npz", "--weights"}), ContainsSubstring("--weights"));
    refusal_of({"layer-norm", "feed-forward"});
}

TEST_CASE("attn run refuses a flag that nobody would hear", "[cli][run]")
{
    const Example heads = example_of("encoder-layer");
    const Desk desk(heads.input, heads.weights);
    CHECK_THAT(desk.refusal("encoder-layer", heads.needed + Words{"--rotary-base", "100"}),
               ContainsSubstring("--positions rotary"));
    CHECK_THAT(desk.refusal("encoder-layer", heads.needed + Words{"--rotary-layout", "halves"}),
               ContainsSubstring("--positions rotary"));

    const Example plain = example_of("attention");
    CHECK_THAT(Desk(plain.input, score_weights()).refusal("attention"), ContainsSubstring("no weights to take"));
    CHECK_THAT(Desk(plain.input, plain.weights).refusal("attention", {"--prefix", "a."}),
               ContainsSubstring("--weights"));
}

TEST_CASE("attn run does not write its trace over what it reads", "[cli][run]")
{
    const TemporaryFolder folder;
    const Example example = example_of("layer-norm");
    write_npz(folder / "in.npz", {{}, {example.input.begin(), example.input.end()}, {}});
    write_weights(folder / "w.npz", example.weights);
    for (const std::string name : {"in.npz", "w.npz"}) {
        const std::string before = bytes_of(folder / name);
        const Ended ended = run(Words{"attn", "run", "layer-norm", "--input", folder / "in.npz", "--weights",
                                      folder / "w.npz", "--trace", folder / name});
        CHECK(ended.code == 2);
        CHECK_THAT(ended.errors, ContainsSubstring("would replace") && ContainsSubstring(name));
        CHECK(bytes_of(folder / name) == before);
    }
}

TEST_CASE("the norm behind an encoder may have an epsilon of its own", "[cli][run]")
{
    NamedArrays weights = example_of("encoder").weights;
    weights["norm.weight"] = {{4}, {1, 1, 1, 1}};
    weights["norm.bias"] = {{4}, {0, 0, 0, 0}};
    const Desk desk(example_of("encoder").input, weights);
    const std::vector<Step> steps =
        desk.steps("encoder", example_of("encoder").needed + Words{"--final-epsilon", "0.5"});
    for (const Step& step : steps)
        if (step.path.ends_with(".normalized"))
            CHECK(step.formula.ends_with(step.path == "norm.normalized" ? " + 0.5)" : " + 1e-05)"));
}

// ------------------------------------------------------------------------------------------------------------- decoders

TEST_CASE("attn run keeps the masks of target, memory and source apart", "[cli][run][decoder][mask]")
{
    const Array given = masked({3, 5}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0});
    NamedArrays input = with_memory();
    input["memory_mask"] = given;
    const DecoderWeights weights = whole_of(2).decoder;
    DecoderOptions options{.attention = {.heads = 2, .mask = causal_mask(3, 3)},
                           .memory_mask = from_array<Mask>(given)};
    const Desk desk(input, state_dict(weights));
    CHECK(equal(desk.output("decoder", {"--heads", "2", "--mask", "causal"}),
                to_array(decoder(tokens(), memory_tokens(), weights, options))));

    NamedArrays both = source_and_target();
    both["memory_mask"] = given;
    both["target_mask"] = masked({3, 3}, {1, 0, 1, 1, 1, 0, 1, 1, 1});
    both["source_mask"] = masked({5, 5}, std::vector<double>(25, 1));
    both["source_mask"].values[7] = 0;
    const TransformerOptions all{.heads = 2,
                                 .source_mask = from_array<Mask>(both["source_mask"]),
                                 .target_mask = from_array<Mask>(both["target_mask"]),
                                 .memory_mask = from_array<Mask>(given)};
    const Desk whole(both, state_dict(whole_of(2)));
    CHECK(equal(whole.output("transformer", {"--heads", "2"}),
                to_array(transformer(memory_tokens(), tokens(), whole_of(2), all))));
    CHECK(run({"attn", "verify", whole / "t.npz"}).code == 0);
}

TEST_CASE("attn run pads target and memory, and nobody looks at the source's padding", "[cli][run][decoder][mask]")
{
    Numbers numbers(15);
    const Tensor3 target = numbers.tensor3(2, 3, 4), source = numbers.tensor3(2, 5, 4);
    const NamedArrays lengths{{"of_target", {{2}, {2, 3}}}, {"of_source", {{2}, {5, 1}}}};
    const auto padding = [](std::size_t n, std::size_t m, std::vector<std::size_t> real) {
        return join_masks(n, m, {.key_lengths = std::move(real)});
    };
    NamedArrays input{{"x", to_array(target)}, {"memory", to_array(source)}};
    input["lengths"] = lengths.at("of_target");
    input["memory_lengths"] = lengths.at("of_source");
    const DecoderOptions options{.attention = {.heads = 2, .mask = padding(3, 3, {2, 3})},
                                 .memory_mask = padding(3, 5, {5, 1})};
    const Desk desk(input, state_dict(whole_of(2).decoder));
    CHECK(equal(desk.output("decoder", {"--heads", "2"}),
                to_array(decoder(target, source, whole_of(2).decoder, options))));

    NamedArrays both{{"target", to_array(target)}, {"source", to_array(source)}};
    both["target_lengths"] = lengths.at("of_target");
    both["source_lengths"] = lengths.at("of_source");
    const TransformerOptions all{.heads = 2,
                                 .source_mask = padding(5, 5, {5, 1}),
                                 .target_mask = padding(3, 3, {2, 3}),
                                 .memory_mask = padding(3, 5, {5, 1})};
    const Desk whole(both, state_dict(whole_of(2)));
    CHECK(
        equal(whole.output("transformer", {"--heads", "2"}), to_array(transformer(source, target, whole_of(2), all))));
    CHECK(run({"attn", "verify", whole / "t.npz"}).code == 0);
}

TEST_CASE("attn run refuses masks and lengths of a memory that do not fit", "[cli][run][decoder][mask][hostile]")
{
    const NamedArrays weights = state_dict(whole_of(1).decoder.layers[0]);
    NamedArrays input = with_memory();
    input["memory_mask"] = masked({3, 3}, std::vector<double>(9, 1));
    CHECK_THAT(Desk(input, weights).input_refusal("decoder-layer", {"--heads", "2"}), ContainsSubstring("mask (3, 3)"));
    input = with_memory();
    input["memory_lengths"] = {{1}, {2}};
    CHECK_THAT(Desk(input, weights).input_refusal("decoder-layer", {"--heads", "2"}),
               ContainsSubstring("memory_lengths has the shape (1,)"));
    input = with_memory();
    input["memory"] = to_array(Numbers(16).tensor3(2, 5, 4));
    CHECK_THAT(Desk(input, weights).input_refusal("decoder-layer", {"--heads", "2"}), ContainsSubstring("memory"));
    input = with_memory();
    input["memory"] = to_array(Numbers(16).matrix(5, 3));
    CHECK_THAT(Desk(input, weights).input_refusal("decoder-layer", {"--heads", "2"}),
               ContainsSubstring("memory (5, 3)"));
}

// ---------------------------------------------------------------------------------------------------------- recurrence

TEST_CASE("attn run reads with a GRU and an LSTM, from states and to lengths where they are given",
          "[cli][run][recurrent]")
{
    Numbers numbers(30);
    const RecurrentWeights three = random_recurrent(numbers, 4, 3, 3, 2, true);
    const RecurrentWeights four = random_recurrent(numbers, 4, 3, 4, 2, true);
    const Tensor3 hidden = numbers.tensor3(4, 2, 3), cell = numbers.tensor3(4, 2, 3);
    const NamedArrays given{{"x", to_array(batch())},
                            {"lengths", {{2}, {3, 1}}},
                            {"initial_hidden", to_array(hidden)},
                            {"initial_cell", to_array(cell)}};
    NamedArrays of_gru = given;
    of_gru.erase("initial_cell");
    const Desk by_gru(of_gru, state_dict(three));
    CHECK(equal(by_gru.output("gru", {"--reset", "before"}),
                to_array(gru(batch(), hidden, Integers{3, 1}, three, {ResetGate::before_product}).output)));
    const Desk by_lstm(given, state_dict(four));
    CHECK(equal(by_lstm.output("lstm"), to_array(lstm(batch(), LstmStateOf<Tensor3>{hidden, cell}, Integers{3, 1}, four).output)));

    NamedArrays half = given;
    half.erase("initial_cell");
    CHECK_THAT(Desk(half, state_dict(four)).input_refusal("lstm"), ContainsSubstring("belong together"));
    NamedArrays too_long = of_gru;
    too_long["lengths"] = {{2}, {4, 1}};
    CHECK_THAT(Desk(too_long, state_dict(three)).input_refusal("gru"), ContainsSubstring("a length is 4"));
    NamedArrays too_few = of_gru;
    too_few["initial_hidden"] = to_array(numbers.tensor3(2, 2, 3));
    CHECK_THAT(Desk(too_few, state_dict(three)).input_refusal("gru"), ContainsSubstring("expected (4, 2, 3)"));
    CHECK_THAT(Desk(of_gru, state_dict(four)).refusal("gru"), ContainsSubstring("do not fit a GRU with d_in 4"));
}
