#include "attn/reference/layers/rotary.hpp"

#include "pairs.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"

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
    Term<double> length(const Trace& trace) const
    {
        return first == 0 ? number(n, trace) : number(n, trace) + static_cast<double>(first);
    }
};

/// @param step  label: "frequencies[pairs]", or "unscaled[pairs]" where a scaling changes them
Term<Vector> as_trained(const Turning& of, std::string_view step, const Trace& trace)
{
    return powers_of(number(of.base, trace), of.features, step, trace);
}

Term<Vector> default_frequencies(const std::monostate&, const Turning& of, const Trace& trace)
{
    return as_trained(of, "frequencies[pairs]", trace);
}

Term<Vector> linear_scaling(const LinearScaling& scaling, const Turning& of, const Trace& trace)
{
    return trace("frequencies[pairs]", as_trained(of, "unscaled[pairs]", trace) / scaling.factor);
}

Term<Vector> dynamic_scaling(const DynamicScaling& scaling, const Turning& of, const Trace& trace)
{
    if (of.features == 2)
        throw ShapeError("rotary: the dynamic scaling of 2 features divides by zero, expected 4 features or more");
    const Term factor = number(scaling.factor, trace), original = number(scaling.original_length, trace);
    const Term d = number(of.features, trace);
    const Term slower = factor * maximum(of.length(trace), original) / original - (factor - 1.0);
    const Term base = trace("base", number(of.base, trace) * power(slower, d / (d - 2.0)));
    return powers_of(base, of.features, "frequencies[pairs]", trace);
}

/// Fast pairs, whose ramp is 1, keep their frequency, slow ones, whose ramp is 0, have it divided.
Term<Vector> along_ramp(const Term<Vector>& unscaled, const Term<Vector>& ramp, double factor, const Trace& trace)
{
    return trace("frequencies[pairs]", unscaled * ramp + unscaled / factor * (1.0 - ramp));
}

Term<Vector> between_0_and_1(const Term<Vector>& numbers) { return minimum(maximum(numbers, 0.0), 1.0); }

Term<double> pi(const Trace& trace) { return {double(std::numbers::pi), trace.worded("pi")}; }

/// Which of d / 2 pairs rotates so many times within the original length, as a number between pairs.
Term<double> pair_that_rotates(double times, const Term<double>& d, const YarnScaling& scaling, const Turning& of,
                               const Trace& trace)
{
    const Term angle = number(times, trace) * 2.0 * pi(trace);
    return d * log(number(scaling.original_length, trace) / angle) / (2.0 * log(number(of.base, trace)));
}

Term<Vector> yarn_scaling(const YarnScaling& scaling, const Turning& of, const Trace& trace)
{
    if (of.base == 1)
        throw Error("rotary: the yarn scaling divides by the logarithm of the base, expected another base than 1");
    const Term unscaled = as_trained(of, "unscaled[pairs]", trace);

    // Find the pairs between which the ramp falls.
    const Term d = number(of.features, trace);
    const Term fast = pair_that_rotates(scaling.beta_fast, d, scaling, of, trace);
    const Term slow = pair_that_rotates(scaling.beta_slow, d, scaling, of, trace);
    const Term rounded_up = -floor(pair_that_rotates(scaling.beta_slow, -d, scaling, of, trace));
    const Term low = trace("low", maximum(scaling.truncate ? floor(fast) : fast, 0.0));
    const Term high = trace("high", minimum(scaling.truncate ? rounded_up : slow, d - 1.0));

    // Let it fall: from 1 for those that rotate fast to 0 for those that rotate slowly.
    const Term width(*low == *high ? 0.001 : *high - *low, trace.worded("where(low == high, 0.001, high - low)"));
    const Term ramp = trace("ramp[pairs]", 1.0 - between_0_and_1((arange(number(of.pairs(), trace)) - low) / width));
    return along_ramp(unscaled, ramp, scaling.factor, trace);
}

Term<Vector> llama3_scaling(const Llama3Scaling& scaling, const Turning& of, const Trace& trace)
{
    const auto& [factor, low, high, original] = scaling;
    if (!(low < high))
        throw Error("rotary: the llama3 scaling has high_freq_factor ", exact_text(high), " and low_freq_factor ",
                    exact_text(low), ", expected a high one above the low one");
    const Term unscaled = as_trained(of, "unscaled[pairs]", trace);
    const Term rotations = number(original, trace) * unscaled / (2.0 * pi(trace));
    const Term ramp = trace("ramp[pairs]", between_0_and_1((rotations - low) / (number(high, trace) - low)));
    return along_ramp(unscaled, ramp, factor, trace);
}

void expect_one_for_each_pair(const char* name, const Term<Vector>& factors, const Turning& of)
{
    if (factors.size() != of.pairs())
        throw ShapeError("rotary: the longrope scaling has a ", name, " of ", text(factors.size()),
                         " numbers, expected ", text(of.pairs()), ", one for each pair of the ", text(of.features),
                         " features that are rotated");
}

