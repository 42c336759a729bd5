// Published models, read from their folders, against what transformers computes: see tests/families/make.py.

#include "attn/files/families/model.hpp"

#include "attn/core/recorder.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"
#include "attn/mistakes/pitfalls.hpp"
#include "attn/reference/models/encoder_decoder.hpp"
#include "attn/reference/ops/matmul.hpp"

#include "by_hand.hpp"
#include "sources.hpp"
#include "temporary_folder.hpp"
#include "caught.hpp"
#include "test.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

using namespace attn;
using namespace attn::files;
using attn::test::same_bits;

namespace {

const std::filesystem::path goldens = std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests" / "golden" / "families";

/// Those of models of text.
std::vector<std::filesystem::path> folders()
{
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
        const NamedArrays expected = read_npz(entry.path() / "expected.npz");
        if (expected.contains("ids") && !expected.contains("decoder_ids"))
            all.push_back(entry.path());
    }
    std::ranges::sort(all);
    REQUIRE(all.size() >= 30);
    return all;
}

Model model_in(const std::filesystem::path& folder) { return read_model(folder, read_weights(folder)); }

/// The largest difference, relative to the largest number.
template <class Left, class Right>
double distance(const Left& found, const Right& expected)
{
    REQUIRE(shape_of(found) == shape_of(expected));
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double one = std::abs(found.data()[i] - expected.data()[i]);
        difference = !(one <= difference) ? one : difference;
        size = std::max(size, std::abs(expected.data()[i]));
    }
    return difference / size;
}

template <class T>
T array_in(const NamedArrays& arrays, const std::string& name)
{
    return from_array<T>(arrays.at(name));
}

/// What transformers gives: logits, or the last hidden states.
template <class T>
T expected_of(const NamedArrays& expected, const std::string& which = "")
{
    return array_in<T>(expected, which + (expected.contains("logits") ? "logits" : "output"));
}

/// Whether frequencies depend on the length of the text: keys in a cache are then rotated by those of a shorter one.
bool depends_on_length(const Model& model)
{
    const RotaryScaling& scaling = model.description.layers.front().attention.rotary.scaling;
    return std::holds_alternative<DynamicScaling>(scaling) || std::holds_alternative<LongRopeScaling>(scaling);
}

/// The refusal of the small Llama with a change to its configuration.
std::string refused(const std::string& family, const std::function<void(nlohmann::json&)>& change)
{
    const TemporaryFolder folder;
    nlohmann::json config = read_json_object(goldens / family / "config.json", "a configuration");
    change(config);
    std::ofstream(folder / "config.json") << config.dump();
    return test::caught<Error>([&] { (void)read_model(folder / "", read_weights(goldens / family)); });
}

} // namespace

TEST_CASE("published models give what transformers gives, of a sequence and of a padded batch", "[families]")
{
    for (const std::filesystem::path& folder : folders()) {
        CAPTURE(folder.filename().string());
        const Model model = model_in(folder);
        const NamedArrays expected = read_npz(folder / "expected.npz");
        const auto ids = array_in<Integers>(expected, "ids");
        CHECK(distance(language_model(ids, model.weights, model.description), expected_of<Matrix>(expected)) <= 1e-12);

        const auto lengths = array_in<Integers>(expected, "batch_lengths");
        const Tensor3 batch =
            language_model(array_in<IntegerMatrix>(expected, "batch_ids"), lengths, model.weights, model.description);
        const auto expected_batch = expected_of<Tensor3>(expected, "batch_");
        for (std::size_t b = 0; b < lengths.size(); ++b) {
            const auto real = [&, length = static_cast<std::size_t>(lengths(b))](const Tensor3& all) {
                return Matrix(xt::view(all, b, xt::range(std::size_t{0}, length), xt::all()));
            };
            CHECK(distance(real(batch), real(expected_batch)) <= 1e-12);
        }
    }
}

TEST_CASE("a batch that is padded on the left gives its tokens what they have without padding, or is refused",
          "[families]")
{
    std::size_t computed = 0;
    for (const std::filesystem::path& folder : folders()) {
        CAPTURE(folder.filename().string());
        const Model model = model_in(folder);
        const NamedArrays expected = read_npz(folder / "expected.npz");
        const auto lengths = array_in<Integers>(expected, "batch_lengths");
        const auto ids = array_in<IntegerMatrix>(expected, "batch_ids");
        const std::size_t n = ids.shape(1);
        IntegerMatrix moved = ids;
        moved.fill(static_cast<std::int64_t>(model.description.padding_id.value_or(0)));
        Mask mask(ids.shape(), false);
        for (std::size_t b = 0; b < lengths.size(); ++b) {
            const auto length = static_cast<std::size_t>(lengths(b));
            xt::view(moved, b, xt::range(n - length, n)) = xt::view(ids, b, xt::range(std::size_t{0}, length));
            xt::view(mask, b, xt::range(n - length, n)) = true;
        }
        const auto& layers = model.description.layers;
        const bool has_chunks =
            std::ranges::any_of(layers, [](const BlockDescription& layer) { return layer.chunk.has_value(); });
        if (has_chunks || has_states(model.weights) || (model.weights.positions && model.description.is_causal)) {
            CHECK_THROWS_WITH(language_model(moved, mask, model.weights, model.description),
                              ContainsSubstring("padding stands before a token"));
            CHECK_NOTHROW(language_model(ids, Mask(ids.shape(), true), model.weights, model.description));
            continue;
        }
        if (model.weights.positions && !model.description.padding_id)
            continue; // an encoder's, whose positions count padding: other numbers
        Recorder recorder;
        const Tensor3 found = language_model(moved, mask, model.weights, model.description, Trace(recorder));
        CHECK(formula::verify(recorder.recording()).passed());
        const auto of_batch = expected_of<Tensor3>(expected, "batch_");
        for (std::size_t b = 0; b < lengths.size(); ++b) {
            const auto length = static_cast<std::size_t>(lengths(b));
            const Matrix real = xt::view(found, b, xt::range(n - length, n), xt::all());
            if (!depends_on_length(model))
                CHECK(distance(real, Matrix(xt::view(of_batch, b, xt::range(std::size_t{0}, length), xt::all()))) <=
                      1e-12);
        }
        ++computed;
    }
    CHECK(computed >= 20);
}

TEST_CASE("published models give the same token by token with a cache", "[families][property]")
{
    for (const std::filesystem::path& folder : folders()) {
        CAPTURE(folder.filename().string());
        const Model model = model_in(folder);
        if (depends_on_length(model) || !model.description.is_causal || !model.description.has_logits)
            continue;
        const NamedArrays expected = read_npz(folder / "expected.npz");
        const auto ids = array_in<Integers>(expected, "ids");
        const auto logits = array_in<Matrix>(expected, "logits");
        LanguageModelCache<Matrix> cache;
        for (std::size_t i = 0; i < ids.size();) {
            const std::size_t taken = i == 0 ? 3 : 1; // a prompt, then one by one
            const Integers next = xt::view(ids, xt::range(i, i + taken));
            LanguageModelStep<Matrix> step = language_model(next, cache, model.weights, model.description);
            CHECK(distance(step.logits, Matrix(xt::view(logits, xt::range(i, i + taken), xt::all()))) <= 1e-12);
            cache = std::move(step.cache);
            i += taken;
        }
    }
}

