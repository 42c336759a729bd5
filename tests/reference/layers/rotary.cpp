#include "attn/reference/layers/rotary.hpp"

#include "laws.hpp"
#include "pairs_by_hand.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/reference/layers/cache.hpp"

#include <cmath>
#include <functional>
#include <numbers>

using namespace attn;
using namespace attn::test;

namespace {

constexpr RotaryLayout rotary_layouts[] = {RotaryLayout::pairs, RotaryLayout::halves};

/// Each pair, features 2i and 2i + 1, turned by its angle.
Matrix rotary_by_hand(const Matrix& x, double base, std::size_t first)
{
    Matrix turned(x.shape());
    for (std::size_t p = 0; p < x.shape(0); ++p)
        for (std::size_t i = 0; i < x.shape(1) / 2; ++i) {
            const double angle = static_cast<double>(first + p) * frequency_by_hand(i, x.shape(1), base);
            turned(p, 2 * i) = x(p, 2 * i) * std::cos(angle) - x(p, 2 * i + 1) * std::sin(angle);
            turned(p, 2 * i + 1) = x(p, 2 * i) * std::sin(angle) + x(p, 2 * i + 1) * std::cos(angle);
        }
    return turned;
}

double dot_by_hand(const Matrix& left, std::size_t i, const Matrix& right, std::size_t j)
{
    double sum = 0;
    for (std::size_t k = 0; k < left.shape(1); ++k)
        sum += left(i, k) * right(j, k);
    return sum;
}

/// A scaling, and the frequency that each pair has by it, pair by pair as its paper says.
struct Scaled {
    RotaryScaling scaling;
    std::size_t n; ///< tokens from position 0
    std::function<double(std::size_t pair)> frequency;
    double attention_factor = 1;
};

constexpr std::size_t width = 16; ///< features that are rotated
constexpr double base = 500;

/// YaRN's gamma: 1 for pairs that rotate at least `fast` times within the original length, 0 for those below `slow`.
double kept_by_yarn(std::size_t pair, double original, double fast, double slow, bool truncate)
{
    const auto place = [&](double rotations) { // where base^(-2 place / d) original = 2 pi rotations
        return width / 2.0 * std::log(original / (2 * std::numbers::pi * rotations)) / std::log(base);
    };
    const double low = std::max(truncate ? std::floor(place(fast)) : place(fast), 0.0);
    const double high = std::min(truncate ? std::ceil(place(slow)) : place(slow), width - 1.0);
    const auto i = static_cast<double>(pair);
    return i <= low ? 1 : i >= high ? 0 : 1 - (i - low) / (high - low);
}

std::function<double(std::size_t)> by_yarn(double factor, double original, double fast, double slow, bool truncate)
{
    return [=](std::size_t pair) {
        const double trained = frequency_by_hand(pair, width, base),
                     kept = kept_by_yarn(pair, original, fast, slow, truncate);
        return kept * trained + (1 - kept) * trained / factor;
    };
}

/// By the three cases that Meta's program tells apart.
double by_llama3(std::size_t pair, double factor, double low, double high, double original)
{
    const double trained = frequency_by_hand(pair, width, base), wavelength = 2 * std::numbers::pi / trained;
    if (wavelength < original / high)
        return trained;
    if (wavelength > original / low)
        return trained / factor;
    const double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * trained / factor + smooth * trained;
}

double by_dynamic(std::size_t pair, double factor, double length, double original)
{
    const double longest = std::max(length, original);
    const double slower = std::pow(factor * longest / original - factor + 1, width / (width - 2.0));
    return frequency_by_hand(pair, width, base * slower);
}

const Vector brief{1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4}, extended{1, 1.5, 2, 4, 8, 16, 24, 32};

const std::vector<Scaled>& scaled()
{
    using std::log;
    const auto as_trained = [](std::size_t pair) { return frequency_by_hand(pair, width, base); };
    static const std::vector<Scaled> all{
        {std::monostate{}, 5, as_trained},
        {LinearScaling{.factor = 8}, 5, [](std::size_t i) { return frequency_by_hand(i, width, base) / 8; }},
        {DynamicScaling{.factor = 2, .original_length = 4}, 3, as_trained},
        {DynamicScaling{.factor = 2, .original_length = 4}, 4, as_trained},
        {DynamicScaling{.factor = 3, .original_length = 4}, 6, [](std::size_t i) { return by_dynamic(i, 3, 6, 4); }},
        {YarnScaling{.factor = 4, .original_length = 64, .beta_fast = 8}, 5, by_yarn(4, 64, 8, 1, true),
         0.1 * log(4.0) + 1},
        {YarnScaling{.factor = 4, .original_length = 64, .beta_fast = 4, .beta_slow = 0.5, .truncate = false}, 5,
         by_yarn(4, 64, 4, 0.5, false), 0.1 * log(4.0) + 1},
        {YarnScaling{.factor = 40, .original_length = 64, .mscale = 1, .mscale_all_dim = 0.7}, 5,
         by_yarn(40, 64, 32, 1, true), (0.1 * log(40.0) + 1) / (0.07 * log(40.0) + 1)},
        {YarnScaling{.factor = 40, .original_length = 64, .mscale = 0.7, .mscale_all_dim = 0}, 5,
         by_yarn(40, 64, 32, 1, true), 0.1 * log(40.0) + 1},
        {YarnScaling{.factor = 1, .original_length = 64}, 5, as_trained},
        {YarnScaling{.factor = 2, .original_length = 64, .attention_factor = 0.75}, 5, by_yarn(2, 64, 32, 1, true),
         0.75},
        {YarnScaling{.factor = 4, .original_length = 4}, 5, by_yarn(4, 4, 32, 1, true), 0.1 * log(4.0) + 1},
        {Llama3Scaling{.factor = 8, .original_length = 64}, 5, [](std::size_t i) { return by_llama3(i, 8, 1, 4, 64); }},
        {Llama3Scaling{8, 0.5, 2, 100}, 5, [](std::size_t i) { return by_llama3(i, 8, 0.5, 2, 100); }},
        {LongRopeScaling{.short_factors = brief, .long_factors = extended, .original_length = 5, .factor = 16}, 5,
         [](std::size_t i) { return frequency_by_hand(i, width, base) / brief(i); },
         std::sqrt(1 + log(16.0) / log(5.0))},
        {LongRopeScaling{brief, extended, 4, 0.5}, 5,
         [](std::size_t i) { return frequency_by_hand(i, width, base) / extended(i); }},
        {LongRopeScaling{brief, extended, 4, 16, 1.25}, 5,
         [](std::size_t i) { return frequency_by_hand(i, width, base) / extended(i); }, 1.25}};
    return all;
}

/// Pairs of neighbours turned by frequencies that are given, and multiplied.
Matrix rotary_by_hand(const Matrix& x, const Scaled& by)
{
    Matrix turned = x;
    for (std::size_t p = 0; p < x.shape(0); ++p)
        for (std::size_t i = 0; i < width / 2; ++i) {
            const double angle = static_cast<double>(p) * by.frequency(i), f = by.attention_factor;
            turned(p, 2 * i) = x(p, 2 * i) * (std::cos(angle) * f) - x(p, 2 * i + 1) * (std::sin(angle) * f);
            turned(p, 2 * i + 1) = x(p, 2 * i) * (std::sin(angle) * f) + x(p, 2 * i + 1) * (std::cos(angle) * f);
        }
    return turned;
}

} // namespace