Term<Vector> longrope_scaling(const LongRopeScaling& scaling, const Turning& of, const Trace& trace)
{
    const Term short_factors = trace.shared_input("short_factors[pairs]", Term(scaling.short_factors));
    const Term long_factors = trace.shared_input("long_factors[pairs]", Term(scaling.long_factors));
    expect_one_for_each_pair("short_factor", short_factors, of);
    expect_one_for_each_pair("long_factor", long_factors, of);
    const Term unscaled = as_trained(of, "unscaled[pairs]", trace);
    const Term factors = trace(
        "factors[pairs]",
        [&] {
            return "where(" + trace.say(of.length(trace).wording()) + " > " + text(scaling.original_length) +
                   ", long_factors, short_factors)";
        },
        of.length() > scaling.original_length ? long_factors : short_factors);
    return trace("frequencies[pairs]", unscaled / factors);
}

// What cos and sin are multiplied by.

Term<double> yarn_attention(const YarnScaling& scaling, const Trace& trace)
{
    if (scaling.attention_factor)
        return number(*scaling.attention_factor, trace);
    if (scaling.factor <= 1)
        return number(1.0, trace);
    const auto longer = [&](const Term<double>& slope) { return slope * log(number(scaling.factor, trace)) + 1.0; };
    const double mscale = scaling.mscale.value_or(0), all = scaling.mscale_all_dim.value_or(0);
    if (mscale == 0 || all == 0)
        return longer(number(0.1, trace));
    return longer(0.1 * number(mscale, trace)) / longer(0.1 * number(all, trace));
}

Term<double> longrope_attention(const LongRopeScaling& scaling, const Trace& trace)
{
    if (scaling.attention_factor)
        return number(*scaling.attention_factor, trace);
    if (scaling.factor <= 1)
        return number(1.0, trace);
    if (scaling.original_length == 1)
        throw Error("rotary: the longrope scaling divides by the logarithm of original_max_position_embeddings, "
                    "expected more than 1, or an attention_factor");
    return sqrt(1.0 + log(number(scaling.factor, trace)) / log(number(scaling.original_length, trace)));
}

/// A scaling's name, and how its numbers and their formulas come about.
template <class Scaling>
struct ScalingRow {
    std::string_view name; ///< the rope_type of config.json
    Term<Vector> (*frequencies)(const Scaling&, const Turning&, const Trace&);
    Term<double> (*attention_factor)(const Scaling&, const Trace&) = nullptr; ///< where it has one
};

constexpr std::tuple scalings{ScalingRow<std::monostate>{"default", default_frequencies},
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
            throw Error("rotary: the ", name_of(scaling), " scaling has ", name, " ", member_text(member),
                        ", expected ", wanted(member));
    };
    std::visit([&](const auto& of) { visit_members(of, expect); }, scaling);
}

bool depends_on_length(const RotaryScaling& scaling)
{
    return std::holds_alternative<DynamicScaling>(scaling) || std::holds_alternative<LongRopeScaling>(scaling);
}

// ----------------------------------------------------------------------------------------------------------- rotation

/// How many of d features are rotated.
std::size_t expect_features(const std::optional<std::size_t>& given, std::size_t d)
{
    expect_pairs("rotary", given.value_or(d));
    if (given && (*given == 0 || *given > d))
        throw ShapeError("rotary: ", text(*given), " features can't be rotated of ", text(d),
                         ", expected an even number from 2 to ", text(d));
    return given.value_or(d);
}

std::size_t count_of(const RotaryAxes& axes)
{
    return axes.of_pairs.size() == 0 ? 0 : static_cast<std::size_t>(*std::ranges::max_element(axes.of_pairs)) + 1;
}

/// How fast each pair rotates: as given, as the pairs of each axis do by themselves, or by the base and a scaling.
Term<Vector> frequencies_of(const RotaryOptions& options, const Turning& turning, const Trace& trace)
{
    const auto& [scaling, given, axes] = std::tie(options.scaling, options.frequencies, options.axes);
    const bool has_own = axes && axes->has_own_frequencies;
    if ((given || has_own) && scaling.index() != 0)
        throw Error("rotary: the ", name_of(scaling), " scaling changes frequencies that follow from the base alone");
    if (given) {
        if (given->size() != turning.pairs())
            throw ShapeError("rotary: ", text(given->size()), " frequencies are given, expected ",
                             text(turning.pairs()), ", one for each pair");
        return trace.shared_input("given_frequencies[pairs]", Term(*given));
    }
    if (has_own) {
        const std::size_t count = count_of(*axes);
        if (count == 0 || turning.features % (2 * count) != 0)
            throw ShapeError("rotary: ", text(turning.features), " features do not make pairs of ", text(count),
                             " axes");
        const Term own = powers_of(number(options.base, trace), turning.features / count, "of_axis[own_pairs]", trace);
        return trace("frequencies[pairs]", concat(std::vector<Term<Vector>>(count, own), 0));
    }
    return std::visit([&](const auto& of) { return row_of(of).frequencies(of, turning, trace); }, scaling);
}

