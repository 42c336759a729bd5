// Lesson 25: windows and sinks.
//
// A token that attends to the last w tokens only needs a cache of w keys, however long
// the text is. What is forgotten, how far several layers reach, why a first token can
// collect so much weight, and what stands in for it when it leaves the cache.

#include "../echo.hpp"
#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"
#include "../small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/models/language_model.hpp"
#include "attn/reference/ops/concat.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

/// Which keys a query can attend to: those of a causal window, and the first tokens, too.
struct Masks {
    Term<Mask> window, with_first;
};

// The helpers of teach(), which stand below it in this order.
void count_published(Lesson& lesson);
Masks masks_of(const Trace& trace, std::size_t n, const Term<Vector>& width,
               const Term<Vector>& kept);
void read_story(Lesson& lesson, const SmallModel& model, const Integers& ids,
                const Masks& masks);
void look_back(Lesson& lesson, const Term<Mask>& window);
void change_first(Lesson& lesson, const SmallModel& model, const Integers& ids,
                  const Mask& window, std::size_t width);
void read_echo(Lesson& lesson, const EchoModel& model, const Term<Vector>& width,
               const Term<Vector>& kept);
void attend_in_chunk(Lesson& lesson, const Term<Vector>& width);
void prefill(Lesson& lesson, const SmallModel& model, const Integers& ids,
             std::size_t width);

void teach(Lesson& lesson)
{
    lesson.heading("1. What four published models keep of 131,072 tokens");
    count_published(lesson);

    lesson.heading("2. The masks of a window");
    const SmallModel model = small_model();
    const Term given = lesson.input(
        "ids[n]", model.ids("Lily had a red ball . She took the ball to the park . "
                            "The ball was red . Then"));
    const Integers& ids = *given;
    const Term width = reals(lesson.input("width[one]", Integers{6})),
               kept = reals(lesson.input("kept[one]", Integers{1}));
    if ((*width)(0) < 1 || (*kept)(0) < 0)
        throw Error(
            "width and kept count tokens: expected a width of at least 1, found " +
            exact_text((*width)(0)) + ", and none or more kept, found " +
            exact_text((*kept)(0)));
    const auto tokens = static_cast<std::size_t>((*width)(0));
    const Masks masks = masks_of(lesson.trace(), ids.size(), width, kept);

    lesson.heading("3. What the small model forgets");
    read_story(lesson, model, ids, masks);

    lesson.heading("4. How far two layers reach");
    look_back(lesson, masks.window);
    if (lesson.is_example())
        change_first(lesson, model, ids, *masks.window, tokens);

    lesson.heading("5. A head that has nothing to look for");
    read_echo(lesson, echo_model(), width, kept);

    lesson.heading("6. A prompt in chunks");
    attend_in_chunk(lesson, width);
    prefill(lesson, model, ids, tokens);
}

/// What four published models keep of 131,072 tokens: a layer with a window keeps its
/// last tokens only.
void count_published(Lesson& lesson)
{
    const Trace published = lesson.trace().scope("published");
    const WholeNumbers whole(published);
    // Mistral 7B v0.1, Gemma 2 9B, Gemma 3 27B, gpt-oss-20b
    const Term layers = whole.given("layers[models]", {32, 42, 62, 24});
    const Term windowed = whole.given("windowed[models]", {32, 21, 52, 12});
    const Term w = whole.given("window[models]", {4096, 4096, 1024, 128});
    const Term groups = whole.given("groups[models]", {8, 8, 16, 8});
    const Term d_k = whole.given("d_k[models]", {128, 256, 128, 64});
    const Term n = whole.given("tokens", 131072);
    const Term rows = whole("rows[models]", windowed * w + (layers - windowed) * n);
    const Term every = whole("every_row[models]", layers * n);
    const Term bytes = whole("bytes[models]", 2 * groups * d_k * 2);
    const Term gib = power(number(2, published), 30);
    std::ignore = published("gib[models]", rows * bytes / gib);
    std::ignore = published("gib_without[models]", every * bytes / gib);
    std::ignore = whole("reach[models]", windowed * (w - 1));
}

/// 0, 1, …, count - 1
Term<Vector> numbers_to(std::size_t count, const Trace& trace)
{
    return arange(number(static_cast<double>(count), trace));
}

/// A number of tokens.
Term<double> size(std::size_t count, const Trace& trace)
{
    return number(static_cast<double>(count), trace);
}

Masks masks_of(const Trace& trace, std::size_t n, const Term<Vector>& width,
               const Term<Vector>& kept)
{
    //! [masks]
    const Term key = numbers_to(n, trace), query_rows = key;
    const Term query = each_row(query_rows);
    const Term causal = trace("causal[n, m]", key <= query);
    const Term near = trace("window[n, m]", key >= query + (1 - width));
    const Term first = in_front(key) < kept;
    const Term window = trace("window_mask[n, m]", causal & near);
    const Term with_first = trace("first_mask[n, m]", causal & (near | first));
    //! [masks]
    return {window, with_first};
}

/// A decoder with a mask of its own: for each token the probabilities of what follows.
/// @param mask  without one the causal mask alone
Term<Matrix> read(const Trace& trace, std::string_view scope, const Integers& ids,
                  const GptWeights& weights, std::size_t heads,
                  const std::optional<Term<Mask>>& mask = {})
{
    const Trace inside = trace.scope(scope, {{"ids", "ids"}});
    GptOptions options{.heads = heads};
    if (mask)
        options.mask = *inside.alias("given_mask", *mask);
    const Term logits = recorded(gpt(ids, weights, options, inside), "logits", inside);
    return inside("chances[n, vocabulary]", softmax(logits));
}

// ------------------------------------------------------------ what is forgotten