TEST_CASE("every step of a published model follows from its formula, with a cache, too", "[families]")
{
    for (const std::filesystem::path& folder : folders()) {
        CAPTURE(folder.filename().string());
        const Model model = model_in(folder);
        Recorder recorder;
        const Trace trace(recorder);
        const auto ids = array_in<Integers>(read_npz(folder / "expected.npz"), "ids");
        const Trace at_once = trace.scope("at_once"), first = trace.scope("first"), then = trace.scope("then");
        (void)language_model(ids, model.weights, model.description, at_once);
        if (!model.description.is_causal) {
            CHECK(formula::verify(recorder.recording()).passed());
            continue;
        }
        const Integers prompt = xt::view(ids, xt::range(std::size_t{0}, std::size_t{7})),
                       rest = xt::view(ids, xt::range(std::size_t{7}, ids.size()));
        const auto step = language_model(prompt, {}, model.weights, model.description, first);
        (void)language_model(rest, step.cache, model.weights, model.description, then);
        const formula::Verification verification = formula::verify(recorder.recording());
        CHECK(verification.passed());
    }
}

TEST_CASE("layers of a published model, one after the other, give what transformers gives", "[families]")
{
    for (const std::filesystem::path& folder : folders()) {
        CAPTURE(folder.filename().string());
        const NamedArrays expected = read_npz(folder / "expected.npz");
        const std::size_t layers = model_in(folder).weights.layers.size();
        Matrix tokens;
        Recorder recorder;
        for (std::size_t i = 0; i < layers; ++i) {
            const LayerRange range{i, i + 1};
            const NamedArrays arrays = read_weights(folder, {}, tensors_of(folder, range));
            CHECK(arrays.size() < read_weights(folder).size());
            const Model part = read_model(folder, arrays, range);
            const Trace root(recorder);
            const Trace trace = root.scope("part", i);
            tokens = i == 0 ? language_model(array_in<Integers>(expected, "ids"), part.weights, part.description, trace)
                            : language_model(tokens, part.weights, part.description, trace);
            const std::string scope = "part." + std::to_string(i) + ".layers.";
            CHECK(recorder.recording().find(scope + std::to_string(i) + ".output") != nullptr);
            CHECK(recorder.recording().find(scope + std::to_string(i + 1) + ".output") == nullptr);
        }
        CHECK(distance(tokens, expected_of<Matrix>(expected)) <= 1e-12);
        CHECK(formula::verify(recorder.recording()).passed());
    }
}

TEST_CASE("layers of a model name the tensors that they lack, and layers that are not there are refused", "[families]")
{
    const std::filesystem::path folder = goldens / "llama";
    const std::size_t layers = model_in(folder).weights.layers.size();
    NamedArrays arrays = read_weights(folder);
    const std::string missing = "model.layers.1.self_attn.k_proj.weight";
    arrays.erase(missing);
    CHECK_NOTHROW(read_model(folder, arrays, {0, 1}));
    CHECK_THROWS_WITH(read_model(folder, arrays, {1, {}}), ContainsSubstring(missing + " is missing"));
    arrays = read_weights(folder);
    arrays["model.layers." + std::to_string(layers) + ".mlp.up_proj.weight"] = Array{{1, 1}, {0}};
    CHECK_THROWS_WITH(read_model(folder, arrays, {0, 1}),
                      ContainsSubstring("mlp.up_proj.weight (1, 1) is not expected"));
    CHECK_THROWS_WITH(tensors_of(folder, {layers, {}}), ContainsSubstring("are none of them"));
    CHECK_THROWS_WITH(read_model(folder, read_weights(folder), {0, layers + 1}), ContainsSubstring("are none of them"));
}

TEST_CASE("an encoder adds what its table has for the types of tokens", "[families]")
{
    for (const char* name : {"bert", "bert-mlm"}) {
        const Model model = model_in(goldens / name);
        const NamedArrays expected = read_npz(goldens / name / "expected.npz");
        const auto ids = array_in<Integers>(expected, "ids"), types = array_in<Integers>(expected, "token_type_ids");
        const auto typed = expected_of<Matrix>(expected, "typed_");
        Recorder recorder;
        CHECK(distance(language_model(ids, model.weights, model.description, {.token_types = types}, Trace(recorder)),
                       typed) <= 1e-12);
        CHECK(formula::verify(recorder.recording()).passed());
        CHECK(distance(language_model(ids, model.weights, model.description), typed) > 1e-3);
        CHECK_THROWS_WITH(language_model(ids, model.weights, model.description, {.token_types = Integers{0, 1}}),
                          ContainsSubstring("token_types (2,) and ids (12,) must have the same shape"));
        CHECK_THROWS_WITH(language_model(ids, {}, model.weights, model.description),
                          ContainsSubstring("an encoder has no cache"));
    }
    const Model without = model_in(goldens / "modernbert");
    CHECK_THROWS_WITH(
        language_model(Integers{1, 2}, without.weights, without.description, {.token_types = Integers{0, 0}}),
        ContainsSubstring("the model has no table of them"));
}

TEST_CASE("encoders of images give what transformers gives, alone and in a batch", "[families]")
{
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
        const NamedArrays expected = read_npz(entry.path() / "expected.npz");
        if (!expected.contains("pixel_values") || expected.contains("spatial_shapes"))
            continue;
        CAPTURE(entry.path().filename().string());
        const Model model = model_in(entry.path());
        Recorder recorder;
        const Trace trace(recorder);
        const Trace one = trace.scope("one"), batch = trace.scope("batch");
        CHECK(distance(image_model(array_in<Tensor3>(expected, "pixel_values"), model.weights, model.description, one),
                       array_in<Matrix>(expected, "output")) <= 1e-12);
        CHECK(distance(image_model(array_in<Tensor4>(expected, "batch_pixel_values"), model.weights, model.description,
                                   batch),
                       array_in<Tensor3>(expected, "batch_output")) <= 1e-12);
        CHECK(formula::verify(recorder.recording()).passed());
        ++count;
    }
    CHECK(count >= 5);
}

TEST_CASE("an image of any size, whose patches are cut already, has positions that are resized to it", "[families]")
{
    const std::filesystem::path folder = goldens / "siglip2-vision";
    const Model model = model_in(folder);
    const NamedArrays expected = read_npz(folder / "expected.npz");
    const auto patches = array_in<Matrix>(expected, "pixel_values");
    Recorder recorder;
    CHECK(distance(image_model(patches, {2, 5}, model.weights, model.description, Trace(recorder)),
                   array_in<Matrix>(expected, "output")) <= 1e-12);
    CHECK(formula::verify(recorder.recording()).passed());
    CHECK_THROWS_WITH(image_model(patches, {2, 4}, model.weights, model.description),
                      ContainsSubstring("expected 8 patches, 2 rows of 4"));
    const Model vit = model_in(goldens / "vit-plain");
    CHECK_THROWS_WITH(image_model(patches, {2, 5}, vit.weights, vit.description),
                      ContainsSubstring("no map of patches"));
}

