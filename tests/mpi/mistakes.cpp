// What goes wrong between machines, planted: attn diff names the rank, the hop and the step.
#include "attn/diff/diff.hpp"
#include "attn/mpi/gather_recording.hpp"
#include "attn/mpi/ring_attention.hpp"
#include "attn/mpi/tensor_parallel.hpp"
#include "attn/mpi/ulysses_attention.hpp"

#include "layer.hpp"
#include "test.hpp"
#include "whole.hpp"

#include "attn/trace_io/recorder.hpp"

#include <algorithm>
#include <functional>

using namespace attn;
using namespace attn::test;

namespace {

/// Makes a mistake: answers steps of some name with another value.
class Planted final : public Listener {
public:
    using Wrong = std::function<std::optional<Array>(const Step& step, const Planted& heard)>;
    explicit Planted(Wrong wrong) : wrong_(std::move(wrong)) {}

    const Array& value(const std::string& path) const { return std::ranges::find(steps_, path, &Step::path)->value; }

private:
    std::optional<Array> on_step(const Step& step) override
    {
        steps_.push_back(step);
        return wrong_(step, *this);
    }
    Wrong wrong_;
    std::vector<Step> steps_;
};

std::string name_of_rank(std::size_t rank) { return "rank." + std::to_string(rank) + "."; }

/// What a run with a mistake is compared with the right run; on rank 0.
using Run = std::function<Recording(const Trace& trace, const Recorder& recorder)>;

/// The first wrong step, as attn diff finds it; on other ranks nothing.
std::string first_wrong(const Run& run, const Planted::Wrong& wrong)
{
    Recorder right, mistaken;
    const Recording reference = run(Trace(right), right);
    Planted planted(wrong);
    Listeners both({&planted, &mistaken});
    const Recording mine = run(Trace(both), mistaken);
    if (this_rank() != 0)
        return "";
    NamedArrays arrays;
    for (const Step& step : mine.steps)
        arrays[step.path] = step.value;
    const Diff found = diff(reference, arrays);
    return found.first_wrong() == nullptr ? "nothing" : found.first_wrong()->step->path;
}

void check_first_wrong(const Run& run, const Planted::Wrong& wrong, const std::string& expected)
{
    const std::string found = first_wrong(run, wrong);
    const std::string unplanted = first_wrong(run, [](const Step&, const Planted&) { return std::nullopt; });
    if (this_rank() == 0) {
        CHECK(found == expected);
        CHECK(unplanted == "nothing");
    }
}

/// Ring attention, with four tokens on each rank.
Run ring(const Drawing& drawing, const mpi::Layout& layout)
{
    return [=](const Trace& trace, const Recorder& recorder) {
        const Whole whole(layout.tokens(), drawing);
        Shard shard(whole, layout);
        mpi::ring_attention(shard.q(), shard.k(), shard.v(), layout, shard.scoring, shard.o(), {}, MPI_COMM_WORLD,
                            nullptr, trace);
        return mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD, layout);
    };
}

Run layer()
{
    return [](const Trace& trace, const Recorder& recorder) {
        const DrawnLayer drawn(4, 7);
        const EncoderLayerWeights shard = mpi::encoder_layer_shard(drawn.weights, 4, all_ranks(), this_rank());
        static_cast<void>(
            mpi::tensor_parallel_encoder_layer(drawn.x, {}, shard, drawn.options, MPI_COMM_WORLD, nullptr, trace));
        return mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD);
    };
}

const mpi::Layout& four_each()
{
    static const mpi::Layout layout = mpi::contiguous_layout(4 * all_ranks(), all_ranks());
    return layout;
}

} // namespace

TEST_CASE("attn diff finds keys that were used before they arrived, at their rank and hop", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    const std::string last = name_of_rank(all_ranks() - 1);
    check_first_wrong(
        ring({}, four_each()),
        [&](const Step& step, const Planted& heard) -> std::optional<Array> {
            return step.path == last + "hop.1.keys" ? std::optional(heard.value(last + "hop.0.keys")) : std::nullopt;
        },
        last + "hop.1.keys");
}

TEST_CASE("attn diff finds partial results that are merged without rescaling, at the first merge", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    check_first_wrong(
        ring({}, four_each()),
        [](const Step& step, const Planted&) -> std::optional<Array> {
            if (!step.path.ends_with(".correction") && !step.path.ends_with(".correction_before"))
                return std::nullopt;
            Array ones = step.value;
            std::ranges::fill(ones.values, 1);
            return ones;
        },
        "rank.0.hop.1.correction_before");
}