TEST_CASE("rotary positions rotate each pair by position times frequency", "[layers][rotary]")
{
    Numbers numbers(2);
    for (const std::size_t n : {0, 1, 6})
        for (const std::size_t d : {2, 4, 10})
            for (const double base : {10000.0, 30.0})
                for (const std::size_t first : {0, 11}) {
                    CAPTURE(n, d, base, first);
                    const Matrix x = numbers.matrix(n, d);
                    CHECK(close(rotary(x, {.base = base, .first = first}), rotary_by_hand(x, base, first)));
                }
}

TEST_CASE("rotary halves rotate features i and i + d/2 as pairs rotate 2i and 2i + 1", "[layers][rotary]")
{
    const Matrix x = Numbers(3).matrix(5, 8);
    const std::vector<std::size_t> order = halves_order(8);
    CHECK(same_bits(rotary(reordered_columns(x, order), {.layout = RotaryLayout::halves}),
                    reordered_columns(rotary(x), order)));
    CHECK_FALSE(close(rotary(x, {.layout = RotaryLayout::halves}), rotary(x)));
}

TEST_CASE("rotary positions keep the norm of every token", "[layers][rotary]")
{
    const Matrix x = Numbers(4).matrix(7, 6);
    for (const RotaryLayout layout : rotary_layouts) {
        const Matrix turned = rotary(x, {.layout = layout, .first = 5});
        for (std::size_t p = 0; p < 7; ++p)
            CHECK(std::abs(dot_by_hand(turned, p, turned, p) - dot_by_hand(x, p, x, p)) < 1e-13);
    }
}

