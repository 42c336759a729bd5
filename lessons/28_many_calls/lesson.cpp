// Lesson 28: one sequence, many calls.
//
// A model that writes is called many times: the prompt in one call or in chunks, then one
// token in each. Each token gets the same result however the tokens are divided, if three
// things are right: where a token stands, which keys it sees, and what is stored. Eight
// mistakes, and which tokens each of them changes.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/models/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

using namespace attn;

namespace {

/// What earlier calls left: of each layer the keys and values of the tokens that are
/// stored, and which token of the sequence each row is of.
struct Stored {
    std::optional<Term<Vector>> order = {}; ///< (past)
    struct OfLayer {
        std::optional<Term<Matrix>> keys = {}, values = {}; ///< (past, d_model)
    };
    std::vector<OfLayer> layers = {};
};

/// How many of the last tokens a token sees, itself among them, and how many first ones
/// beside these.
struct Seen {
    std::size_t width, kept;
};

/// Tokens of a sequence that are given in one call: from `begin` up to, not including,
/// `end`.
struct Asked {
    std::size_t begin, end;
    Seen seen;

    std::size_t count() const { return end - begin; }
};

/// The three decisions of a call.
/// @param order  (n): the number of each of the call's tokens in the sequence
/// @param keys   (m): that of each key, stored or new
using Positions = Term<Vector>(const Asked& call, const Term<Vector>& order);
using KeysSeen = Term<Mask>(const Asked& call, const Term<Vector>& order,
                            const Term<Vector>& keys);
/// @return whether a token is still stored after the call
using Stays = bool(const Asked& call, std::size_t token);

Positions count_on, restart, one_ahead, stand_still;
KeysSeen earlier_keys, unmasked, from_top_left, without_overwritten;
Stays last_and_first, of_this_call, last_alone;

/// Right decisions, unless others are named.
struct Rules {
    Positions* positions = count_on;
    KeysSeen* mask = earlier_keys;
    Stays* stays = last_and_first;
};

/// A well-known mistake: another answer to one of the three questions.
struct Mistake {
    const char *id, *sentence;
    Rules rules;
    bool is_of_ring = false; ///< it shows where only some tokens are stored
};

//! [mistakes]
constexpr std::array mistakes{
    Mistake{"mask_skipped_with_cache",
            "A call with a cache has no causal mask.",
            {.mask = unmasked}},
    Mistake{"chunk_masked_top_left",
            "The causal mask of a chunk begins at the first key.",
            {.mask = from_top_left}},
    Mistake{
        "positions_restart", "Each call's positions begin at 0.", {.positions = restart}},
    Mistake{"positions_one_ahead",
            "Positions after the first call are one too large.",
            {.positions = one_ahead}},
    Mistake{"positions_stand_still",
            "All tokens of a later chunk have the position of its first one.",
            {.positions = stand_still}},
    Mistake{
        "cache_overwritten", "A call replaces what was stored.", {.stays = of_this_call}},
    Mistake{"ring_written_first",
            "A chunk overwrites keys of the ring that its first queries still need.",
            {.mask = without_overwritten},
            true},
    Mistake{"first_tokens_overwritten",
            "The first tokens, which the window keeps, are overwritten when the ring "
            "wraps.",
            {.stays = last_alone},
            true},
};
//! [mistakes]

/// The small model's weights as terms, so that formulas name them.
struct Map {
    Term<Matrix> weights;
    Term<Vector> bias;
};
struct Norm {
    Term<Vector> gain, bias;
};
struct Layer {
    Norm norm1;
    Map query, key, value, output;
    Norm norm2;
    Map hidden, back;
};
struct Model {
    Term<Matrix> tokens, positions;
    std::vector<Layer> layers;
    Norm norm;
    std::size_t heads;
};

/// A sequence, and where its calls end.
struct Given {
    Term<Integers> ids;
    std::vector<std::size_t> ends; ///< the last is the number of tokens
};

// The helpers of teach(), which stand below it in this order.
Model model_of(const Trace& trace, const SmallModel& model);
std::vector<std::size_t> ends_of(const Integers& ends, std::size_t n);
std::int64_t only(const char* name, const Integers& numbers);
const Rules& rules_of(std::int64_t mistake);
Seen seen_of(std::int64_t width, std::int64_t kept, std::size_t n);
Term<Matrix> read(const Trace& trace, const Given& given, const Seen& seen,
                  const Model& model, const Rules& rules);
void compare(Lesson& lesson, const Trace& trace, const Term<Matrix>& found,
             const Term<Matrix>& expected, bool is_right);
void show_corners(Lesson& lesson, const std::vector<std::size_t>& ends);
void count_work(Lesson& lesson);
void check_library(Lesson& lesson, const SmallModel& model, const Given& given,
                   const Seen& seen, const Term<Matrix>& expected);
void make_mistakes(Lesson& lesson, const Integers& ids, const SmallModel& model,
                   const Seen& ring, std::size_t prompt);

void teach(Lesson& lesson)
{
    const SmallModel small = small_model();
    const Term ids =
        lesson.input("ids[n]", small.ids("Lily had a red ball . She took the "
                                         "ball to the park . The ball was"));
    const Term ends = lesson.input("ends[calls]", Integers{6, 7, 11, 17}),
               width = lesson.input("width[one]", Integers{6}),
               kept = lesson.input("kept[one]", Integers{1}),
               mistake = lesson.input("mistake[one]", Integers{0});
    const std::size_t n = ids.size();
    const Given given{ids, ends_of(*ends, n)}, at_once{ids, {n}};
    const Rules& rules = rules_of(only("mistake", *mistake));
    const bool is_right = (*mistake)(0) == 0;
    const Seen every{n, 0}, ring = seen_of(only("width", *width), only("kept", *kept), n);
    const Model model = model_of(lesson.trace(), small);
    if (const std::size_t most = model.positions.shape(0) - 1; n > most)
        throw Error("ids has " + std::to_string(n) + " tokens, expected at most " +
                    std::to_string(most) +
                    ": the model has one position more, which a mistake needs");

    lesson.heading("1. All tokens in one call");
    const Trace one = lesson.trace().scope("at_once");
    const Term whole = read(one, at_once, every, model, {});

    lesson.heading("2. The same tokens over several calls");
    const Trace several = lesson.trace().scope("calls");
    compare(lesson, several, read(several, given, every, model, rules), whole, is_right);

    lesson.heading("3. The two corners of a mask");
    show_corners(lesson, given.ends);

    lesson.heading("4. What is stored, and what is computed again");
    count_work(lesson);

    lesson.heading("5. A ring that keeps the first tokens");
    const Trace in_ring = lesson.trace().scope("ring");
    const Trace windowed = in_ring.scope("at_once"), parts = in_ring.scope("calls");
    const Term near = read(windowed, at_once, ring, model, {});
    compare(lesson, parts, read(parts, given, ring, model, rules), near, is_right);
    check_library(lesson, small, given, ring, near);

    lesson.heading("6. Eight mistakes");
    make_mistakes(lesson, *ids, small, ring, given.ends.front());
}

// ------------------------------------------------------------------- what is given

Map given_map(const Trace& trace, const std::string& name, const LinearWeights& weights)
{
    return {trace.given(name + "_weights[d_in, d_out]", weights.weight),
            trace.given(name + "_bias[d_out]", *weights.bias)};
}

Norm given_norm(const Trace& trace, const std::string& name,
                const LayerNormWeights& weights)
{
    return {trace.given(name + "_gain[d_model]", weights.gain),
            trace.given(name + "_bias[d_model]", *weights.bias)};
}

Model model_of(const Trace& caller, const SmallModel& model)
{
    const Trace trace = caller.scope("model");
    const auto& [tokens, positions, layers, norm, output] = model.weights;
    Model all{trace.given("tokens[vocabulary, d_model]", tokens),
              trace.given("positions[n_max, d_model]", positions),
              {},
              {},
              model.heads};
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto& [attention, network, norm1, norm2] = layers[i];
        const Trace inside = trace.scope("layers", i);
        all.layers.push_back({given_norm(inside, "norm1", norm1),
                              given_map(inside, "query", attention.query),
                              given_map(inside, "key", attention.key),
                              given_map(inside, "value", attention.value),
                              given_map(inside, "output", *attention.output),
                              given_norm(inside, "norm2", norm2),
                              given_map(inside, "hidden", network.hidden),
                              given_map(inside, "back", network.output)});
    }
    all.norm = given_norm(trace, "norm", norm);
    return all;
}