/// The small model on a story: with all tokens, in a window, and with the first token
/// kept.
void read_story(Lesson& lesson, const SmallModel& model, const Integers& ids,
                const Masks& masks)
{
    const auto small = [&](std::string_view scope,
                           const std::optional<Term<Mask>>& mask = {}) {
        return read(lesson.trace(), scope, ids, model.weights, model.heads, mask);
    };
    //! [runs]
    const Term all = small("all");
    const Term window = small("window", masks.window);
    const Term with_first = small("with_first", masks.with_first);
    //! [runs]
    const std::size_t last = ids.size() - 1,
                      word = static_cast<std::size_t>(model.ids("Lily")(0));
    lesson.table(
        {"probability of \"Lily\" next: all tokens", "in the window",
         "with the first kept"},
        {{(*all)(last, word), (*window)(last, word), (*with_first)(last, word)}});
}

/// Which tokens the last one depends on, after one layer and after two.
void look_back(Lesson& lesson, const Term<Mask>& window)
{
    const Trace reach = lesson.trace().scope("reach");
    //! [reach]
    const Term one = reach("one[n, m]", ones(window));
    const Term two = reach("two[n, m]", ones(matmul(one, one) > 0));
    //! [reach]
    const std::size_t last = one.shape(0) - 1;
    const Term by_one = reach("by_one", sum_all(row(one, last)));
    const Term by_two = reach("by_two", sum_all(row(two, last)));
    lesson.table({"tokens that the last one depends on: after one layer", "after two"},
                 {{*by_one, *by_two}});
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
void weigh_first(const Lesson& lesson, const Trace& echo, std::string_view scope)
{
    const Term weights = recorded<Matrix>(
        lesson, "echo." + std::string(scope) + ".layers.0.self_attn.head.0.weights");
    const Trace inside = echo.scope(scope);
    std::ignore = inside("on_first[n]", matrix_column(weights, 0));
}

/// The largest change of a probability, for each token.
Term<Vector> change(const Term<Matrix>& chances, const Term<Matrix>& without)
{
    return max_along(abs(chances - without), 1);
}

/// A model whose head has something to look for at two signs only.
void read_echo(Lesson& lesson, const EchoModel& model, const Term<Vector>& width,
               const Term<Vector>& kept)
{
    const Term text =
        lesson.input("echo_ids[t]", model.ids("<begin> s u r y t ? t l c w ! w ! w z"));
    const Trace echo = lesson.trace().scope(
        "echo", {{"ids", "echo_ids"}, {"width", "width"}, {"kept", "kept"}});
    const Masks masks = masks_of(echo, text.size(), width, kept);
    const auto read_text = [&](std::string_view scope, const GptWeights& weights,
                               const std::optional<Term<Mask>>& mask = {}) {
        return read(echo, scope, *text, weights, model.heads, mask);
    };
    //! [echo]
    const Term all = read_text("all", model.weights);
    const Term window = read_text("window", model.weights, masks.window);
    const Term with_first = read_text("with_first", model.weights, masks.with_first);
    const Term sink = read_text("sink", model.with_sink);
    const Term in_window = read_text("sink_in_window", model.with_sink, masks.window);
    //! [echo]
    weigh_first(lesson, echo, "all");
    weigh_first(lesson, echo, "sink");
    const Term lost = echo("lost[n]", change(window, all));
    const Term back = echo("back[n]", change(with_first, all));
    const Term lost_with_sink = echo("lost_with_sink[n]", change(in_window, sink));
    lesson.table({"mean change of a probability: in the window", "with the first kept",
                  "in the window, with a learned sink"},
                 {{*mean_all(lost), *mean_all(back), *mean_all(lost_with_sink)}});
}

// ----------------------------------------------------------- a prompt in chunks

/// The last queries of a head by themselves, beside the keys and values of all tokens, as
/// with a cache.
void attend_in_chunk(Lesson& lesson, const Term<Vector>& width)
{
    const std::string head = "window.layers.0.self_attn.head.0.";
    const auto step = [&](const char* name) {
        return recorded<Matrix>(lesson, head + name);
    };
    const Term keys = step("keys"), values = step("values");
    const std::size_t m = keys.shape(0), n = (m + 3) / 4, past = m - n;
    const Trace chunk = lesson.trace().scope(
        "chunk",
        {{"keys", head + "keys"}, {"values", head + "values"}, {"width", "width"}});
    const Term queries = chunk("queries[n, d_k]", slice(step("queries"), past, m));
    //! [chunk]
    const Term key = arange(size(m, chunk));
    const Term query = each_row(arange(size(n, chunk)));
    const Term before = size(m, chunk) - size(n, chunk);
    const Term causal = chunk("causal[n, m]", key <= query + before);
    const Term near = chunk("window[n, m]", key >= query + (before - (width - 1)));
    const Term mask = chunk("mask[n, m]", causal & near);
    const Term found =
        scaled_dot_product_attention(queries, keys, values, {.mask = *mask}, chunk)
            .context;
    //! [chunk]
    lesson.expect_equal("a chunk beside the cache gives what all tokens at once give",
                        found, slice(step("context"), past, m));

    const Trace wrong = chunk.scope(
        "top_left", {{"queries", "queries"}, {"keys", "keys"}, {"values", "values"}});
    const Term shifted = wrong("mask[n, m]", (key <= query) & (key > query - width));
    const Term mistaken =
        scaled_dot_product_attention(queries, keys, values, {.mask = *shifted}, wrong)
            .context;
    const Term off = chunk("off", max_all(abs(mistaken - found)));
    lesson.table({"largest error of a context where the mask forgets the cache"},
                 {{*off}});
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

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("25_windows_and_sinks", argc, argv, teach);
}
