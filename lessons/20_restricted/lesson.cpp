// Lesson 20: attention to neighbours only.
//
// Attention compares every token with every other, so a sequence of twice the length
// takes four times as long. Restricted attention compares a token only with the r tokens
// on each side of it, or with every s-th token. No matrix of size (n, n) is needed then.

#include "measure.hpp"

#include "attn/reference/attention/cost.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>

using namespace attn;

namespace {

constexpr Neighbourhood local{.radius = 1}, strided{.stride = 3},
    both{.radius = 1, .stride = 3};

// The helpers of teach(), which stand below it in this order.
IntegerMatrix add_pairs(std::size_t n, const Integers& distances);
Matrix compare_neighbours(const Matrix& tokens, const IntegerMatrix& neighbours,
                          const Mask& mask);
Matrix mix_neighbours(const Matrix& weights, const Matrix& tokens,
                      const IntegerMatrix& neighbours, const Mask& mask);
Mask pairs(std::size_t n, const Neighbourhood& neighbourhood);
void compare_with_convolution(Lesson& lesson, const Matrix& tokens);
void show_reach(Lesson& lesson, const Matrix& tokens);
void count(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Eight tokens; each attends to itself, the token before it and the "
                   "token after it");
    const Matrix tokens = lesson.input("tokens[n, d]", Matrix{{1, 0, 1},
                                                              {0, 2, 0},
                                                              {1, 1, 1},
                                                              {2, 0, 0},
                                                              {0, 1, 2},
                                                              {1, 2, 0},
                                                              {0, 0, 1},
                                                              {2, 1, 1}});
    const std::size_t n = tokens.shape(0), d = tokens.shape(1);
    const std::string count_of_tokens = std::to_string(n);

    // The neighbours of each token: a row per token, a column per distance. Beyond the
    // ends the mask is false.
    //! [places]
    const Integers distances =
        trace("distances[width]", "arange(3) - 1", Integers{-1, 0, 1});
    const IntegerMatrix places =
        trace("places[n, width]", "arange(" + count_of_tokens + ")[:, None] + distances",
              add_pairs(n, distances));
    //! [places]
    //! [mask]
    const Mask mask =
        trace("mask[n, width]", "(places >= 0) & (places < " + count_of_tokens + ")",
              Mask(places >= 0 && places < static_cast<std::int64_t>(n)));
    const IntegerMatrix neighbours =
        trace("neighbours[n, width]", "where(mask, places, 0)",
              IntegerMatrix(xt::where(mask, places, std::int64_t{0})));
    //! [mask]

    // Attention along the band: n rows of three scores, in place of n rows of n.
    //! [scores]
    const Matrix scores =
        trace("scores[n, width]",
              "where(mask, sum(tokens[:, None, :] * tokens[neighbours], axis=2), 0)",
              compare_neighbours(tokens, neighbours, mask));
    const Matrix scaled = trace("scaled[n, width]", "scores / sqrt(tokens.shape[-1])",
                                Matrix(scores / std::sqrt(static_cast<double>(d))));
    //! [scores]
    //! [band]
    const Matrix masked = trace("masked[n, width]", "where(mask, scaled, -inf)",
                                Matrix(xt::where(mask, scaled, -INFINITY)));
    const Matrix weights = trace("weights[n, width]", "softmax(masked)", softmax(masked));
    const Matrix context = trace("context[n, d]",
                                 "sum(where(mask[:, :, None], weights[:, :, None] * "
                                 "tokens[neighbours], 0), axis=1)",
                                 mix_neighbours(weights, tokens, neighbours, mask));
    //! [band]

    lesson.heading("2. The same with a mask over all pairs: most weights are zero");
    const Trace full = trace.scope(
        "full", {{"queries", "tokens"}, {"keys", "tokens"}, {"values", "tokens"}});
    const std::string all_places = "arange(" + count_of_tokens + ")";
    //! [full]
    const Mask near =
        full("mask[n, m]", "abs(" + all_places + "[:, None] - " + all_places + ") <= 1",
             pairs(n, local));
    const Attention all =
        scaled_dot_product_attention(tokens, tokens, tokens, {.mask = near}, full);
    //! [full]
    lesson.expect_equal("the band gives what a masked matrix gives", context,
                        all.context);
    const double wasted =
        full("wasted", "mean(where(weights == 0, 1, 0))",
             mean_all(Matrix(xt::where(xt::equal(all.weights, 0.0), 1.0, 0.0))));
    lesson.table({"share of the weights that are zero"}, {{wasted}});

