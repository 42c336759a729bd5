#include "golden_cases.hpp"

#include "run_module.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

std::string text_of(const Array& bytes)
{
    std::string text;
    for (const double byte : bytes.values)
        text += static_cast<char>(byte);
    return text;
}

void add(GoldenCase& one, const std::string& part, const std::string& name, Array array)
{
    if (part == "run")
        one.command = text_of(array);
    else if (part == "steps")
        one.steps.emplace_back(name, std::move(array));
    else if (part == "input")
        one.input.emplace(name, std::move(array));
    else if (part == "weights")
        one.weights.emplace(name, std::move(array));
    else if (part == "gradients")
        one.gradients.emplace(name, std::move(array));
    else
        throw std::out_of_range(one.name + "/" + part);
}

/// The first gradient that is another, in words; empty where all agree.
std::string difference(const Recording& backward, const files::NamedArrays& gradients)
{
    const StepNames names(backward);
    for (const auto& [name, expected] : gradients) {
        if (name == "seed")
            continue;
        const std::optional<std::size_t> found = names.find(name);
        if (!found)
            return "the gradient " + name + " is missing";
        const Array& value = backward.steps[*found].value;
        if (value.shape != expected.shape)
            return name + " has the shape " + to_string(value.shape) + ", expected " + to_string(expected.shape);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (!(std::abs(value.values[i] - expected.values[i]) <=
                  1e-11 * std::max(1.0, std::abs(expected.values[i]))))
                return name + " differs at " + to_string(index_at(i, expected.shape));
    }
    return "";
}

} // namespace

std::vector<GoldenCase> golden_cases(const std::string& golden)
{
    std::vector<GoldenCase> cases;
    for (auto& [path, array] : read_golden(golden)) {
        const std::size_t end = path.find('/'), last = path.rfind('/');
        if (cases.empty() || cases.back().name != path.substr(0, end))
            cases.push_back({path.substr(0, end)});
        add(cases.back(), path.substr(end + 1, last == end ? std::string::npos : last - end - 1), path.substr(last + 1),
            std::move(array));
    }
    return cases;
}

std::vector<GoldenCase> module_cases(const std::vector<std::string>& goldens)
{
    std::vector<GoldenCase> cases;
    for (const std::string& golden : goldens)
        for (GoldenCase& one : golden_cases(golden))
            if (!one.command.empty())
                cases.push_back(std::move(one));
    return cases;
}

void GoldenCase::run(const Trace& trace) const { run_module(words_of(command), input, weights, trace); }

TEST_CASE("attn run gives every step of every golden case, and the gradients of those that have some", "[golden][run]")
{
    // The goldens, and how many of their cases a module of attn run computes.
    const auto [golden, count] = GENERATE(table<std::string, std::size_t>({
        {"attention", 80},  // 5 functions, 4 sizes, 4 masks
        {"layers", 51},     // 32 of heads, 14 of layers, 2 of encoders, 3 of positions
        {"decoder", 16},    // 14 of layers, 2 of Transformers of 6 + 6
        {"restricted", 71}, // 5 sizes of 11 neighbourhoods, 16 of talking heads
        {"sinks", 5},
        {"experts", 14},
        {"latent_attention", 32},
        {"gated_attention", 4},
        {"gated_delta_net", 16},
        {"differential_attention", 9},
        {"recurrent", 24}, // 10 of nn.GRU, 10 of nn.LSTM, 4 with the reset gate before the product
        {"llama", 20},
    }));
    const std::vector<GoldenCase> cases = module_cases({golden});
    CHECK(cases.size() == count);
    for (const GoldenCase& one : cases) {
        CAPTURE(golden, one.name, one.command);
        Recorder recorder;
        REQUIRE_NOTHROW(one.run(Trace(recorder)));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
        if (!one.gradients.empty()) {
            const Recording backward =
                gradients(recorder.recording(), {.of = "output", .seed = one.gradients.at("seed")});
            CHECK(verify(backward).passed());
            CHECK(difference(backward, one.gradients) == "");
        }
    }
}

TEST_CASE("the gradients of what models of today attend with are central differences", "[golden][run][gradient]")
{
    const std::string golden = GENERATE("experts", "latent_attention", "gated_delta_net");
    for (const GoldenCase& one : module_cases({golden})) {
        CAPTURE(golden, one.name);
        Recorder recorder;
        one.run(Trace(recorder));
        const Recording backward = gradients(recorder.recording(), {.of = "output"});
        CHECK(verify(backward).passed());
        const std::vector<GradientCheck> checks = check_gradients(backward);
        const std::size_t only_choosing = one.weights.count("router.e_score_correction_bias");
        CHECK(checks.size() == one.input.size() + one.weights.size() - only_choosing);
        for (const GradientCheck& check : checks) {
            CAPTURE(check.input, check.by_gradient, check.by_differences, check.error);
            CHECK(check.agrees());
        }
    }
}
