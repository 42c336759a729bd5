// What goes wrong between machines, planted: attn diff names the rank, the hop and the step.
#include "attn/diff/diff.hpp"
#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/engines/mpi/tensor_parallel.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include "layer.hpp"
#include "test.hpp"
#include "whole.hpp"

#include "attn/core/recorder.hpp"

#include <algorithm>
#include <functional>
#include <set>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

/// Changes the value of the steps that a mistake is made in; nothing for the others.
/// @param before  the run with the mistake so far
using Wrong = std::function<std::optional<Array>(const Step& step, const Recording& before)>;

std::string name_of_rank(std::size_t rank) { return "rank." + std::to_string(rank) + "."; }

/// A run on all ranks, gathered on rank 0.
using Run = std::function<Recording()>;

/// Rounds a step of a module that computes in float32.
void round_as_computed(Step& step)
{
    const std::pair<std::string, std::string> type("type", "float32");
    if (step.value.type == ElementType::real && std::ranges::find(step.options, type) != step.options.end())
        for (double& number : step.value.values)
            number = static_cast<float>(number);
}

/// What all ranks have where one of them makes a mistake: every step follows from its formula, but for the mistaken ones.
Recording with_mistake(Recording run, const Wrong& wrong)
{
    const StepNames names(run);
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
        Step& step = run.steps[i];
        if (!step.formula.empty()) {
            step.value = evaluate(step.formula, [&](std::string_view name) {
                             const std::optional<std::size_t> found = names.resolve(i, name);
                             return found ? &run.steps[*found].value : nullptr;
                         }).value;
            round_as_computed(step);
        }
        if (std::optional<Array> other = wrong(step, run))
            step.value = *std::move(other);
    }
    return run;
}

/// What attn diff finds: the first wrong step, and the mistakes that explain it.
struct Found {
    std::string first_wrong = "nothing";
    std::vector<std::string_view> names = {};
};

/// What a program saves of a run.
enum class Saved { all, results };

bool is_result(const std::string& path) { return path == "context" || path.ends_with(".norm2.output"); }

/// A run with a mistake beside the right one; found on rank 0, on the others nothing.
Found found_in(const Run& run, const Wrong& wrong, Saved saved)
{
    const Recording reference = run();
    if (this_rank() != 0)
        return {};
    const Recording mine = with_mistake(reference, wrong);
    NamedArrays arrays;
    for (const Step& step : mine.steps)
        if (saved == Saved::all || is_result(step.path))
            arrays[step.path] = step.value;
    const Diff diff = attn::diff::compare(reference, arrays);
    Found found;
    if (diff.first_wrong() != nullptr)
        found.first_wrong = diff.first_wrong()->step->path;
    for (const Diagnosis& diagnosis : diagnose(diff))
        found.names.push_back(diagnosis.pitfall->id);
    return found;
}

/// A mistake between ranks.
struct Mistake {
    std::string_view name; ///< of its pitfall
    Run run;
    Wrong wrong;
    std::string first_wrong; ///< the step that attn diff has to find
};

void check_found(const Mistake& mistake)
{
    const Found found = found_in(mistake.run, mistake.wrong, Saved::all);
    if (this_rank() == 0) {
        CHECK(found.first_wrong == mistake.first_wrong);
        CHECK(found.names == std::vector{mistake.name});
    }
}

void check_named_by_results(const Mistake& mistake)
{
    const Found found = found_in(mistake.run, mistake.wrong, Saved::results);
    if (this_rank() == 0)
        CHECK(found.names == std::vector{mistake.name});
}

void check_nothing_found(const Run& run)
{
    const Found found = found_in(
        run, [](const Step&, const Recording&) { return std::nullopt; }, Saved::all);
    if (this_rank() == 0) {
        CHECK(found.first_wrong == "nothing");
        CHECK(found.names.empty());
    }
}