TEST_CASE("attn diff finds a causal mask by local indices, at the first hop of other keys", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    check_first_wrong(
        ring({.is_causal = true}, four_each()),
        [](const Step& step, const Planted&) -> std::optional<Array> {
            if (!step.path.ends_with(".mask"))
                return std::nullopt;
            Array mask = step.value;
            const std::size_t m = mask.shape.back();
            for (std::size_t i = 0; i < mask.size(); ++i)
                mask.values[i] = i % m <= i / m ? 1 : 0;
            return mask;
        },
        "rank.0.hop.1.mask");
}

TEST_CASE("attn diff finds padding that is counted on the last rank, at the hop that has its keys", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    const std::size_t last = all_ranks() - 1;
    check_first_wrong(
        ring({.lengths = {static_cast<std::int64_t>(4 * last + 1)}}, four_each()),
        [&](const Step& step, const Planted&) -> std::optional<Array> {
            if (!step.path.ends_with(".mask") ||
                step.formula.find(name_of_rank(last) + "positions") == std::string::npos)
                return std::nullopt;
            Array mask = step.value;
            std::ranges::fill(mask.values, 1);
            return mask;
        },
        "rank.0.hop.1.mask");
}

TEST_CASE("attn diff finds tokens in the wrong order of ranks after the exchange, at their rank", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    const Run ulysses = [](const Trace& trace, const Recorder& recorder) {
        const Whole whole(four_each().tokens(), {.shape = {1, 5, 5, 3, 3}});
        Shard shard(whole, four_each());
        mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), four_each(), whole.scoring(), shard.o(), MPI_COMM_WORLD,
                               nullptr, trace);
        return mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD, four_each());
    };
    const std::string path = name_of_rank(all_ranks() - 1) + "heads.keys";
    check_first_wrong(
        ulysses,
        [&](const Step& step, const Planted&) -> std::optional<Array> {
            if (step.path != path)
                return std::nullopt;
            Array swapped = step.value; // the tokens of ranks 0 and 1
            for (std::size_t block = 0; block < swapped.size(); block += swapped.shape[2] * swapped.shape[3]) {
                const auto first = swapped.values.begin() + static_cast<std::ptrdiff_t>(block);
                std::swap_ranges(first, first + 12, first + 12);
            }
            return swapped;
        },
        path);
}

TEST_CASE("attn diff finds a sum over the ranks that was left out, at its block", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    const std::string last = name_of_rank(all_ranks() - 1);
    check_first_wrong(
        layer(),
        [&](const Step& step, const Planted& heard) -> std::optional<Array> {
            return step.path == last + "feed_forward.sum"
                       ? std::optional(heard.value(last + "feed_forward.part.output"))
                       : std::nullopt;
        },
        last + "feed_forward.sum");
}

TEST_CASE("attn diff finds a bias that every rank adds, at the first rank's part", "[mpi][mistakes]")
{
    if (all_ranks() == 1)
        return;
    const DrawnLayer drawn(4, 7);
    const Vector& bias = *drawn.weights.self_attention.output->bias;
    check_first_wrong(
        layer(),
        [&](const Step& step, const Planted&) -> std::optional<Array> {
            if (!step.path.ends_with("self_attn.part.output"))
                return std::nullopt;
            Array more = step.value;
            for (std::size_t i = 0; i < more.size(); ++i)
                more.values[i] += bias(i % bias.size());
            return more;
        },
        "rank.0.self_attn.part.output");
}

TEST_CASE("an exception on one rank ends all ranks", "[.][abort]")
{
    const Whole whole(four_each().tokens(), {});
    Shard shard(whole, four_each());
    Planted failing([](const Step& step, const Planted&) -> std::optional<Array> {
        if (step.path == "rank.1.hop.1.sum")
            throw std::runtime_error("the disk is full");
        return std::nullopt;
    });
    mpi::ring_attention(shard.q(), shard.k(), shard.v(), four_each(), shard.scoring, shard.o(), {}, MPI_COMM_WORLD,
                        nullptr, Trace(failing));
    FAIL("rank " << this_rank() << " went on");
}
