// Lesson 20: attention to neighbours only.
//
// Attention compares every token with every other, so a sequence of twice the length
// takes four times as long. Restricted attention compares a token only with the r tokens
// on each side of it, or with every s-th token. No matrix of size (n, n) is needed then.

#include "../numbers.hpp"
#include "measure.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/restricted.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

constexpr Neighbourhood local{.radius = 1}, strided{.stride = 3},
    both{.radius = 1, .stride = 3};

// The helpers of teach(), which stand below it in this order.
template <class To, class From>
Term<To> with_axis(const Term<From>& x, const typename To::shape_type& shape,
                   std::string_view index);
void compare_with_convolution(Lesson& lesson, const Term<Matrix>& tokens);
void show_reach(Lesson& lesson, const Term<Matrix>& tokens);
void count(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const WholeNumbers whole(trace);

    lesson.heading("1. Eight tokens; each attends to itself, the token before it and the "
                   "token after it");
    const Term tokens = lesson.input("tokens[n, d]", Matrix{{1, 0, 1},
                                                            {0, 2, 0},
                                                            {1, 1, 1},
                                                            {2, 0, 0},
                                                            {0, 1, 2},
                                                            {1, 2, 0},
                                                            {0, 0, 1},
                                                            {2, 1, 1}});
    const std::size_t n = tokens.shape(0), d = tokens.shape(1), width = 3;
    const Term size = number(static_cast<double>(n), trace);

    // The neighbours of each token: a row per token, a column per distance. Beyond the
    // ends the mask is false.
    //! [places]
    const Term position = arange(size);
    const Term distances = whole("distances[width]", arange(number(width, trace)) - 1);
    const Term places = whole("places[n, width]", each_row(position) + distances);
    //! [places]
    //! [mask]
    const Term mask = trace("mask[n, width]", (places >= 0) & (places < size));
    const Term neighbours = whole("neighbours[n, width]", where(mask, places, 0));
    //! [mask]

    // Attention along the band: n rows of three scores, in place of n rows of n.
    //! [scores]
    const Term each = with_axis<Tensor3>(tokens, {n, 1, d}, "[:, None, :]");
    const Term near = take_rows(tokens, wholes(neighbours));
    const Term scores =
        trace("scores[n, width]", where(mask, sum_along(each * near, 2), 0));
    const Term scaled = trace("scaled[n, width]", scores / sqrt(size_along(tokens, -1)));
    //! [scores]
    //! [band]
    const Term masked = trace("masked[n, width]", where(mask, scaled, minus_infinity));
    const Term weights = trace("weights[n, width]", softmax(masked));
    const Term shares = with_axis<Tensor3>(weights, {n, width, 1}, "[:, :, None]");
    const Term is_there = with_axis<BatchMask>(mask, {n, width, 1}, "[:, :, None]");
    const Term context =
        trace("context[n, d]", sum_along(where(is_there, shares * near, 0), 1));
    //! [band]

    lesson.heading("2. The same with a mask over all pairs: most weights are zero");
    const Trace full = trace.scope("full");
    //! [full]
    const Term apart = abs(each_row(position) - position);
    const Term all_pairs = full("mask[n, m]", apart <= 1);
    const AttentionOf all =
        scaled_dot_product_attention(tokens, tokens, tokens, {.mask = *all_pairs}, full);
    //! [full]
    lesson.expect_equal("the band gives what a masked matrix gives", context,
                        all.context);
    const Term wasted = full("wasted", mean_all(ones(all.weights == 0)));
    lesson.table({"share of the weights that are zero"}, {{*wasted}});

    lesson.heading("3. The library's function, strides, and both under one softmax");
    lesson.expect_equal(
        "restricted_attention gives the same",
        restricted_attention(*tokens, *tokens, *tokens, {.neighbourhood = local}).context,
        context);
    const auto attend = [&](std::string_view name, const Neighbourhood& neighbourhood) {
        const Trace scope = trace.scope(
            name, {{"queries", "tokens"}, {"keys", "tokens"}, {"values", "tokens"}});
        return restricted_attention(*tokens, *tokens, *tokens,
                                    {.neighbourhood = neighbourhood}, scope);
    };
    //! [library]
    const RestrictedAttention far = attend("strided", strided),
                              joined = attend("both", both);
    //! [library]
    lesson.expect("the token itself is in both neighbourhoods, and counts once",
                  joined.band.distances.size() == 3 + far.band.distances.size() - 1 ||
                      n == 1);

    lesson.heading("4. A window whose weights are all the same is a convolution");
    compare_with_convolution(lesson, tokens);

    lesson.heading("5. How far a change of the first token reaches");
    show_reach(lesson, tokens);

    lesson.heading("6. Multiplications and memory, counted");
    count(lesson);

    if (lesson.flag<bool>("--measure")) {
        lesson.heading("7. Time, measured");
        measure(lesson);
    } else {
        lesson.say("With --measure the lesson also measures times on this machine.");
    }
}

// ------------------------------------------------------------------------ 1. on the band

/// The same numbers with one more axis, of one entry: x[:, None, :].
template <class To, class From>
Term<To> with_axis(const Term<From>& x, const typename To::shape_type& shape,
                   std::string_view index)
{
    To same(shape);
    std::ranges::copy(*x, same.begin());
    return {std::move(same), with_suffix(x.wording(), index)};
}

