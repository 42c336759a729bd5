#include "attn/engines/mpi/tensor_parallel.hpp"

#include "layer.hpp"
#include "test.hpp"
#include "whole.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/formula/verify.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

double largest_of(const Array& all)
{
    double largest = 0;
    for (const double number : all.values)
        largest = std::max(largest, std::abs(number));
    return largest;
}

/// They agree as two orders of adding do, and are not all zero.
template <class T>
void check_same(const T& found, const Array& expected)
{
    const Array all = to_array(found);
    REQUIRE(all.shape == expected.shape);
    if (all.size() == 0)
        return;
    const double largest = largest_of(expected);
    CHECK(largest > 0);
    double off = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
        off = std::max(off, std::isfinite(all.values[i]) ? std::abs(all.values[i] - expected.values[i]) : infinity);
    CHECK(off <= 1e-12 * largest);
}

const Array& step(const Recording& recording, const std::string& path)
{
    return std::ranges::find(recording.steps, path, &Step::path)->value;
}

/// The gradients of the whole layer on one rank, as weights.
EncoderLayerWeights whole_gradients(const Recording& gradients, const EncoderLayerWeights& like)
{
    const auto vector = [&](const std::string& path) { return from_array<Vector>(step(gradients, "grad." + path)); };
    const auto map = [&](const std::string& path) {
        return LinearWeights{from_array<Matrix>(step(gradients, "grad." + path + "_weights")), vector(path + "_bias")};
    };
    EncoderLayerWeights found = like;
    found.self_attention = {map("self_attn.query"), map("self_attn.key"), map("self_attn.value"),
                            map("self_attn.output")};
    found.feed_forward = {map("feed_forward.hidden"), map("feed_forward.output")};
    found.norm1 = {vector("norm1.gain"), vector("norm1.bias")};
    found.norm2 = {vector("norm2.gain"), vector("norm2.bias")};
    return found;
}

/// Those of each rank's part are parts of the whole layer's, and the sum of what reaches x by all ranks is that of x.
void check_gradients(const Recording& found, const EncoderLayerWeights& whole, std::size_t heads, const Array& of_x)
{
    Array sum{of_x.shape, std::vector<double>(of_x.size())};
    for (std::size_t rank = 0; rank < all_ranks(); ++rank) {
        const std::string scope = "grad.rank." + std::to_string(rank) + ".";
        const EncoderLayerWeights part = mpi::encoder_layer_shard(whole, heads, all_ranks(), rank);
        const auto check = [&](const std::string& map, const LinearWeights& expected) {
            if (expected.weight.size() != 0)
                check_same(from_array<Matrix>(step(found, scope + map + "_weights")), to_array(expected.weight));
        };
        check("self_attn.part.query", part.self_attention.query);
        check("self_attn.part.key", part.self_attention.key);
        check("self_attn.part.value", part.self_attention.value);
        check("self_attn.part.output", *part.self_attention.output);
        check("feed_forward.part.hidden", part.feed_forward.hidden);
        check("feed_forward.part.output", part.feed_forward.output);
        const Array& mine = step(found, scope + "x");
        for (std::size_t i = 0; i < sum.size(); ++i)
            sum.values[i] += mine.values[i];
    }
    check_same(from_array<Matrix>(sum), of_x);
}

} // namespace

TEST_CASE("a layer divided by heads and hidden units gives what it gives on one rank, and so do its gradients",
          "[mpi][layer]")
{
    for (const std::size_t heads : {2, 3, 4})
        for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre}) {
            CAPTURE(heads, placement);
            const DrawnLayer layer(heads, 3 + heads); // hidden units that don't divide
            EncoderOptions options = layer.options;
            options.placement = placement;
            options.attention.causal = Causal::bottom_right;
            Recorder whole, mine;
            const Matrix expected = encoder_layer(layer.x, layer.weights, options, Trace(whole));
            const Recording grad = gradients(whole.recording(), {.of = "output", .seed = to_array(layer.grad_output)});

            const EncoderLayerWeights shard = mpi::encoder_layer_shard(layer.weights, heads, all_ranks(), this_rank());
            mpi::Traffic traffic;
            check_same(
                mpi::tensor_parallel_encoder_layer(layer.x, shard, options, MPI_COMM_WORLD, &traffic, Trace(mine)),
                to_array(expected));
            CHECK(traffic.sent ==
                  mpi::predicted_tensor_parallel_traffic(layer.x.shape(0), layer.x.shape(1), all_ranks()).sent);

            const Recording all = mpi::gather_recording(mine.recording(), MPI_COMM_WORLD);
            if (this_rank() != 0)
                continue;
            for (const StepCheck& check : verify(all).checks)
                if (!check.passed())
                    FAIL_CHECK(check.message);
            check_gradients(gradients(all, {.of = "rank.0.output", .seed = to_array(layer.grad_output)}),
                            whole_gradients(grad, layer.weights), heads, step(grad, "grad.x"));
        }
}

TEST_CASE("a shard of another rank is found on every rank before anything is sent", "[mpi][layer]")
{
    if (all_ranks() == 1)
        return;
    const DrawnLayer layer(all_ranks() + 1, 4); // rank 0 has two heads, the others one
    const EncoderLayerWeights shard = mpi::encoder_layer_shard(layer.weights, all_ranks() + 1, all_ranks(), 0);
    try {
        static_cast<void>(
            mpi::tensor_parallel_encoder_layer(layer.x, shard, {.attention = {.heads = 1}}, MPI_COMM_WORLD));
        FAIL_CHECK("nothing is thrown");
    } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("rank 1: ") && ContainsSubstring("encoder_layer_shard()"));
    }
}
