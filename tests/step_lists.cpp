// Step names are API: goldens, lessons and other people's dumps are compared by them. Each list is pinned here.

#include "generators.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const Problem problem = random_problem({}, 1);

Recorder recorded(Scoring scoring, const WeighingOptions& options)
{
    Recorder recorder;
    attend(scoring, problem, options, Trace(recorder));
    return recorder;
}

Lines steps(Scoring scoring, const WeighingOptions& options = {}) { return lines(recorded(scoring, options)); }

const WeighingOptions masked{.mask = problem.mask};
const WeighingOptions raw{.normalization = Normalization::none};
const WeighingOptions masked_raw{.mask = problem.mask, .normalization = Normalization::none};

/// How each function goes on from its scores.
Lines ending(const std::string& module, const WeighingOptions& options)
{
    const bool normalized = options.normalization == Normalization::softmax;
    const std::string scores = options.mask ? "masked" : "scores";
    Lines result;
    if (options.mask) {
        result.push_back("mask | n, m |  | " + module);
        result.push_back("masked | n, m | where(mask, scores, " + std::string(normalized ? "-inf" : "0") + ") | " +
                         module);
    }
    result.push_back("weights | n, m | " + (normalized ? "softmax(" + scores + ")" : scores) + " | " + module);
    result.push_back("context | n, d_v | weights @ values | " + module);
    return result;
}

} // namespace

TEST_CASE("the steps of dot-product attention", "[steps][attention]")
{
    const std::string module = "dot_product_attention";
    for (const WeighingOptions& options : {WeighingOptions{}, masked, raw, masked_raw})
        CHECK(steps(Scoring::dot_product, options) == Lines{
                                                          "queries | n, d_k |  | " + module,
                                                          "keys | m, d_k |  | " + module,
                                                          "values | m, d_v |  | " + module,
                                                          "scores | n, m | queries @ keys.T | " + module,
                                                      } + ending(module, options));
}

TEST_CASE("the steps of scaled dot-product attention", "[steps][attention]")
{
    CHECK(steps(Scoring::scaled_dot_product) ==
          Lines{
              "queries | n, d_k |  | scaled_dot_product_attention",
              "keys | m, d_k |  | scaled_dot_product_attention",
              "values | m, d_v |  | scaled_dot_product_attention",
              "scores | n, m | queries @ keys.T | scaled_dot_product_attention",
              "scaled | n, m | scores / sqrt(keys.shape[-1]) | scaled_dot_product_attention",
              "weights | n, m | softmax(scaled) | scaled_dot_product_attention",
              "context | n, d_v | weights @ values | scaled_dot_product_attention",
          });
}

TEST_CASE("the steps of scaled dot-product attention with a mask", "[steps][attention][mask]")
{
    CHECK(steps(Scoring::scaled_dot_product, masked) ==
          Lines{
              "queries | n, d_k |  | scaled_dot_product_attention",
              "keys | m, d_k |  | scaled_dot_product_attention",
              "values | m, d_v |  | scaled_dot_product_attention",
              "scores | n, m | queries @ keys.T | scaled_dot_product_attention",
              "scaled | n, m | scores / sqrt(keys.shape[-1]) | scaled_dot_product_attention",
              "mask | n, m |  | scaled_dot_product_attention",
              "masked | n, m | where(mask, scaled, -inf) | scaled_dot_product_attention",
              "weights | n, m | softmax(masked) | scaled_dot_product_attention",
              "context | n, d_v | weights @ values | scaled_dot_product_attention",
          });
}

TEST_CASE("a scale of the caller's is in the formula, to the last digit", "[steps][attention]")
{
    const auto formula_of_scaled = [](double scale) {
        Recorder recorder;
        scaled_dot_product_attention(problem.queries, problem.keys, problem.values, {.scale = scale}, Trace(recorder));
        return recorder.steps().at(4).formula;
    };
    CHECK(formula_of_scaled(0.125) == "scores * 0.125");
    CHECK(formula_of_scaled(1) == "scores * 1");
    CHECK(formula_of_scaled(-0.1) == "scores * -0.1");
    CHECK(formula_of_scaled(1.0 / 3) == "scores * 0.3333333333333333");
    CHECK(formula_of_scaled(1e-20) == "scores * 1e-20");
}