std::vector<std::size_t> ends_of(const Integers& ends, std::size_t n)
{
    std::int64_t last = 0;
    for (const std::int64_t end : ends) {
        if (end <= last)
            throw Error("ends says after which token each call ends: expected growing "
                        "numbers from 1 on, found " +
                        std::to_string(end) + " after " + std::to_string(last));
        last = end;
    }
    if (last != static_cast<std::int64_t>(n))
        throw Error("ends says after which token each call ends: the last one ends at " +
                    std::to_string(last) + ", and there are " + std::to_string(n) +
                    " ids");
    return {ends.begin(), ends.end()};
}

std::int64_t only(const char* name, const Integers& numbers)
{
    if (numbers.size() != 1)
        throw Error(std::string(name) + " holds " + std::to_string(numbers.size()) +
                    " numbers, expected one");
    return numbers(0);
}

const Rules& rules_of(std::int64_t mistake)
{
    static constexpr Rules right;
    const auto count = static_cast<std::int64_t>(mistakes.size());
    if (mistake < 0 || mistake > count)
        throw Error("mistake is the number of a mistake: expected 0 for none, or 1 to " +
                    std::to_string(count) + ", found " + std::to_string(mistake));
    return mistake == 0 ? right : mistakes[static_cast<std::size_t>(mistake) - 1].rules;
}

