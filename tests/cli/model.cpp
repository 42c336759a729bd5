// attn run model, and what the other modules say of weights that are a part of a published model.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"
#include "attn/files/safetensors.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/files/weights/state_dict.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

using namespace attn;
using namespace attn::files;

namespace {

std::string golden(const std::string& family)
{
    return std::string(ATTN_SOURCE_FOLDER) + "/tests/golden/families/" + family;
}

/// attn run of a module on weights, with an input of four ids or of two tokens.
Ended run_on(const std::string& module, const std::string& weights, const TemporaryFolder& folder,
             const std::vector<std::string>& flags = {})
{
    write_npz(folder / "in.npz", {{}, {{"ids", Array{{4}, {4, 0, 2, 7}, ElementType::integer}}}, {}});
    write_npz(folder / "x.npz", {{}, {{"x", Array{{2, 24}, std::vector<double>(48, 0.5)}}}, {}});
    const bool is_of_ids = module == "model" || module == "llama";
    std::vector<std::string> words{
        "attn",      "run",   module,    "--input", folder / (is_of_ids ? "in.npz" : "x.npz"),
        "--weights", weights, "--quiet", "--trace", folder / "t.npz"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
}

} // namespace

TEST_CASE("attn run model writes a trace that is verified, and has gradients", "[cli][run][families]")
{
    const TemporaryFolder folder;
    const Ended ended = run_on("model", golden("gemma2"), folder);
    CAPTURE(ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    const Recording trace = read_trace(folder / "t.npz");
    REQUIRE(trace.find("output") != nullptr);
    CHECK(trace.find("output") == trace.find("logits"));
    const Ended grad = run({"attn", "grad", folder / "t.npz", "--of", "logits", "-o", folder / "g.npz"});
    CAPTURE(grad.errors);
    CHECK(grad.code == 0);
}

TEST_CASE("attn run model --first moves learned positions by rows, and rotary ones without effect on what follows",
          "[cli][run][families]")
{
    const TemporaryFolder folder;
    const auto trace_of = [&](const std::string& family, const std::vector<std::string>& flags) {
        const Ended ended = run_on("model", golden(family), folder, flags);
        CAPTURE(ended.errors);
        REQUIRE(ended.code == 0);
        CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
        return read_trace(folder / "t.npz");
    };
    const Recording table = trace_of("gpt2", {}), rows = trace_of("gpt2", {"--first", "1"});
    const auto &all = table.find("position_embedding.positions")->value,
               &later = rows.find("position_embedding.positions")->value;
    const std::size_t d_model = later.shape[1];
    for (std::size_t i = 0; i + d_model < all.values.size(); ++i)
        REQUIRE(later.values[i] == all.values[i + d_model]);

    const Recording here = trace_of("gemma2", {}), there = trace_of("gemma2", {"--first", "3"});
    const std::string turned = "layers.0.self_attn.head.0.rotary_query.output";
    CHECK(here.find(turned)->value.values != there.find(turned)->value.values);
    for (std::size_t i = 0; i < here.find("logits")->value.values.size(); ++i)
        REQUIRE_THAT(there.find("logits")->value.values[i],
                     Catch::Matchers::WithinRel(here.find("logits")->value.values[i], 1e-9));

    const Ended refused = run_on("model", golden("roberta"), folder, {"--first", "1"});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.errors, ContainsSubstring("--first: positions of this family count the tokens"));
}

TEST_CASE("attn run model --cache keeps keys and values in fewer bits, and is refused where no cache is read",
          "[cli][run][families][schedule]")
{
    const TemporaryFolder folder;
    const auto output_of = [&](const std::vector<std::string>& flags) {
        const Ended ended = run_on("model", golden("gemma2"), folder, flags);
        CAPTURE(ended.errors);
        REQUIRE(ended.code == 0);
        CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
        return read_trace(folder / "t.npz").find("output")->value.values;
    };
    const auto exact = output_of({"--schedule", "steps:1"});
    for (const char* cache : {"float8_e4m3", "int8:token", "uint2:channel2,uint2:token"}) {
        CAPTURE(cache);
        CHECK(output_of({"--schedule", "steps:1", "--cache", cache}) != exact);
    }
    for (const auto& [flags, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"--cache", "int8:token"}, "--cache: without --schedule all tokens are given at once"},
             {{"--cache", "int8:token", "--schedule", "packed"}, "given in one call, and no cache is read"},
             {{"--cache", "int8:tensor", "--schedule", "steps:1"}, "a cache can't be int8:tensor"},
             {{"--cache", "int3", "--schedule", "steps:1"}, "there is no type of stored numbers 'int3'"}}) {
        const Ended refused = run_on("model", golden("gemma2"), folder, flags);
        CHECK(refused.code == 2);
        CHECK_THAT(refused.errors, ContainsSubstring(why));
    }
}

