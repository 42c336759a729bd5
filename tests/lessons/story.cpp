// Lesson 17: its own flags, and the real model, which need not be there.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/files/weights/llama.hpp"
#include "attn/files/weights/llama_folder.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/models/sampling.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;

namespace {

const std::string lesson = "lesson_17_story";

/// The folder of stories260K: beside the checkout, or where ATTN_STORIES260K says. Empty, said aloud, where it is not.
std::filesystem::path real_model()
{
    const char* named = std::getenv("ATTN_STORIES260K");
    const std::filesystem::path folder =
        named != nullptr ? std::filesystem::path(named)
                         : std::filesystem::path(ATTN_SOURCE_FOLDER) / ".." / "shared" / "weights" / "stories260K";
    if (std::filesystem::is_regular_file(folder / "expected_greedy_200.json"))
        return folder;
    WARN("SKIPPED: there is no stories260K in " << folder.string()
                                                << "; ATTN_STORIES260K names another folder with it");
    return {};
}

std::vector<std::size_t> expected_ids(const std::filesystem::path& folder)
{
    const std::string content = bytes_of(folder / "expected_greedy_200.json");
    std::istringstream list(content.substr(content.find('[') + 1)); // the only list in it
    std::vector<std::size_t> ids;
    char comma = ',';
    for (std::size_t id = 0; comma == ',' && list >> id; list >> comma)
        ids.push_back(id);
    return ids;
}

std::vector<std::size_t> printed_ids(const std::string& output)
{
    const std::string label = "\n  tokens: ";
    const std::size_t begin = output.find(label);
    std::istringstream line(
        begin == std::string::npos
            ? ""
            : output.substr(begin + label.size(), output.find('\n', begin + 1) - begin - label.size()));
    std::vector<std::size_t> ids;
    for (std::size_t id = 0; line >> id;)
        ids.push_back(id);
    return ids;
}

std::vector<std::string> lines_of(const std::filesystem::path& path)
{
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        lines.push_back(line);
    return lines;
}

/// A folder with a small model in it.
void put_model(const TemporaryFolder& folder, const std::string& config = R"({"n_heads": 2})")
{
    LlamaWeights weights{Matrix{{1, 0}, {0, 1}, {1, 1}, {2, 1}}};
    LlamaLayerWeights& layer = weights.layers.emplace_back();
    const Matrix map{{1, 0, 0, 1}, {0, 1, 1, 0}};
    layer.norm1 = layer.norm2 = weights.norm = {Vector{1, 1}};
    layer.self_attention = {{map},
                            {Matrix{{1, 0}, {0, 1}}},
                            {Matrix{{1, 0}, {0, 1}}},
                            LinearWeights{Matrix{{1, 0}, {0, 1}, {1, 0}, {0, 1}}}};
    layer.feed_forward = {{map}, {map}, {Matrix{{1, 0}, {0, 1}, {1, 0}, {0, 1}}}};
    write_weights(folder / "m.safetensors", state_dict(weights));
    put_bytes(folder / "config.json", config);
    put_bytes(folder / "tok.json", R"({"tokens": ["<unk>", "<s>", "</s>", "a"], "scores": [0, 0, 0, 0]})");
}

std::string refused_story(const TemporaryFolder& folder)
{
    const Ended ended = run({lesson, "--weights", folder.path()});
    CHECK(ended.code == 2);
    return ended.errors;
}

} // namespace

// ------------------------------------------------------------------------------------------------------- the tiny model

TEST_CASE("the tiny model writes the same with and without a cache", "[lessons][story]")
{
    const Ended with = run({lesson}), without = run({lesson, "--without-cache"});
    REQUIRE(with.code == 0);
    CHECK(without.output == with.output);
    CHECK(printed_ids(with.output).size() == 8);
}

TEST_CASE("the tiny model writes the same with --fast, which stands beside no flag without effect", "[lessons][story]")
{
    const Ended plain = run({lesson, "--prompt", "a dog sat"}), fast = run({lesson, "--prompt", "a dog sat", "--fast"});
    REQUIRE(fast.code == 0);
    CHECK(printed_ids(fast.output) == printed_ids(plain.output));
    CHECK_THAT(fast.output, ContainsSubstring(" tokens per second"));
    CHECK(run({lesson, "--fast", "--without-cache"}).code == 2);
    CHECK(run({lesson, "--fast", "--round", "float16"}).code == 2);
}

