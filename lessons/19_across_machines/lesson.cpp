// Lesson 19: attention across machines.
//
// A sequence is cut into parts, one per process, which MPI calls ranks. This program
// first does by hand what one rank of a ring does: its queries meet the keys of all
// parts, one part after the other, and what they found is merged. It counts the scores
// of each rank, and predicts what each one sends. Then it starts four ranks and compares.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../ranks.hpp"
#include "../small_model.hpp"
#include "across.hpp"
#include "cost.hpp"
#include "on_ranks.hpp"
#include "hops.hpp"
#include "work.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/ops/random.hpp"

#include <numeric>
#include <tuple>

using namespace attn;

namespace {

/// The heads of one layer of attention, (h, n, d) each.
struct Heads {
    Tensor3 queries, keys, values;
};

// The helpers of teach(), which stand below it in this order.
Heads given_heads(Lesson& lesson);
void show_parts(Lesson& lesson, const mpi::Layout& plain, const mpi::Layout& zigzag);
void go_by_hand(Lesson& lesson, const Heads& heads, const mpi::Layout& layout);
void compare_work(Lesson& lesson, const mpi::Layout& plain, const mpi::Layout& zigzag);
std::size_t ranks_wanted(Lesson& lesson);
std::chrono::seconds time_for_ranks(Lesson& lesson);

void teach(Lesson& lesson)
{
    const std::size_t ranks = ranks_wanted(lesson);
    const std::chrono::seconds longest = time_for_ranks(lesson);

    lesson.heading("1. Who has what");
    const Heads heads = given_heads(lesson);
    const Matrix x = draw_layer().x;
    const Sizes sizes{heads.keys.shape(0),   heads.keys.shape(1), heads.keys.shape(2),
                      heads.values.shape(2), x.shape(1),          x.shape(0)};
    const mpi::Layout plain = mpi::contiguous_layout(sizes.n, ranks),
                      zigzag = mpi::zigzag_layout(sizes.n, ranks);
    show_parts(lesson, plain, zigzag);

    go_by_hand(lesson, heads, plain);

    lesson.heading("4. How many scores each rank computes, plain and zigzag");
    compare_work(lesson, plain, zigzag);

    lesson.heading("5. What each rank sends and holds, predicted");
    const Trace prediction = lesson.trace().scope("predicted"),
                bytes = prediction.scope("bytes");
    const Bytes predicted = predict_bytes(bytes, sizes, zigzag, plain);
    predict_growth(lesson, prediction);

    lesson.heading("6. The same on " + std::to_string(ranks) + " ranks");
    if (lesson.is_altered())
        lesson.say("A step was replaced above: the ranks are not started.");
    else
        run_across(lesson, heads.queries, heads.keys, heads.values, ranks, longest,
                   predicted);
}

// ------------------------------------------------------------------------- 1. the parts

/// The sentence of the lessons, and one word more: eight words for four ranks.
std::string words() { return sentence() + " took"; }

/// All heads of the small model's first layer on these words, as float32 has them.
Heads heads_of_model()
{
    const SmallModel model = small_model();
    Recorder recorder;
    gpt(model.ids(words()), model.weights, model.options, Trace(recorder));
    const auto heads = [&](const std::string& name) {
        Array all;
        for (std::size_t h = 0; h < 4; ++h) {
            const std::string path =
                "layers.0.self_attn.head." + std::to_string(h) + "." + name;
            const Array& one = recorder.recording().at(path).value;
            all.shape = {4, one.shape[0], one.shape[1]};
            for (const double number : one.values)
                all.values.push_back(static_cast<float>(number));
        }
        return from_array<Tensor3>(all);
    };
    return {heads("queries"), heads("keys"), heads("values")};
}

/// The example's, or the user's.
Heads given_heads(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    if (!lesson.is_example())
        return {*lesson.input("queries[h, n, d_k]", Tensor3()),
                *lesson.input("keys[h, n, d_k]", Tensor3()),
                *lesson.input("values[h, n, d_v]", Tensor3())};
    const Heads example = heads_of_model();
    const Trace model = trace.scope("model"), heads = model.scope("heads");
    const Heads given{*heads.given("queries[h, n, d_k]", example.queries),
                      *heads.given("keys[h, n, d_k]", example.keys),
                      *heads.given("values[h, n, d_v]", example.values)};
    for (const std::string name : {"queries", "keys", "values"})
        trace.alias(name, "model.heads." + name);
    return given;
}

void show_parts(Lesson& lesson, const mpi::Layout& plain, const mpi::Layout& zigzag)
{
    const std::vector<std::string> names = words_of(words());
    for (std::size_t rank = 0; rank < plain.ranks(); ++rank) {
        std::string line = "rank " + std::to_string(rank) + ":";
        for (const mpi::Layout* layout : {&plain, &zigzag}) {
            line += layout == &plain ? "  plain" : ";  zigzag";
            for (const mpi::Chunk& chunk : layout->of_rank[rank])
                for (std::size_t i = chunk.first; i < chunk.first + chunk.count; ++i)
                    line += " " + (lesson.is_example() ? names[i] : std::to_string(i));
        }
        lesson.say(line);
    }
}

// ---------------------------------------------------------------------- 2. hop by hop

/// The last rank that has tokens: its queries can attend to the keys of all parts.
std::size_t last_with_tokens(const mpi::Layout& layout)
{
    std::size_t rank = layout.ranks() - 1;
    while (layout.tokens(rank) == 0)
        --rank;
    return rank;
}

Head head_by_hand(const Trace& trace, const Heads& heads)
{
    const auto n = static_cast<double>(heads.keys.shape(1));
    std::ignore = trace.given("positions[n]", *wholes(arange(number(n, trace))));
    const auto first = [&](const Tensor3& all, std::string_view name) {
        return row(named(all, name, trace), 0);
    };
    return {*trace("queries[n, d_k]", first(heads.queries, "queries")),
            *trace("keys[n, d_k]", first(heads.keys, "keys")),
            *trace("values[n, d_v]", first(heads.values, "values"))};
}

/// Attention of the same queries to all keys at once.
Matrix attend_whole(const Trace& trace, const Head& head, const mpi::Chunk& asking)
{
    const Trace whole = trace.scope("whole", {{"keys", "keys"}, {"values", "values"}});
    const Term queries =
        whole("queries[n, d_k]", slice(named(head.queries, "queries", trace),
                                       asking.first, asking.first + asking.count));
    return scaled_dot_product_attention(*queries, head.keys, head.values,
                                        {.causal = Causal::bottom_right}, whole)
        .context;
}

/// m and l of the first query, and what its contexts weigh in the merged one.
void show_hops(Lesson& lesson, const Hops& hops)
{
    std::vector<std::vector<double>> table;
    for (std::size_t k = 0; k < hops.found.size(); ++k) {
        const Partial &found = hops.found[k], &merged = hops.merged[k];
        table.push_back({static_cast<double>(k), found.largest(0), found.sum(0),
                         merged.largest(0), merged.sum(0)});
    }
    lesson.table({"hop", "m", "l", "merged m", "merged l"}, table);
}

/// Merging without m: each sum and context counts as it is.
Term<Matrix> forget_largest(const Trace& wrong, const Hops& hops)
{
    Term<Vector> sums;
    Term<Matrix> weighted;
    for (std::size_t k = 0; k < hops.found.size(); ++k) {
        const std::string hop = "hop." + std::to_string(k);
        const Term sum = named(hops.found[k].sum, hop + ".sum", wrong);
        const Term context = named(hops.found[k].context, hop + ".context", wrong);
        sums = k == 0 ? sum : sums + sum;
        weighted = k == 0 ? each_row(sum) * context : weighted + each_row(sum) * context;
    }
    sums = wrong("sum[n]", sums);
    return wrong("context[n, d_v]", weighted / each_row(sums));
}

void go_by_hand(Lesson& lesson, const Heads& heads, const mpi::Layout& layout)
{
    const std::size_t rank = last_with_tokens(layout);
    const mpi::Chunk asking = layout.of_rank[rank].front();
    const Trace parts = lesson.trace().scope("by_hand"),
                by_hand = parts.scope("rank", rank);

    lesson.heading("2. Rank " + std::to_string(rank) + ", hop by hop, in the first head");
    const Head head = head_by_hand(by_hand, heads);
    const Hops hops = go_around(by_hand, head, layout, rank);
    show_hops(lesson, hops);
    const Term context =
        named(hops.merged.back().context,
              "hop." + std::to_string(rank) + ".merged_context", by_hand);
    const Matrix whole = attend_whole(by_hand, head, asking);
    lesson.expect_equal("attention to all keys at once gives the same context", context,
                        whole);

    lesson.heading("3. What goes wrong: sums and contexts are added without m");
    const Trace wrong = by_hand.scope("wrong");
    const Term forgotten = forget_largest(wrong, hops);
    const Term off = wrong("off", max_all(abs(forgotten - context)));
    lesson.table({"largest error of a context"}, {{*off}});
}

// ------------------------------------------------------------------ 4. work, 5. bytes

void compare_work(Lesson& lesson, const mpi::Layout& plain, const mpi::Layout& zigzag)
{
    const Trace work = lesson.trace().scope("work");
    const Trace of_plain = work.scope("plain"), of_zigzag = work.scope("zigzag");
    std::vector<std::string> columns{"rank"};
    for (std::size_t k = 0; k < plain.ranks(); ++k)
        columns.push_back("hop " + std::to_string(k));
    columns.emplace_back("all");
    const auto count = [&](const Trace& trace, const mpi::Layout& layout) {
        std::vector<std::vector<double>> table;
        const std::int64_t waited = count_scores(trace, layout, table);
        for (std::size_t rank = 0; rank < table.size(); ++rank) {
            std::vector<double>& row = table[rank];
            row.push_back(std::accumulate(row.begin(), row.end(), 0.0));
            row.insert(row.begin(), static_cast<double>(rank));
        }
        lesson.table(columns, table);
        return reals(named(waited, "waited", trace));
    };
    const Term in_plain = count(of_plain, plain);
    const Term in_zigzag = count(of_zigzag, zigzag);
    const Term ratio = work("ratio", in_plain / in_zigzag);
    lesson.table({"scores of the busiest rank: plain", "zigzag", "ratio"},
                 {{*in_plain, *in_zigzag, *ratio}});
}

std::size_t ranks_wanted(Lesson& lesson)
{
    const auto& given = lesson.flag<std::optional<std::size_t>>("--ranks");
    const std::size_t ranks = given.value_or(4);
    if (ranks < 1 || ranks > 8)
        throw Error("--ranks is " + std::to_string(ranks) + ", expected 1 to 8");
    return ranks;
}

/// The ranks need about two seconds; with instruments, or ten times as many as there are
/// cores, a few times as long.
std::chrono::seconds time_for_ranks(Lesson& lesson)
{
    const auto& given = lesson.flag<std::optional<std::size_t>>("--limit");
    if (given && (*given < 1 || *given > 86400))
        throw Error("--limit is " + std::to_string(*given) +
                    " seconds, expected 1 to 86400");
    return std::chrono::seconds(given.value_or(60));
}

} // namespace

int main(int argc, char** argv)
{
    if (const std::optional<int> code = run_as_rank(argc, argv, work_of_rank))
        return *code;
    return Lesson::run(
        "19_across_machines", argc, argv, teach,
        {{"--ranks", "P", "how many ranks are started, 1 to 8; 4 unless given",
          std::optional<std::size_t>()},
         {"--limit", "SECONDS", "how long they may take; 60 unless given",
          std::optional<std::size_t>()}});
}