Seen seen_of(std::int64_t width, std::int64_t kept, std::size_t n)
{
    if (width < 1 || kept < 0)
        throw Error(
            "width and kept count tokens: expected a width of at least 1, found " +
            std::to_string(width) + ", and none or more kept, found " +
            std::to_string(kept));
    return {std::min(static_cast<std::size_t>(width), n),
            std::min(static_cast<std::size_t>(kept), n)};
}

// ------------------------------------------------------- the decisions of a call

//! [positions]
Term<Vector> count_on(const Asked& /*call*/, const Term<Vector>& order) { return order; }
//! [positions]

//! [mask]
Term<Mask> earlier_keys(const Asked& call, const Term<Vector>& order,
                        const Term<Vector>& keys)
{
    const auto width = static_cast<double>(call.seen.width);
    const auto kept = static_cast<double>(call.seen.kept);
    const Term queries = each_row(order);
    return (keys <= queries) & ((keys > queries - width) | (in_front(keys) < kept));
}
//! [mask]

//! [stays]
bool last_and_first(const Asked& call, std::size_t token)
{
    return token + call.seen.width >= call.end || token < call.seen.kept;
}
//! [stays]

// The same three, each answered wrong.

Term<Vector> restart(const Asked& call, const Term<Vector>& order)
{
    return order - static_cast<double>(call.begin);
}

Term<Vector> one_ahead(const Asked& call, const Term<Vector>& order)
{
    return call.begin == 0 ? order : order + 1;
}

Term<Vector> stand_still(const Asked& call, const Term<Vector>& order)
{
    return call.begin == 0 ? order : 0 * order + static_cast<double>(call.begin);
}

Term<Mask> unmasked(const Asked& call, const Term<Vector>& order,
                    const Term<Vector>& keys)
{
    return call.count() == 1 ? earlier_keys(call, order, keys)
                             : keys >= 0 * each_row(order);
}

Term<Mask> from_top_left(const Asked& call, const Term<Vector>& order,
                         const Term<Vector>& keys)
{
    const Term right = earlier_keys(call, order, keys);
    if (call.count() == 1)
        return right;
    return right &
           (arange(size_along(keys, 0)) <= each_row(arange(size_along(order, 0))));
}

Term<Mask> without_overwritten(const Asked& call, const Term<Vector>& order,
                               const Term<Vector>& keys)
{
    const double first_left =
        static_cast<double>(call.end) - 1 - static_cast<double>(call.seen.width);
    const Term stored = in_front(keys);
    return earlier_keys(call, order, keys) &
           ((stored > first_left) | (stored >= static_cast<double>(call.begin)) |
            (stored < static_cast<double>(call.seen.kept)));
}

bool of_this_call(const Asked& call, std::size_t token) { return token >= call.begin; }

bool last_alone(const Asked& call, std::size_t token)
{
    return token + call.seen.width + call.seen.kept >= call.end;
}

// ------------------------------------------------------------------------- a call

Term<Matrix> through(const Map& map, const Term<Matrix>& x)
{
    return matmul(x, map.weights) + map.bias;
}

/// Each token's features with mean 0 and variance 1, then scaled and shifted.
Term<Matrix> normalized(const Norm& norm, const Term<Matrix>& x)
{
    const Term centered = x - mean_along(x, -1, keepdims);
    const Term variance = mean_along(square(centered), -1, keepdims);
    return centered / sqrt(variance + 1e-5) * norm.gain + norm.bias;
}