/// The angles where each pair follows an axis.
Term<Matrix> angles_along(const RotaryAxes& axes, std::size_t n, const Term<Vector>& frequencies, const Trace& trace)
{
    const auto& [of_pairs, has_own_frequencies, given] = axes;
    if (of_pairs.size() != frequencies.size() || given.shape(0) < count_of(axes) || given.shape(1) != n)
        throw ShapeError("rotary: coordinates ", shape_of(given), " and axes of ", text(of_pairs.size()),
                         " pairs, expected at least (", text(count_of(axes)), ", ", text(n), ") and ",
                         text(frequencies.size()));
    const Term coordinates = trace.shared_input("coordinates[axes, n]", Term(given));
    const Term axis = trace.shared_input("axis_of_pairs[pairs]", Term(of_pairs));
    return trace("angles[n, pairs]", transpose(take_rows(coordinates, axis)) * frequencies);
}

/// Each pair of features (a, b) becomes (a cos - b sin, a sin + b cos).
/// @param angles  one for each token and pair
template <class T>
Term<T> rotated(const Term<T>& x, const Term<Matrix>& angles, RotaryLayout layout)
{
    const std::size_t pairs = angles.shape(1);
    const bool halves = layout == RotaryLayout::halves;
    const Term a = halves ? columns(x, 0, pairs) : every_second(x, 0, 2 * pairs);
    const Term b = halves ? columns(x, pairs, 2 * pairs) : every_second(x, 1, 2 * pairs);
    const Term first = a * cos(angles) - b * sin(angles), second = a * sin(angles) + b * cos(angles);
    return halves ? concat(std::vector{first, second}, -1) : interleave(first, second);
}

} // namespace

StepOptions describe(const RotaryOptions& options)
{
    const auto& [base, layout, first, features, scaling, positions, frequencies, axes] =
        options; // positions are a step
    StepOptions described{{"base", exact_text(base)}, {"layout", std::string(name_of(layout))}, {"first", text(first)}};
    if (features)
        described.emplace_back("features", text(*features));
    if (scaling.index() != 0)
        described.emplace_back("scaling", std::string(name_of(scaling)));
    if (frequencies)
        described.emplace_back("frequencies", "given");
    if (axes)
        described.emplace_back("axes", text(count_of(*axes)));
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

RotaryOptions share_rotation(const RotaryOptions& options, const Trace& trace)
{
    if (!trace.has_listener())
        return options;
    RotaryOptions shared = options;
    const auto share = [&](std::string_view step, auto& numbers) { numbers = trace.shared_input(step, numbers); };
    if (auto* const factors = std::get_if<LongRopeScaling>(&shared.scaling)) {
        share("short_factors[pairs]", factors->short_factors);
        share("long_factors[pairs]", factors->long_factors);
    }
    if (shared.frequencies)
        share("given_frequencies[pairs]", *shared.frequencies);
    if (shared.axes && shared.axes->coordinates.size() > 0) {
        share("coordinates[axes, n]", shared.axes->coordinates);
        share("axis_of_pairs[pairs]", shared.axes->of_pairs);
    }
    return shared;
}

template <Attending T>
T rotary(const T& tokens, const RotaryOptions& options, const Trace& caller)
{
    const std::size_t n = tokens.shape(token_axis<T>), d = tokens.shape(feature_axis<T>);
    const std::size_t features = expect_features(options.features, d);
    expect_meaning(options.scaling);
    if (options.positions && depends_on_length(options.scaling))
        throw Error("rotary: the ", name_of(options.scaling),
                    " scaling depends on how long a text is, and tokens that stand anywhere say no length");
    const Trace trace = caller.module("rotary", [&] { return describe(options); });
    const Term x = trace.input("x[(b,) n, d]", Term(tokens));

    // Find how fast each pair rotates, and what that comes to at each position.
    const Term frequencies = frequencies_of(options, {options.base, features, options.first, n}, trace);
    const bool has_coordinates = options.axes && options.axes->coordinates.size() > 0;
    const Term angles = has_coordinates
                            ? angles_along(*options.axes, n, frequencies, trace)
                            : angles_of(positions_of(options.positions, options.first, n, trace), frequencies, trace);

    // Some scalings lengthen queries and keys, too.
    const auto factor = std::visit(
        [&](const auto& of) -> std::optional<Term<double>> {
            if (row_of(of).attention_factor == nullptr)
                return std::nullopt;
            return trace("attention_factor", row_of(of).attention_factor(of, trace));
        },
        options.scaling);

    // Rotate each pair of each token; features after them stay.
    Term turned = rotated(x, angles, options.layout);
    if (factor)
        turned = *factor * turned;
    if (features < d)
        turned = concat(std::vector{turned, columns(x, features, d)}, -1);
    return T(trace("output[(b,) n, d]", std::move(turned)));
}

#define ATTN_INSTANTIATE(T) template T rotary(const T&, const RotaryOptions&, const Trace&);
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
ATTN_INSTANTIATE(Tensor4)
#undef ATTN_INSTANTIATE

} // namespace attn
