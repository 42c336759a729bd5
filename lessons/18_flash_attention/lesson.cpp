// Lesson 18: flash attention.
//
// Attention compares n queries with m keys, and softmax needs a whole row of scores. This
// program computes the softmax of a row piece by piece, then attention by tiles of keys,
// there and back, so that no row of scores is ever whole. Then it looks into
// attn::fast::attention, which does the same in float32.

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "kernel.hpp"
#include "measure.hpp"
#include "row.hpp"
#include "tiles.hpp"
#include "wrong.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/ops/random.hpp"

using namespace attn;

namespace {

void count(Lesson& lesson);
void soften(Lesson& lesson, const Term<Vector>& row);
void attend(Lesson& lesson);

void teach(Lesson& lesson)
{
    const bool measures = lesson.flag<bool>("--measure");
    const auto& longest = lesson.flag<std::optional<std::size_t>>("--up-to");
    if (longest && !measures)
        throw Error("--up-to has no effect: it needs --measure");

    lesson.heading("1. What the scores of one head take, in float32");
    count(lesson);

    soften(lesson, lesson.input("row[k]", Vector{1, 5, 3, 6, 2, 4}));
    attend(lesson);

    lesson.heading("8. The library's kernel, with a causal mask");
    run_kernel(lesson);

    if (measures) {
        lesson.heading("9. Time and memory, measured");
        measure(lesson, longest.value_or(4096));
    } else {
        lesson.say("With --measure the lesson also measures time and memory on this "
                   "machine.");
    }
}

// ------------------------------------------------------------------------------ 1. count

/// What a row of scores per query takes, and what m and l take, in float32.
void count(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const Integers sizes = cost("n[sizes]", "", Integers{1024, 4096, 16384, 65536});
    const Vector lengths = xt::cast<double>(sizes);
    const Term n = named(lengths, "n", cost);
    const Term bytes = number(4, cost), mib = power(number(2, cost), 20);
    //! [count]
    const Term scores = cost("scores_mib[sizes]", bytes * square(n) / mib);
    const Term sums = cost("sums_mib[sizes]", bytes * 2 * n / mib);
    //! [count]
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < n.size(); ++i)
        rows.push_back({lengths(i), (*scores)(i), (*sums)(i)});
    lesson.table({"n", "MiB of scores", "MiB of m and l"}, rows);
}

// ------------------------------------------------------------------ 2. one row of scores

void soften(Lesson& lesson, const Term<Vector>& row)
{
    const Trace& trace = lesson.trace();
    const Trace two = trace.scope("two_passes"), one = trace.scope("one_pass"),
                by_tiles = trace.scope("by_tiles");

    lesson.heading("2. Softmax of one row in two passes");
    const Term weights = softmax_in_two_passes(two, row);

    lesson.heading("3. In one pass: each score is read once");
    std::vector<std::vector<double>> rows;
    const Sums sums = meet_keys_one_by_one(one, row, rows);
    lesson.table({"key", "score", "m", "correction", "l"}, rows);
    const Term in_one_pass = one("weights[k]", exp(row - sums.largest) / sums.sum);
    lesson.expect_equal("one pass gives the weights of two", in_one_pass, weights);

    lesson.heading("4. By tiles of two scores, which are merged");
    const std::vector<Tile> tiles = tiles_of(row.size(), 2);
    const MergedTiles merged = merge_tiles(by_tiles, row, tiles);
    const Sums& all = merged.so_far.back();
    const Term in_tiles = by_tiles("weights[k]", exp(row - all.largest) / all.sum);
    lesson.expect_equal("tiles give the weights of two passes", in_tiles, weights);

    lesson.heading("5. What goes wrong");
    go_wrong(lesson, row, tiles, merged, weights);
}

// ---------------------------------------------------------------- 6. attention by tiles

/// One head of the small model on the sentence: each thing looks for its colour.
struct Example {
    Matrix queries, keys, values;
};

Matrix step_of(const Recording& recording, std::string_view path)
{
    return from_array<Matrix>(recording.at(path).value);
}

/// The queries of the last two words, and all keys and values.
Example last_words()
{
    const SmallModel model = small_model();
    Recorder recorder;
    gpt(model.ids(sentence()), model.weights, model.options, Trace(recorder));
    const auto step = [&](const std::string& name) {
        return step_of(recorder.recording(), "layers.0.self_attn.head.3." + name);
    };
    const Matrix queries = step("queries");
    const std::size_t n = queries.shape(0);
    return {*slice(Term(queries), n - 2, n), step("keys"), step("values")};
}

Head given_head(Lesson& lesson)
{
    const Example example = lesson.is_example() ? last_words() : Example{};
    Head head;
    head.queries = lesson.input("queries[n, d_k]", example.queries);
    head.keys = lesson.input("keys[m, d_k]", example.keys);
    head.values = lesson.input("values[m, d_v]", example.values);
    const std::size_t n = head.queries.shape(0), m = head.keys.shape(0);
    if (n > m)
        throw ShapeError("queries are those of the last tokens: expected at most as many "
                         "as keys, found " +
                         std::to_string(n) + " and " + std::to_string(m));
    head.causal = causal_mask(n, m, Causal::bottom_right, lesson.trace());
    return head;
}

/// The same with all scores in memory.
Term<Matrix> attend_whole(const Trace& trace, const Head& head)
{
    const Trace whole = trace.scope("whole", {{"queries", "queries"},
                                              {"keys", "keys"},
                                              {"values", "values"},
                                              {"mask", "causal"}});
    return scaled_dot_product_attention(head.queries, head.keys, head.values,
                                        {.mask = head.causal}, whole)
        .context;
}

void attend(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("6. Attention of two words of the sentence, by tiles of three keys");
    const Head head = given_head(lesson);
    const std::vector<Tile> tiles = tiles_of(head.keys.shape(0), 3);
    const Partial after = meet_tiles(trace, head, tiles);
    //! [context]
    const Term context = trace("context[n, d_v]", after.context / each_row(after.sum));
    //! [context]
    lesson.expect_equal("attention with all scores gives the same context",
                        attend_whole(trace, head), context);

    lesson.heading("7. The way back, from m and l alone");
    const Term arriving = trace.given(
        "arriving[n, d_v]", RandomNumbers(18).matrix(context.shape(0), context.shape(1)));
    const Gradients grad =
        send_back(trace.scope("back"), head, after, context, arriving, tiles);
    //! [library]
    const Recording library = formula::gradients(
        lesson.recording(), {.of = "whole.context", .seed = to_array(*arriving)});
    //! [library]
    lesson.expect_equal("attn::gradients sends the same to the queries",
                        step_of(library, "grad.queries"), grad.queries);
    lesson.expect_equal("the same to the keys", step_of(library, "grad.keys"), grad.keys);
    lesson.expect_equal("and the same to the values", step_of(library, "grad.values"),
                        grad.values);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run(
        "18_flash_attention", argc, argv, teach,
        {{"--measure", "", "also measure time and memory, which depend on the machine",
          false},
         {"--up-to", "N", "with --measure: the most tokens; 4096 unless given",
          std::optional<std::size_t>()}});
}