/// (n, d_model) in heads: (h, n, d_k)
Term<Tensor3> in_heads(const Term<Matrix>& x, std::size_t heads)
{
    return permute(reshape<Tensor3>(x, {x.shape(0), heads, x.shape(1) / heads}),
                   {1, 0, 2});
}

/// Back again.
Term<Matrix> side_by_side(const Term<Tensor3>& x)
{
    return reshape<Matrix>(permute(x, {1, 0, 2}), {x.shape(1), x.shape(0) * x.shape(2)});
}

/// What is stored, and then what is new.
template <class T>
Term<T> followed(const Trace& trace, const char* name, const char* axes,
                 const std::optional<Term<T>>& stored, const Term<T>& now)
{
    return stored ? trace(name + std::string(axes), concat(std::vector{*stored, now}, 0))
                  : trace.alias(name, now);
}

/// A layer's keys or values, where there are some.
using Rows = std::optional<Term<Matrix>>;

/// A layer's tokens, of a call.
/// @param mask    (n, m)
/// @param keys    those that are stored; then with the new ones after them
/// @param values  the same
Term<Matrix> attend(const Trace& trace, const Term<Matrix>& x, const Term<Mask>& mask,
                    Rows& keys, Rows& values, const Layer& layer, std::size_t heads)
{
    const Term y = trace("norm1[n, d_model]", normalized(layer.norm1, x));
    //! [attend]
    // Queries, keys and values of the new tokens alone.
    const Term queries = trace("queries[n, d_model]", through(layer.query, y));
    const Term new_keys = trace("keys[n, d_model]", through(layer.key, y));
    const Term new_values = trace("values[n, d_model]", through(layer.value, y));

    // Beside those that are stored.
    keys = followed(trace, "all_keys", "[m, d_model]", keys, new_keys);
    values = followed(trace, "all_values", "[m, d_model]", values, new_values);

    // Each head compares them, and takes its weighted average.
    const Term product =
        matmul(in_heads(queries, heads), transpose(in_heads(*keys, heads)));
    const auto d_k = static_cast<double>(queries.shape(1) / heads);
    const Term scores = trace("scores[h, n, m]", product / std::sqrt(d_k));
    const Term weights =
        trace("weights[h, n, m]",
              softmax(where_allowed(AnyMask(*mask), scores,
                                    -std::numeric_limits<double>::infinity(), trace)));
    const Term context = trace("context[n, d_model]",
                               side_by_side(matmul(weights, in_heads(*values, heads))));
    //! [attend]
    const Term attended =
        trace("attended[n, d_model]", x + through(layer.output, context));
    const Term z = trace("norm2[n, d_model]", normalized(layer.norm2, attended));
    const Term hidden = trace("hidden[n, d_ff]", relu(through(layer.hidden, z)));
    return trace("output[n, d_model]", attended + through(layer.back, hidden));
}

/// The rows of the tokens that are still stored after a call.
Integers rows_that_stay(const Asked& call, const Vector& keys, const Rules& rules)
{
    std::vector<std::int64_t> rows;
    for (std::size_t row = 0; row < keys.size(); ++row)
        if (rules.stays(call, static_cast<std::size_t>(keys(row))))
            rows.push_back(static_cast<std::int64_t>(row));
    Integers all = Integers::from_shape({rows.size()});
    std::ranges::copy(rows, all.begin());
    return all;
}

/// Some numbers of a vector: key_order[rows].
Term<Vector> taken(const Term<Vector>& x, const Term<Integers>& rows)
{
    Vector some = Vector::from_shape({rows.size()});
    for (std::size_t i = 0; i < some.size(); ++i)
        some(i) = (*x)(static_cast<std::size_t>((*rows)(i)));
    return {std::move(some), with_index(x.wording(), rows.wording())};
}