TEST_CASE("scores of rotary queries and keys depend on their distance only", "[layers][rotary]")
{
    Numbers numbers(5);
    const Matrix query = numbers.matrix(1, 6);
    const Matrix key = numbers.matrix(1, 6);
    for (const RotaryLayout layout : rotary_layouts)
        for (const std::size_t distance : {0, 1, 4}) {
            CAPTURE(layout == RotaryLayout::halves, distance);
            const auto score = [&](std::size_t place, std::size_t further) {
                return dot_by_hand(rotary(query, {.layout = layout, .first = place + further}), 0,
                                   rotary(key, {.layout = layout, .first = place}), 0);
            };
            for (const std::size_t place : {1, 9, 100})
                CHECK(std::abs(score(place, distance) - score(0, distance)) < 1e-12);
            CHECK(std::abs(score(0, distance) - score(0, distance + 1)) > 1e-3);
        }
}

TEST_CASE("rotary positions leave the token at position zero unchanged", "[layers][rotary]")
{
    const Matrix x = Numbers(6).matrix(2, 6);
    for (const RotaryLayout layout : rotary_layouts) {
        CHECK(same_bits(row_by_hand(rotary(x, {.layout = layout}), 0), row_by_hand(x, 0)));
        CHECK_FALSE(close(row_by_hand(rotary(x, {.layout = layout}), 1), row_by_hand(x, 1)));
    }
}

TEST_CASE("in a batch, positions begin again with each sequence", "[layers][rotary][batch]")
{
    const Tensor3 x = Numbers(7).tensor3(3, 4, 6);
    for (const RotaryLayout layout : rotary_layouts) {
        const Tensor3 turned = rotary(x, {.layout = layout, .first = 2});
        REQUIRE(shape_of(turned) == Shape{3, 4, 6});
        for (std::size_t b = 0; b < 3; ++b)
            CHECK(
                same_bits(sequence_by_hand(turned, b), rotary(sequence_by_hand(x, b), {.layout = layout, .first = 2})));
    }
}

TEST_CASE("traced rotary positions give the same bits, and every formula holds", "[layers][rotary][trace]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(4, 6);
    const Tensor3 batch = numbers.tensor3(2, 4, 6);
    for (const RotaryLayout layout : rotary_layouts)
        for (const std::size_t first : {0, 3}) {
            const RotaryOptions options{500, layout, first};
            const auto check = [&](const auto& tokens) {
                const Recorder recorder = traced([&](const Trace& trace) { return rotary(tokens, options, trace); });
                CHECK(recorder.steps().back().options ==
                      StepOptions{{"base", "500"},
                                  {"layout", layout == RotaryLayout::halves ? "halves" : "pairs"},
                                  {"first", std::to_string(first)}});
            };
            check(x);
            check(batch);
        }
}

TEST_CASE("rotary positions refuse an odd number of features", "[layers][rotary]")
{
    CHECK_THROWS_AS(rotary(Matrix(Matrix::shape_type{2, 3})), ShapeError);
    CHECK_THROWS_WITH(rotary(Matrix(Matrix::shape_type{2, 3})),
                      ContainsSubstring("rotary: 3 features do not make pairs, expected an even number"));
    CHECK_THROWS_AS(rotary(Tensor3(Tensor3::shape_type{1, 2, 5})), ShapeError);
}

// ------------------------------------------------------------------------------------------------- a part of the features