TEST_CASE("tokens of words and images stand in time, height and width", "[families]")
{
    std::size_t count = 0;
    for (const std::filesystem::path& folder : folders()) {
        const NamedArrays expected = read_npz(folder / "expected.npz");
        if (!expected.contains("inputs_embeds"))
            continue;
        CAPTURE(folder.filename().string());
        const Model model = model_in(folder);
        const auto tokens = array_in<Matrix>(expected, "inputs_embeds");
        const auto places = array_in<Matrix>(expected, "position_ids");
        Recorder recorder;
        const Matrix output = language_model(tokens, model.weights, model.description, places, Trace(recorder));
        CHECK(distance(output, array_in<Matrix>(expected, "embedded_output")) <= 1e-12);
        CHECK(distance(language_model(tokens, model.weights, model.description), output) > 1e-3);
        CHECK(formula::verify(recorder.recording()).passed());

        Matrix alike(places.shape());
        for (std::size_t i = 0; i < alike.size(); ++i)
            alike.data()[i] = static_cast<double>(i % alike.shape(1));
        CHECK(same_bits(language_model(tokens, model.weights, model.description, alike),
                        language_model(tokens, model.weights, model.description)));
        CHECK_THROWS_WITH(language_model(tokens, model.weights, model.description, Matrix{{0, 1}}),
                          ContainsSubstring("coordinates (1, 2)"));
        ++count;
    }
    CHECK(count >= 4);
    const Model plain = model_in(goldens / "qwen2");
    CHECK_THROWS_WITH(language_model(Integers{1}, plain.weights, plain.description, {.coordinates = Matrix{{0}}}),
                      ContainsSubstring("layer 0 rotates along one axis"));
}

TEST_CASE("frequencies of a file are those of the model, of each layer alike, or else follow from their base",
          "[families]")
{
    const std::filesystem::path folder = goldens / "esm";
    const std::string own = "rotary_embeddings.inv_freq";
    const NamedArrays arrays = read_weights(folder), expected = read_npz(folder / "expected.npz");
    const auto ids = array_in<Integers>(expected, "ids");
    const auto output_of = [&](const NamedArrays& of) {
        const Model model = read_model(folder, of);
        return language_model(ids, model.weights, model.description);
    };
    NamedArrays without = arrays;
    const auto has_own = [&](const auto& array) { return array.first.ends_with(own); };
    std::erase_if(without, has_own);
    REQUIRE(without.size() == arrays.size() - 1);
    const Array& frequencies = std::ranges::find_if(arrays, has_own)->second;
    const Matrix right = output_of(arrays);
    CHECK(distance(output_of(without), right) > 1e-5); // they are rounded in the file
    NamedArrays of_model = without, of_before = without;
    of_model.emplace(own, frequencies);
    CHECK(same_bits(output_of(of_model), right));
    for (const char* layer : {"0", "1"})
        of_before.emplace("encoder.layer." + std::string(layer) + ".attention.self." + own, frequencies);
    CHECK(same_bits(output_of(of_before), right));
    of_before.at("encoder.layer.1.attention.self." + own).values.back() += 0.5;
    CHECK_THROWS_WITH(output_of(of_before), ContainsSubstring("is not the same as in another layer"));
}

TEST_CASE("the logits of the last tokens alone are those of all tokens", "[families]")
{
    Model model = model_in(goldens / "qwen2");
    const auto ids = array_in<Integers>(read_npz(goldens / "qwen2" / "expected.npz"), "ids");
    const Matrix all = language_model(ids, model.weights, model.description);
    REQUIRE(all.shape(0) > 2);
    for (const std::size_t kept : {std::size_t{1}, std::size_t{2}, all.shape(0), all.shape(0) + 1}) {
        model.description.logits_to_keep = kept;
        const Matrix last = language_model(ids, model.weights, model.description);
        const std::size_t first = all.shape(0) - std::min(kept, all.shape(0));
        CHECK(distance(last, Matrix(xt::view(all, xt::range(first, all.shape(0)), xt::all()))) < 1e-13);
    }
}

TEST_CASE("poolers give what transformers gives, and follow from their formulas", "[families]")
{
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
        const NamedArrays expected = read_npz(entry.path() / "expected.npz");
        if (!expected.contains("pooled"))
            continue;
        CAPTURE(entry.path().filename().string());
        const auto& [family, description, weights, not_computed, encoder] = model_in(entry.path());
        Recorder recorder;
        const Trace trace(recorder);
        const Trace one = trace.scope("one"), batch = trace.scope("batch");
        if (expected.contains("spatial_shapes")) {
            const auto grid = array_in<Integers>(expected, "spatial_shapes");
            (void)image_model(array_in<Matrix>(expected, "pixel_values"),
                              {static_cast<std::size_t>(grid(0)), static_cast<std::size_t>(grid(1))}, weights,
                              description, one);
        } else if (expected.contains("ids")) {
            (void)language_model(array_in<Integers>(expected, "ids"), weights, description, one);
            (void)language_model(array_in<IntegerMatrix>(expected, "batch_ids"),
                                 array_in<Integers>(expected, "batch_lengths"), weights, description, batch);
        } else {
            (void)image_model(array_in<Tensor3>(expected, "pixel_values"), weights, description, one);
            (void)image_model(array_in<Tensor4>(expected, "batch_pixel_values"), weights, description, batch);
        }
        CHECK(formula::verify(recorder.recording()).passed());
        for (const auto& [path, name] :
             {std::pair("one.pooler.pooled", "pooled"), {"batch.pooler.pooled", "batch_pooled"}}) {
            if (!expected.contains(name))
                continue; // patches are those of one image
            const Step* found = recorder.recording().find(path);
            REQUIRE(found != nullptr);
            const Array& right = expected.at(name);
            REQUIRE(found->value.values.size() == right.values.size());
            for (std::size_t i = 0; i < right.values.size(); ++i)
                CHECK(std::abs(found->value.values[i] - right.values[i]) <= 1e-12);
        }
        ++count;
    }
    CHECK(count >= 16);
}