TEST_CASE("attn run model --schedule gives the same over several calls, of one sequence and of a padded batch",
          "[cli][run][families][schedule]")
{
    const TemporaryFolder folder;
    REQUIRE(run_on("model", golden("gemma2"), folder).code == 0);
    const Array whole = read_trace(folder / "t.npz").find("logits")->value;
    for (const char* name : {"steps:2", "chunks:3", "packed", "joined:1", "at-once", "pages:2"}) {
        CAPTURE(name);
        const Ended ended = run_on("model", golden("gemma2"), folder, {"--schedule", name});
        CAPTURE(ended.errors);
        REQUIRE(ended.code == 0);
        CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
        const Recording trace = read_trace(folder / "t.npz");
        for (const char* step : {"output", "sequences.0.logits"}) {
            const Array& found = trace.find(step)->value;
            REQUIRE(found.shape == whole.shape);
            for (std::size_t i = 0; i < whole.values.size(); ++i)
                REQUIRE_THAT(found.values[i], Catch::Matchers::WithinRel(whole.values[i], 1e-10));
        }
    }
    for (const auto& [flags, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"--schedule", "pages"}, "there is no schedule 'pages'"},
             {{"--schedule", "chunks:2", "--first", "1"}, "stands beside neither --first"}}) {
        const Ended refused = run_on("model", golden("gemma2"), folder, flags);
        CHECK(refused.code == 2);
        CHECK_THAT(refused.errors, ContainsSubstring(why));
    }
    CHECK(run_on("model", golden("bert"), folder, {"--schedule", "chunks:2"}).code == 2);

    // A ring, of a model with a window in each layer, and in some.
    REQUIRE(run_on("model", golden("mistral"), folder).code == 0);
    const Array windowed = read_trace(folder / "t.npz").find("logits")->value;
    for (const char* name : {"ring:5", "ring:18446744073709551615"}) {
        CAPTURE(name);
        REQUIRE(run_on("model", golden("mistral"), folder, {"--schedule", name}).code == 0);
        const Recording trace = read_trace(folder / "t.npz");
        for (std::size_t i = 0; i < windowed.values.size(); ++i)
            REQUIRE_THAT(trace.find("output")->value.values[i], Catch::Matchers::WithinRel(windowed.values[i], 1e-10));
    }
    for (const auto& [family, name] : {std::pair("mistral", "ring:4"), {"gemma2", "ring:5"}}) {
        const Ended narrow = run_on("model", golden(family), folder, {"--schedule", name});
        CHECK(narrow.code == 2);
        CHECK_THAT(narrow.errors, ContainsSubstring("forgets what a layer attends to"));
    }

    // A batch, whose padding is left out.
    const auto batch_of = [&](const char* padding, const Array& array) {
        write_npz(folder / "batch.npz",
                  {{}, {{"ids", Array{{2, 3}, {4, 0, 2, 7, 1, 5}, ElementType::integer}}, {padding, array}}, {}});
        const Ended ended = run({"attn", "run", "model", "--input", folder / "batch.npz", "--weights", golden("gemma2"),
                                 "--quiet", "--trace", folder / "t.npz", "--schedule", "joined:1"});
        CAPTURE(ended.errors);
        REQUIRE(ended.code == 0);
        return read_trace(folder / "t.npz").find("output")->value;
    };
    const Array by_lengths = batch_of("lengths", Array{{2}, {2, 3}, ElementType::integer});
    CHECK(by_lengths.shape.front() == 5);
    const Array without_one = batch_of("lengths", Array{{2}, {2, 0}, ElementType::integer});
    CHECK(without_one.shape.front() == 2);
    const Array by_mask = batch_of("attention_mask", Array{{2, 3}, {1, 1, 0, 1, 1, 1}, ElementType::integer});
    CHECK(by_lengths.values == by_mask.values);
}

