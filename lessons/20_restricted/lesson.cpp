// Lesson 20: only the neighbours.
//
// Attention compares every token with every other, and a sequence of twice the length takes four times as long. Much of
// what a token has to know stands close by. So let it look at r tokens on each side, or at every s-th, and at no other:
// then nothing of size (n, n) need exist.

#include "measure.hpp"

#include "attn/attention/cost.hpp"
#include "attn/attention/dot_product.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/ops/softmax.hpp"

#include <cmath>

using namespace attn;

namespace {

constexpr Neighbourhood local{.radius = 1}, strided{.stride = 3}, both{.radius = 1, .stride = 3};

//! [look_around]
/// Who is near whom: a row a token, a column a distance. Beyond the ends there is nobody.
Mask find_neighbours(const Trace& trace, std::size_t n)
{
    const Vector distances = trace("distances[width]", "arange(3) - 1", Vector{-1, 0, 1});
    Matrix places = xt::zeros<double>({n, distances.size()});
    for (std::size_t i = 0; i < n; ++i)
        xt::row(places, i) = static_cast<double>(i) + distances;
    const std::string count = std::to_string(n);
    trace("places[n, width]", "arange(" + count + ")[:, None] + distances", places);
    const Mask mask = trace("mask[n, width]", "(places >= 0) & (places < " + count + ")",
                            Mask(places >= 0.0 && places < static_cast<double>(n)));
    trace("neighbours[n, width]", "where(mask, places, 0)", Matrix(xt::where(mask, places, 0.0)));
    return mask;
}
//! [look_around]

//! [band]
/// Attention along the band: n rows of three scores each, not n rows of n.
Matrix attend_to_neighbours(const Trace& trace, const Matrix& tokens)
{
    const std::size_t n = tokens.shape(0), d = tokens.shape(1), width = 3;
    const Mask mask = find_neighbours(trace, n);
    Matrix compared = xt::zeros<double>({n, width}), mixed = xt::zeros<double>({n, d});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < width; ++c)
            for (std::size_t k = 0; k < d && mask(i, c); ++k)
                compared(i, c) += tokens(i, k) * tokens(i + c - 1, k);
    const Matrix scores =
        trace("scores[n, width]", "where(mask, sum(tokens[:, None, :] * tokens[neighbours], axis=2), 0)", compared);
    const Matrix scaled = trace("scaled[n, width]", "scores / sqrt(tokens.shape[-1])",
                                Matrix(scores / std::sqrt(static_cast<double>(d))));
    const Matrix masked =
        trace("masked[n, width]", "where(mask, scaled, -inf)", Matrix(xt::where(mask, scaled, -INFINITY)));
    const Matrix weights = trace("weights[n, width]", "softmax(masked)", softmax(masked));
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < width; ++c)
            for (std::size_t k = 0; k < d && mask(i, c); ++k)
                mixed(i, k) += weights(i, c) * tokens(i + c - 1, k);
    return trace("context[n, d]", "sum(weights[:, :, None] * tokens[neighbours], axis=1)", mixed);
}
//! [band]

/// The pairs of a neighbourhood, as a mask (n, n).
Mask pairs(std::size_t n, const Neighbourhood& neighbourhood)
{
    Mask mask = xt::zeros<bool>({n, n});
    for (const std::ptrdiff_t distance : distances_within(neighbourhood, n))
        for (std::size_t i = 0; i < n; ++i)
            if (const std::size_t j = i + static_cast<std::size_t>(distance); j < n) // a distance before 0 wraps
                mask(i, j) = true;
    return mask;
}

/// Queries, keys and values of one scope, unless they are something else than the tokens.
void name_tokens(const Trace& trace, const Matrix& tokens, std::initializer_list<std::string_view> roles)
{
    for (const std::string_view role : roles)
        trace(role, "tokens", tokens);
}