TEST_CASE("features that are not rotated pass through bit for bit, and the others do not know of them",
          "[layers][rotary][property]")
{
    Numbers numbers(20);
    const Matrix x = numbers.matrix(4, 10);
    for (const RotaryLayout layout : rotary_layouts)
        for (const std::size_t features : {2, 6, 8, 10})
            for (const bool has_scaling : {false, true}) {
                CAPTURE(layout == RotaryLayout::halves, features, has_scaling);
                RotaryOptions options{.layout = layout, .first = 3};
                if (has_scaling)
                    options.scaling = YarnScaling{.factor = 4, .original_length = 16};
                RotaryOptions of_part = options;
                of_part.features = features;
                const Matrix turned = rotary(x, of_part);
                CHECK(same_bits(columns_by_hand(turned, features, 10), columns_by_hand(x, features, 10)));
                CHECK(
                    same_bits(columns_by_hand(turned, 0, features), rotary(columns_by_hand(x, 0, features), options)));
            }
}

TEST_CASE("where all features are rotated, saying so changes nothing but the options of the steps", "[layers][rotary]")
{
    const Matrix x = Numbers(21).matrix(3, 6);
    for (const RotaryLayout layout : rotary_layouts) {
        const auto run = [&](const std::optional<std::size_t>& features) {
            return recorded([&](const Trace& trace) { rotary(x, {.layout = layout, .features = features}, trace); });
        };
        CHECK(different_rows(kept(run({})), kept(run(6))) == "");
        CHECK(run(6).steps().back().options.back() == std::pair<std::string, std::string>{"features", "6"});
    }
}

TEST_CASE("formulas of a part of the features say which", "[layers][rotary][steps]")
{
    const Matrix x = Numbers(22).matrix(3, 7);
    const auto formulas = [&](RotaryLayout layout) {
        return recorded([&](const Trace& trace) { rotary(x, {.layout = layout, .features = 4}, trace); });
    };
    CHECK(formulas(RotaryLayout::pairs).steps()[1].formula == "10000 ** (-2 * arange(2) / 4)");
    CHECK(formulas(RotaryLayout::pairs).steps().back().formula ==
          "concat(interleave(x[..., 0:4:2] * cos(angles) - x[..., 1:4:2] * sin(angles), x[..., 0:4:2] * sin(angles) + "
          "x[..., 1:4:2] * cos(angles)), x[..., 4:7], axis=-1)");
    CHECK(formulas(RotaryLayout::halves).steps().back().formula ==
          "concat(concat(x[..., 0:2] * cos(angles) - x[..., 2:4] * sin(angles), x[..., 0:2] * sin(angles) + x[..., "
          "2:4] * "
          "cos(angles), axis=-1), x[..., 4:7], axis=-1)");
}

TEST_CASE("a number of features that is odd, none, or more than there are is refused", "[layers][rotary]")
{
    const Matrix x(Matrix::shape_type{2, 6});
    CHECK_THROWS_WITH(rotary(x, {.features = 3}), ContainsSubstring("rotary: 3 features do not make pairs"));
    CHECK_THROWS_WITH(
        rotary(x, {.features = 8}),
        ContainsSubstring("rotary: 8 features can't be rotated of 6, expected an even number from 2 to 6"));
    CHECK_THROWS_AS(rotary(x, {.features = 0}), ShapeError);
}

// ------------------------------------------------------------------------------------------------------------ scalings

TEST_CASE("each scaling gives each pair the frequency that its paper says", "[layers][rotary][scaling]")
{
    const Matrix all = Numbers(30).matrix(6, width);
    for (const Scaled& by : scaled()) {
        CAPTURE(name_of(by.scaling), by.n);
        const Matrix x = rows_by_hand(all, {0, 1, 2, 3, 4, 5}), some = xt::view(x, xt::range(0, by.n), xt::all());
        const RotaryOptions options{.base = base, .scaling = by.scaling};
        CHECK(close(rotary(some, options), rotary_by_hand(some, by)));
    }
}

