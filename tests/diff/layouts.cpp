#include "runs.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::mistakes;
using namespace attn::test;

TEST_CASE("transposed arrays are recognised, square or not", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    for (const char* path : {"self_attn.query_weights", "feed_forward.hidden_weights", "self_attn.head.1.queries",
                             "self_attn.head.1.scaled"}) {
        CAPTURE(path);
        const Diff result = with_replaced(reference, path, transposed(named(reference, path).value));
        CHECK_FALSE(result.passed());
        CHECK(about(result, path).verdict == DiffVerdict::layout);
        CHECK(about(result, path).layout == "is the reference's transpose");
        CHECK(result.first_wrong()->step->path == path);
        CHECK(result.count(DiffVerdict::bug) == 0); // what follows is right
    }
}

TEST_CASE("layouts are recognised in float32, too", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    RoundSteps rounding(Precision::float32);
    NamedArrays mine = rounded(recording_of(run_layer, rounding), Precision::float32);
    mine["self_attn.head.1.scaled"] = transposed(mine["self_attn.head.1.scaled"]);
    const Diff result = diff::compare(reference, std::move(mine));
    CHECK(about(result, "self_attn.head.1.scaled").layout == "is the reference's transpose");
    CHECK(result.count(DiffVerdict::bug) == 0);
}

TEST_CASE("a step that goes on with a transposed operand inherits the layout", "[diff][layout]")
{
    class TransposeScores final : public Listener {
        std::optional<Array> on_step(const Step& step) override
        {
            return step.path == "self_attn.head.0.scores" ? std::optional(transposed(step.value)) : std::nullopt;
        }
    };
    TransposeScores transposing;
    const Recording reference = recording_of(run_layer);
    const Diff result = diff::compare(reference, arrays_of(recording_of(run_layer, transposing)));
    CHECK(about(result, "self_attn.head.0.scores").verdict == DiffVerdict::layout);
    CHECK(about(result, "self_attn.head.0.scaled").verdict == DiffVerdict::layout);
    CHECK(about(result, "self_attn.head.0.weights").verdict == DiffVerdict::inherited);
    CHECK(result.count(DiffVerdict::bug) == 0);
}

TEST_CASE("sequence-first against batch-first is named", "[diff][layout]")
{
    const Recording reference = recording_of(run_heads);
    const Diff result = with_replaced(reference, "output", first_axes_swapped(named(reference, "output").value));
    CHECK(about(result, "output").layout ==
          "is sequence-first (n, b, d_model), the reference (b, n, d_model) is batch-first");
}

TEST_CASE("another shape of the same numbers is named, with or without moved axes", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& query = named(reference, "self_attn.query").value;
    Array flat = query, apart = query;
    flat.shape = {24};
    apart.shape = {4, 2, 3};
    CHECK(about(with_replaced(reference, "self_attn.query", flat), "self_attn.query").layout ==
          "is the reference in another shape: (24,) instead of (4, 6)");
    CHECK_THAT(about(with_replaced(reference, "self_attn.query", first_axes_swapped(apart)), "self_attn.query").layout,
               ContainsSubstring("another shape and order: (2, 4, 3) instead of (4, 6)") &&
                   ContainsSubstring("permute(x, 1, 0, 2)"));
}

TEST_CASE("heads in another order are named by their numbers", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    for (const char* name : {"weights", "context"})
        std::swap(mine[std::string("self_attn.head.0.") + name], mine[std::string("self_attn.head.1.") + name]);
    const Diff result = diff::compare(reference, mine);
    CHECK_FALSE(result.passed());
    CHECK(about(result, "self_attn.head.0.weights").layout == "is the reference's head 1");
    CHECK(about(result, "self_attn.head.1.weights").layout == "is the reference's head 0");

    // Side by side: blocks of columns.
    Array merged = named(reference, "self_attn.merged").value;
    for (std::size_t row = 0; row < 4; ++row)
        std::swap_ranges(merged.values.begin() + static_cast<std::ptrdiff_t>(row * 6),
                         merged.values.begin() + static_cast<std::ptrdiff_t>(row * 6 + 3),
                         merged.values.begin() + static_cast<std::ptrdiff_t>(row * 6 + 3));
    CHECK(about(with_replaced(reference, "self_attn.merged", merged), "self_attn.merged").layout ==
          "has its heads backwards");
}

TEST_CASE("heads merged without the permute, and features interleaved, are named", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& merged = named(reference, "self_attn.merged").value;
    Array apart = merged;
    apart.shape = {4, 2, 3};
    Array heads_first = first_axes_swapped(apart);
    heads_first.shape = {4, 6};
    CHECK_THAT(about(with_replaced(reference, "self_attn.merged", heads_first), "self_attn.merged").layout,
               ContainsSubstring("merged without the permute"));
    Array interleaved = merged;
    for (std::size_t i = 0; i < merged.size(); ++i)
        interleaved.values[i / 6 * 6 + i % 3 * 2 + i % 6 / 3] = merged.values[i];
    CHECK_THAT(about(with_replaced(reference, "self_attn.merged", interleaved), "self_attn.merged").layout,
               ContainsSubstring("interleaved"));
}

TEST_CASE("rows in another order, numbers in other places and an inverted mask are named", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& values = named(reference, "self_attn.head.0.values").value;
    Array rows = values, shuffled = values;
    std::rotate(rows.values.begin(), rows.values.begin() + 3, rows.values.end());
    std::swap(shuffled.values[0], shuffled.values[7]);
    CHECK(about(with_replaced(reference, "self_attn.head.0.values", rows), "self_attn.head.0.values").layout ==
          "is the reference with axis m in the order 1, 2, 3, 0");
    CHECK(about(with_replaced(reference, "self_attn.head.0.values", shuffled), "self_attn.head.0.values").layout ==
          "has the reference's numbers, each as often, in other places");
    Array mask = named(reference, "mask").value;
    for (double& value : mask.values)
        value = 1 - value;
    CHECK_THAT(about(with_replaced(reference, "mask", mask), "mask").layout,
               ContainsSubstring("true and false exchanged"));
}

TEST_CASE("rows that stand one place too early are named, for a target that is not shifted right is such",
          "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& x = named(reference, "x").value;
    const auto d_model = static_cast<std::ptrdiff_t>(x.shape[1]);
    Array early = x, late = x, one_off = x;
    std::copy(x.values.begin() + d_model, x.values.end(), early.values.begin());
    std::fill(early.values.end() - d_model, early.values.end(), 0.25);
    std::copy(x.values.begin(), x.values.end() - d_model, late.values.begin() + d_model);
    one_off.values.back() += 1;
    CHECK(about(with_replaced(reference, "x", early), "x").layout == "is the reference with axis n one place earlier");
    CHECK(about(with_replaced(reference, "x", late), "x").layout == "is the reference with axis n one place later");
    CHECK(about(with_replaced(reference, "x", one_off), "x").layout == "");
}
