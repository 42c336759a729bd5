// The small model that the lessons share, and what it has learned.

#include "lessons/small_model.hpp"

#include "golden.hpp"
#include "program.hpp"
#include "step_tables.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/json_file.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/ops/softmax.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::formula;

namespace {

const std::filesystem::path model_folder = std::filesystem::path(ATTN_SOURCE_FOLDER) / "lessons" / "small_model";

double chance(const SmallModel& model, std::string_view prompt, std::string_view word)
{
    const Matrix probabilities = softmax(gpt(model.ids(prompt), model.weights, model.options));
    return probabilities(probabilities.shape(0) - 1, static_cast<std::size_t>(model.ids(word)(0)));
}

} // namespace

TEST_CASE("every step of the small model on the lessons' sentence is PyTorch's", "[lessons][small_model][golden]")
{
    const SmallModel model = small_model();
    Recorder recorder;
    gpt(model.ids(sentence()), model.weights, model.options, Trace(recorder));
    CHECK(difference(recorder.recording(), read_golden("small_model")) == "");
    CHECK(verify(recorder.recording()).passed());
}

TEST_CASE("the small model gives more than 0.9 to the words that follow from the story", "[lessons][small_model]")
{
    const SmallModel model = small_model();
    const auto report = read_json_object(model_folder / "report.json", "a report");
    CHECK(report.at("chances").size() == 4);
    for (const auto& asked : report.at("chances")) { // as PyTorch measured, in float32
        const double found = chance(model, asked.at("prompt").get<std::string>(), asked.at("word").get<std::string>());
        CHECK(found > 0.9);
        CHECK(std::abs(found - asked.at("chance").get<double>()) < 1e-4);
    }
    CHECK(chance(small_model(Training::before), "Lily had a red ball .", "She") < 0.5);
}

TEST_CASE("the small model has the size that its report says, and is small", "[lessons][small_model]")
{
    const auto report = read_json_object(model_folder / "report.json", "a report");
    for (const Training training : {Training::before, Training::after}) {
        const SmallModel model = small_model(training);
        CHECK(total(parameters(model.weights)) == report.at("parameters").get<std::size_t>());
        CHECK(model.weights.layers.size() == 2);
        CHECK(model.options.heads == 4);
        CHECK(model.weights.token_embedding.shape(1) == 32);
    }
    CHECK(std::filesystem::file_size(model_folder / "model.safetensors") < 200'000);
    CHECK(std::filesystem::file_size(model_folder / "untrained.safetensors") < 200'000);
    CHECK(report.at("above_entropy").get<double>() < 0.02);
}

TEST_CASE("words become ids and ids words", "[lessons][small_model]")
{
    const SmallModel model = small_model();
    CHECK(sentence() == "Lily had a red ball . She");
    CHECK(model.ids(sentence()).size() == 7);
    CHECK(model.words(model.ids(sentence())) == sentence());
    CHECK(words_of("  Lily had\ta ") == std::vector<std::string>{"Lily", "had", "a"});
    CHECK(words_of(bytes_of(model_folder / "sentence.txt")) == words_of(sentence()));
    for (std::size_t i = 0; i < model.vocabulary.size(); ++i)
        CHECK(model.ids(model.vocabulary[i])(0) == static_cast<std::int64_t>(i));
    CHECK_THROWS_WITH(model.ids("Lily had a purple ball"), ContainsSubstring("no word purple"));
    CHECK_THROWS_WITH(model.words(Integers{-1}), ContainsSubstring("no word -1"));
    CHECK_THROWS_WITH(model.words(Integers{1000}), ContainsSubstring("no word 1000"));
}

TEST_CASE("the small model goes on with a story until its end", "[lessons][small_model]")
{
    const SmallModel model = small_model();
    const GptGreedyOptions options{.gpt = model.options, .end = model.ids("<end>")(0), .max_tokens = 40};
    const std::string story = model.words(continue_greedily(model.ids(sentence()), model.weights, options));
    CHECK(story.starts_with("took the ball to the zoo . The ball was red . "));
    CHECK(story.ends_with("Again Lily took the ball to the zoo . <end>")); // as it was told before
}

TEST_CASE("attn run gives the small model's logits, and attn view labels rows and columns with its words",
          "[lessons][small_model][cli]")
{
    const SmallModel model = small_model();
    const Integers ids = model.ids(sentence());
    const TemporaryFolder here;
    const std::string input = here / "ids.npz", trace = here / "trace.npz", page = here / "page.html";
    write_npz(input, {{}, {{"ids", to_array(ids)}}, {}});
    const Ended ended = run({"attn", "run", "gpt", "--heads", "4", "--weights", model_folder / "model.safetensors",
                             "--input", input, "--trace", trace, "--quiet"});
    CHECK(ended.errors == "");
    REQUIRE(ended.code == 0);
    CHECK(identical(read_npz(trace).at("logits"), to_array(gpt(ids, model.weights, model.options))));
    const Ended view = run({"attn", "view", trace, "--tokens", model_folder / "sentence.txt", "-o", page});
    CHECK(view.errors == "");
    REQUIRE(view.code == 0);
    CHECK_THAT(bytes_of(page), ContainsSubstring("[\"Lily\",\"had\",\"a\",\"red\",\"ball\",\".\",\"She\"]"));
}