TEST_CASE("poolers are read as the configuration says, and what is wrong with them is said", "[families]")
{
    const auto refused_weights = [](const std::string& family, const std::function<void(NamedArrays&)>& change) {
        NamedArrays arrays = read_weights(goldens / family);
        change(arrays);
        return test::caught<Error>([&] { (void)read_model(goldens / family, std::move(arrays)); });
    };
    const auto with = [&](const std::string& family, const std::string& name, const Shape& shape) {
        return refused_weights(family, [&](NamedArrays& arrays) {
            Array& array = arrays.at(name);
            array.shape = shape;
            array.values.resize(element_count(shape));
        });
    };
    const auto without = [&](const std::string& family, const std::string& beginning) {
        return refused_weights(family, [&](NamedArrays& arrays) {
            REQUIRE(std::erase_if(arrays, [&](const auto& entry) { return entry.first.starts_with(beginning); }) > 0);
        });
    };
    CHECK_THAT(with("siglip-vision", "head.probe", {1, 2, 24}),
               ContainsSubstring("head.probe is (2, 24), expected (d_model,)"));
    CHECK_THAT(without("siglip-vision", "head."),
               ContainsSubstring("the pooler has no query that attends to all tokens"));
    CHECK_THAT(without("siglip-vision", "head.mlp."), ContainsSubstring("the pooler has no network"));
    CHECK_THAT(without("siglip-vision", "head.attention.in_proj_bias"), ContainsSubstring("in_proj_bias"));
    CHECK_THAT(without("siglip-text", "head."), ContainsSubstring("the pooler has no map"));
    CHECK_THAT(with("siglip-text", "head.weight", {9, 24}), ContainsSubstring("head.weight is (9, 24)"));
    CHECK_THAT(without("clip-vision", "post_layernorm."), ContainsSubstring("the pooler has no norm"));
    CHECK_THAT(without("clip-text-projection", "text_projection."), ContainsSubstring("the pooler has no map"));
    CHECK_THAT(refused("clip-text-projection", [](auto& config) { config["projection_dim"] = 11; }),
               ContainsSubstring("text_projection.weight is (10, 24)"));
    CHECK_THAT(refused("clip-text", [](auto& config) { config["eos_token_id"] = nullptr; }),
               ContainsSubstring("eos_token_id is null"));
    CHECK_THAT(refused("siglip-vision", [](auto& config) { config["vision_use_head"] = false; }),
               ContainsSubstring("the pooler has a query"));

    NamedArrays arrays = read_weights(goldens / "bert");
    std::erase_if(arrays, [](const auto& entry) { return entry.first.starts_with("pooler."); });
    CHECK(!read_model(goldens / "bert", std::move(arrays)).description.pooler); // saved without

    const auto [family, description, weights, not_computed, encoder] = model_in(goldens / "clip-text-projection");
    CHECK_THROWS_WITH(language_model(Integers{1, 2, 3}, weights, description),
                      ContainsSubstring("no token of id 7, the end of a text"));
    const Model later = read_model(goldens / "clip-text", read_weights(goldens / "clip-text"), {.first = 1});
    REQUIRE(later.not_computed.size() == 1);
    CHECK_THAT(later.not_computed.front(), ContainsSubstring("the pooled result"));
}

namespace {

/// A model with an encoder and a decoder, and what transformers gives.
struct Pair {
    EncoderDecoderDescription description;
    EncoderDecoderWeights weights;
    NamedArrays expected;
};

std::vector<Pair> pairs()
{
    std::vector<Pair> all;
    for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
        NamedArrays expected = read_npz(entry.path() / "expected.npz");
        if (!expected.contains("decoder_ids"))
            continue;
        Model model = model_in(entry.path());
        REQUIRE(model.encoder);
        all.push_back({{model.encoder->description, model.description},
                       {model.encoder->weights, model.weights},
                       std::move(expected)});
    }
    REQUIRE(all.size() >= 5);
    return all;
}

Matrix result_of(const Pair& pair, const Trace& trace = {})
{
    const auto& [description, weights, expected] = pair;
    const auto ids = array_in<Integers>(expected, "decoder_ids");
    if (expected.contains("input_features"))
        return encoder_decoder(array_in<Matrix>(expected, "input_features"), ids, weights, description, trace);
    return encoder_decoder(array_in<Integers>(expected, "ids"), ids, weights, description, trace);
}

} // namespace

TEST_CASE("models with an encoder and a decoder give what transformers gives, and every step follows from its formula",
          "[families]")
{
    for (const Pair& pair : pairs()) {
        const auto& [description, weights, expected] = pair;
        Recorder recorder;
        const Trace trace(recorder);
        const Trace one = trace.scope("one"), batch = trace.scope("batch");
        CHECK(distance(result_of(pair, one), expected_of<Matrix>(expected)) <= 1e-12);
        CHECK(same_bits(result_of(pair), result_of(pair, trace.scope("again"))));

        const auto lengths = array_in<Integers>(expected, "batch_decoder_lengths");
        const auto ids = array_in<IntegerMatrix>(expected, "batch_decoder_ids");
        const Tensor3 found = expected.contains("input_features")
                                  ? encoder_decoder(array_in<Tensor3>(expected, "batch_input_features"), ids, lengths,
                                                    weights, description, batch)
                                  : encoder_decoder(array_in<IntegerMatrix>(expected, "batch_ids"),
                                                    array_in<Integers>(expected, "batch_lengths"), ids, lengths,
                                                    weights, description, batch);
        const auto expected_batch = expected_of<Tensor3>(expected, "batch_");
        for (std::size_t b = 0; b < lengths.size(); ++b) {
            const auto real = [&, length = static_cast<std::size_t>(lengths(b))](const Tensor3& all) {
                return Matrix(xt::view(all, b, xt::range(std::size_t{0}, length), xt::all()));
            };
            CHECK(distance(real(found), real(expected_batch)) <= 1e-12);
        }
        CHECK(formula::verify(recorder.recording()).passed());
    }
}

TEST_CASE("a decoder gives the same token by token, with the keys and values that it made of its memory once",
          "[families][property]")
{
    std::size_t count = 0;
    for (const Pair& pair : pairs()) {
        const auto& [description, weights, expected] = pair;
        const auto ids = array_in<Integers>(expected, "decoder_ids");
        const auto logits = expected_of<Matrix>(expected);
        Recorder whole;
        (void)result_of(pair, Trace(whole));
        const auto memory = from_array<Matrix>(whole.recording().find("encoder.output")->value);
        const auto* words = std::get_if<Matrix>(&weights.encoder.embedding);
        Recorder recorder;
        const Trace trace(recorder);
        const Trace start = trace.scope("start");
        const std::vector<KeyValueCache> of_memory = memory_cache(memory, weights.decoder, start);
        LanguageModelCache<Matrix> cache;
        const auto step = [&](std::size_t i, std::size_t taken) {
            const Trace call = trace.scope("call", i);
            const Integers next = xt::view(ids, xt::range(i, i + taken));
            auto [found, longer] =
                language_model(next, cache, of_memory, weights.decoder, description.decoder, words, call);
            CHECK(distance(found, Matrix(xt::view(logits, xt::range(i, i + taken), xt::all()))) <= 1e-12);
            cache = std::move(longer);
        };
        step(0, 3); // a prompt, then one by one
        if (description.decoder.padding_id) {
            CHECK_THROWS_WITH(step(3, 1), ContainsSubstring("counts its tokens by their ids"));
            continue;
        }
        for (std::size_t i = 3; i < ids.size(); ++i)
            step(i, 1);
        CHECK(formula::verify(recorder.recording()).passed());
        ++count;
    }
    CHECK(count >= 4);
}

TEST_CASE("a decoder needs what its encoder gives, and no other model takes that", "[families]")
{
    const Model t5 = model_in(goldens / "t5"), llama = model_in(goldens / "llama");
    const auto& words = std::get<Matrix>(t5.encoder->weights.embedding);
    const Integers ids{3, 1};
    CHECK_THROWS_WITH(language_model(ids, t5.weights, t5.description, {.embedding = &words}),
                      ContainsSubstring("the layer attends to a memory, and none is given"));
    CHECK_THROWS_WITH(language_model(ids, t5.weights, t5.description), ContainsSubstring("no table of words"));
    CHECK_THROWS_WITH(language_model(ids, llama.weights, llama.description, {.memory = words}),
                      ContainsSubstring("a memory is given, and the layer has no cross-attention"));
    CHECK_THROWS_WITH(memory_cache(words, llama.weights), ContainsSubstring("layer 0 has no cross-attention"));
    CHECK_THROWS_WITH(read_model(goldens / "t5", read_weights(goldens / "t5"), {0, 1}),
                      ContainsSubstring("computed as a whole"));
    CHECK_THAT(refused("t5",
                       [](nlohmann::json& config) {
                           config["feed_forward_proj"] = "gated-gelu";
                           config.erase("is_gated_act");
                       }),
               ContainsSubstring("has no gate of its network, and config.json says that there is one"));
    CHECK_THAT(refused("t5", [](nlohmann::json& config) { config["is_encoder_decoder"] = false; }),
               ContainsSubstring("one cache for both attentions"));
    CHECK_THAT(refused("t5", [](nlohmann::json& config) { config["relative_attention_num_buckets"] = 6; }),
               ContainsSubstring("relative_attention_bias.weight is (8, 4), expected (buckets, h) = (6, 4)"));
}

