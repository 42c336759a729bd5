// Lesson 25: windows and sinks.
//
// A token that attends to the last w tokens only needs a cache of w keys, however long
// the text is. What is forgotten, how far several layers reach, why a first token can
// collect so much weight, and what stands in for it when it leaves the cache.

#include "../echo.hpp"
#include "../lesson.hpp"
#include "../small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/models/language_model.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

/// What four published models keep of 131,072 tokens: a layer with a window keeps its
/// last tokens only.
void count_published(Lesson& lesson)
{
    const Trace published = lesson.trace().scope("published");
    const auto given = [&](std::string_view step, const Integers& numbers) {
        return published(step, "", numbers);
    };
    // Mistral 7B v0.1, Gemma 2 9B, Gemma 3 27B, gpt-oss-20b
    const Integers layers = given("layers[models]", {32, 42, 62, 24}),
                   windowed = given("windowed[models]", {32, 21, 52, 12}),
                   w = given("window[models]", {4096, 4096, 1024, 128}),
                   groups = given("groups[models]", {8, 8, 16, 8}),
                   d_k = given("d_k[models]", {128, 256, 128, 64});
    const auto n = published("tokens", "", std::int64_t{131072});
    const Integers rows =
        published("rows[models]", "windowed * window + (layers - windowed) * tokens",
                  Integers(windowed * w + (layers - windowed) * n));
    const Integers every =
        published("every_row[models]", "layers * tokens", Integers(layers * n));
    const Integers bytes = published("bytes[models]", "2 * groups * d_k * 2",
                                     Integers(2 * groups * d_k * 2));
    std::ignore = published("gib[models]", "rows * bytes / 2 ** 30",
                            Vector(1.0 * rows * bytes / 0x1p30));
    std::ignore = published("gib_without[models]", "every_row * bytes / 2 ** 30",
                            Vector(1.0 * every * bytes / 0x1p30));
    std::ignore = published("reach[models]", "windowed * (window - 1)",
                            Integers(windowed * (w - 1)));
}

/// Which keys a query can attend to: those of a causal window, and the first tokens, too.
struct Masks {
    Mask window, with_first;
};

Masks masks_of(const Trace& trace, std::size_t n, const Integers& width,
               const Integers& kept)
{
    const std::string keys = "arange(" + std::to_string(n) + ")",
                      queries = keys + "[:, None]";
    const Integers key = xt::arange<std::int64_t>(0, static_cast<std::int64_t>(n));
    const IntegerMatrix query = xt::view(key, xt::all(), xt::newaxis());
    //! [masks]
    const Mask causal =
        trace("causal[n, m]", keys + " <= " + queries, Mask(key <= query));
    const Mask near = trace("window[n, m]", keys + " >= " + queries + " + (1 - width)",
                            Mask(key >= query + 1 - width(0)));
    const Mask window =
        trace("window_mask[n, m]", "causal & window", Mask(causal && near));
    const Mask with_first =
        trace("first_mask[n, m]", "causal & (window | (" + keys + " < kept))",
              Mask(causal && (near || key < kept(0))));
    //! [masks]
    return {window, with_first};
}

/// A decoder with a mask of its own: for each token the probabilities of what follows.
/// @param mask_step  what the mask is called outside; without one the causal mask alone
Matrix read(const Trace& trace, std::string_view scope, const Integers& ids,
            const GptWeights& weights, std::size_t heads, const OptionalMask& mask = {},
            const std::string& mask_step = {})
{
    const Trace inside = trace.scope(scope, {{"ids", "ids"}});
    if (mask)
        inside.alias("given_mask", mask_step);
    const Matrix logits = gpt(ids, weights, {.heads = heads, .mask = mask}, inside);
    return inside("chances[n, vocabulary]", "softmax(logits)", softmax(logits));
}

// ------------------------------------------------------------ what is forgotten

