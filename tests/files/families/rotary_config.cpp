#include "attn/files/families/rotary_config.hpp"

#include "by_hand.hpp"
#include "golden.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"

#include <algorithm>
#include <map>
#include <string>

using namespace attn;
using namespace attn::files;
using namespace attn::test;

using Json = nlohmann::json;

namespace {

/// A case of tests/golden/rotary_scaling.py: what transformers computes for a config.
using Case = std::map<std::string, Array>;

const std::map<std::string, Case>& cases()
{
    static const std::map<std::string, Case> all = [] {
        std::map<std::string, Case> by_name;
        for (const auto& [path, array] : read_golden("rotary_scaling")) {
            const std::size_t dot = path.find('.');
            by_name[path.substr(0, dot)].emplace(path.substr(dot + 1), array);
        }
        return by_name;
    }();
    return all;
}

Json config_of(const Case& of)
{
    std::string text;
    for (const double byte : of.at("config").values)
        text += static_cast<char>(byte);
    return Json::parse(text);
}

RotaryOptions options_of(const std::string& name, const Case& of)
{
    RotaryOptions options = rotary_options(config_of(of), of.at("x").shape[1]);
    options.first = static_cast<std::size_t>(of.at("first").values.at(0));
    if (name.starts_with("pairs_"))
        options.layout = RotaryLayout::pairs;
    return options;
}

const Step* find_step(const Recorder& recorder, const std::string& path)
{
    const auto& steps = recorder.steps();
    const auto found = std::ranges::find(steps, path, &Step::path);
    return found == steps.end() ? nullptr : &*found;
}

bool are_close(const Array& found, const Array& expected, double tolerance)
{
    if (found.shape != expected.shape)
        return false;
    for (std::size_t i = 0; i < found.size(); ++i)
        if (!(std::abs(found.values[i] - expected.values[i]) <=
              tolerance * std::max(1e-3, std::abs(expected.values[i]))))
            return false;
    return true;
}

std::string refusal_of(const std::string& config, std::size_t head_width = 8)
{
    return caught<Error>([&] { (void)rotary_options(Json::parse(config), head_width); }, "nothing is refused");
}

/// The same of rope parameters.
std::string refused(const std::string& parameters) { return refusal_of("{\"rope_parameters\": " + parameters + "}"); }

} // namespace

TEST_CASE("frequencies, attention factor and rotated queries of a config.json are transformers'",
          "[files][families][rotary][golden]")
{
    CHECK(cases().size() == 33);
    for (const auto& [name, of] : cases()) {
        CAPTURE(name);
        const RotaryOptions options = options_of(name, of);
        const Matrix x = from_array<Matrix>(of.at("x"));
        Recorder recorder;
        const Matrix output = rotary(x, options, Trace(recorder));

        CHECK(are_close(find_step(recorder, "frequencies")->value, of.at("frequencies"), 1e-13));
        const Step* const factor = find_step(recorder, "attention_factor");
        CHECK((factor ? factor->value.values.at(0) : 1) ==
              Approx(of.at("attention_factor").values.at(0)).epsilon(1e-14));
        // The last digit of a frequency counts as often as there are positions.
        const double positions = static_cast<double>(options.first + x.shape(0));
        CHECK(are_close(to_array(output), of.at("output"), 1e-12 + 1e-14 * positions));
        CHECK(formula::verify(recorder.recording()).passed());
    }
}

TEST_CASE("without rope parameters, rotary positions are those of 2021 in halves", "[files][families][rotary]")
{
    for (const char* config : {"{}", R"({"rope_scaling": null})", R"({"rope_parameters": {}, "rope_scaling": null})"}) {
        const auto [base, layout, first, features, scaling, positions, frequencies, axes] =
            rotary_options(Json::parse(config), 8);
        CHECK(base == 10000);
        CHECK(layout == RotaryLayout::halves);
        CHECK(first == 0);
        CHECK_FALSE(features);
        CHECK_FALSE((positions || frequencies || axes));
        CHECK(name_of(scaling) == "default");
    }
}

TEST_CASE("the parameters of one type of layers are read by themselves, and named so", "[files][families][rotary]")
{
    const Json config = Json::parse(R"({"rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "factor": 2}}})");
    const Json& of_layers = config["rope_parameters"];
    const RotaryOptions full = rotary_options(of_layers["full_attention"], config, 8, "rope_parameters.full_attention");
    CHECK(full.base == 1e6);
    CHECK(std::get<LinearScaling>(full.scaling).factor == 8);
    CHECK_THROWS_WITH(
        rotary_options(of_layers["sliding_attention"], config, 8, "rope_parameters.sliding_attention"),
        ContainsSubstring(
            "rope_parameters.sliding_attention.factor is not known for the rope_type default; known are"));
    CHECK_THROWS_WITH(rotary_options(config, 8), ContainsSubstring("rope_parameters.full_attention is not known"));
}