TEST_CASE("attn run model gives the last hidden states of an encoder, and its pooler", "[cli][run][families]")
{
    const TemporaryFolder folder;
    const Ended ended = run_on("model", golden("bert"), folder);
    CAPTURE(ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(ended.errors.empty());
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    const Recording trace = read_trace(folder / "t.npz");
    REQUIRE(trace.find("output") != nullptr);
    CHECK(trace.find("output") == trace.find("layers.1.output"));
    REQUIRE(trace.find("pooler.pooled") != nullptr);
    CHECK(trace.find("pooler.pooled")->value.shape == Shape{1, 24});
    CHECK(trace.find("causal") == nullptr);
    const Ended grad = run({"attn", "grad", folder / "t.npz", "--of", "output", "-o", folder / "g.npz"});
    CAPTURE(grad.errors);
    CHECK(grad.code == 0);
    CHECK(run({"attn", "verify", folder / "g.npz"}).code == 0);

    const Ended described = run({"attn", "run", "model", "--weights", golden("bert"), "--dry-run"});
    CHECK_THAT(described.output, ContainsSubstring("output the last hidden states, attention to all tokens"));
    CHECK_THAT(described.output, ContainsSubstring("token_types 2"));
    CHECK_THAT(described.output, ContainsSubstring("pooler of the first token"));
}

TEST_CASE("attn run model takes the types of tokens, and checks them", "[cli][run][families]")
{
    const TemporaryFolder folder;
    const auto run_with = [&](const std::string& family, const Array& types) {
        const Array ids{{2, 3}, {4, 0, 2, 7, 1, 1}, ElementType::integer};
        write_npz(folder / "in.npz", {{}, {{"ids", ids}, {"token_type_ids", types}}, {}});
        return run({"attn", "run", "model", "--input", folder / "in.npz", "--weights", golden(family), "--quiet",
                    "--trace", folder / "t.npz"});
    };
    CHECK(run_with("bert", {{2, 3}, {0, 0, 1, 0, 1, 1}, ElementType::integer}).code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    CHECK_THAT(run_with("bert", {{2, 3}, {0, 0, 2, 0, 1, 1}, ElementType::integer}).errors,
               ContainsSubstring("is 2, but table"));
    CHECK_THAT(run_with("bert", {{2, 2}, {0, 0, 1, 0}, ElementType::integer}).errors,
               ContainsSubstring("token_types (2, 2) and ids (2, 3) must have the same shape"));
    CHECK_THAT(run_with("llama", {{2, 3}, {0, 0, 1, 0, 1, 1}, ElementType::integer}).errors,
               ContainsSubstring("the model has no table of them"));
}

TEST_CASE("attn run model takes an attention mask, which hides padding on either side", "[cli][run][families]")
{
    const TemporaryFolder folder;
    const auto run_with = [&](const std::string& family, const NamedArrays& more) {
        NamedArrays arrays{{"ids", Array{{2, 3}, {4, 0, 2, 0, 7, 1}, ElementType::integer}}};
        arrays.insert(more.begin(), more.end());
        write_npz(folder / "in.npz", {{}, {arrays.begin(), arrays.end()}, {}});
        return run({"attn", "run", "model", "--input", folder / "in.npz", "--weights", golden(family), "--quiet",
                    "--trace", folder / "t.npz"});
    };
    const auto mask = [](std::vector<double> ones) {
        return NamedArrays{{"attention_mask", Array{{2, 3}, std::move(ones), ElementType::integer}}};
    };
    const auto output = [&] { return read_trace(folder / "t.npz").find("output")->value; };
    REQUIRE(run_with("llama", {{"lengths", Array{{2}, {3, 2}, ElementType::integer}}}).code == 0);
    const Array of_lengths = output();
    REQUIRE(run_with("llama", mask({1, 1, 1, 1, 1, 0})).code == 0);
    CHECK(identical(output(), of_lengths));
    REQUIRE(run_with("llama", mask({1, 1, 1, 0, 1, 1})).code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    CHECK_FALSE(identical(output(), of_lengths));

    CHECK_THAT(run_with("gpt2", mask({1, 1, 1, 0, 1, 1})).errors, ContainsSubstring("the model has learned positions"));
    CHECK_THAT(run_with("llama", mask({1, 1, 1, 0, 2, 1})).errors, ContainsSubstring("attention_mask"));
    NamedArrays both = mask({1, 1, 1, 1, 1, 0});
    both["lengths"] = Array{{2}, {3, 2}, ElementType::integer};
    CHECK_THAT(run_with("llama", both).errors, ContainsSubstring("has lengths and attention_mask"));
    CHECK_THAT(run_with("llama", {{"attention_mask", Array{{3}, {1, 1, 1}, ElementType::integer}}}).errors,
               ContainsSubstring("attention_mask"));
    write_npz(folder / "in.npz", {{},
                                  {{"ids", Array{{2}, {4, 0}, ElementType::integer}},
                                   {"attention_mask", Array{{1, 2}, {1, 1}, ElementType::integer}}},
                                  {}});
    CHECK_THAT(run({"attn", "run", "model", "--input", folder / "in.npz", "--weights", golden("llama")}).errors,
               ContainsSubstring("and one sequence: leave its padding out"));
}

TEST_CASE("attn run model computes some of the layers, from tokens where the first is not among them",
          "[cli][run][families]")
{
    const TemporaryFolder folder;
    REQUIRE(run_on("model", golden("gemma2"), folder).code == 0);
    const Recording whole = read_trace(folder / "t.npz");
    REQUIRE(run_on("model", golden("gemma2"), folder, {"--layers", "0:2"}).code == 0);
    const Recording first = read_trace(folder / "t.npz");
    REQUIRE(first.find("output") != nullptr);
    CHECK(first.find("output") == first.find("layers.1.output"));
    CHECK(first.find("logits") == nullptr);
    CHECK(identical(first.find("output")->value, whole.find("layers.1.output")->value));

    write_npz(folder / "tokens.npz", {{}, {{"tokens", first.find("output")->value}}, {}});
    const std::vector<std::string> rest{
        "attn", "run", "model", "--input", folder / "tokens.npz", "--weights", golden("gemma2"), "--layers", "2:"};
    std::vector<std::string> traced = rest, described = rest;
    traced.insert(traced.end(), {"--quiet", "--trace", folder / "rest.npz"});
    described.emplace_back("--dry-run");
    REQUIRE(run(traced).code == 0);
    CHECK(run({"attn", "verify", folder / "rest.npz"}).code == 0);
    const Recording last = read_trace(folder / "rest.npz");
    REQUIRE(last.find("layers.2.x") != nullptr);
    CHECK(identical(last.find("logits")->value, whole.find("logits")->value));
    CHECK_THAT(run(described).output, ContainsSubstring("input the tokens after layer 1"));
    CHECK_THAT(run(described).output, ContainsSubstring("\nlayer 2: "));

    const auto refused = [&](const std::string& layers) {
        return run_on("model", golden("gemma2"), folder, {"--layers", layers});
    };
    CHECK_THAT(refused("2:").errors,
               ContainsSubstring("has no array tokens, which layer 2 of the family gemma2 takes"));
    CHECK_THAT(refused("0:9").errors, ContainsSubstring("config.json: has 3 layers, 0:3, and 0:9 are none of them"));
    CHECK_THAT(refused("2").errors, ContainsSubstring("--layers: 2 is not FROM:TO"));
    CHECK_THAT(refused("2:2").errors, ContainsSubstring("--layers: 2:2 is no layer"));
    CHECK_THAT(refused("a:").errors, ContainsSubstring("a is not a whole number"));
    CHECK(refused("9:").code == 2);
}

TEST_CASE("attn run model takes an image or a sound where the model does, and nothing beside it",
          "[cli][run][families]")
{
    const TemporaryFolder folder;
    const auto run_with = [&](const std::string& family, const NamedArrays& arrays) {
        write_npz(folder / "in.npz", {{}, {arrays.begin(), arrays.end()}, {}});
        return run({"attn", "run", "model", "--input", folder / "in.npz", "--weights", golden(family), "--quiet",
                    "--trace", folder / "t.npz"});
    };
    const Array ids{{2}, {4, 0}, ElementType::integer};
    NamedArrays image = read_npz(golden("vit-plain") + "/expected.npz"),
                sound = read_npz(golden("whisper") + "/expected.npz");
    const Array pixels = image.at("pixel_values"), features = sound.at("input_features");
    CHECK(run_with("vit-plain", {{"pixel_values", pixels}}).code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    CHECK(run_with("vit-plain", {{"pixel_values", image.at("batch_pixel_values")}}).code == 0);
    CHECK(run_with("whisper", {{"input_features", features}}).code == 0);
    CHECK(run_with("whisper", {{"input_features", sound.at("batch_input_features")}}).code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);

    const Ended encoded = run_with("whisper", {{"input_features", features}});
    CHECK_THAT(encoded.errors, ContainsSubstring("not computed: the decoder, since no decoder_ids are given"));
    CHECK(run_with("whisper", {{"input_features", features}, {"decoder_ids", ids}}).code == 0);
    CHECK(read_trace(folder / "t.npz").find("decoder.layers.0.cross_attn.output") != nullptr);
    CHECK(run_with("t5", {{"ids", ids}, {"decoder_ids", ids}}).code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    CHECK_THAT(run_with("t5", {{"ids", ids}, {"decoder_ids", ids}, {"decoder_lengths", ids}}).errors,
               ContainsSubstring("has an array decoder_lengths, and one sequence"));
    CHECK_THAT(run_with("t5", {{"ids", ids}, {"decoder_lengths", ids}}).errors,
               ContainsSubstring("and no decoder_ids"));
    CHECK_THAT(run_with("llama", {{"ids", ids}, {"decoder_ids", ids}}).errors,
               ContainsSubstring("has an array decoder_ids, and a model of the family llama takes ids alone"));
    const Ended both = run({"attn", "run", "model", "--weights", golden("t5"), "--dry-run"});
    CHECK_THAT(both.output,
               ContainsSubstring("decoder, which attends to what the encoder gives: vocabulary the encoder's"));

    CHECK_THAT(run_with("vit-plain", {{"ids", ids}}).errors,
               ContainsSubstring("has no array pixel_values, which a model of the family vit takes"));
    CHECK_THAT(run_with("whisper", {{"input_features", features}, {"ids", ids}}).errors,
               ContainsSubstring("has an array ids, and a model of the family whisper takes input_features alone"));
    CHECK_THAT(run_with("vit-plain", {{"pixel_values", pixels}, {"lengths", ids}}).errors,
               ContainsSubstring("has an array lengths"));
    CHECK_THAT(run_with("llama", {{"pixel_values", pixels}}).errors, ContainsSubstring("has no array ids"));

    const Ended described = run({"attn", "run", "model", "--weights", golden("vit-plain"), "--dry-run"});
    CHECK_THAT(described.output, ContainsSubstring("image 8 by 12, patches 4 by 2, d_model 24"));
    const Ended of_sound = run({"attn", "run", "model", "--weights", golden("whisper"), "--dry-run"});
    CHECK_THAT(of_sound.output, ContainsSubstring("convolutions of stride 1 and 2, activation gelu, d_model 24"));
}

TEST_CASE("attn run model reads weights in parts, by their index", "[cli][run][families]")
{
    const TemporaryFolder folder;
    REQUIRE(run_on("model", golden("llama"), folder).code == 0);
    const Recording whole = read_trace(folder / "t.npz");

    NamedArrays all = read_safetensors(golden("llama") + "/model.safetensors"), first, second;
    nlohmann::json index{{"weight_map", nlohmann::json::object()}};
    for (const auto& [name, array] : all) {
        NamedArrays& part = name < "model.layers.1" ? first : second;
        part.emplace(name, array);
        index["weight_map"][name] = &part == &first ? "a.safetensors" : "b.safetensors";
    }
    std::filesystem::copy_file(golden("llama") + "/config.json", folder / "config.json");
    write_safetensors(folder / "a.safetensors", first);
    write_safetensors(folder / "b.safetensors", second);
    std::ofstream(folder / "model.safetensors.index.json") << index.dump();
    const Ended ended = run_on("model", folder.path().string(), folder);
    CAPTURE(ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(identical(read_trace(folder / "t.npz").steps.back().value, whole.steps.back().value));

    index["weight_map"]["lm_head.weight"] = "../a.safetensors";
    std::ofstream(folder / "model.safetensors.index.json") << index.dump();
    CHECK_THAT(run_on("model", folder.path().string(), folder).errors, ContainsSubstring("expected its name"));
}

TEST_CASE("attn run model prints what a folder describes, and needs no input for it", "[cli][run][families]")
{
    const Ended ended = run({"attn", "run", "model", "--weights", golden("mixtral"), "--dry-run"});
    CHECK(ended.code == 0);
    CHECK_THAT(ended.output, ContainsSubstring("vocabulary 40, d_model 24, layers 2, parameters 16056"));
    CHECK_THAT(ended.output, ContainsSubstring("layers 0 to 1: norm rms, epsilon 1e-05, norms before, heads 4"));
    CHECK_THAT(ended.output, ContainsSubstring("window 5, rotary_base 100"));
    CHECK_THAT(ended.output, ContainsSubstring("experts 2 of 4 per token"));
    const Ended without = run({"attn", "run", "model", "--weights", golden("mixtral")});
    CHECK(without.code == 2);
    CHECK_THAT(without.errors, ContainsSubstring("--input is missing"));
}

TEST_CASE("attn run model reads a model under somebody's own names with --rename", "[cli][run][families]")
{
    const TemporaryFolder folder, own;
    REQUIRE(run_on("model", golden("llama"), folder).code == 0);
    const Array expected = read_npz(folder / "t.npz").at("output");
    NamedArrays weights;
    for (const auto& [name, array] : read_safetensors(golden("llama") + "/model.safetensors"))
        weights.emplace(name.starts_with("model.layers.") ? "blocks." + name.substr(13) : name, array);
    write_safetensors(own / "model.safetensors", weights);
    std::filesystem::copy_file(golden("llama") + "/config.json", own / "config.json");
    const std::string own_folder = own.path().string();
    const Ended unknown = run_on("model", own_folder, folder);
    CHECK(unknown.code == 2);
    CHECK_THAT(unknown.errors, ContainsSubstring("blocks.0."));
    const std::vector<std::string> rename{"--rename", "blocks.*=model.layers.*"};
    REQUIRE(run_on("model", own_folder, folder, rename).code == 0);
    CHECK(read_npz(folder / "t.npz").at("output").values == expected.values);
    CHECK(run({"attn", "run", "model", "--weights", own_folder, "--dry-run", rename[0], rename[1]}).code == 0);
    const Ended misspelt = run_on("model", own_folder, folder, {"--rename", "block.*=model.layers.*"});
    CHECK(misspelt.code == 2);
    CHECK_THAT(misspelt.errors, ContainsSubstring("--rename: block.*=model.layers.* fits no tensor"));
}

TEST_CASE("attn run model says what is missing in a folder", "[cli][run][families]")
{
    const TemporaryFolder folder, empty;
    CHECK_THAT(run_on("model", empty.path().string(), folder).errors, ContainsSubstring("config.json"));
    std::filesystem::copy_file(golden("llama") + "/config.json", empty / "config.json");
    CHECK_THAT(run_on("model", empty.path().string(), folder).errors, ContainsSubstring("model.safetensors"));
}

TEST_CASE("a part of a model whose configuration says more than the flags is refused, unless they alone should say it",
          "[cli][run][families]")
{
    const TemporaryFolder folder;
    const std::string gemma = golden("gemma") + "/model.safetensors";
    const Ended refused = run_on("rms-norm", gemma, folder, {"--prefix", "model.norm."});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.errors, ContainsSubstring("config.json describes a whole model"));
    CHECK(run_on("rms-norm", gemma, folder, {"--prefix", "model.norm.", "--without-config"}).code == 0);

    // Names that many families share.
    write_safetensors(folder / "w.safetensors", read_safetensors(golden("llama-linear") + "/model.safetensors"));
    const Ended unknown = run_on("llama", folder / "w.safetensors", folder, {"--heads", "4"});
    CHECK(unknown.code == 2);
    CHECK_THAT(unknown.errors, ContainsSubstring("names, which Llama 1 to 3, Mistral, Qwen, Gemma and others share"));
    CHECK(run_on("llama", folder / "w.safetensors", folder, {"--heads", "4", "--without-config"}).code == 0);
}

TEST_CASE("attn run model passes over fields and tensors that the reader accepts, and over no others",
          "[cli][run][families]")
{
    const TemporaryFolder folder;
    std::filesystem::copy(golden("seed-oss"), folder / "model");
    nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "model/config.json"));
    config["new_field"] = 1;
    config["other_field"] = "word";
    std::ofstream(folder / "model/config.json") << config.dump();
    NamedArrays weights = read_weights(folder / "model/model.safetensors");
    weights.emplace("classifier.weight", Array{{2, 24}, std::vector<double>(48, 0.5)});
    write_safetensors(folder / "model/model.safetensors", weights);
    const auto ended = [&](const std::vector<std::string>& flags) {
        return run_on("model", folder / "model", folder, flags);
    };
    CHECK_THAT(ended({}).errors, ContainsSubstring("has fields new_field, other_field, which are not known") &&
                                     ContainsSubstring("--accept new_field --accept other_field"));
    CHECK_THAT(ended({"--accept", "new_field"}).errors,
               ContainsSubstring("has a field other_field, which is not known"));
    CHECK_THAT(ended({"--accept", "new_field", "--accept", "other_field"}).errors,
               ContainsSubstring("classifier.weight (2, 24) is not expected"));
    const Ended right = ended({"--accept", "new_field", "--accept", "other_field", "--ignore", "classifier."});
    CAPTURE(right.errors);
    CHECK(right.code == 0);
    CHECK_THAT(ended({"--accept", "new_field", "--accept", "other_field", "--accept", "hidden_size"}).errors,
               ContainsSubstring("has a known field hidden_size"));
    CHECK_THAT(ended({"--accept", "nothing"}).errors, ContainsSubstring("has no field nothing"));
    CHECK_THAT(ended({"--accept", "new_field", "--accept", "other_field", "--ignore", "head."}).errors,
               ContainsSubstring("no tensor's name begins with head."));
    CHECK_THAT(ended({"--accept", "new_field", "--accept", "other_field", "--ignore", "classifier.", "--ignore",
                      "model.norm."})
                   .errors,
               ContainsSubstring("the model has no norm after its last layer"));

    config["model_type"] = "some_wrapper";
    for (const auto& [text, message] :
         {std::pair(nlohmann::json({{"model_type", "llama"}}), "its text_config is of the family llama"),
          {nlohmann::json({{"model_type", 5}}), "known are albert"},
          {nlohmann::json("llama"), "known are albert"}}) {
        config["text_config"] = text;
        std::ofstream(folder / "model/config.json") << config.dump();
        CHECK_THAT(ended({}).errors, ContainsSubstring(message));
    }
}