/// The small model on a story: with all tokens, in a window, and with the first token
/// kept.
void read_story(Lesson& lesson, const SmallModel& model, const Integers& ids,
                const Masks& masks)
{
    const auto small = [&](std::string_view scope, const OptionalMask& mask = {},
                           const std::string& mask_step = {}) {
        return read(lesson.trace(), scope, ids, model.weights, model.heads, mask,
                    mask_step);
    };
    //! [runs]
    const Matrix all = small("all");
    const Matrix window = small("window", masks.window, "window_mask");
    const Matrix with_first = small("with_first", masks.with_first, "first_mask");
    //! [runs]
    const std::size_t last = ids.size() - 1,
                      word = static_cast<std::size_t>(model.ids("Lily")(0));
    lesson.table({"probability of \"Lily\" next: all tokens", "in the window",
                  "with the first kept"},
                 {{all(last, word), window(last, word), with_first(last, word)}});
}

/// Which tokens the last one depends on, after one layer and after two.
void look_back(Lesson& lesson, const Mask& window)
{
    const Trace reach = lesson.trace().scope("reach");
    //! [reach]
    const Matrix one =
        reach("one[n, m]", "1 * window_mask", Matrix(xt::cast<double>(window)));
    const Matrix two = reach("two[n, m]", "1 * (one @ one > 0)",
                             Matrix(xt::cast<double>(matmul(one, one) > 0)));
    //! [reach]
    const std::size_t last = one.shape(0) - 1;
    const std::string row = "[" + std::to_string(last) + "]";
    const double by_one =
        reach("by_one", "sum(one" + row + ")", sum_all(Vector(xt::row(one, last))));
    const double by_two =
        reach("by_two", "sum(two" + row + ")", sum_all(Vector(xt::row(two, last))));
    lesson.table({"tokens that the last one depends on: after one layer", "after two"},
                 {{by_one, by_two}});
}

/// Another first word changes the tokens that two windows reach, and no other.
void change_first(Lesson& lesson, const SmallModel& model, const Integers& ids,
                  const Mask& window, std::size_t width)
{
    const Trace before = lesson.unrecorded_trace().scope("changed", 0),
                after = lesson.unrecorded_trace().scope("changed", 1);
    const GptOptions options{.heads = model.heads, .mask = window};
    Integers other = ids;
    other(0) = model.ids("Tom")(0);
    const Matrix own = gpt(ids, model.weights, options, before),
                 changed = gpt(other, model.weights, options, after);
    const std::size_t farthest = 2 * (width - 1);
    bool is_same_behind = true;
    for (std::size_t i = farthest + 1; i < ids.size(); ++i)
        is_same_behind = is_same_behind && xt::row(own, i) == xt::row(changed, i);
    lesson.expect("no token further on than two windows sees the first word",
                  is_same_behind);
    lesson.expect("the last within them does",
                  xt::row(own, farthest) != xt::row(changed, farthest));
}

// ------------------------------------------------------------------------ sinks

/// The weight that each token of a run puts on the first.
void weigh_first(const Trace& echo, const Recording& run, std::string_view scope)
{
    const std::string weights = std::string(scope) + ".layers.0.self_attn.head.0.weights";
    const Matrix map = from_array<Matrix>(run.at("echo." + weights).value);
    const Trace inside = echo.scope(scope);
    std::ignore = inside("on_first[n]", "layers.0.self_attn.head.0.weights[:, 0]",
                         Vector(xt::col(map, 0)));
}

/// The largest change of a probability, for each token.
Vector change(const Trace& echo, std::string_view step, const std::string& formula,
              const Matrix& chances, const Matrix& without)
{
    return echo(step, "max(abs(" + formula + "), axis=1)",
                max_along(Matrix(xt::abs(chances - without)), 1));
}