/// One call: the logits of its tokens, and what is stored after it.
Term<Matrix> call_model(const Trace& trace, const Term<Integers>& ids, const Asked& call,
                        Stored& stored, const Model& model, const Rules& rules)
{
    const auto count = static_cast<double>(call.count());
    const auto begin = static_cast<double>(call.begin);
    //! [call]
    // Which tokens of the sequence these are, and those that are stored.
    const Term order =
        reals(trace("order[n]", wholes(arange(number(count, trace)) + begin)));
    const Term keys = followed(trace, "key_order", "[m]", stored.order, order);

    // Where they stand, and what they see.
    const Term positions = trace("positions[n]", wholes(rules.positions(call, order)));
    const Term mask = trace("mask[n, m]", rules.mask(call, order, keys));
    //! [call]
    const Term words = wholes(slice(reals(ids), call.begin, call.end));
    Term x = trace("embedded[n, d_model]", take_rows(model.tokens, words) +
                                               take_rows(model.positions, positions));
    stored.layers.resize(model.layers.size());
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i);
        auto& [old_keys, old_values] = stored.layers[i];
        x = attend(inside, x, mask, old_keys, old_values, model.layers[i], model.heads);
    }
    const Term last = trace("norm[n, d_model]", normalized(model.norm, x));

    // What stays.
    const Term rows = trace.given("rows[stored]", rows_that_stay(call, *keys, rules));
    stored.order = trace("stored[stored]", taken(keys, rows));
    for (auto& [old_keys, old_values] : stored.layers) {
        old_keys = take_rows(*old_keys, rows);
        old_values = take_rows(*old_values, rows);
    }
    return trace("logits[n, vocabulary]", matmul(last, transpose(model.tokens)));
}

Term<Matrix> read(const Trace& trace, const Given& given, const Seen& seen,
                  const Model& model, const Rules& rules)
{
    //! [read]
    Stored stored;
    std::vector<Term<Matrix>> logits;
    for (std::size_t i = 0, begin = 0; i < given.ends.size(); begin = given.ends[i++]) {
        const Trace call = trace.scope("call", i);
        const Asked asked{begin, given.ends[i], seen};
        logits.push_back(call_model(call, given.ids, asked, stored, model, rules));
    }
    return trace("logits[n, vocabulary]", concat(logits, 0));
    //! [read]
}

// ----------------------------------------------------------- what the sections show

void compare(Lesson& lesson, const Trace& trace, const Term<Matrix>& found,
             const Term<Matrix>& expected, bool is_right)
{
    const Term off = trace("off[n]", max_along(abs(found - expected), 1));
    const Term next = trace("next[vocabulary]", softmax(row(found, found.shape(0) - 1)));
    const auto likeliest = std::ranges::max_element(*next) - next->begin();
    lesson.table({"largest difference of a logit", "the next word's id", "its chance"},
                 {{*max_all(off), static_cast<double>(likeliest), *max_all(next)}});
    if (is_right)
        lesson.expect_equal("each token gets what it gets in one call", found, expected);
}

void show_corners(Lesson& lesson, const std::vector<std::size_t>& ends)
{
    const Trace trace = lesson.trace().scope("corners");
    const auto m = static_cast<double>(ends.back());
    const double before =
        ends.size() == 1 ? 0 : static_cast<double>(ends[ends.size() - 2]);
    //! [corners]
    const Term key = arange(number(m, trace));
    const Term query = each_row(arange(number(m - before, trace)));
    const Term bottom_right = trace("bottom_right[n, m]", key <= query + before);
    const Term top_left = trace("top_left[n, m]", key <= query);
    //! [corners]
    const Term right = trace("seen[n]", sum_along(ones(bottom_right), 1)),
               wrong = trace("seen_from_top_left[n]", sum_along(ones(top_left), 1));
    lesson.table({"keys that the last call's first query sees: bottom right", "top left"},
                 {{(*right)(0), (*wrong)(0)}});
}

/// Texts of several lengths in Llama 3.1 8B, each written token by token.
void count_work(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const WholeNumbers whole(cost);
    const Term n = whole.given("n[lengths]", Integers{128, 1024, 8192, 131072});
    const Term layers = whole.given("layers", 32), groups = whole.given("groups", 8),
               d_k = whole.given("d_k", 128);
    const Term gib = power(number(2, cost), 30);
    const Term bytes = whole("bytes", 2 * layers * groups * d_k * 2);
    std::ignore = cost("gib[lengths]", bytes * n / gib);
    std::ignore = whole("tokens[lengths]", 1 * n);
    std::ignore = whole("tokens_again[lengths]", n * (n + 1) / 2);
    std::ignore = whole("scores[lengths]", n * (n + 1) / 2);
    std::ignore = whole("scores_again[lengths]", n * (n + 1) * (2 * n + 1) / 6);
}

