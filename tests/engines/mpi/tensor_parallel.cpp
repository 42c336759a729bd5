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

void check_same(const LinearWeights& found, const LinearWeights& expected)
{
    check_same(found.weight, to_array(expected.weight));
    check_same(*found.bias, to_array(*expected.bias));
}

void check_same(const EncoderLayerWeights& found, const EncoderLayerWeights& expected)
{
    check_same(found.self_attention.query, expected.self_attention.query);
    check_same(found.self_attention.key.weight, to_array(expected.self_attention.key.weight)); // its bias has no effect
    check_same(found.self_attention.value, expected.self_attention.value);
    check_same(*found.self_attention.output, *expected.self_attention.output);
    check_same(found.feed_forward.hidden, expected.feed_forward.hidden);
    check_same(found.feed_forward.output, expected.feed_forward.output);
    for (const auto norm : {&EncoderLayerWeights::norm1, &EncoderLayerWeights::norm2}) {
        check_same((found.*norm).gain, to_array((expected.*norm).gain));
        check_same(*(found.*norm).bias, to_array(*(expected.*norm).bias));
    }
}

} // namespace

TEST_CASE("a layer divided by heads and hidden units gives what it gives on one rank, forward and backward",
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
            mpi::Traffic forward, backward;
            const auto found =
                mpi::tensor_parallel_encoder_layer(layer.x, shard, options, MPI_COMM_WORLD, &forward, Trace(mine));
            const auto gradients = mpi::tensor_parallel_encoder_layer_backward(
                found.inputs, shard, options, layer.grad_output, MPI_COMM_WORLD, &backward);
            check_same(found.output, to_array(expected));
            check_same(gradients.x, step(grad, "grad.x"));
            check_same(gradients.weights,
                       mpi::encoder_layer_shard(whole_gradients(grad, layer.weights), heads, all_ranks(), this_rank()));
            const mpi::Traffic predicted =
                mpi::predicted_tensor_parallel_traffic(layer.x.shape(0), layer.x.shape(1), all_ranks());
            CHECK(forward.sent == predicted.sent);
            CHECK(backward.sent == predicted.sent);

            const Recording recording = mpi::gather_recording(mine.recording(), MPI_COMM_WORLD);
            if (this_rank() == 0)
                for (const StepCheck& check : verify(recording).checks)
                    if (!check.passed())
                        FAIL_CHECK(check.message);
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