/// A model whose head has something to look for at two signs only.
void read_echo(Lesson& lesson, const EchoModel& model, const Integers& width,
               const Integers& kept)
{
    const Integers text =
        lesson.input("echo_ids[t]", model.ids("<begin> s u r y t ? t l c w ! w ! w z"));
    const Trace echo = lesson.trace().scope(
        "echo", {{"ids", "echo_ids"}, {"width", "width"}, {"kept", "kept"}});
    const Masks masks = masks_of(echo, text.size(), width, kept);
    const auto read_text = [&](std::string_view scope, const GptWeights& weights,
                               const OptionalMask& mask = {},
                               const std::string& mask_step = {}) {
        return read(echo, scope, text, weights, model.heads, mask, mask_step);
    };
    //! [echo]
    const Matrix all = read_text("all", model.weights);
    const Matrix window = read_text("window", model.weights, masks.window, "window_mask");
    const Matrix with_first =
        read_text("with_first", model.weights, masks.with_first, "first_mask");
    const Matrix sink = read_text("sink", model.with_sink);
    const Matrix in_window =
        read_text("sink_in_window", model.with_sink, masks.window, "window_mask");
    //! [echo]
    weigh_first(echo, lesson.recording(), "all");
    weigh_first(echo, lesson.recording(), "sink");
    const Vector lost =
        change(echo, "lost[n]", "window.chances - all.chances", window, all);
    const Vector back =
        change(echo, "back[n]", "with_first.chances - all.chances", with_first, all);
    const Vector lost_with_sink =
        change(echo, "lost_with_sink[n]", "sink_in_window.chances - sink.chances",
               in_window, sink);
    lesson.table({"mean change of a probability: in the window", "with the first kept",
                  "in the window, with a learned sink"},
                 {{mean_all(lost), mean_all(back), mean_all(lost_with_sink)}});
}

// ----------------------------------------------------------- a prompt in chunks

/// The last queries of a head by themselves, beside the keys and values of all tokens, as
/// with a cache.
void attend_in_chunk(Lesson& lesson, const Integers& width)
{
    const std::string head = "window.layers.0.self_attn.head.0.";
    const auto step = [&](const char* name) {
        return from_array<Matrix>(lesson.recording().at(head + name).value);
    };
    const Matrix all_queries = step("queries"), keys = step("keys"),
                 values = step("values"), contexts = step("context");
    const std::size_t m = keys.shape(0), n = (m + 3) / 4, past = m - n;
    const std::string last = "[" + std::to_string(past) + ":" + std::to_string(m) + "]",
                      key_places = "arange(" + std::to_string(m) + ")",
                      query_places = "arange(" + std::to_string(n) + ")[:, None]",
                      sizes = std::to_string(m) + " - " + std::to_string(n);
    const Trace chunk = lesson.trace().scope(
        "chunk",
        {{"keys", head + "keys"}, {"values", head + "values"}, {"width", "width"}});
    const Matrix queries =
        chunk("queries[n, d_k]", head + "queries" + last,
              Matrix(xt::view(all_queries, xt::range(past, m), xt::all())));
    const Integers key = xt::arange<std::int64_t>(0, static_cast<std::int64_t>(m)),
                   place = xt::arange<std::int64_t>(0, static_cast<std::int64_t>(n));
    const IntegerMatrix query = xt::view(place, xt::all(), xt::newaxis());
    const auto before = static_cast<std::int64_t>(past);
    //! [chunk]
    const Mask causal =
        chunk("causal[n, m]", key_places + " <= " + query_places + " + (" + sizes + ")",
              Mask(key <= query + before));
    const Mask near =
        chunk("window[n, m]",
              key_places + " >= " + query_places + " + (" + sizes + " - (width - 1))",
              Mask(key >= query + before - (width(0) - 1)));
    const Mask mask = chunk("mask[n, m]", "causal & window", Mask(causal && near));
    const Matrix found =
        scaled_dot_product_attention(queries, keys, values, {.mask = mask}, chunk)
            .context;
    //! [chunk]
    lesson.expect_equal("a chunk beside the cache gives what all tokens at once give",
                        found, Matrix(xt::view(contexts, xt::range(past, m), xt::all())));

    const Trace wrong = chunk.scope(
        "top_left", {{"queries", "queries"}, {"keys", "keys"}, {"values", "values"}});
    const Mask shifted = wrong("mask[n, m]",
                               "(" + key_places + " <= " + query_places + ") & (" +
                                   key_places + " > " + query_places + " - width)",
                               Mask(key <= query && key > query - width(0)));
    const Matrix mistaken =
        scaled_dot_product_attention(queries, keys, values, {.mask = shifted}, wrong)
            .context;
    const double off = chunk("off", "max(abs(top_left.context - context))",
                             max_all(Matrix(xt::abs(mistaken - found))));
    lesson.table({"largest error of a context where the mask forgets the cache"},
                 {{off}});
}