/// The same by the library: a schedule of these calls, with a ring.
void check_library(Lesson& lesson, const SmallModel& model, const Given& given,
                   const Seen& seen, const Term<Matrix>& expected)
{
    LanguageModelDescription description;
    description.layers.resize(model.weights.layers.size());
    for (BlockDescription& layer : description.layers) {
        layer.attention.heads = model.heads;
        layer.window = seen.width;
        layer.kept = seen.kept;
    }
    //! [schedule]
    Schedule schedule{.ring = seen.width, .kept = seen.kept};
    std::size_t begin = 0;
    for (const std::size_t end : given.ends)
        schedule.calls.push_back({{0, std::exchange(begin, end), end}});
    const std::vector<Matrix> logits = run_schedule(
        {*given.ids}, schedule, as_language_model(model.weights), description);
    //! [schedule]
    lesson.expect_equal("run_schedule() gives the same", logits.front(), *expected);
}

/// Calls of one size after a first one.
std::vector<std::size_t> calls_of(std::size_t n, std::size_t first, std::size_t size)
{
    std::vector<std::size_t> ends;
    for (std::size_t end = first; end < n; end += size)
        ends.push_back(end);
    ends.push_back(n);
    return ends;
}

/// The largest difference of each token's logits.
Vector largest_change(const Matrix& found, const Matrix& expected)
{
    return *max_along(abs(Term(found) - Term(expected)), 1);
}

void make_mistakes(Lesson& lesson, const Integers& ids, const SmallModel& small,
                   const Seen& ring, std::size_t prompt)
{
    const std::size_t n = ids.size();
    const Trace unrecorded;
    const Trace caller = lesson.trace().scope("mistakes");
    const Model model = model_of(unrecorded, small);
    const auto logits = [&](std::vector<std::size_t> ends, const Seen& seen,
                            const Rules& rules) {
        return Matrix(read(unrecorded, {Term(ids), std::move(ends)}, seen, model, rules));
    };
    //! [schedules]
    const std::array schedules{
        calls_of(n, 1, 1),      // one by one
        calls_of(n, prompt, 1), // a prompt, then one by one
        calls_of(n, prompt, 4), // a prompt, then chunks of 4
        calls_of(n, prompt, n), // the rest in one call
    };
    //! [schedules]
    const auto all_of = [&](const Seen& seen, const Rules& rules) {
        std::vector<Matrix> all;
        for (const std::vector<std::size_t>& ends : schedules)
            all.push_back(logits(ends, seen, rules));
        return all;
    };
    double largest = 0;
    for (const Seen& seen : {Seen{n, 0}, ring})
        for (const Matrix& found : all_of(seen, {}))
            largest = std::max(
                largest, std::ranges::max(largest_change(found, logits({n}, seen, {}))));
    lesson.expect("right decisions give each token the same in four schedules",
                  !(largest > 1e-9));

    std::vector<std::vector<double>> table;
    for (const Mistake& mistake : mistakes) {
        const Trace trace = caller.scope(mistake.id);
        const Seen seen = mistake.is_of_ring ? ring : Seen{n, 0};
        const Matrix whole = logits({n}, seen, {});
        const Vector last = xt::row(whole, static_cast<std::ptrdiff_t>(n) - 1);
        const auto word = std::ranges::max_element(last) - last.begin();
        const std::vector<Matrix> found = all_of(seen, mistake.rules);
        Matrix off = Matrix::from_shape({schedules.size(), n});
        Vector chance = Vector::from_shape({schedules.size()});
        for (std::size_t i = 0; i < schedules.size(); ++i) {
            xt::row(off, static_cast<std::ptrdiff_t>(i)) =
                largest_change(found[i], whole);
            chance(i) =
                (*softmax(row(Term(found[i]), n - 1)))(static_cast<std::size_t>(word));
        }
        const Term differences = trace.given("off[schedules, n]", off);
        const Term wrong =
            trace("wrong[schedules]", sum_along(ones(differences > 1e-9), 1));
        std::ignore = trace.given("chance[schedules]", chance);
        const Matrix between =
            xt::view(largest_change(found[1], found[2]), xt::newaxis());
        const Term apart = trace.given("between[one, n]", between);
        const Term twice = trace("apart", sum_all(ones(apart > 1e-9)));
        lesson.say(std::to_string(table.size() + 1) + ". " + mistake.sentence);
        table.push_back({static_cast<double>(table.size() + 1), (*wrong)(0), (*wrong)(1),
                         (*wrong)(2), (*wrong)(3), *twice});
    }
    lesson.table({"mistake", "wrong tokens: one by one", "prompt, steps",
                  "prompt, chunks of 4", "prompt, the rest",
                  "other in steps than in chunks"},
                 table);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("28_many_calls", argc, argv, teach);
}