TEST_CASE("a traced scaling gives the same bits, and the formula of every step holds",
          "[layers][rotary][scaling][trace]")
{
    Numbers numbers(31);
    const Matrix x = numbers.matrix(4, width + 2);
    const Tensor3 batch = numbers.tensor3(2, 4, width + 2);
    for (const Scaled& by : scaled())
        for (const RotaryLayout layout : rotary_layouts)
            for (const std::size_t first : {0, 3}) {
                CAPTURE(name_of(by.scaling), layout == RotaryLayout::halves, first);
                const RotaryOptions options{base, layout, first, width, by.scaling, {}};
                const auto check = [&](const auto& tokens) {
                    traced([&](const Trace& trace) { return rotary(tokens, options, trace); });
                };
                check(x);
                check(batch);
            }
}

TEST_CASE("the gradients of a scaled rotation are those of central differences", "[layers][rotary][scaling][gradient]")
{
    const Matrix x = Numbers(32).matrix(3, width + 2);
    for (const Scaled& by : scaled()) {
        CAPTURE(name_of(by.scaling));
        const RotaryOptions options{base, RotaryLayout::halves, 2, width, by.scaling};
        const Recorder recorder = recorded([&](const Trace& trace) { rotary(x, options, trace); });
        const Recording result = formula::gradients(recorder.recording());
        const std::vector<formula::GradientCheck> checks = formula::check_gradients(result);
        CHECK(!checks.empty());
        for (const formula::GradientCheck& check : checks) {
            CAPTURE(check.input, check.by_gradient, check.by_differences);
            CHECK(check.agrees());
        }
        CHECK(formula::verify(result).passed());
    }
}

TEST_CASE("the doc comment of each scaling lists its steps", "[layers][rotary][scaling][steps][source]")
{
    const Matrix x = Numbers(33).matrix(3, 8);
    const Vector factors{1, 2, 3, 4};
    const auto listed = [&](const std::string& name, const RotaryScaling& scaling,
                            const std::vector<std::pair<std::string, std::string>>& numbers) {
        Lines table = with_numbers(promised("reference/layers/rotary.hpp", "struct " + name), numbers);
        table = with_numbers(table, {{"BASE", "10000"}, {"PAIRS", "4"}, {"D", "8"}, {"N", "3"}});
        REQUIRE(table.size() >= 2);
        Lines found = kept(recorded([&](const Trace& trace) { rotary(x, {.scaling = scaling}, trace); }));
        found.erase(found.begin()); // x
        found.resize(table.size());
        CHECK(different_rows(table, found) == "");
    };
    listed("LinearScaling", LinearScaling{.factor = 4}, {{"FACTOR", "4"}});
    listed("DynamicScaling", DynamicScaling{.factor = 4, .original_length = 2}, {{"FACTOR", "4"}, {"L", "2"}});
    listed("YarnScaling", YarnScaling{.factor = 4, .original_length = 20},
           {{"FACTOR", "4"}, {"L", "20"}, {"BETA_FAST", "32"}, {"BETA_SLOW", "1"}});
    listed("Llama3Scaling", Llama3Scaling{.factor = 8, .original_length = 64},
           {{"FACTOR", "8"}, {"L", "64"}, {"LOW", "1"}, {"HIGH", "4"}});
    listed("LongRopeScaling", LongRopeScaling{factors, factors, 2, 4}, {{"FACTOR", "4"}, {"L", "2"}});
}

TEST_CASE("a scaling's formulas say what it depends on", "[layers][rotary][scaling][steps]")
{
    const Matrix x = Numbers(34).matrix(3, 4);
    const auto formula_of = [&](const std::string& step, const RotaryScaling& scaling, std::size_t first = 0) {
        const Recorder run =
            recorded([&](const Trace& trace) { rotary(x, {.first = first, .scaling = scaling}, trace); });
        for (const Step& one : run.steps())
            if (one.path == step)
                return one.formula;
        return "there is no step " + step;
    };
    CHECK(formula_of("base", DynamicScaling{2, 4}, 7) ==
          "10000 * (2 * maximum(3 + 7, 4) / 4 - (2 - 1)) ** (4 / (4 - 2))");
    CHECK(formula_of("factors", LongRopeScaling{Vector{1, 2}, Vector{3, 4}, 9}, 7) ==
          "where(3 + 7 > 9, long_factors, short_factors)");
    CHECK(formula_of("low", YarnScaling{.original_length = 100, .truncate = false}) ==
          "maximum(4 * log(100 / (32 * 2 * pi)) / (2 * log(10000)), 0)");
    CHECK(formula_of("high", YarnScaling{.original_length = 100, .truncate = false}) ==
          "minimum(4 * log(100 / (1 * 2 * pi)) / (2 * log(10000)), 4 - 1)");
    CHECK(formula_of("attention_factor",
                     YarnScaling{.factor = 8, .original_length = 9, .mscale = 1, .mscale_all_dim = 0.5}) ==
          "(0.1 * 1 * log(8) + 1) / (0.1 * 0.5 * log(8) + 1)");
    CHECK(formula_of("attention_factor", YarnScaling{.factor = 0.5, .original_length = 9}) == "1");
    CHECK(formula_of("attention_factor", LinearScaling{2}) == "there is no step attention_factor");
    CHECK(formula_of("output", YarnScaling{.factor = 8, .original_length = 9}) ==
          "attention_factor * interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * "
          "sin(angles) + "
          "x[..., 1::2] * cos(angles))");
}