TEST_CASE("a story has the tokens that were asked for, the same from the same seed", "[lessons][story]")
{
    const auto ids_with = [](std::vector<std::string> flags) {
        flags.insert(flags.begin(), {lesson, "--temperature", "1"});
        const Ended ended = run(flags);
        CHECK(ended.code == 0);
        return printed_ids(ended.output);
    };
    CHECK(ids_with({"--steps", "5"}).size() <= 5);
    CHECK(ids_with({"--steps", "0"}).empty());
    CHECK(ids_with({"--seed", "3"}) == ids_with({"--seed", "3"}));
    CHECK(ids_with({"--seed", "3"}) != ids_with({"--seed", "4"}));
    CHECK(ids_with({}) == ids_with({"--seed", "0"}));
}

TEST_CASE("the labels of a story are its tokens, one per line, as many as the trace has", "[lessons][story]")
{
    const TemporaryFolder folder;
    REQUIRE(run({lesson, "--quiet", "--prompt", "a dog sat", "--tokens", folder / "tokens.txt", "--trace",
                 folder / "t.npz"})
                .code == 0);
    const std::vector<std::string> labels = lines_of(folder / "tokens.txt");
    REQUIRE(labels.size() == 4 + 8);
    CHECK(std::vector<std::string>(labels.begin(), labels.begin() + 4) ==
          std::vector<std::string>{"<s>", "▁a", "▁dog", "▁sat"});
    for (const Step& step : read_trace(folder / "t.npz").steps)
        if (step.path == "logits")
            CHECK(step.value.shape == Shape{12, 40});
}

TEST_CASE("a story is written with the ablation that --ablate asks for, and --round is accepted", "[lessons][story]")
{
    const Ended plain = run({lesson});
    const Ended ablated = run({lesson, "--ablate", "feed_forward.output"});
    REQUIRE(ablated.code == 0);
    CHECK(printed_ids(ablated.output) != printed_ids(plain.output));
    CHECK(run({lesson, "--round", "bfloat16"}).code == 0);
}

TEST_CASE("your own tokens go through the model", "[lessons][story][input]")
{
    const TemporaryFolder folder;
    write_npz(folder / "mine.npz", {{}, {{"ids", {{3}, {1, 8, 11}}}}, {}});
    REQUIRE(run({lesson, "--quiet", "--input", folder / "mine.npz", "--trace", folder / "t.npz"}).code == 0);
    for (const Step& step : read_trace(folder / "t.npz").steps)
        if (step.path == "logits")
            CHECK(step.value.shape == Shape{3, 40});
    write_npz(folder / "mine.npz", {{}, {{"ids", {{1}, {40}}}}, {}});
    const Ended ended = run({lesson, "--quiet", "--input", folder / "mine.npz"});
    CHECK(ended.code == 2);
    CHECK_THAT(ended.errors, ContainsSubstring("mine.npz") && ContainsSubstring("ids[0] is 40"));
}

TEST_CASE("an impossible value of a flag is refused in one line, and another lesson refuses the flag",
          "[lessons][story]")
{
    for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{{"--temperature", "-1"},
                                                                                       {"--temperature", "nan"},
                                                                                       {"--temperature", "warm"},
                                                                                       {"--steps", "-1"},
                                                                                       {"--steps", "1.5"},
                                                                                       {"--seed", "x"}}) {
        std::vector<std::string> words{lesson};
        words.insert(words.end(), flags.begin(), flags.end());
        CAPTURE(flags);
        const Ended ended = run(words);
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
    }
    CHECK(run({"lesson_10_encoder_layer", "--steps", "3"}).code == 2);
}

// -------------------------------------------------------------------------------------------------- a folder of a model

TEST_CASE("a folder of a model is read, under the names of its configuration", "[story][folder]")
{
    const TemporaryFolder folder;
    put_model(folder, R"({"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 0.5, "rope_theta": 9})");
    const LlamaFolder model = read_llama_folder(folder.path());
    CHECK(model.options.heads == 2);
    CHECK(model.options.norm.epsilon == 0.5);
    CHECK(model.options.rotary.base == 9);
    CHECK(model.options.rotary.layout == RotaryLayout::halves);
    CHECK(model.tokenizer.size() == 4);
    put_model(folder);
    CHECK(read_llama_folder(folder.path()).options.rotary.base == 10000);
    CHECK(run({lesson, "--weights", folder.path(), "--prompt", "aa", "--steps", "2"}).code == 0);
}

