#pragma once

#include "reference/layers/decoder_examples.hpp"
#include "program.hpp"
#include "run_module.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/trace_file.hpp"
#include "attn/files/weights/attention_variants.hpp"
#include "attn/files/weights/gated_delta_net.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/latent_attention.hpp"
#include "attn/files/weights/llama.hpp"
#include "attn/files/weights/recurrent.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/files/weights/transformer.hpp"
#include "attn/formula/scope.hpp"

#include <sstream>

/// attn run, as a user runs it: arrays in a file, weights in another, a module, its flags.
namespace attn::test {

inline Words operator+(Words left, const Words& right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

inline Array booleans(const Shape& shape, std::vector<double> values)
{
    return {shape, std::move(values), ElementType::boolean};
}

/// All ones: every query can attend to every key.
inline Array all_allowed(const Shape& shape) { return booleans(shape, std::vector<double>(element_count(shape), 1)); }

inline files::NamedArrays with(files::NamedArrays arrays, const std::string& name, const Array& array)
{
    arrays[name] = array;
    return arrays;
}

inline files::NamedArrays without(files::NamedArrays arrays, const std::string& name)
{
    arrays.erase(name);
    return arrays;
}

/// A folder with an input and weights, in which modules are run.
class Desk {
public:
    Desk(const files::NamedArrays& input, const files::NamedArrays& weights)
    {
        files::write_npz(folder_ / "in.npz", {{}, {input.begin(), input.end()}, {}});
        if (!weights.empty())
            put_weights("w.npz", weights);
    }

    void put_weights(const std::string& name, const files::NamedArrays& weights)
    {
        weights_ = folder_ / name;
        files::write_weights(*weights_, weights);
    }

    /// attn run MODULE --input … --weights … and those flags.
    Ended run_module(const std::string& module, const Words& flags = {}) const
    {
        Words words{"attn", "run", module, "--input", folder_ / "in.npz"};
        if (weights_)
            words = words + Words{"--weights", *weights_};
        return run(words + flags);
    }

    /// What a run records that has to succeed, and whose every step has to follow from its formula unless it is rounded.
    Recording recording(const std::string& module, const Words& flags = {}) const
    {
        const Ended ended = run_module(module, flags + Words{"--quiet", "--trace", folder_ / "t.npz"});
        CAPTURE(module, flags, ended.errors);
        REQUIRE(ended.code == 0);
        CHECK(ended.output.empty());
        CHECK(ended.errors.empty());
        const Recording result = files::read_trace(folder_ / "t.npz");
        CHECK((formula::verify(result).passed() || std::ranges::find(flags, "--round") != flags.end()));
        return result;
    }

    /// What a name means in the recording of a run: a step, or another name of one.
    Array step(const std::string& path, const std::string& module, const Words& flags = {}) const
    {
        const Recording all = recording(module, flags);
        const std::optional<std::size_t> found = formula::StepNames(all).find(path);
        CAPTURE(path);
        REQUIRE(found);
        return all.steps[*found].value;
    }

    Array output(const std::string& module, const Words& flags = {}) const { return step("output", module, flags); }

    /// What a run says that has to be refused: in one message, without a file or a word on standard output.
    std::string refusal(const std::string& module, const Words& flags = {}) const
    {
        std::filesystem::remove(folder_ / "t.npz"); // of an earlier run
        const std::ptrdiff_t before = folder_.count();
        const Ended ended = run_module(module, flags + Words{"--quiet", "--trace", folder_ / "t.npz"});
        CAPTURE(module, flags, ended.output, ended.errors);
        CHECK(ended.code == 2);
        CHECK(ended.output.empty());
        CHECK(ended.errors.starts_with("attn run: "));
        CHECK(folder_.count() == before);
        return ended.errors;
    }

    /// The same, where the fault is the input's.
    std::string input_refusal(const std::string& module, const Words& flags = {}) const
    {
        const std::string message = refusal(module, flags);
        CHECK(message.starts_with("attn run: " + (folder_ / "in.npz").string()));
        CHECK(lines_in(message) == 1);
        return message;
    }

    std::filesystem::path operator/(std::string_view name) const { return folder_ / name; }

private:
    TemporaryFolder folder_;
    std::optional<std::filesystem::path> weights_;
};

// ------------------------------------------------------------------------------------------------------------ examples

inline EncoderWeights stack_of(std::size_t layers)
{
    Numbers numbers(1);
    EncoderWeights weights;
    for (std::size_t i = 0; i < layers; ++i)
        weights.layers.push_back(random_encoder_layer(numbers, 4, 3));
    weights.norm = random_norm(numbers, 4);
    return weights;
}

inline MultiHeadWeights heads_of_four()
{
    Numbers numbers(2);
    return random_heads(numbers, {4, 4, 4, 4, 4});
}

/// The same with norms of queries and keys.
inline MultiHeadWeights heads_with_norms()
{
    Numbers numbers(18);
    MultiHeadWeights weights = heads_of_four();
    weights.query_norms = {{numbers.vector(4)}}; // of all heads
    weights.key_norms = {{numbers.vector(4)}};
    return weights;
}

inline files::NamedArrays queries_keys_values(std::size_t n = 2, std::size_t m = 3)
{
    Numbers numbers(3);
    return {{"queries", to_array(numbers.matrix(n, 4))},
            {"keys", to_array(numbers.matrix(m, 4))},
            {"values", to_array(numbers.matrix(m, 5))}};
}

inline files::NamedArrays queries_keys_values_of(std::size_t sequences, std::size_t n, std::size_t m)
{
    Numbers numbers(3);
    return {{"queries", to_array(numbers.tensor3(sequences, n, 4))},
            {"keys", to_array(numbers.tensor3(sequences, m, 4))},
            {"values", to_array(numbers.tensor3(sequences, m, 5))}};
}

inline TalkingHeadsWeights talking_heads_of_four()
{
    Numbers numbers(9);
    return {heads_of_four(), numbers.matrix(2, 3), numbers.matrix(3, 2)};
}

/// Two heads, each of two maps of one feature, and of two features of values.
inline DifferentialAttentionWeights differential_heads_of_four()
{
    Numbers numbers(22);
    return {heads_of_four(),   numbers.vector(1), numbers.vector(1),
            numbers.vector(1), numbers.vector(1), {numbers.vector(2)}};
}

inline Matrix tokens() { return Numbers(4).matrix(3, 4); }
inline Tensor3 batch() { return Numbers(5).tensor3(2, 3, 4); }
inline Matrix memory_tokens() { return Numbers(14).matrix(5, 4); }

inline TransformerWeights whole_of(std::size_t layers)
{
    Numbers numbers(13);
    return random_transformer(numbers, layers, true, 4);
}

inline files::NamedArrays with_memory() { return {{"x", to_array(tokens())}, {"memory", to_array(memory_tokens())}}; }
inline files::NamedArrays source_and_target()
{
    return {{"source", to_array(memory_tokens())}, {"target", to_array(tokens())}};
}

/// Two heads that share keys and values, three words.
inline LlamaWeights small_decoder()
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

/// With a correction bias, and a shared expert that has a gate.
inline ExpertsWeights four_experts()
{
    Numbers numbers(21);
    return random_experts(numbers, 4, 3, 4);
}

/// Two heads of 1 + 4 features and values of 1, latents of 3.
inline LatentAttentionWeights small_latent_attention()
{
    Numbers numbers(16);
    return {{numbers.matrix(4, 10)},
            {{numbers.matrix(4, 7)}, {numbers.vector(3)}},
            {numbers.matrix(3, 4)},
            {numbers.matrix(2, 4)}};
}

/// Two heads of two features, filters of three tokens.
inline GatedDeltaNetWeights small_delta_net()
{
    Numbers numbers(17);
    const auto map = [&](std::size_t in, std::size_t out) { return LinearWeights{numbers.matrix(in, out)}; };
    return {.query = map(4, 4),
            .key = map(4, 4),
            .value = map(4, 4),
            .gate = map(4, 4),
            .beta = map(4, 2),
            .decay = map(4, 2),
            .kernel = numbers.tensor3(12, 1, 3),
            .dt_bias = numbers.vector(2),
            .a_log = numbers.vector(2),
            .norm = {numbers.vector(2)},
            .output = map(4, 4)};
}

/// Two layers, three words, four positions.
inline GptWeights small_gpt()
{
    Numbers numbers(10);
    GptWeights weights{numbers.matrix(3, 4), numbers.matrix(4, 4)};
    weights.layers = stack_of(2).layers;
    weights.norm = random_norm(numbers, 4);
    return weights;
}

inline files::NamedArrays keras_weights()
{
    Numbers numbers(9);
    return {{"query_weights", to_array(numbers.matrix(4, 4))},
            {"key_weights", to_array(numbers.matrix(4, 4))},
            {"value_weights", to_array(numbers.matrix(4, 6))}};
}

/// What each module is given here, and the flags that it can't do without.
struct Example {
    std::string module;
    Words needed;
    files::NamedArrays input;
    files::NamedArrays weights;

    /// Those flags, and the needed ones unless one of them is there.
    Words flags(const std::string& text) const
    {
        const Words words = words_of(text);
        for (const std::string& word : words)
            if (word.starts_with("--") && std::ranges::find(needed, word) != needed.end())
                return words;
        return needed + words;
    }
};

inline std::vector<Example> examples()
{
    Numbers numbers(6);
    const files::NamedArrays x{{"x", to_array(tokens())}};
    const Words heads{"--heads", "2"};
    return {{"attention", {}, queries_keys_values(), {}},
            {"multi-head-attention", heads, x, files::state_dict(heads_with_norms())},
            {"latent-attention", heads, x, files::state_dict(small_latent_attention())},
            {"gated-delta-net", {}, x, files::state_dict(small_delta_net())},
            {"feed-forward", {}, x, files::state_dict(random_feed_forward(numbers, 4, 3))},
            {"layer-norm", {}, x, files::state_dict(random_norm(numbers, 4))},
            {"encoder-layer", heads, x, files::state_dict(stack_of(1).layers[0])},
            {"encoder", heads, x, files::state_dict(stack_of(2))},
            {"decoder-layer", heads, with_memory(), files::state_dict(whole_of(1).decoder.layers[0])},
            {"decoder", heads, with_memory(), files::state_dict(whole_of(2).decoder)},
            {"transformer", heads, source_and_target(), files::state_dict(whole_of(2))},
            {"restricted-attention", words_of("--radius 1 --stride 4"), queries_keys_values(9, 9), {}},
            {"talking-heads-attention", {}, x, files::state_dict(talking_heads_of_four())},
            {"differential-attention", heads, x, files::state_dict(differential_heads_of_four())},
            {"gpt", heads, {{"ids", {{3}, {2, 0, 1}}}}, files::state_dict(small_gpt())},
            {"gru", {}, x, files::state_dict(random_recurrent(numbers, 4, 3, 3, 2, true))},
            {"lstm", {}, x, files::state_dict(random_recurrent(numbers, 4, 3, 4))},
            {"llama",
             {"--heads", "2", "--without-config"},
             {{"ids", {{3}, {2, 0, 1}}}},
             files::state_dict(small_decoder())},
            {"keras-attention", heads, x, keras_weights()},
            {"rms-norm", {}, x, files::state_dict(RmsNormWeights{numbers.vector(4)})},
            {"softmax", {}, {{"scores", to_array(tokens())}}, {}},
            {"activation", {}, x, {}},
            {"gated-feed-forward", {}, x, files::state_dict(small_decoder().layers[0].feed_forward)},
            {"experts", {}, x, files::state_dict(four_experts())},
            {"rotary", {}, x, {}},
            {"positions", {}, x, {}},
            {"embedding", {}, {{"ids", {{3}, {2, 0, 1}}}}, files::state_dict(EmbeddingWeights{numbers.matrix(3, 4)})},
            {"cross-entropy", {}, {{"logits", to_array(numbers.matrix(3, 4))}, {"targets", {{3}, {2, 0, -100}}}}, {}}};
}

/// The examples of modules that work on tokens as they are, one sequence or a batch, and not on words by their numbers.
inline std::vector<Example> examples_of_tokens()
{
    std::vector<Example> all = examples();
    std::erase_if(
        all, [](const Example& example) { return example.input.contains("ids") || example.input.contains("targets"); });
    return all;
}

inline Example example_of(const std::string& module)
{
    for (const Example& example : examples())
        if (example.module == module)
            return example;
    throw std::out_of_range(module);
}

} // namespace attn::test