TEST_CASE("what a config's rope parameters have that is not known is refused by name", "[files][families][rotary]")
{
    CHECK(
        refused(R"({"rope_type": "longrope9"})") ==
        "rope_parameters.rope_type longrope9 is not known; known are default, linear, dynamic, yarn, llama3, longrope");
    CHECK(refusal_of(R"({"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}})") ==
          "rope_scaling.type mrope is not known; known are default, linear, dynamic, yarn, llama3, longrope");
    CHECK(refused(R"({"rope_type": 3})").starts_with("rope_parameters.rope_type 3 is not known"));
    CHECK(
        refused(R"({"rope_type": "linear", "factor": 2, "low_freq_factor": 1})") ==
        "rope_parameters.low_freq_factor is not known for the rope_type linear; known are rope_type, type, rope_theta, "
        "partial_rotary_factor, factor");
    CHECK(refused(R"({"mrope_section": [2, 3, 3]})")
              .starts_with("rope_parameters.mrope_section is not known for the "
                           "rope_type default"));
    CHECK(refused("[1]").starts_with("rope_parameters is [1], expected an object"));
}

TEST_CASE("a field of rope parameters that is missing or is no such number is refused by name",
          "[files][families][rotary]")
{
    CHECK(refused(R"({"rope_type": "linear"})") ==
          "rope_parameters.factor is missing, which the rope_type linear needs");
    CHECK(refused(R"({"rope_type": "dynamic", "factor": 2})") ==
          "rope_parameters.max_position_embeddings is missing, which the rope_type dynamic needs");
    CHECK(refused(R"({"rope_type": "yarn", "original_max_position_embeddings": 8})") ==
          "rope_parameters.factor is missing, which the rope_type yarn needs");
    CHECK(refused(R"({"rope_type": "longrope", "short_factor": [1], "long_factor": [1]})") ==
          "rope_parameters.original_max_position_embeddings is missing, which the rope_type longrope needs");
    const auto linear = [](const std::string& factor) {
        return refused(R"({"rope_type": "linear", "factor": )" + factor + "}");
    };
    for (const std::string factor : {"0", "-1", "true", "[2]"})
        CHECK(linear(factor) == "rope_parameters.factor is " + factor + ", expected a number above zero");
    CHECK(linear("\"8\"") == "rope_parameters.factor is 8, expected a number above zero");
    CHECK(refused(R"({"rope_theta": 0})") == "rope_parameters.rope_theta is 0, expected a number above zero");
    CHECK(refused(R"({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8.5})") ==
          "rope_parameters.original_max_position_embeddings is 8.5, expected a whole number");
    CHECK(refused(R"({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8, "truncate": 1})") ==
          "rope_parameters.truncate is 1, expected true or false");
    CHECK(refused(R"({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8, "truncate": null})") ==
          "rope_parameters.truncate is null, expected true or false"); // Python takes it for false, and absent is true
    CHECK(refused(R"({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8, "mscale": -1})") ==
          "rope_parameters.mscale is -1, expected a number from zero");
    CHECK(refused(R"({"rope_type": "longrope", "short_factor": 3})") ==
          "rope_parameters.short_factor is 3, expected a list of numbers");
    CHECK(refused(R"({"rope_type": "longrope", "short_factor": [1, "a"]})") ==
          "rope_parameters.short_factor[1] is a, expected a number above zero");
    CHECK(refused(R"({"partial_rotary_factor": 1.5})") ==
          "rope_parameters.partial_rotary_factor is 1.5, expected a number "
          "up to 1");
    CHECK(refused(R"({"partial_rotary_factor": 0.4})") == "rope_parameters.partial_rotary_factor is 0.4, expected a "
                                                          "part that makes pairs: of heads of 8 features it is 3");
}

TEST_CASE("a scaling alone is read from one object, with the length in it", "[files][families][rotary]")
{
    const Json dynamic = Json::parse(R"({"rope_type": "dynamic", "factor": 2, "max_position_embeddings": 32})");
    const auto [factor, original] = std::get<DynamicScaling>(rotary_scaling(dynamic, dynamic, ""));
    CHECK(factor == 2);
    CHECK(original == 32);
    const Json with_base = Json::parse(R"({"rope_type": "linear", "factor": 2, "rope_theta": 5})");
    CHECK_THROWS_WITH(
        rotary_scaling(with_base, with_base, ""),
        ContainsSubstring("rope_theta is not known for the rope_type linear; known are rope_type, type, factor"));
}