    lesson.heading("3. The library's function, strides, and both under one softmax");
    lesson.expect_equal(
        "restricted_attention gives the same",
        restricted_attention(tokens, tokens, tokens, {.neighbourhood = local}).context,
        context);
    const auto attend = [&](std::string_view name, const Neighbourhood& neighbourhood) {
        const Trace scope = trace.scope(
            name, {{"queries", "tokens"}, {"keys", "tokens"}, {"values", "tokens"}});
        return restricted_attention(tokens, tokens, tokens,
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

/// The place of each token plus each distance.
IntegerMatrix add_pairs(std::size_t n, const Integers& distances)
{
    IntegerMatrix places(IntegerMatrix::shape_type{n, distances.size()});
    for (std::size_t i = 0; i < n; ++i)
        xt::row(places, i) = static_cast<std::int64_t>(i) + distances;
    return places;
}

/// Each token's dot products with its neighbours; 0 where there is none.
Matrix compare_neighbours(const Matrix& tokens, const IntegerMatrix& neighbours,
                          const Mask& mask)
{
    Matrix scores = xt::zeros<double>(mask.shape());
    for (std::size_t i = 0; i < mask.shape(0); ++i)
        for (std::size_t c = 0; c < mask.shape(1); ++c)
            for (std::size_t k = 0; k < tokens.shape(1) && mask(i, c); ++k)
                scores(i, c) += tokens(i, k) * tokens(neighbours(i, c), k);
    return scores;
}

/// Each token's weighted sum of its neighbours.
Matrix mix_neighbours(const Matrix& weights, const Matrix& tokens,
                      const IntegerMatrix& neighbours, const Mask& mask)
{
    Matrix context = xt::zeros<double>(tokens.shape());
    for (std::size_t i = 0; i < mask.shape(0); ++i)
        for (std::size_t c = 0; c < mask.shape(1); ++c)
            for (std::size_t k = 0; k < tokens.shape(1) && mask(i, c); ++k)
                context(i, k) += weights(i, c) * tokens(neighbours(i, c), k);
    return context;
}

// -------------------------------------------------------------------------- 2. all pairs

/// The pairs of a neighbourhood, as a mask (n, n).
Mask pairs(std::size_t n, const Neighbourhood& neighbourhood)
{
    Mask mask = xt::zeros<bool>({n, n});
    for (const std::int64_t distance : distances_within(neighbourhood, n))
        for (std::size_t i = 0; i < n; ++i)
            if (const std::size_t j = i + static_cast<std::size_t>(distance);
                j < n) // wraps before the first token
                mask(i, j) = true;
    return mask;
}

// ---------------------------------------------------------------------- 4. a convolution

/// With queries of zeros all neighbours have the same weight: the context is the mean
/// over a window, a convolution.
void compare_with_convolution(Lesson& lesson, const Matrix& tokens)
{
    const std::size_t n = tokens.shape(0);
    if (n < 3)
        return; // the window needs a token with two neighbours
    const Trace even =
        lesson.trace().scope("even", {{"keys", "tokens"}, {"values", "tokens"}});
    //! [convolution]
    const Matrix zeros = even("queries[n, d]", "0 * tokens", Matrix(0.0 * tokens));
    const Matrix context =
        restricted_attention(zeros, tokens, tokens, {.neighbourhood = local}, even)
            .context;
    //! [convolution]
    const auto from = [&](std::size_t i) -> Matrix {
        return xt::view(tokens, xt::range(i, i + n - 2), xt::all());
    };
    const Matrix window =
        even("convolution[inner, d]", "(tokens[:-2] + tokens[1:-1] + tokens[2:]) / 3",
             Matrix((from(0) + from(1) + from(2)) / 3.0));
    lesson.expect_equal("away from the ends, equal weights are a convolution with the "
                        "kernel 1/3, 1/3, 1/3",
                        Matrix(xt::view(context, xt::range(1, n - 1), xt::all())),
                        window);
}

// ------------------------------------------------------------------------------ 5. reach

/// How many outputs change with the first token, after each of three layers of attention
/// under a mask.
std::vector<double> reach_of(const Trace& trace, const Mask& mask, Matrix before,
                             Matrix after)
{
    const double root = std::sqrt(static_cast<double>(before.shape(1)));
    std::vector<double> counts;
    std::string was = "tokens", is = "changed";
    for (std::size_t layer = 1; layer <= 3; ++layer) {
        const Trace scope = trace.scope("layer", layer);
        const auto attend = [&](std::string_view step, const std::string& name,
                                const Matrix& x) {
            const Matrix scaled = matmul(x, transpose(x)) / root;
            return scope(step,
                         "softmax(where(mask, " + name + " @ " + name +
                             ".T / sqrt(tokens.shape[-1]), -inf)) @ " + name,
                         matmul(softmax(Matrix(xt::where(mask, scaled, -INFINITY))), x));
        };
        //! [reach]
        before = attend("before[n, d]", was, before);
        after = attend("after[n, d]", is, after);
        const Vector change = max_along(Matrix(xt::abs(after - before)), 1);
        const std::int64_t reached =
            scope("reached", "sum(where(max(abs(after - before), axis=1) > 0, 1, 0))",
                  std::int64_t{
                      std::ranges::count_if(change, [](double by) { return by > 0; })});
        //! [reach]
        counts.push_back(static_cast<double>(reached));
        was = "layer." + std::to_string(layer) + ".before";
        is = "layer." + std::to_string(layer) + ".after";
    }
    return counts;
}

void show_reach(Lesson& lesson, const Matrix& tokens)
{
    const Trace reach = lesson.trace().scope("reach");
    const std::string places = "arange(" + std::to_string(tokens.shape(0)) + ")";
    const std::string apart = "abs(" + places + "[:, None] - " + places + ")";
    const std::string near = apart + " <= 1",
                      far = "floor(" + apart + " / 3) * 3 == " + apart;
    Matrix first_changed = tokens;
    xt::row(first_changed, 0) += 1.0;
    const Matrix changed =
        reach("changed[n, d]", "tokens + where(" + places + " == 0, 1, 0)[:, None]",
              first_changed);
    const auto by = [&](std::string_view name, const Neighbourhood& neighbourhood,
                        const std::string& rule) {
        const Trace scope = reach.scope(name);
        const Mask mask =
            scope("mask[n, m]", rule, pairs(tokens.shape(0), neighbourhood));
        return reach_of(scope, mask, tokens, changed);
    };
    const std::vector<double> locally = by("local", local, near),
                              in_strides = by("strided", strided, far),
                              together =
                                  by("both", both,
                                     "where(" + near + ", " + near + ", " + far + ")");
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
    const Integers n = cost("n[sizes]", "", Integers{256, 1024, 4096, 16384});
    const std::int64_t d = cost("d", "", std::int64_t{64}),
                       r = cost("r", "", std::int64_t{64});
    Integers full = n, near = n, far = n;
    for (std::size_t i = 0; i < n.size(); ++i) {
        const auto size = static_cast<std::size_t>(n(i)),
                   width = static_cast<std::size_t>(d);
        const auto count_of = [&](const Neighbourhood& neighbourhood) {
            return static_cast<std::int64_t>(
                restricted_attention_cost(size, width, width, neighbourhood)
                    .multiplications);
        };
        full(i) = static_cast<std::int64_t>(
            full_attention_cost(size, width, width).multiplications);
        near(i) = count_of({.radius = static_cast<std::size_t>(r)});
        far(i) = count_of({.stride = static_cast<std::size_t>(std::sqrt(n(i)))});
    }
    //! [count]
    full = cost("full[sizes]", "n ** 2 * (2 * d + 2)", full);
    near = cost("local[sizes]",
                "(n * (2 * r + 1) - r * (r + 1)) * 2 * d + 2 * n * (2 * r + 1)", near);
    far = cost("strided[sizes]", "n ** 1.5 * 2 * d + 2 * n * (2 * sqrt(n) - 1)", far);
    //! [count]
    const auto exponent = [&](const std::string& name, const Integers& of) {
        const auto log_of_ratio = [](const Integers& x) {
            return std::log(static_cast<double>(x(3)) / static_cast<double>(x(0)));
        };
        return cost(name + "_exponent",
                    "log(" + name + "[-1] / " + name + "[0]) / log(n[-1] / n[0])",
                    log_of_ratio(of) / log_of_ratio(n));
    };
    lesson.table(
        {"exponent of n: full", "local", "strided by the root of n"},
        {{exponent("full", full), exponent("local", near), exponent("strided", far)}});
    const Vector full_mib =
        cost("full_mib[sizes]", "8 * n ** 2 / 2 ** 20", Vector(8.0 * n * n / 0x1p20));
    const Vector local_mib = cost("local_mib[sizes]", "8 * n * (2 * r + 1) / 2 ** 20",
                                  Vector(8.0 * n * (2 * r + 1) / 0x1p20));
    lesson.table({"MiB of weights at 16384 tokens: full", "local"},
                 {{full_mib(3), local_mib(3)}});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("20_restricted", argc, argv, teach,
                       {{"--measure", "",
                         "also measure the time, which depends on the machine", false}});
}