//! [full]
/// The same by masking all pairs, most of which are computed for nothing.
Matrix mask_all_pairs(const Trace& full, const Matrix& tokens)
{
    const std::size_t n = tokens.shape(0);
    const std::string places = "arange(" + std::to_string(n) + ")";
    const Mask mask = full("mask[n, m]", "abs(" + places + "[:, None] - " + places + ") <= 1", pairs(n, local));
    name_tokens(full, tokens, {"queries[n, d]", "keys[m, d]", "values[m, d]"});
    const Attention all = scaled_dot_product_attention(tokens, tokens, tokens, mask, {}, {}, full);
    full("wasted", "mean(where(weights == 0, 1, 0))",
         mean_all(Matrix(xt::where(xt::equal(all.weights, 0.0), 1.0, 0.0))));
    return all.context;
}
//! [full]

//! [convolution]
/// Queries that ask nothing find all neighbours equally relevant: a mean over a window, which is a convolution.
void ask_nothing(Lesson& lesson, const Matrix& tokens)
{
    const Trace even = lesson.trace().scope("even");
    const std::size_t n = tokens.shape(0);
    if (n < 3)
        return; // the window needs a token with two neighbours
    const Matrix nothing = even("queries[n, d]", "0 * tokens", Matrix(0.0 * tokens));
    name_tokens(even, tokens, {"keys[n, d]", "values[n, d]"});
    const Matrix context = restricted_attention(nothing, tokens, tokens, {.neighbourhood = local}, even).context;
    const auto from = [&](std::size_t i) -> Matrix { return xt::view(tokens, xt::range(i, i + n - 2), xt::all()); };
    const Matrix window = even("convolution[inner, d]", "(tokens[:-2] + tokens[1:-1] + tokens[2:]) / 3",
                               Matrix((from(0) + from(1) + from(2)) / 3.0));
    lesson.expect_equal("away from the ends, even weights are a convolution with the kernel 1/3, 1/3, 1/3",
                        Matrix(xt::view(context, xt::range(1, n - 1), xt::all())), window);
}
//! [convolution]

//! [reach]
/// How many outputs move when the first token changes, after each of three layers.
Vector reach_of(const Trace& trace, const Neighbourhood& neighbourhood, Matrix before, Matrix after)
{
    Vector reached(Vector::shape_type{3});
    std::string was = "tokens", is = "changed";
    for (std::size_t layer = 1; layer <= 3; ++layer) {
        const Trace scope = trace.scope("layer", layer);
        const auto attend = [&](std::string_view step, const std::string& x, const Matrix& tokens) {
            return scope(step, "softmax(where(mask, " + x + " @ " + x + ".T / sqrt(tokens.shape[-1]), -inf)) @ " + x,
                         restricted_attention(tokens, tokens, tokens, {.neighbourhood = neighbourhood}).context);
        };
        before = attend("before[n, d]", was, before);
        after = attend("after[n, d]", is, after);
        const Vector moved = max_along(Matrix(xt::abs(after - before)), 1);
        reached(layer - 1) = scope("reached", "sum(where(max(abs(after - before), axis=1) > 0, 1, 0))",
                                   sum_all(Vector(xt::where(moved > 0.0, 1.0, 0.0))));
        was = "layer." + std::to_string(layer) + ".before";
        is = "layer." + std::to_string(layer) + ".after";
    }
    return reached;
}

void show_reach(Lesson& lesson, const Matrix& tokens)
{
    const Trace reach = lesson.trace().scope("reach");
    const std::string places = "arange(" + std::to_string(tokens.shape(0)) + ")";
    const std::string apart = "abs(" + places + "[:, None] - " + places + ")";
    Matrix changed = tokens;
    xt::row(changed, 0) += 1.0;
    reach("changed[n, d]", "tokens + where(" + places + " == 0, 1, 0)[:, None]", changed);
    const auto by = [&](std::string_view name, const Neighbourhood& neighbourhood, const std::string& rule) {
        const Trace scope = reach.scope(name);
        scope("mask[n, m]", rule, pairs(tokens.shape(0), neighbourhood));
        return reach_of(scope, neighbourhood, tokens, changed);
    };
    const Vector near = by("local", local, apart + " <= 1");
    const Vector far = by("strided", strided, "floor(" + apart + " / 3) * 3 == " + apart);
    const Vector all = by("both", both, "where(local.mask, local.mask, strided.mask)");
    lesson.table({"layers", "tokens reached: local", "strided", "both"},
                 {{1, near(0), far(0), all(0)}, {2, near(1), far(1), all(1)}, {3, near(2), far(2), all(2)}});
}
//! [reach]