TEST_CASE("a scaling is among the options of the steps, member by member", "[layers][rotary][scaling]")
{
    const Matrix x = Numbers(35).matrix(2, 4);
    const Recorder run = recorded([&](const Trace& trace) {
        rotary(x, {.scaling = YarnScaling{.factor = 4, .original_length = 20, .mscale = 0.5, .truncate = false}},
               trace);
    });
    CHECK(run.steps().back().options == StepOptions{{"base", "10000"},
                                                    {"layout", "pairs"},
                                                    {"first", "0"},
                                                    {"scaling", "yarn"},
                                                    {"factor", "4"},
                                                    {"original_max_position_embeddings", "20"},
                                                    {"beta_fast", "32"},
                                                    {"beta_slow", "1"},
                                                    {"attention_factor", "none"},
                                                    {"mscale", "0.5"},
                                                    {"mscale_all_dim", "none"},
                                                    {"truncate", "false"}});
}

TEST_CASE("there is one of each scaling, under the name that config.json has for it", "[layers][rotary][scaling]")
{
    std::vector<std::string> names;
    for (const RotaryScaling& scaling : rotary_scalings()) {
        CHECK(scaling.index() == names.size());
        names.emplace_back(name_of(scaling));
    }
    CHECK(names == std::vector<std::string>{"default", "linear", "dynamic", "yarn", "llama3", "longrope"});
}

TEST_CASE("what depends on the length counts the tokens before the first", "[layers][rotary][scaling]")
{
    const Matrix x = Numbers(36).matrix(6, width);
    const auto last_rows = [](const Matrix& matrix) { return Matrix(xt::view(matrix, xt::range(4, 6), xt::all())); };
    for (const RotaryScaling& scaling :
         {RotaryScaling(DynamicScaling{2, 5}), RotaryScaling(LongRopeScaling{brief, extended, 5, 4})}) {
        CAPTURE(name_of(scaling));
        const Matrix at_once = rotary(x, {.scaling = scaling});
        CHECK(close(last_rows(at_once), rotary(last_rows(x), {.first = 4, .scaling = scaling})));
        // One by one, token 4 is rotated when there are 5 tokens, and not 6.
        const Matrix alone = rotary(row_by_hand(x, 4), {.first = 4, .scaling = scaling});
        CHECK(!close(alone, row_by_hand(at_once, 4)));
    }
}

TEST_CASE("heads share the lists of factors of LongRoPE, which have one gradient",
          "[layers][rotary][scaling][multi_head]")
{
    Numbers numbers(37);
    const Matrix x = numbers.matrix(3, 8);
    const MultiHeadWeights weights =
        random_heads(numbers, {.d_model = 8, .h_d_k = 8, .h_d_v = 8, .d_memory = 8, .d_value = 8});
    const RotaryScaling scaling = LongRopeScaling{Vector{1, 1.5}, Vector{2, 4}, 2, 8};
    const MultiHeadOptions options{.heads = 2, .positions = HeadPositions::rotary, .rotary = {.scaling = scaling}};
    const Recorder run = traced([&](const Trace& trace) { return multi_head_attention(x, weights, options, trace); });
    CHECK(count_of(run, "short_factors") == 1);
    CHECK(count_of(run, "long_factors") == 1);
    CHECK(count_of(run, "attention_factor") == 4); // queries and keys of both heads
    for (const formula::GradientCheck& check : formula::check_gradients(formula::gradients(run.recording())))
        CHECK(check.agrees());
}