TEST_CASE("the steps of additive attention", "[steps][attention]")
{
    const std::string module = "additive_attention";
    for (const WeighingOptions& options : {WeighingOptions{}, masked, raw, masked_raw})
        CHECK(steps(Scoring::additive, options) ==
              Lines{
                  "queries | n, d_q |  | " + module,
                  "keys | m, d_k |  | " + module,
                  "values | m, d_v |  | " + module,
                  "query_weights | d_q, d_hidden |  | " + module,
                  "key_weights | d_k, d_hidden |  | " + module,
                  "score_weights | d_hidden |  | " + module,
                  "query_part | n, d_hidden | queries @ query_weights | " + module,
                  "key_part | m, d_hidden | keys @ key_weights | " + module,
                  "hidden | n, m, d_hidden | tanh(query_part[:, None, :] + key_part) | " + module,
                  "scores | n, m | hidden @ score_weights | " + module,
              } + ending(module, options));
}

TEST_CASE("the steps of concatenated attention", "[steps][attention]")
{
    const std::string module = "concatenated_attention";
    for (const WeighingOptions& options : {WeighingOptions{}, masked, raw, masked_raw})
        CHECK(steps(Scoring::concatenated, options) ==
              Lines{
                  "queries | n, d_q |  | " + module,
                  "keys | m, d_k |  | " + module,
                  "values | m, d_v |  | " + module,
                  "hidden_weights | d_pair, d_hidden |  | " + module,
                  "score_weights | d_hidden |  | " + module,
                  "pairs | n, m, d_pair | concat(repeat(queries[:, None, :], keys.shape[0], axis=1), "
                  "repeat(keys[None, :, :], queries.shape[0], axis=0), axis=2) | " +
                      module,
                  "hidden | n, m, d_hidden | tanh(pairs @ hidden_weights) | " + module,
                  "scores | n, m | hidden @ score_weights | " + module,
              } + ending(module, options));
}

TEST_CASE("the steps of bilinear attention", "[steps][attention]")
{
    const std::string module = "bilinear_attention";
    for (const WeighingOptions& options : {WeighingOptions{}, masked, raw, masked_raw})
        CHECK(steps(Scoring::bilinear, options) == Lines{
                                                       "queries | n, d_q |  | " + module,
                                                       "keys | m, d_k |  | " + module,
                                                       "values | m, d_v |  | " + module,
                                                       "bilinear_weights | d_q, d_k |  | " + module,
                                                       "projected | n, d_k | queries @ bilinear_weights | " + module,
                                                       "scores | n, m | projected @ keys.T | " + module,
                                                   } + ending(module, options));
}

TEST_CASE("every step says which options its function ran with", "[steps][attention]")
{
    for (const Scoring scoring : all_scorings) {
        for (const bool with_mask : {false, true}) {
            const std::string mask = with_mask ? "given" : "none";
            const StepOptions expected = scoring == Scoring::scaled_dot_product
                                             ? StepOptions{{"mask", mask}, {"bias", "none"}, {"scale", "1/sqrt(d_k)"}}
                                             : StepOptions{{"mask", mask}, {"normalization", "softmax"}};
            const Recorder recorder = recorded(scoring, with_mask ? masked : WeighingOptions{});
            for (const Step& step : recorder.steps()) {
                CAPTURE(to_string(scoring), step.path);
                CHECK(step.options == expected);
            }
        }
    }
    Recorder recorder;
    scaled_dot_product_attention(problem.queries, problem.keys, problem.values, {.scale = 0.5}, Trace(recorder));
    CHECK(recorder.steps().front().options == StepOptions{{"mask", "none"}, {"bias", "none"}, {"scale", "0.5"}});
}

TEST_CASE("every function's steps are the ones that its doc comment lists", "[steps][source]")
{
    const auto [scoring, header, function] = GENERATE(table<Scoring, std::string, std::string>({
        {Scoring::dot_product, "attention/dot_product.hpp", "dot_product_attention"},
        {Scoring::scaled_dot_product, "attention/dot_product.hpp", "scaled_dot_product_attention"},
        {Scoring::additive, "attention/additive.hpp", "additive_attention"},
        {Scoring::concatenated, "attention/additive.hpp", "concatenated_attention"},
        {Scoring::bilinear, "attention/bilinear.hpp", "bilinear_attention"},
    }));
    const std::string name = function;
    CAPTURE(name);
    const Lines listed = promised(header, function);
    REQUIRE(listed.size() > 4);
    CHECK(listed == kept(recorded(scoring, {})));
}

TEST_CASE("weigh_values lists its steps for a mask, under the name that the scores go by", "[steps][source]")
{
    Lines listed = promised("attention/weigh.hpp", "weigh_values");
    REQUIRE(listed.size() == 4);
    for (std::string& line : listed)
        if (const std::size_t name = line.find("NAME"); name != std::string::npos)
            line.replace(name, 4, "given");
    Recorder recorder;
    weigh_values(Matrix{{1, 2}}, "given", Matrix{{1}, {2}}, {.mask = Mask{{true, false}}}, Trace(recorder));
    CHECK(listed == kept(recorder));
    CHECK(recorder.steps().front().module.empty());
}