TEST_CASE(
    "a network has the activation and the gate that dense_act_fn and is_gated_act say, whatever feed_forward_proj does",
    "[families]")
{
    const Model umt5 = model_in(goldens / "umt5");
    const Integers ids{3, 1, 7};
    for (const nlohmann::json& other : {nlohmann::json("relu"), nlohmann::json("gated-gelu"), nlohmann::json()}) {
        INFO(other.dump());
        const TemporaryFolder folder;
        nlohmann::json config = read_json_object(goldens / "umt5" / "config.json", "a configuration");
        REQUIRE(config["dense_act_fn"] == "silu");
        config.erase("feed_forward_proj");
        if (!other.is_null())
            config["feed_forward_proj"] = other;
        std::ofstream(folder / "config.json") << config.dump();
        const Model changed = read_model(folder / "", read_weights(goldens / "umt5"));
        CHECK(same_bits(language_model(ids, changed.encoder->weights, changed.encoder->description),
                        language_model(ids, umt5.encoder->weights, umt5.encoder->description)));
    }
}

TEST_CASE("an encoder of a model that has a decoder, too, can be published alone", "[families]")
{
    const TemporaryFolder folder;
    nlohmann::json config = read_json_object(goldens / "t5" / "config.json", "a configuration");
    config["architectures"] = {"T5EncoderModel"};
    std::ofstream(folder / "config.json") << config.dump();
    NamedArrays arrays = read_weights(goldens / "t5");
    std::erase_if(arrays, [](const auto& entry) { return entry.first.starts_with("decoder."); });
    const Model alone = read_model(folder / "", arrays), whole = model_in(goldens / "t5");
    CHECK_FALSE(alone.encoder);
    const Integers ids{3, 1, 7};
    CHECK(same_bits(language_model(ids, alone.weights, alone.description),
                    language_model(ids, whole.encoder->weights, whole.encoder->description)));
}

TEST_CASE("encoders of images and sounds are given what they were made for", "[families]")
{
    const Model vit = model_in(goldens / "vit-plain"), whisper = model_in(goldens / "whisper");
    const NamedArrays of_image = read_npz(goldens / "vit-plain" / "expected.npz"),
                      of_sound = read_npz(goldens / "whisper" / "expected.npz");
    const auto image = array_in<Tensor3>(of_image, "pixel_values");
    const auto sound = array_in<Matrix>(of_sound, "input_features");
    Recorder recorder;
    const Trace trace(recorder);
    const Trace third = trace.scope("one"), fourth = trace.scope("batch");
    const auto& [encoder, weights] = *whisper.encoder;
    CHECK(distance(sound_model(sound, weights, encoder, third), array_in<Matrix>(of_sound, "encoder_output")) <= 1e-12);
    CHECK(distance(sound_model(array_in<Tensor3>(of_sound, "batch_input_features"), weights, encoder, fourth),
                   array_in<Tensor3>(of_sound, "batch_encoder_output")) <= 1e-12);
    CHECK(formula::verify(recorder.recording()).passed());

    const Tensor3 turned = xt::transpose(image, {0, 2, 1}); // as many patches of 2 by 4
    CHECK_THROWS_WITH(image_model(turned, vit.weights, vit.description),
                      ContainsSubstring("expected an image of 8 by 12 pixels"));
    const Matrix shorter = xt::view(sound, xt::all(), xt::range(std::size_t{0}, sound.shape(1) - 2));
    CHECK_THROWS_WITH(sound_model(shorter, weights, encoder), ContainsSubstring("there are 7 tokens, expected 8"));
    CHECK_THROWS_WITH(sound_model(sound, vit.weights, vit.description), ContainsSubstring("the weights have 0"));
    CHECK_THROWS_WITH(image_model(image, weights, encoder), ContainsSubstring("no patch embedding"));
    CHECK_THROWS_WITH(language_model(Integers{1}, vit.weights, vit.description),
                      ContainsSubstring("no table of words"));
}

TEST_CASE("tensors of an encoder are read under the names of before, and twice where they are the same", "[families]")
{
    const std::filesystem::path folder = goldens / "bert-mlm";
    const NamedArrays today = read_weights(folder);
    const auto logits = [&](NamedArrays arrays) {
        const Model model = read_model(folder, std::move(arrays));
        return language_model(Integers{4, 0, 7}, model.weights, model.description);
    };
    const Matrix expected = logits(today);

    NamedArrays before;
    for (const auto& [name, array] : today) {
        std::string then = name;
        for (const auto& [now, old] :
             {std::pair("LayerNorm.weight", "LayerNorm.gamma"), {"LayerNorm.bias", "LayerNorm.beta"}})
            if (then.ends_with(now))
                then.replace(then.size() - std::string(now).size(), std::string::npos, old);
        before[then] = array;
    }
    before["cls.predictions.decoder.weight"] = before.at("bert.embeddings.word_embeddings.weight");
    before["cls.predictions.decoder.bias"] = before.at("cls.predictions.bias");
    before["bert.embeddings.position_ids"] = Array{{1, 20}, std::vector<double>(20), ElementType::integer};
    before["cls.seq_relationship.bias"] = Array{{2}, {1, 2}};
    CHECK(distance(logits(before), expected) == 0);
    CHECK(read_model(folder, before).not_computed ==
          std::vector<std::string>{"cls.seq_relationship.bias: whether one sentence follows the other"});

    before["cls.predictions.decoder.bias"].values[3] += 1;
    CHECK_THROWS_WITH(logits(before), ContainsSubstring("is not the same as cls.predictions.bias"));
    NamedArrays twice = today;
    twice["bert.embeddings.LayerNorm.gamma"] = twice.at("bert.embeddings.LayerNorm.weight");
    CHECK_THROWS_WITH(logits(twice), ContainsSubstring("bert.embeddings.LayerNorm.weight is there twice"));
}