TEST_CASE("with a cache, tokens of a scaled rotation go on as all at once, where the length does not matter",
          "[layers][rotary][scaling][cache]")
{
    Numbers numbers(38);
    const Matrix x = numbers.matrix(6, 8);
    const MultiHeadWeights weights =
        random_heads(numbers, {.d_model = 8, .h_d_k = 8, .h_d_v = 8, .d_memory = 8, .d_value = 8});
    const auto goes_on = [&](const RotaryScaling& scaling, std::optional<std::size_t> features = {}) {
        MultiHeadOptions options{.heads = 2,
                                 .causal = Causal::bottom_right,
                                 .positions = HeadPositions::rotary,
                                 .rotary = {.features = features, .scaling = scaling}};
        std::optional<KeyValueCache> past;
        Matrix last;
        for (std::size_t i = 0; i < 6; ++i) {
            CachedMultiHead step = cached_self_attention(row_by_hand(x, i), past, weights, options);
            past = std::move(step.cache);
            last = std::move(step.output);
        }
        return close(last, row_by_hand(multi_head_attention(x, weights, options).output, 5));
    };
    CHECK(goes_on({}, 2));
    CHECK(goes_on(LinearScaling{8}));
    CHECK(goes_on(YarnScaling{.factor = 4, .original_length = 4}, 2));
    CHECK(goes_on(Llama3Scaling{.factor = 8, .original_length = 8}));
    CHECK(goes_on(DynamicScaling{2, 6}));
    CHECK_FALSE(goes_on(DynamicScaling{2, 5}));
    CHECK(goes_on(LongRopeScaling{Vector{1, 1.5}, Vector{2, 4}, 6, 8}));
    CHECK_FALSE(goes_on(LongRopeScaling{Vector{1, 1.5}, Vector{2, 4}, 5, 8}));
}

TEST_CASE("numbers of a scaling that have no meaning are refused under their names in config.json",
          "[layers][rotary][scaling]")
{
    const Matrix x(Matrix::shape_type{2, 4});
    const auto refusal = [&](const RotaryScaling& scaling, const std::string& message,
                             const RotaryOptions& options = {}) {
        RotaryOptions with = options;
        with.scaling = scaling;
        CHECK_THROWS_WITH(rotary(x, with), ContainsSubstring(message));
    };
    refusal(LinearScaling{0}, "rotary: the linear scaling has factor 0, expected a number above zero");
    refusal(LinearScaling{infinity}, "the linear scaling has factor inf, expected a number above zero");
    refusal(DynamicScaling{2, 0}, "the dynamic scaling has max_position_embeddings 0, expected a number above zero");
    refusal(DynamicScaling{2, 4}, "the dynamic scaling of 2 features divides by zero", {.features = 2});
    refusal(YarnScaling{.factor = 2, .original_length = 4, .beta_slow = -1},
            "the yarn scaling has beta_slow -1, expected");
    refusal(YarnScaling{.factor = 2, .original_length = 4, .mscale = -1},
            "the yarn scaling has mscale -1, expected a number from zero");
    refusal(YarnScaling{.factor = 2, .original_length = 4}, "the yarn scaling divides by the logarithm of the base",
            {.base = 1});
    refusal(Llama3Scaling{8, 4, 4, 64},
            "the llama3 scaling has high_freq_factor 4 and low_freq_factor 4, expected a high "
            "one above the low one");
    refusal(LongRopeScaling{Vector{1, 0}, Vector{1, 1}, 8, 2},
            "the longrope scaling has short_factor 2 numbers, expected numbers above zero only");
    refusal(LongRopeScaling{Vector{1, 1}, Vector{1}, 8, 2},
            "the longrope scaling has a long_factor of 1 numbers, expected "
            "2, one for each pair of the 4 features that are rotated");
    refusal(LongRopeScaling{Vector{1, 1}, Vector{1, 1}, 1, 2},
            "divides by the logarithm of original_max_position_embeddings");
}
