#include "attn/reference/layers/rotary.hpp"

#include "pairs.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <tuple>
#include <variant>

namespace attn {
namespace {

constexpr Choice<RotaryLayout> layouts[] = {{RotaryLayout::pairs, "pairs"}, {RotaryLayout::halves, "halves"}};

// ----------------------------------------------------------------------------------------------------------- scalings

/// What frequencies follow from, besides the numbers of a scaling.
struct Turning {
    double base;
    std::size_t features; ///< that are rotated
    std::size_t first, n; ///< the first position, and how many there are

    std::size_t pairs() const { return features / 2; }
    std::size_t length() const { return first + n; }
    std::string length_text() const { return text(n) + (first == 0 ? "" : " + " + text(first)); }
};

Vector unscaled(const Turning& of, const Trace& trace)
{
    return powers_of(of.base, of.features, "unscaled[pairs]", trace);
}

Vector as_trained(const std::monostate&, const Turning& of, const Trace& trace)
{
    return powers_of(of.base, of.features, "frequencies[pairs]", trace);
}

Vector linear_scaling(const LinearScaling& scaling, const Turning& of, const Trace& trace)
{
    return trace(
        "frequencies[pairs]", [&] { return "unscaled / " + exact_text(scaling.factor); },
        Vector(unscaled(of, trace) / scaling.factor));
}

Vector dynamic_scaling(const DynamicScaling& scaling, const Turning& of, const Trace& trace)
{
    const auto& [factor, original] = scaling;
    if (of.features == 2)
        throw ShapeError("rotary: the dynamic scaling of 2 features divides by zero, expected 4 features or more");
    const auto d = static_cast<double>(of.features), longest = static_cast<double>(std::max(of.length(), original));
    const double slower = factor * longest / static_cast<double>(original) - (factor - 1);
    const double base = trace(
        "base",
        [&of, f = exact_text(factor), l = text(original)] {
            return exact_text(of.base) + " * (" + f + " * maximum(" + of.length_text() + ", " + l + ") / " + l +
                   " - (" + f + " - 1)) ** (" + text(of.features) + " / (" + text(of.features) + " - 2))";
        },
        of.base * std::pow(slower, d / (d - 2)));
    return powers_of(base, "base", of.features, "frequencies[pairs]", trace);
}

/// Fast pairs, whose ramp is 1, keep their frequency, slow ones, whose ramp is 0, have it divided.
Vector along_ramp(const Vector& trained, const Vector& ramp, double factor, const Trace& trace)
{
    return trace(
        "frequencies[pairs]", [&] { return "unscaled * ramp + unscaled / " + exact_text(factor) + " * (1 - ramp)"; },
        Vector(trained * ramp + trained / factor * (1.0 - ramp)));
}

Vector between_0_and_1(const Vector& numbers) { return xt::minimum(xt::maximum(numbers, 0.0), 1.0); }

/// Which pair rotates so many times within the original length, as a number between pairs.
struct RotatingPair {
    double place;
    std::string text;
};

RotatingPair pair_that_rotates(double times, const YarnScaling& scaling, const Turning& of)
{
    const double angle = times * 2 * std::numbers::pi;
    return {static_cast<double>(of.features) * std::log(static_cast<double>(scaling.original_length) / angle) /
                (2 * std::log(of.base)),
            text(of.features) + " * log(" + text(scaling.original_length) + " / (" + exact_text(times) +
                " * 2 * pi)) / (2 * log(" + exact_text(of.base) + "))"};
}

Vector yarn_scaling(const YarnScaling& scaling, const Turning& of, const Trace& trace)
{
    if (of.base == 1)
        throw Error("rotary: the yarn scaling divides by the logarithm of the base, expected another base than 1");
    const Vector trained = unscaled(of, trace);

    // Find the pairs between which the ramp falls.
    const auto [fast, fast_text] = pair_that_rotates(scaling.beta_fast, scaling, of);
    const auto [slow, slow_text] = pair_that_rotates(scaling.beta_slow, scaling, of);
    const bool truncate = scaling.truncate;
    const double low = trace(
        "low", [&, &at = fast_text] { return "maximum(" + (truncate ? "floor(" + at + ")" : at) + ", 0)"; },
        std::max(truncate ? std::floor(fast) : fast, 0.0));
    const double high = trace(
        "high",
        [&, &at = slow_text] {
            return "minimum(" + (truncate ? "-floor(-" + at + ")" : at) + ", " + text(of.features) + " - 1)";
        },
        std::min(truncate ? std::ceil(slow) : slow, static_cast<double>(of.features) - 1));

    // Let it fall: from 1 for those that rotate fast to 0 for those that rotate slowly.
    const double width = low == high ? 0.001 : high - low;
    const Vector ramp = trace(
        "ramp[pairs]",
        [&] {
            return "1 - minimum(maximum((arange(" + text(of.pairs()) +
                   ") - low) / where(low == high, 0.001, high - low), 0), 1)";
        },
        Vector(1.0 - between_0_and_1((counted_from(0, of.pairs()) - low) / width)));
    return along_ramp(trained, ramp, scaling.factor, trace);
}

Vector llama3_scaling(const Llama3Scaling& scaling, const Turning& of, const Trace& trace)
{
    const auto& [factor, low, high, original] = scaling;
    if (!(low < high))
        throw Error("rotary: the llama3 scaling has high_freq_factor " + exact_text(high) + " and low_freq_factor " +
                    exact_text(low) + ", expected a high one above the low one");
    const Vector trained = unscaled(of, trace);
    const Vector rotations = static_cast<double>(original) * trained / (2 * std::numbers::pi);
    const Vector ramp = trace(
        "ramp[pairs]",
        [from = exact_text(low), to = exact_text(high), length = text(original)] {
            return "minimum(maximum((" + length + " * unscaled / (2 * pi) - " + from + ") / (" + to + " - " + from +
                   "), 0), 1)";
        },
        between_0_and_1((rotations - low) / (high - low)));
    return along_ramp(trained, ramp, factor, trace);
}

void expect_one_for_each_pair(const char* name, const Vector& factors, const Turning& of)
{
    if (factors.size() != of.pairs())
        throw ShapeError("rotary: the longrope scaling has a " + std::string(name) + " of " + text(factors.size()) +
                         " numbers, expected " + text(of.pairs()) + ", one for each pair of the " + text(of.features) +
                         " features that are rotated");
}

Vector longrope_scaling(const LongRopeScaling& scaling, const Turning& of, const Trace& trace)
{
    const Vector& short_factors = trace.shared_input("short_factors[pairs]", scaling.short_factors);
    const Vector& long_factors = trace.shared_input("long_factors[pairs]", scaling.long_factors);
    expect_one_for_each_pair("short_factor", short_factors, of);
    expect_one_for_each_pair("long_factor", long_factors, of);
    const Vector trained = unscaled(of, trace);
    const Vector factors = trace(
        "factors[pairs]",
        [&] {
            return "where(" + of.length_text() + " > " + text(scaling.original_length) +
                   ", long_factors, short_factors)";
        },
        of.length() > scaling.original_length ? long_factors : short_factors);
    return trace("frequencies[pairs]", "unscaled / factors", Vector(trained / factors));
}

/// What cos and sin are multiplied by, and how it follows from the numbers of the scaling.
struct AttentionFactor {
    std::string formula;
    double value;
};

AttentionFactor given_factor(double factor) { return {exact_text(factor), factor}; }

AttentionFactor yarn_attention(const YarnScaling& scaling)
{
    if (scaling.attention_factor)
        return given_factor(*scaling.attention_factor);
    if (scaling.factor <= 1)
        return given_factor(1);
    const auto longer = [&](double mscale) { return 0.1 * mscale * std::log(scaling.factor) + 1; };
    const std::string log_text = "log(" + exact_text(scaling.factor) + ") + 1";
    const double mscale = scaling.mscale.value_or(0), all = scaling.mscale_all_dim.value_or(0);
    if (mscale == 0 || all == 0)
        return {"0.1 * " + log_text, longer(1)};
    return {"(0.1 * " + exact_text(mscale) + " * " + log_text + ") / (0.1 * " + exact_text(all) + " * " + log_text +
                ")",
            longer(mscale) / longer(all)};
}

AttentionFactor longrope_attention(const LongRopeScaling& scaling)
{
    if (scaling.attention_factor)
        return given_factor(*scaling.attention_factor);
    if (scaling.factor <= 1)
        return given_factor(1);
    if (scaling.original_length == 1)
        throw Error(
            "rotary: the longrope scaling divides by the logarithm of original_max_position_embeddings, expected "
            "more than 1, or an attention_factor");
    const double original = static_cast<double>(scaling.original_length);
    return {"sqrt(1 + log(" + exact_text(scaling.factor) + ") / log(" + text(scaling.original_length) + "))",
            std::sqrt(1 + std::log(scaling.factor) / std::log(original))};
}

/// A scaling's name, and how its numbers and their formulas come about.
template <class Scaling>
struct ScalingRow {
    std::string_view name; ///< the rope_type of config.json
    Vector (*frequencies)(const Scaling&, const Turning&, const Trace&);
    AttentionFactor (*attention_factor)(const Scaling&) = nullptr; ///< where it has one
};

constexpr std::tuple scalings{ScalingRow<std::monostate>{"default", as_trained},
                              ScalingRow<LinearScaling>{"linear", linear_scaling},
                              ScalingRow<DynamicScaling>{"dynamic", dynamic_scaling},
                              ScalingRow<YarnScaling>{"yarn", yarn_scaling, yarn_attention},
                              ScalingRow<Llama3Scaling>{"llama3", llama3_scaling},
                              ScalingRow<LongRopeScaling>{"longrope", longrope_scaling, longrope_attention}};

/// The row of a scaling, which the compiler finds by the type, and misses where there is none.
template <class Scaling>
constexpr const ScalingRow<Scaling>& row_of(const Scaling&)
{
    return std::get<ScalingRow<Scaling>>(scalings);
}

// ------------------------------------------------------------------------------------------ what a scaling consists of

std::string member_text(double number) { return exact_text(number); }
std::string member_text(std::size_t number) { return text(number); }
std::string member_text(bool truth) { return truth ? "true" : "false"; }
std::string member_text(const Vector& numbers) { return text(numbers.size()) + " numbers"; }
std::string member_text(const std::optional<double>& number) { return number ? exact_text(*number) : "none"; }

bool is_positive(double number) { return std::isfinite(number) && number > 0; }
bool is_meant(double number) { return is_positive(number); }
bool is_meant(std::size_t number) { return number > 0; }
bool is_meant(bool) { return true; }
bool is_meant(const Vector& numbers) { return std::ranges::all_of(numbers, is_positive); }
bool is_meant(const std::optional<double>& number) { return !number || (std::isfinite(*number) && *number >= 0); }

std::string wanted(const Vector&) { return "numbers above zero only"; }
std::string wanted(const std::optional<double>&) { return "a number from zero"; }
std::string wanted(const auto&) { return "a number above zero"; }

void expect_meaning(const RotaryScaling& scaling)
{
    const auto expect = [&](std::string_view name, const auto& member, Presence) {
        if (!is_meant(member))
            throw Error("rotary: the " + std::string(name_of(scaling)) + " scaling has " + std::string(name) + " " +
                        member_text(member) + ", expected " + wanted(member));
    };
    std::visit([&](const auto& of) { visit_members(of, expect); }, scaling);
}

// ----------------------------------------------------------------------------------------------------------- rotation

/// How many of d features are rotated.
std::size_t expect_features(const std::optional<std::size_t>& given, std::size_t d)
{
    expect_pairs("rotary", given.value_or(d));
    if (given && (*given == 0 || *given > d))
        throw ShapeError("rotary: " + text(*given) + " features can't be rotated of " + text(d) +
                         ", expected an even number from 2 to " + text(d));
    return given.value_or(d);
}

/// @param features  of d, that are rotated
std::string rotation_formula(std::size_t features, std::size_t d, RotaryLayout layout, bool has_factor)
{
    const bool halves = layout == RotaryLayout::halves, is_part = features < d;
    const std::string end = is_part ? text(features) : "";
    const std::string a =
        halves ? "x[..., 0:" + text(features / 2) + "]" : "x[..., " + (is_part ? "0:" + end : ":") + ":2]";
    const std::string b =
        halves ? "x[..., " + text(features / 2) + ":" + text(features) + "]" : "x[..., 1:" + end + ":2]";
    const std::string turned = std::string(has_factor ? "attention_factor * " : "") +
                               (halves ? "concat(" : "interleave(") + a + " * cos(angles) - " + b + " * sin(angles), " +
                               a + " * sin(angles) + " + b + " * cos(angles)" + (halves ? ", axis=-1)" : ")");
    return is_part ? "concat(" + turned + ", x[..., " + text(features) + ":" + text(d) + "], axis=-1)" : turned;
}

/// Tokens of one or several sequences, one below the other; the angles begin again with each sequence.
/// @param angles  of the features that are rotated; those after them stay
Matrix rotate(const Matrix& tokens, const Matrix& angles, RotaryLayout layout, double factor)
{
    Matrix turned = tokens;
    for (std::size_t token = 0; token < tokens.shape(0); ++token)
        for (std::size_t i = 0; i < angles.shape(1); ++i) {
            const auto [first, second] = pair_of(i, 2 * angles.shape(1), layout == RotaryLayout::halves);
            const double cosine = std::cos(angles(token % angles.shape(0), i));
            const double sine = std::sin(angles(token % angles.shape(0), i));
            turned(token, first) = factor * (tokens(token, first) * cosine - tokens(token, second) * sine);
            turned(token, second) = factor * (tokens(token, first) * sine + tokens(token, second) * cosine);
        }
    return turned;
}

} // namespace

StepOptions describe(const RotaryOptions& options)
{
    const auto& [base, layout, first, features, scaling] = options;
    StepOptions described{{"base", exact_text(base)}, {"layout", std::string(name_of(layout))}, {"first", text(first)}};
    if (features)
        described.emplace_back("features", text(*features));
    if (scaling.index() != 0)
        described.emplace_back("scaling", std::string(name_of(scaling)));
    const auto add = [&](std::string_view name, const auto& member, Presence) {
        described.emplace_back(std::string(name), member_text(member));
    };
    std::visit([&](const auto& of) { visit_members(of, add); }, scaling);
    return described;
}

std::string_view name_of(RotaryLayout layout) { return row_for<layouts>(layout).name; }

std::string_view name_of(const RotaryScaling& scaling)
{
    return std::visit([](const auto& of) { return row_of(of).name; }, scaling);
}

const std::vector<RotaryScaling>& rotary_scalings()
{
    static const std::vector<RotaryScaling> all = std::apply(
        []<class... Scaling>(const ScalingRow<Scaling>&...) { return std::vector<RotaryScaling>{Scaling{}...}; },
        scalings);
    return all;
}

RotaryScaling share_factors(const RotaryScaling& scaling, const Trace& trace)
{
    const LongRopeScaling* const given = std::get_if<LongRopeScaling>(&scaling);
    if (given == nullptr || !trace.has_listener())
        return scaling;
    LongRopeScaling shared = *given;
    shared.short_factors = trace.shared_input("short_factors[pairs]", given->short_factors);
    shared.long_factors = trace.shared_input("long_factors[pairs]", given->long_factors);
    return shared;
}

template <Attending T>
T rotary(const T& tokens, const RotaryOptions& options, const Trace& caller)
{
    const std::size_t n = tokens.shape(token_axis<T>), d = tokens.shape(feature_axis<T>);
    const std::size_t features = expect_features(options.features, d);
    expect_meaning(options.scaling);
    const Trace trace = caller.module("rotary", [&] { return describe(options); });
    const Term x = trace.input("x[(b,) n, d]", Term(tokens));

    // Find how fast each pair rotates, and what that comes to at each position.
    const Turning turning{options.base, features, options.first, n};
    const Vector frequencies =
        std::visit([&](const auto& of) { return row_of(of).frequencies(of, turning, trace); }, options.scaling);
    const Matrix angles = angles_of(n, options.first, frequencies, trace);

    // Some scalings lengthen queries and keys, too.
    const std::optional<double> factor = std::visit(
        [&](const auto& of) -> std::optional<double> {
            if (row_of(of).attention_factor == nullptr)
                return std::nullopt;
            const auto [formula, value] = row_of(of).attention_factor(of);
            return trace("attention_factor", formula, value);
        },
        options.scaling);

    // Rotate each pair of each token.
    return T(trace(
        "output[(b,) n, d]", [&] { return rotation_formula(features, d, options.layout, factor.has_value()); },
        Term(token_by_token(
            *x, [&](const Matrix& rows) { return rotate(rows, angles, options.layout, factor.value_or(1)); }))));
}

#define ATTN_INSTANTIATE(T) template T rotary(const T&, const RotaryOptions&, const Trace&);
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
ATTN_INSTANTIATE(Tensor4)
#undef ATTN_INSTANTIATE

} // namespace attn