// ---------------------------------------------------------------------- 4. a convolution

/// With queries of zeros all neighbours have the same weight: the context is the mean
/// over a window, a convolution.
void compare_with_convolution(Lesson& lesson, const Term<Matrix>& tokens)
{
    const std::size_t n = tokens.shape(0);
    if (n < 3)
        return; // the window needs a token with two neighbours
    const Trace even =
        lesson.trace().scope("even", {{"keys", "tokens"}, {"values", "tokens"}});
    //! [convolution]
    const Term zeros = even("queries[n, d]", 0 * tokens);
    const Term context(
        restricted_attention(*zeros, *tokens, *tokens, {.neighbourhood = local}, even)
            .context);
    const Term window = even(
        "convolution[inner, d]",
        (slice(tokens, 0, n - 2) + slice(tokens, 1, n - 1) + slice(tokens, 2, n)) / 3);
    //! [convolution]
    lesson.expect_equal("away from the ends, equal weights are a convolution with the "
                        "kernel 1/3, 1/3, 1/3",
                        slice(context, 1, n - 1), window);
}

// ------------------------------------------------------------------------------ 5. reach

/// How many outputs change with the first token, after each of three layers of attention
/// under a mask.
std::vector<double> reach_of(const Trace& trace, const Term<Mask>& mask,
                             const Term<Matrix>& tokens, const Term<Matrix>& changed)
{
    Term before = tokens, after = changed;
    std::vector<double> counts;
    for (std::size_t layer = 1; layer <= 3; ++layer) {
        const Trace scope = trace.scope("layer", layer);
        const WholeNumbers whole(scope);
        //! [reach]
        const auto attend = [&](const Term<Matrix>& x) {
            const Term scaled = matmul(x, transpose(x)) / sqrt(size_along(tokens, -1));
            return matmul(softmax(where(mask, scaled, minus_infinity)), x);
        };
        before = scope("before[n, d]", attend(before));
        after = scope("after[n, d]", attend(after));
        const Term change = max_along(abs(after - before), 1, keepdims);
        const Term reached = whole("reached", sum_all(ones(change > 0)));
        //! [reach]
        counts.push_back(*reached);
    }
    return counts;
}

void show_reach(Lesson& lesson, const Term<Matrix>& tokens)
{
    const Trace reach = lesson.trace().scope("reach");
    const Term position =
        arange(number(static_cast<double>(tokens.shape(0)), lesson.trace()));
    const Term first = ones(each_row(position) == 0);
    const Term changed = reach("changed[n, d]", tokens + first);

    const Term apart = abs(each_row(position) - position);
    const Term near = apart <= 1, far = floor(apart / 3) * 3 == apart;
    const auto by = [&](std::string_view name, const Term<Mask>& pairs) {
        const Trace scope = reach.scope(name);
        return reach_of(scope, scope("mask[n, m]", pairs), tokens, changed);
    };
    const std::vector<double> locally = by("local", near),
                              in_strides = by("strided", far),
                              together = by("both", near | far);
    lesson.table({"layers", "tokens reached: local", "strided", "both"},
                 {{1, locally[0], in_strides[0], together[0]},
                  {2, locally[1], in_strides[1], together[1]},
                  {3, locally[2], in_strides[2], together[2]}});
}

// ------------------------------------------------------------------------------ 6. costs

/// Multiplications for n = 256 to 16384, d = 64 and r = 64, and with a stride that grows
/// with the root of n.
void count(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const WholeNumbers whole(cost);
    const Term n = whole.given("n[sizes]", Integers{256, 1024, 4096, 16384});
    const Term d = whole.given("d", 64), r = whole.given("r", 64);
    //! [count]
    const Term full = whole("full[sizes]", square(n) * (2 * d + 2));
    const Term near = whole("local[sizes]", (n * (2 * r + 1) - r * (r + 1)) * 2 * d +
                                                2 * n * (2 * r + 1));
    const Term far =
        whole("strided[sizes]", power(n, 1.5) * 2 * d + 2 * n * (2 * sqrt(n) - 1));
    //! [count]
    const auto exponent = [&](const std::string& name, const Term<Vector>& of) {
        const auto log_of_ratio = [](const Vector& x) { return std::log(x(3) / x(0)); };
        return cost(name + "_exponent",
                    "log(" + name + "[-1] / " + name + "[0]) / log(n[-1] / n[0])",
                    log_of_ratio(*of) / log_of_ratio(*n));
    };
    lesson.table(
        {"exponent of n: full", "local", "strided by the root of n"},
        {{exponent("full", full), exponent("local", near), exponent("strided", far)}});
    const Term mib = power(number(2, cost), 20);
    const Term full_mib = cost("full_mib[sizes]", 8 * square(n) / mib);
    const Term local_mib = cost("local_mib[sizes]", 8 * n * (2 * r + 1) / mib);
    lesson.table({"MiB of weights at 16384 tokens: full", "local"},
                 {{(*full_mib)(3), (*local_mib)(3)}});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("20_restricted", argc, argv, teach,
                       {{"--measure", "",
                         "also measure the time, which depends on the machine", false}});
}
