// Step names are API: goldens, lessons and other people's dumps are compared by them. Doc comments list them; here are the
// options that change a list.

#include "generators.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const Problem problem = random_problem({}, 1);

Recorder recorded(Scoring scoring, const OptionalMask& mask, const WeighingOptions& options = {})
{
    Recorder recorder;
    attend(scoring, problem, mask, options, Trace(recorder));
    return recorder;
}

const WeighingOptions raw{.normalization = Normalization::none};

} // namespace

TEST_CASE("rows that differ are those of the table with -, those of the run with +, and no others", "[steps]")
{
    const Lines table{"x", "scores | q @ k.T", "weights | softmax(scores)", "output"};
    CHECK(different_rows(table, table) == "");
    CHECK(different_rows(table, {"x", "scores | k @ q.T", "weights | softmax(scores)", "output"}) ==
          "- scores | q @ k.T\n+ scores | k @ q.T\n");
    CHECK(different_rows(table, {"x", "weights | softmax(scores)", "output", "more"}) ==
          "- scores | q @ k.T\n+ more\n");
    CHECK(different_rows({}, {"x"}) == "+ x\n");

    Recorder recorder;
    const Trace trace(recorder);
    const Term x = trace.input("x[n]", Term(Vector{1, 2}));
    trace.alias("same", "x");
    CHECK(different_rows(Lines{"x | (n,) | ", "same | (n,) | = x"}, recorder) == "");
    CHECK(different_rows(Lines{"same | (n,) | = y"}, recorder) ==
          "+ x | (n,) | \n- same | (n,) | = y\n+ same | (n,) | = x\n");
    CHECK(different_among({"y | (n,) | "}, recorder) == "- y | (n,) | \n+ y is missing\n");
}

TEST_CASE("with a mask, every attention masks its last scores before softmax", "[steps][attention][mask]")
{
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        const Lines open = kept(recorded(scoring, {}));
        const std::string last = scoring == Scoring::scaled_dot_product ? "scaled" : "scores";
        const Lines given{"mask | (n, m) | ", "masked | (n, m) | where(mask, " + last + ", -inf)",
                          "weights | (n, m) | softmax(masked)", "context | (n, d_v) | weights @ values"};
        const Lines before(open.begin(), open.end() - 2);
        CHECK(different_rows(before + given, recorded(scoring, problem.mask)) == "");
        Lines causal = given;
        causal.front() = "causal | (n, m) | arange(4) <= arange(3)[:, None] + (4 - 3)";
        CHECK(different_rows(before + causal, recorded(scoring, {}, {.causal = Causal::bottom_right})) == "");
    }
}

TEST_CASE("without normalisation, weights are another name of the scores", "[steps][attention]")
{
    for (const Scoring scoring : all_scorings) {
        if (scoring == Scoring::scaled_dot_product)
            continue;
        CAPTURE(to_string(scoring));
        const Recorder open = recorded(scoring, {}, raw), masked = recorded(scoring, problem.mask, raw);
        CHECK(row_of("weights | (n, m) | = scores", open) == "weights | (n, m) | = scores");
        CHECK(row_of("weights | (n, m) | = masked", masked) == "weights | (n, m) | = masked");
        CHECK(row_of("masked |", masked) == "masked | (n, m) | where(mask, scores, 0)");
    }
}

TEST_CASE("a given scale is in the formula, to the last digit", "[steps][attention]")
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

TEST_CASE("every step says which options its function ran with", "[steps][attention]")
{
    for (const Scoring scoring : all_scorings) {
        for (const bool with_mask : {false, true}) {
            const std::string mask = with_mask ? "given" : "none";
            const StepOptions expected = scoring == Scoring::scaled_dot_product
                                             ? StepOptions{{"mask", mask}, {"bias", "none"}, {"scale", "1/sqrt(d_k)"}}
                                             : StepOptions{{"mask", mask}, {"normalization", "softmax"}};
            const Recorder recorder = recorded(scoring, with_mask ? OptionalMask(problem.mask) : std::nullopt);
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
        {Scoring::dot_product, "reference/attention/dot_product.hpp", "dot_product_attention"},
        {Scoring::scaled_dot_product, "reference/attention/dot_product.hpp", "scaled_dot_product_attention"},
        {Scoring::additive, "reference/attention/additive.hpp", "additive_attention"},
        {Scoring::concatenated, "reference/attention/additive.hpp", "concatenated_attention"},
        {Scoring::bilinear, "reference/attention/bilinear.hpp", "bilinear_attention"},
    }));
    const std::string name = function;
    CAPTURE(name);
    const Lines listed = promised(header, function);
    REQUIRE(listed.size() > 4);
    CHECK(different_rows(listed, recorded(scoring, {})) == "");
}

TEST_CASE("weigh_values lists its steps for a mask, under the name that the scores go by", "[steps][source]")
{
    Lines listed = promised("reference/attention/weigh.hpp", "weigh_values");
    REQUIRE(listed.size() == 4);
    for (std::string& line : listed)
        if (const std::size_t name = line.find("NAME"); name != std::string::npos)
            line.replace(name, 4, "given");
    Recorder recorder;
    weigh_values(Matrix{{1, 2}}, "given", Matrix{{1}, {2}}, {.mask = Mask{{true, false}}}, Trace(recorder));
    CHECK(different_rows(listed, recorder) == "");
    CHECK(recorder.steps().front().module.empty());
}