TEST_CASE("norms and biases around the layers must be there where the family has them, and nowhere else", "[families]")
{
    const auto refusal = [](const std::string& family, const std::string& name, bool is_left_out) -> std::string {
        NamedArrays arrays = read_weights(goldens / family);
        if (is_left_out)
            arrays.erase(name);
        else
            arrays[name] = arrays.begin()->second;
        return test::caught<Error>([&] { (void)read_model(goldens / family, std::move(arrays)); });
    };
    CHECK_THAT(refusal("llama", "model.norm.weight", true), ContainsSubstring("has no norm after its last layer"));
    CHECK_THAT(refusal("phi", "lm_head.bias", true), ContainsSubstring("has no bias of its logits"));
    CHECK_THAT(refusal("llama", "lm_head.bias", false), ContainsSubstring("lm_head.bias"));
    CHECK_THAT(refusal("modernbert", "embeddings.norm.weight", true), ContainsSubstring("no norm after its embedding"));
    CHECK_THAT(refusal("modernbert", "layers.1.attn_norm.weight", true),
               ContainsSubstring("layer 1 has no norm before its attention"));
    CHECK_THAT(refusal("bert", "embeddings.token_type_embeddings.weight", true),
               ContainsSubstring("has no table of token types"));
    CHECK_THAT(refusal("bert", "cls.predictions.bias", false), ContainsSubstring("cls.predictions.bias"));
    CHECK_THAT(refusal("roberta-mlm", "lm_head.bias", true), ContainsSubstring("has no bias of its logits"));
    CHECK_THAT(refusal("roberta-mlm", "lm_head.layer_norm.weight", true), ContainsSubstring("is missing"));
}

TEST_CASE("a window that is missing or off by one, or a sink that is left out, changes what gpt-oss gives",
          "[families][pitfalls]")
{
    const std::filesystem::path folder = goldens / "gpt-oss";
    const Model model = model_in(folder);
    const NamedArrays expected = read_npz(folder / "expected.npz");
    for (const char* id : {"window_missing", "window_off_by_one", "sink_missing"}) {
        CAPTURE(id);
        mistakes::Mistaken mistaken(*std::ranges::find(mistakes::pitfalls(), id, &mistakes::Pitfall::id));
        const Matrix found =
            language_model(array_in<Integers>(expected, "ids"), model.weights, model.description, Trace(mistaken));
        CHECK(distance(found, array_in<Matrix>(expected, "logits")) > 1e-4);
    }
}

TEST_CASE("tensors of all experts that do not divide, or are there twice, are refused", "[families]")
{
    const std::filesystem::path folder = goldens / "gpt-oss";
    const auto refusal = [&](const std::string& name, const Array& array) -> std::string {
        NamedArrays arrays = read_weights(folder);
        arrays["model.layers.1." + name] = array;
        return test::caught<Error>([&] { (void)read_model(folder, std::move(arrays)); });
    };
    const auto zeros = [](const Shape& shape) { return Array{shape, std::vector<double>(element_count(shape))}; };
    CHECK_THAT(refusal("mlp.experts.gate_up_proj", zeros({4, 24, 23})),
               ContainsSubstring("mlp.experts.gate_up_proj is (4, 24, 23), expected (experts, in, 2 * out)"));
    CHECK_THAT(refusal("mlp.experts.gate_up_proj_bias", zeros({24})),
               ContainsSubstring("is (24,), expected (experts, 2 * out)"));
    CHECK_THAT(refusal("mlp.experts.0.up_proj.weight", zeros({12, 24})), ContainsSubstring("there by itself, too"));
    CHECK_THAT(refusal("mlp.experts.down_proj", zeros({5, 12, 24})), ContainsSubstring("experts.4"));
    CHECK_THAT(refusal("self_attn.sinks", zeros({3})),
               ContainsSubstring("self_attn.sinks is (3,), expected (h,) = (4,)"));
    NamedArrays arrays = read_weights(folder);
    arrays.erase("model.layers.0.self_attn.sinks");
    CHECK_THROWS_WITH(read_model(folder, std::move(arrays)),
                      ContainsSubstring("layer 0 has no sink of each head, and config.json says that there is one"));
}

TEST_CASE("positions of each type of layers are refused where the family has one rotation", "[families]")
{
    const auto by_type = [](nlohmann::json& config) {
        const nlohmann::json rotation = config["rope_parameters"];
        config["rope_parameters"] = {{"full_attention", rotation}, {"sliding_attention", nullptr}};
    };
    CHECK_THAT(refused("smollm3", by_type), ContainsSubstring("full_attention"));
    CHECK(refused("gemma3", [](nlohmann::json& config) {
              config["rope_parameters"]["full_attention"]["rope_theta"] = 5;
          }).empty());
    CHECK_THAT(refused("olmo3",
                       [](nlohmann::json& config) {
                           config["rope_parameters"] = {{"rope_theta", 100}};
                       }),
               ContainsSubstring("rope_parameters has rope_theta, expected full_attention and sliding_attention"));
    CHECK_THAT(refused("olmo3",
                       [](nlohmann::json& config) { config["rope_parameters"]["full_attention"]["truncate"] = false; }),
               ContainsSubstring("full_attention.truncate is false, expected true"));
}

TEST_CASE("a scaling of OLMo 3's configurations of before is that of layers without a window", "[families]")
{
    const TemporaryFolder folder;
    nlohmann::json config = read_json_object(goldens / "olmo3" / "config.json", "a configuration");
    nlohmann::json& by_type = config["rope_parameters"];
    by_type["sliding_attention"]["rope_theta"] = 500000; // what transformers' class has
    const auto description = [&] {
        std::ofstream(folder / "config.json") << config.dump();
        return read_model(folder / "", read_weights(goldens / "olmo3")).description;
    };
    const LanguageModelDescription now = description();
    config["rope_scaling"] = by_type["full_attention"];
    config["rope_scaling"].erase("rope_theta");
    config["rope_theta"] = by_type["full_attention"]["rope_theta"];
    config.erase("rope_parameters");
    const LanguageModelDescription before = description();
    REQUIRE(before.layers.size() == 3);
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(describe(before.layers[i]) == describe(now.layers[i]));
    CHECK(describe(now.layers[0]) != describe(now.layers[1]));
}

TEST_CASE("a model without its head gives what the head makes logits of", "[families]")
{
    for (const auto& [name, architecture, prefix, head] :
         {std::tuple("llama", "LlamaModel", "model.", "lm_head.weight"),
          {"gpt-neox", "GPTNeoXModel", "gpt_neox.", "embed_out.weight"},
          {"gemma3", "Gemma3TextModel", "model.", nullptr}}) {
        CAPTURE(name);
        const TemporaryFolder folder;
        nlohmann::json config = read_json_object(goldens / name / "config.json", "a configuration");
        config["architectures"] = {architecture};
        std::ofstream(folder / "config.json") << config.dump();
        NamedArrays arrays;
        for (auto& [tensor, array] : read_weights(goldens / name))
            if (head == nullptr || tensor != head)
                arrays.emplace(tensor.starts_with(prefix) ? tensor.substr(std::string_view(prefix).size()) : tensor,
                               array);
        const Model model = read_model(folder / "", arrays);
        CHECK_FALSE(model.description.has_logits);
        const NamedArrays expected = read_npz(goldens / name / "expected.npz");
        const Matrix last = language_model(array_in<Integers>(expected, "ids"), model.weights, model.description);
        LanguageModelWeights whole = model_in(goldens / name).weights;
        const LanguageModelDescription description = model_in(goldens / name).description;
        Matrix logits = matmul(last, whole.output ? *whole.output : transpose(std::get<Matrix>(whole.embedding)));
        if (const auto cap = description.logit_softcap)
            logits = *cap * xt::tanh(logits / *cap);
        CHECK(distance(logits, expected_of<Matrix>(expected)) <= 1e-12);
    }
    CHECK_THAT(refused("llama", [](nlohmann::json& config) { config["architectures"] = {"GemmaModel"}; }),
               ContainsSubstring("known of this family is LlamaForCausalLM and LlamaModel"));
}