/// The small model's weights for language_model(), which has windows and caches.
LanguageModelWeights as_language_model(const GptWeights& gpt)
{
    LanguageModelWeights weights{gpt.token_embedding};
    weights.positions = gpt.position_embedding;
    for (const EncoderLayerWeights& layer : gpt.layers) {
        BlockWeights& block = weights.layers.emplace_back();
        block.norm1 = layer.norm1;
        block.self_attention = layer.self_attention;
        block.norm2 = layer.norm2;
        block.feed_forward = layer.feed_forward;
    }
    weights.norm = gpt.norm;
    return weights;
}

/// The whole model, with a prompt all at once and in chunks.
void prefill(Lesson& lesson, const SmallModel& model, const Integers& ids,
             std::size_t width)
{
    const LanguageModelWeights weights = as_language_model(model.weights);
    LanguageModelDescription description;
    description.layers.resize(weights.layers.size());
    for (BlockDescription& layer : description.layers) {
        layer.attention.heads = model.heads;
        layer.window = width;
    }
    const Trace unrecorded = lesson.unrecorded_trace();
    const Trace at_once = unrecorded.scope("at_once");
    const Matrix all = language_model(ids, weights, description, at_once);
    constexpr std::size_t chunk = 6;
    Matrix logits(Matrix::shape_type{0, all.shape(1)});
    LanguageModelCache<Matrix> cache;
    for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
        const Trace inside = unrecorded.scope("prefill", begin);
        const Integers part =
            xt::view(ids, xt::range(begin, std::min(begin + chunk, ids.size())));
        auto step = language_model(part, cache, weights, description, inside);
        cache = std::move(step.cache);
        logits = concat_rows(logits, step.logits);
    }
    lesson.expect_equal("the whole prompt in chunks of six gives the same logits", logits,
                        all);
}

void teach(Lesson& lesson)
{
    lesson.heading("1. What four published models keep of 131,072 tokens");
    count_published(lesson);

    lesson.heading("2. The masks of a window");
    const SmallModel model = small_model();
    const Integers ids = lesson.input(
        "ids[n]", model.ids("Lily had a red ball . She took the ball to the park . "
                            "The ball was red . Then"));
    const Integers width = lesson.input("width[one]", Integers{6}),
                   kept = lesson.input("kept[one]", Integers{1});
    if (width(0) < 1 || kept(0) < 0)
        throw Error(
            "width and kept count tokens: expected a width of at least 1, found " +
            std::to_string(width(0)) + ", and none or more kept, found " +
            std::to_string(kept(0)));
    const Masks masks = masks_of(lesson.trace(), ids.size(), width, kept);

    lesson.heading("3. What the small model forgets");
    read_story(lesson, model, ids, masks);

    lesson.heading("4. How far two layers reach");
    look_back(lesson, masks.window);
    if (lesson.is_example())
        change_first(lesson, model, ids, masks.window,
                     static_cast<std::size_t>(width(0)));

    lesson.heading("5. A head that has nothing to look for");
    read_echo(lesson, echo_model(), width, kept);

    lesson.heading("6. A prompt in chunks");
    attend_in_chunk(lesson, width);
    prefill(lesson, model, ids, static_cast<std::size_t>(width(0)));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("25_windows_and_sinks", argc, argv, teach);
}