/// Ring attention, with four tokens on each rank.
Run ring(const Drawing& drawing, const mpi::Layout& layout)
{
    return [=] {
        Recorder recorder;
        const Whole whole(layout.tokens(), drawing);
        Shard shard(whole, layout);
        mpi::ring_attention(shard.q(), shard.k(), shard.v(), layout, shard.scoring, shard.o(), {}, MPI_COMM_WORLD,
                            nullptr, Trace(recorder));
        return mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD, layout);
    };
}

Run ulysses(const Drawing& drawing, const mpi::Layout& layout)
{
    return [=] {
        Recorder recorder;
        const Whole whole(layout.tokens(), drawing);
        Shard shard(whole, layout);
        mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), layout, whole.scoring(), shard.o(), MPI_COMM_WORLD,
                               nullptr, Trace(recorder));
        return mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD, layout);
    };
}

/// With four heads and seven hidden units, in the scopes of their ranks.
Run layer()
{
    return [] {
        Recorder recorder;
        const DrawnLayer drawn(4, 7);
        const EncoderLayerWeights shard = mpi::encoder_layer_shard(drawn.weights, 4, all_ranks(), this_rank());
        static_cast<void>(mpi::tensor_parallel_encoder_layer(drawn.x, shard, drawn.options, MPI_COMM_WORLD, nullptr,
                                                             Trace(recorder)));
        return mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD);
    };
}

const mpi::Layout& four_each()
{
    static const mpi::Layout layout = mpi::contiguous_layout(4 * all_ranks(), all_ranks());
    return layout;
}

std::string last_rank() { return name_of_rank(all_ranks() - 1); }

/// The same shape, with other numbers.
/// @param number  from the index of a number to its value
template <class Number>
Array filled(Array array, const Number& number)
{
    for (std::size_t i = 0; i < array.size(); ++i)
        array.values[i] = number(i);
    return array;
}

/// The tokens of ranks 0 and 1 swapped, where each has as many: (b, heads, n, d).
Array with_swapped_ranks(Array array, std::size_t tokens)
{
    const std::size_t part = tokens * array.shape[3];
    for (std::size_t block = 0; block < array.size(); block += array.shape[2] * array.shape[3]) {
        const auto first = array.values.begin() + static_cast<std::ptrdiff_t>(block);
        const auto second = first + static_cast<std::ptrdiff_t>(part);
        std::swap_ranges(first, second, second);
    }
    return array;
}

/// The first tokens of all ranks, then the second ones, and so on.
Array with_interleaved_ranks(Array array, std::size_t tokens)
{
    const std::size_t ranks = array.shape[2] / tokens, d = array.shape[3];
    return filled(array, [=](std::size_t i) {
        const std::size_t token = i / d % (ranks * tokens), block = i / (ranks * tokens * d);
        const std::size_t from = token % ranks * tokens + token / ranks;
        return array.values[(block * ranks * tokens + from) * d + i % d];
    });
}

// ----------------------------------------------------------------------------------------------- the mistakes

Mistake keys_before_they_arrive()
{
    const std::string path = last_rank() + "hop.1.keys";
    return {"ranks_keys_early", ring({}, four_each()),
            [=](const Step& step, const Recording& before) -> std::optional<Array> {
                return step.path == path ? std::optional(before.at(last_rank() + "hop.0.keys").value) : std::nullopt;
            },
            path};
}

Mistake merge_without_rescaling()
{
    return {"no_rescaling", ring({}, four_each()),
            [](const Step& step, const Recording&) -> std::optional<Array> {
                if (!step.path.ends_with(".correction") && !step.path.ends_with(".correction_before"))
                    return std::nullopt;
                return filled(step.value, [](std::size_t) { return 1; });
            },
            "rank.0.hop.1.correction_before"};
}

Mistake causal_mask_by_local_indices()
{
    return {"ranks_causal_local", ring({.is_causal = true}, four_each()),
            [](const Step& step, const Recording&) -> std::optional<Array> {
                if (!step.path.ends_with(".mask"))
                    return std::nullopt;
                const std::size_t m = step.value.shape.back();
                return filled(step.value, [m](std::size_t i) { return i % m <= i / m ? 1 : 0; });
            },
            "rank.0.hop.1.mask"};
}