TEST_CASE("a folder without a model says what it lacks and where people get one", "[story][folder]")
{
    const TemporaryFolder folder;
    CHECK_THAT(refused_story(folder), ContainsSubstring("has no weights") && ContainsSubstring("stories260K") &&
                                          ContainsSubstring("config.json"));
    put_model(folder);
    std::filesystem::remove(folder / "tok.json");
    CHECK_THAT(refused_story(folder), ContainsSubstring("has no vocabulary (tok*.json)"));
    put_model(folder);
    put_bytes(folder / "tok2.json", "{}");
    CHECK_THAT(refused_story(folder), ContainsSubstring("2 files of vocabulary"));
    std::filesystem::remove(folder / "tok2.json");
    std::filesystem::remove(folder / "config.json");
    CHECK_THAT(refused_story(folder),
               ContainsSubstring("config.json: cannot be read: there is no such file, expected a configuration"));
}

TEST_CASE("a model whose files contradict each other is refused", "[story][folder][hostile]")
{
    const TemporaryFolder folder;
    put_model(folder, R"({"n_heads": 2, "n_kv_heads": 2})");
    CHECK_THAT(refused_story(folder), ContainsSubstring("n_kv_heads 2, but the weights have 1 key/value heads"));
    for (const char* config : {"{}", R"({"n_heads": 0})", R"({"n_heads": 1.5})", R"({"n_heads": "two"})",
                               R"({"n_heads": 1e300})", R"({"n_heads": 3})", R"({"n_heads": 2, "rope_theta": -1})",
                               R"({"n_heads": 2, "rms_eps": null})", "[]", "no"}) {
        CAPTURE(config);
        put_model(folder, config);
        CHECK_THAT(refused_story(folder), ContainsSubstring("config.json"));
    }
    put_model(folder);
    put_bytes(folder / "tok.json", R"({"tokens": ["<unk>", "<s>", "</s>"], "scores": [0, 0, 0]})");
    CHECK_THAT(refused_story(folder), ContainsSubstring("has 3 tokens, expected 4"));
    put_model(folder);
    write_weights(folder / "m.safetensors", {{"model.embed_tokens.weight", {{4, 2}, std::vector<double>(8, 1)}}});
    CHECK_THAT(refused_story(folder), ContainsSubstring("m.safetensors") && ContainsSubstring("do not fit a decoder"));
}

// ------------------------------------------------------------------------------------------------------- the real model

TEST_CASE("the real model writes its authors' 200 tokens, with a cache, without, and in float32", "[story][real][slow]")
{
    const std::filesystem::path folder = real_model();
    if (folder.empty())
        return;
    const std::vector<std::size_t> expected = expected_ids(folder);
    REQUIRE(expected.size() == 200);
    for (const std::vector<std::string>& flags :
         std::vector<std::vector<std::string>>{{}, {"--without-cache"}, {"--round", "float32"}, {"--fast"}}) {
        CAPTURE(flags);
        std::vector<std::string> words{lesson, "--weights", folder};
        words.insert(words.end(), flags.begin(), flags.end());
        const Ended ended = run(words);
        CHECK(ended.errors == "");
        CHECK(ended.code == 0);
        CHECK(printed_ids(ended.output) == expected);
    }
}

TEST_CASE("the real model's words come back from their tokens, and its story is known", "[story][real][tokenizer]")
{
    const std::filesystem::path folder = real_model();
    if (folder.empty())
        return;
    const LlamaFolder model = read_llama_folder(folder);
    CHECK(model.options.heads == 8);
    CHECK(key_value_heads(model.weights.layers[0].self_attention, 8) == 4);
    CHECK(model.options.rotary.layout == RotaryLayout::pairs);
    CHECK_FALSE(model.weights.output.has_value()); // tied
    const std::string story = model.tokenizer.decode(expected_ids(folder));
    CHECK(story.rfind("Once upon a time, there was a little girl named Lily.", 0) == 0);
    std::vector<std::size_t> ids = expected_ids(folder);
    ids.insert(ids.begin(), Tokenizer::begin);
    CHECK(model.tokenizer.encode(story) == ids); // as it was written, so it is read
    for (const std::string text : {"a café, 12 € 😀\n", " two  spaces ", "<0x0A>", "\xFF\xFE"})
        CHECK(model.tokenizer.decode(model.tokenizer.encode(text)) == text);
}

TEST_CASE("every step of the real model follows from its formula", "[story][real][verify]")
{
    const std::filesystem::path real = real_model();
    if (real.empty())
        return;
    const TemporaryFolder folder;
    REQUIRE(run({lesson, "--quiet", "--weights", real, "--steps", "12", "--trace", folder / "t.npz"}).code == 0);
    const Verification verification = verify(read_trace(folder / "t.npz"));
    for (const StepCheck& check : verification.checks)
        CHECK(check.message == "");
    CHECK(verification.recomputed() > 600); // what is another name of a step is none
    CHECK(run({"attn", "explain", folder / "t.npz", "layers.4.self_attn.head.7.weights[9,3]"}).code == 0);
}