//! [count]
/// Multiplications for n = 256 to 16384, d = 64 and r = 64, and with a stride that grows with the root of n.
void count(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const Vector n = cost("n[sizes]", "4 ** (arange(4) + 4)", Vector{256, 1024, 4096, 16384});
    cost("d", "", 64.0);
    cost("r", "", 64.0);
    Vector full = n, near = n, far = n;
    for (std::size_t i = 0; i < n.size(); ++i) {
        const std::size_t size = static_cast<std::size_t>(n(i)), root = static_cast<std::size_t>(std::sqrt(n(i)));
        full(i) = static_cast<double>(full_attention_cost(size, 64, 64).multiplications);
        near(i) = static_cast<double>(restricted_attention_cost(size, 64, 64, {.radius = 64}).multiplications);
        far(i) = static_cast<double>(restricted_attention_cost(size, 64, 64, {.stride = root}).multiplications);
    }
    cost("full[sizes]", "n ** 2 * (2 * d + 2)", full);
    cost("local[sizes]", "(n * (2 * r + 1) - r * (r + 1)) * 2 * d + 2 * n * (2 * r + 1)", near);
    cost("strided[sizes]", "n ** 1.5 * 2 * d + 2 * n * (2 * sqrt(n) - 1)", far);
    const auto exponent = [&](const std::string& name, const Vector& of) {
        return cost(name + "_exponent", "log(" + name + "[-1] / " + name + "[0]) / log(n[-1] / n[0])",
                    std::log(of(3) / of(0)) / std::log(n(3) / n(0)));
    };
    lesson.table({"exponent of n: full", "local", "strided by the root of n"},
                 {{exponent("full", full), exponent("local", near), exponent("strided", far)}});
    cost("full_mib[sizes]", "8 * n ** 2 / 2 ** 20", Vector(8.0 * n * n / 0x1p20));
    cost("local_mib[sizes]", "8 * n * (2 * r + 1) / 2 ** 20", Vector(8.0 * n * 129.0 / 0x1p20));
}
//! [count]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Eight tokens; each looks at itself, the one before it and the one behind it");
    const Matrix tokens = lesson.input(
        "tokens[n, d]", Matrix{{1, 0, 1}, {0, 2, 0}, {1, 1, 1}, {2, 0, 0}, {0, 1, 2}, {1, 2, 0}, {0, 0, 1}, {2, 1, 1}});
    const std::size_t n = tokens.shape(0);
    const Matrix context = attend_to_neighbours(trace, tokens);

    lesson.heading("2. The same by masking all pairs");
    lesson.expect_equal("the band gives what a masked matrix gives", context,
                        mask_all_pairs(trace.scope("full"), tokens));

    //! [library]
    lesson.heading("3. The library's, by strides, and both under one softmax");
    lesson.expect_equal("restricted_attention gives the same",
                        restricted_attention(tokens, tokens, tokens, {.neighbourhood = local}).context, context);
    const auto attend = [&](std::string_view scope, const Neighbourhood& neighbourhood) {
        const Trace inside = trace.scope(scope);
        name_tokens(inside, tokens, {"queries[n, d]", "keys[n, d]", "values[n, d]"});
        return restricted_attention(tokens, tokens, tokens, {.neighbourhood = neighbourhood}, inside);
    };
    const RestrictedAttention far = attend("strided", strided), joined = attend("both", both);
    lesson.expect("the token itself is in both neighbourhoods, and counts once",
                  joined.band.distances.size() == 3 + far.band.distances.size() - 1 || n == 1);
    //! [library]

    lesson.heading("4. A window with weights that are all the same is a convolution");
    ask_nothing(lesson, tokens);

    lesson.heading("5. How far news of the first token travels");
    show_reach(lesson, tokens);

    lesson.heading("6. Counted");
    count(lesson);

    if (lesson.flag<bool>("--measure")) {
        lesson.heading("7. Measured");
        measure(lesson);
    } else {
        lesson.say("With --measure it is timed as well, on your machine.");
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("20_restricted", argc, argv, teach,
                       {{"--measure", "", "measure time as well, which differs from machine to machine", false}});
}