Mistake padding_of_the_last_rank_counted()
{
    const auto length = static_cast<std::int64_t>(4 * all_ranks() - 3);
    return {"ranks_padding", ring({.lengths = {length}}, four_each()),
            [](const Step& step, const Recording&) -> std::optional<Array> {
                if (!step.path.ends_with(".mask") || step.formula.find(last_rank() + "positions") == std::string::npos)
                    return std::nullopt;
                return filled(step.value, [](std::size_t) { return 1; });
            },
            "rank.0.hop.1.mask"};
}

/// @param reordered  from an array and each rank's number of tokens to the array in another order of tokens
Mistake wrong_order(Array (*reordered)(Array, std::size_t))
{
    const std::string path = last_rank() + "heads.keys";
    return {"ranks_order", ulysses({.shape = {1, 5, 5, 3, 3}}, four_each()),
            [=](const Step& step, const Recording&) -> std::optional<Array> {
                return step.path == path ? std::optional(reordered(step.value, 4)) : std::nullopt;
            },
            path};
}

Mistake sum_left_out()
{
    const std::string path = last_rank() + "feed_forward.sum";
    return {"ranks_sum_missing", layer(),
            [=](const Step& step, const Recording& before) -> std::optional<Array> {
                return step.path == path ? std::optional(before.at(last_rank() + "feed_forward.part.output").value)
                                         : std::nullopt;
            },
            path};
}

Mistake bias_on_every_rank()
{
    const Vector bias = *DrawnLayer(4, 7).weights.self_attention.output->bias;
    return {"ranks_bias_repeated", layer(),
            [=](const Step& step, const Recording&) -> std::optional<Array> {
                if (!step.path.ends_with("self_attn.part.output"))
                    return std::nullopt;
                return filled(step.value, [&](std::size_t i) { return step.value.values[i] + bias(i % bias.size()); });
            },
            "rank.0.self_attn.part.output"};
}

std::vector<Mistake> all_mistakes()
{
    return {keys_before_they_arrive(),
            merge_without_rescaling(),
            causal_mask_by_local_indices(),
            padding_of_the_last_rank_counted(),
            wrong_order(with_swapped_ranks),
            wrong_order(with_interleaved_ranks),
            sum_left_out(),
            bias_on_every_rank()};
}

} // namespace

TEST_CASE("attn diff finds each mistake between ranks at its rank, hop and step, and names it", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    for (const Mistake& mistake : all_mistakes()) {
        CAPTURE(mistake.name);
        check_found(mistake);
        check_nothing_found(mistake.run);
    }
}

TEST_CASE("attn diff names each mistake between two or three ranks from their results alone", "[mpi][mistakes]")
{
    if (all_ranks() == 1 || all_ranks() > 3) // of more ranks' hops, not each alone is tried
        return;
    for (const Mistake& mistake : all_mistakes()) {
        CAPTURE(mistake.name);
        check_named_by_results(mistake);
    }
}

TEST_CASE("every pitfall of ranks is made here", "[mpi][mistakes]")
{
    std::set<std::string_view> made;
    for (const Mistake& mistake : all_mistakes())
        made.insert(mistake.name);
    for (const Pitfall& pitfall : pitfalls())
        if (pitfall.id.starts_with("ranks_"))
            CHECK(made.contains(pitfall.id));
}

TEST_CASE("an exception on one rank ends all ranks", "[.][abort]")
{
    const Whole whole(four_each().tokens(), {});
    Shard shard(whole, four_each());
    /// A disk that is full at one step.
    class FullDisk final : public Listener {
        std::optional<Array> on_step(const Step& step) override
        {
            if (step.path == "rank.1.hop.1.sum")
                throw std::runtime_error("the disk is full");
            return std::nullopt;
        }
    };
    FullDisk failing;
    mpi::ring_attention(shard.q(), shard.k(), shard.v(), four_each(), shard.scoring, shard.o(), {}, MPI_COMM_WORLD,
                        nullptr, Trace(failing));
    MPI_Barrier(MPI_COMM_WORLD); // ranks that need nothing more from rank 1 get here
    FAIL("rank " << this_rank() << " went on");
}