TEST_CASE("gelu of Gemma's first releases is its tanh approximation", "[families]")
{
    const TemporaryFolder folder;
    nlohmann::json config = read_json_object(goldens / "gemma" / "config.json", "a configuration");
    config["hidden_act"] = "gelu";
    std::ofstream(folder / "config.json") << config.dump();
    const Model model = read_model(folder / "", read_weights(goldens / "gemma"));
    const NamedArrays expected = read_npz(goldens / "gemma" / "expected.npz");
    const Matrix logits = language_model(array_in<Integers>(expected, "ids"), model.weights, model.description);
    CHECK(distance(logits, expected_of<Matrix>(expected)) <= 1e-12);
}

TEST_CASE("padding between tokens is refused where ALiBi counts distances", "[families]")
{
    const Model model = model_in(goldens / "bloom");
    const IntegerMatrix ids(std::array<std::size_t, 2>{1, 4}, 5);
    Mask mask(ids.shape(), true);
    mask(0, 0) = false;
    CHECK_NOTHROW(language_model(ids, mask, model.weights, model.description));
    mask(0, 2) = false;
    CHECK_THROWS_WITH(language_model(ids, mask, model.weights, model.description),
                      ContainsSubstring("padding stands between tokens"));
}

TEST_CASE("a configuration that says something unknown is refused by name", "[families]")
{
    const auto with = [](const std::string& field, const nlohmann::json& value) {
        return [=](nlohmann::json& config) { config[field] = value; };
    };
    CHECK_THAT(refused("llama", with("parallel_norm", true)),
               ContainsSubstring("has a field parallel_norm, which is not known"));
    CHECK_THAT(refused("llama", with("hidden_act", "mish")),
               ContainsSubstring("hidden_act is \"mish\", expected one of relu"));
    CHECK_THAT(refused("llama", with("model_type", "llama9")), ContainsSubstring("model_type \"llama9\" is not known"));
    CHECK_THAT(refused("llama", with("model_type", 3)), ContainsSubstring("has no model_type"));
    CHECK_THAT(refused("llama", with("rope_parameters", {{"rope_type", "longrope9"}})),
               ContainsSubstring("rope_parameters.rope_type longrope9 is not known"));
    CHECK_THAT(refused("llama", with("is_causal", false)), ContainsSubstring("is_causal is false, expected true"));
    CHECK_THAT(refused("marian", with("is_causal", false)), ContainsSubstring("is_causal is false, expected true"));
    for (const auto& [family, field] : {std::pair("cohere-qk-norm", "use_qk_norm"),
                                        {"stablelm-parallel", "qk_layernorm"},
                                        {"phi-qk-norm", "qk_layernorm"}})
        CHECK_THAT(
            refused(family, with(field, false)),
            ContainsSubstring("layer 0 has a norm of queries or of keys, and config.json says that there is none"));
    CHECK_THAT(refused("dinov3", with("num_register_tokens", 0)),
               ContainsSubstring("the model has a list of register tokens, and config.json says that there is none"));
    CHECK_THAT(refused("dinov3", with("num_register_tokens", 2)),
               ContainsSubstring("register_tokens is (3, 32), expected (registers, d_model) = (2, 32)"));
    CHECK_THAT(refused("esm", with("is_folding_model", true)), ContainsSubstring("the folding of proteins"));
    CHECK_THAT(refused("esm-mlm", with("position_embedding_type", "relative_key")),
               ContainsSubstring("position_embedding_type is \"relative_key\", expected \"absolute\""));
    CHECK_THAT(refused("qwen2-vl", with("rope_parameters", {{"rope_type", "default"}, {"mrope_section", {1, 2, 2}}})),
               ContainsSubstring("mrope_section is [1,2,2], expected a sum of 4, the pairs of a head"));
    CHECK_THAT(refused("llama", with("quantization_config", {{"bits", 4}})), ContainsSubstring("quantised weights"));
    CHECK_THAT(refused("llama", with("attention_bias", true)),
               ContainsSubstring("has no bias of its query map, and config.json says that there is one"));
    CHECK_THAT(refused("llama", with("architectures", {"LlamaForSequenceClassification"})),
               ContainsSubstring("known of this family is LlamaForCausalLM"));
    CHECK_THAT(refused("llama", with("num_attention_heads", 8)),
               ContainsSubstring("q_proj.weight is (24, 24), expected (h_d_k, d_model) = (48, 24)"));
    CHECK_THAT(refused("gemma3", with("rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}})),
               ContainsSubstring("has rope_scaling and rope_parameters, expected one of them"));
    CHECK_THAT(refused("gemma3", with("layer_types", {"full_attention"})),
               ContainsSubstring("layer_types lists 1 layers"));
    CHECK_THAT(refused("falcon-new", with("parallel_attn", false)), ContainsSubstring("transformers fails"));
    CHECK_THAT(refused("deepseek-v3", with("head_dim", 6)),
               ContainsSubstring("head_dim is 6, expected qk_rope_head_dim, 8"));
    CHECK_THAT(refused("deepseek-v3", with("qk_head_dim", 13)),
               ContainsSubstring("qk_head_dim is 13, expected qk_nope_head_dim + qk_rope_head_dim, 14"));
    CHECK_THAT(refused("deepseek-v3", with("num_key_value_heads", 2)),
               ContainsSubstring("num_key_value_heads is 2, expected num_attention_heads, 4"));
    CHECK_THAT(refused("deepseek-v3", with("q_lora_rank", nullptr)),
               ContainsSubstring("layer 0 has a latent of queries, and config.json says that there is none"));
    CHECK_THAT(refused("deepseek-v3", with("kv_lora_rank", 9)),
               ContainsSubstring("kv_a_layernorm.weight is (10,), expected (d_c,) = (9,)"));
    CHECK_THAT(refused("deepseek-v3", with("first_k_dense_replace", 0)),
               ContainsSubstring("layer 0 has no mixture of experts, and config.json says that there is one"));
    CHECK_THAT(refused("deepseek-v3", with("n_shared_experts", 0)),
               ContainsSubstring("layer 1 has a shared expert, and config.json says that there is none"));
    CHECK_THAT(refused("deepseek-v3", with("n_group", nullptr)),
               ContainsSubstring("n_group is null, expected a whole number"));
    CHECK_THAT(refused("gemma", with("use_bidirectional_attention", true)), ContainsSubstring("drops it with sdpa"));
    CHECK_THAT(refused("gemma2", with("use_bidirectional_attention", true)), ContainsSubstring("drops it with sdpa"));
    CHECK_THAT(refused("gpt-oss", with("swiglu_alpha", 1)), ContainsSubstring("swiglu_alpha is 1, expected 1.702"));
    CHECK_THAT(refused("qwen3-next", with("hidden_act", "gelu")),
               ContainsSubstring("hidden_act is \"gelu\", expected \"silu\""));
    CHECK_THAT(refused("deepseek-v2", with("topk_method", "noaux_tc")),
               ContainsSubstring("topk_method is \"noaux_tc\", expected \"greedy\""));
    CHECK_THAT(
        refused("deepseek-v2", with("attention_bias", false)),
        ContainsSubstring("layer 0 has a bias of its query latent's map, and config.json says that there is none"));
    CHECK_THAT(refused("qwen3-next", with("layer_types", {"full_attention", "linear_attention", "linear_attention",
                                                          "full_attention"})),
               ContainsSubstring("layer 0 has a gated DeltaNet, and config.json says that there is none"));
    CHECK_THAT(refused("qwen3-next",
                       [](nlohmann::json& config) {
                           config.erase("layer_types");
                           config["full_attention_interval"] = 2;
                       }),
               ContainsSubstring("layer 1 has a gated DeltaNet, and config.json says that there is none"));
    CHECK_THAT(refused("qwen3-next", with("linear_num_key_heads", 3)),
               ContainsSubstring("4 heads of values can't be divided evenly among 3 heads of keys"));
    CHECK_THAT(refused("qwen3-next", with("linear_value_head_dim", 5)),
               ContainsSubstring("linear_attn.in_proj_qkvz.weight is (56, 24), expected 64 rows: 2 times 32"));
    CHECK_THAT(refused("qwen3-next", with("linear_conv_kernel_dim", 3)),
               ContainsSubstring("conv1d.weight is (40, 1, 4), expected"));
    CHECK_THAT(refused("qwen3", with("layer_types", {"linear_attention", "full_attention"})),
               ContainsSubstring("layer_types has \"linear_attention\", expected full_attention"));
    CHECK(refused("qwen3-next", [](nlohmann::json& config) { config.erase("layer_types"); }).empty());
    CHECK_THAT(refused("bert", with("is_decoder", true)), ContainsSubstring("is_decoder is true, expected false"));
    CHECK_THAT(refused("bert", with("add_cross_attention", true)), ContainsSubstring("add_cross_attention is true"));
    CHECK_THAT(refused("bert", with("position_embedding_type", "relative_key")),
               ContainsSubstring("position_embedding_type is \"relative_key\", expected \"absolute\""));
    CHECK_THAT(refused("bert", with("architectures", {"BertForSequenceClassification"})),
               ContainsSubstring("known of this family is BertModel and BertForMaskedLM"));
    CHECK_THAT(refused("bert-mlm", with("tie_word_embeddings", false)),
               ContainsSubstring("tie_word_embeddings is false, expected true"));
    CHECK_THAT(refused("roberta", with("pad_token_id", nullptr)), ContainsSubstring("pad_token_id is null"));
    CHECK_THAT(refused("vit-plain", with("patch_size", {2, 4})),
               ContainsSubstring("projection.weight is (24, 1, 4, 2), expected"));
    CHECK_THAT(refused("vit-plain", with("image_size", {8, 13})),
               ContainsSubstring("columns of pixels can't be divided evenly"));
    CHECK_THAT(refused("vit-plain", with("num_channels", 3)), ContainsSubstring("(24, 1, 4, 2), expected"));
    CHECK_THAT(refused("whisper", with("num_hidden_layers", 2)),
               ContainsSubstring("num_hidden_layers is 2, expected 1"));
    CHECK_THAT(refused("whisper", with("num_mel_bins", 7)), ContainsSubstring("conv1.weight is (24, 18), expected"));
    CHECK_THAT(refused("modernbert", with("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}})),
               ContainsSubstring("rope_scaling is {"));
    CHECK(refused("llama", [](nlohmann::json&) {}).empty());
}

TEST_CASE("a count that is 0, or that does not divide, is refused in every family by its field", "[families]")
{
    const std::set<std::string> counts{"num_attention_heads",
                                       "n_head",
                                       "n_heads",
                                       "num_key_value_heads",
                                       "hidden_size",
                                       "n_embd",
                                       "dim",
                                       "d_model",
                                       "sliding_window_pattern",
                                       "full_attention_interval",
                                       "linear_num_key_heads",
                                       "linear_num_value_heads",
                                       "decoder_sparse_step",
                                       "global_attn_every_n_layers",
                                       "no_rope_layer_interval",
                                       "encoder_attention_heads",
                                       "n_group",
                                       "kv_lora_rank",
                                       "attention_chunk_size",
                                       "floor_scale",
                                       "num_hidden_layers",
                                       "n_layer",
                                       "patch_size"};
    std::set<std::string> refused_fields;
    for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
        const std::string family = entry.path().filename().string();
        const nlohmann::json config = read_json_object(entry.path() / "config.json", "a configuration");
        for (const auto& [field, value] : config.items())
            if (counts.contains(field) && value.is_number())
                for (const nlohmann::json& wrong : {nlohmann::json(0), nlohmann::json(-1), nlohmann::json(1.5)}) {
                    CAPTURE(family, field, wrong.dump());
                    const std::string message = refused(family, [&](nlohmann::json& other) { other[field] = wrong; });
                    CHECK_THAT(message, ContainsSubstring(field + " is "));
                    refused_fields.insert(field);
                }
    }
    CHECK(refused_fields.size() > 15);
    CHECK_THAT(refused("gptj", [](nlohmann::json& config) { config["rotary_dim"] = nullptr; }),
               ContainsSubstring("rotary_dim is null")); // transformers fails
    for (const char* field : {"hidden_size", "num_hidden_layers"})
        CHECK_THAT(refused("llama", [&](nlohmann::json& config) { config[field] = nullptr; }),
                   ContainsSubstring("does not say how many"));
    CHECK_THAT(refused("mixtral", [](nlohmann::json& config) { config["num_key_value_heads"] = 3; }),
               ContainsSubstring("4 heads can't be divided evenly among 3 key/value heads"));
    CHECK_THAT(refused("deepseek-v3", [](nlohmann::json& config) { config["n_group"] = 7; }),
               ContainsSubstring("can't be divided evenly among 7 groups"));
}

TEST_CASE("a configuration of more layers than the weights have is refused before there is memory for them",
          "[families]")
{
    for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
        const std::string family = entry.path().filename().string();
        const TemporaryFolder folder;
        nlohmann::json config = read_json_object(entry.path() / "config.json", "a configuration");
        for (const char* field : {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"})
            if (config.contains(field))
                config[field] = 1'000'000'000;
        for (const char* by_layer : {"layer_types", "no_rope_layers", "use_sliding_window"})
            config.erase(by_layer);
        std::filesystem::copy_file(entry.path() / "model.safetensors", folder / "model.safetensors");
        std::ofstream(folder / "config.json") << config.dump();
        CAPTURE(family);
        CHECK_THROWS_WITH(tensors_of(folder / "", {}), ContainsSubstring("1000000000 layers, and the weights have"));
        CHECK_THROWS_WITH(read_model(folder / "", read_weights(folder / "")),
                          ContainsSubstring("1000000000 layers, and the weights have"));
    }
}

TEST_CASE("the page on models has every family", "[families][docs]")
{
    const std::string page = attn::test::source_file("docs/families.md").text;
    for (const auto& entry : std::filesystem::directory_iterator(ATTN_SOURCE_FOLDER "/src/files/families"))
        if (entry.path().extension() == ".json" && entry.path().stem() != "common") {
            CAPTURE(entry.path());
            CHECK(page.find('`' + entry.path().stem().string() + '`') != std::string::npos);
        }
}
