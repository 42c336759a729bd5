#include "worker.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/fast/encoder.hpp"
#include "attn/reference/layers/encoder.hpp"

namespace attn::bench {
namespace {

// The layer of Vaswani et al. 2017: norms after the blocks, ReLU, biases.
constexpr std::size_t heads = 8, d_model = 512, d_ff = 2048;
const EncoderOptions options{.attention = {.heads = heads}};

EncoderLayerWeights random_layer()
{
    RandomNumbers numbers(6);
    const auto map = [&](std::size_t d_in, std::size_t d_out) { return random_map(numbers, d_in, d_out, true); };
    const auto norm = [&] { return LayerNormWeights{1.0 + numbers.vector(d_model, 0.25), numbers.vector(d_model)}; };
    EncoderLayerWeights layer;
    layer.self_attention = {map(d_model, d_model), map(d_model, d_model), map(d_model, d_model), map(d_model, d_model)};
    layer.feed_forward = {map(d_model, d_ff), map(d_ff, d_model)};
    layer.norm1 = norm();
    layer.norm2 = norm();
    return layer;
}

double fast_layer(const EncoderLayerWeights& layer, std::size_t b, std::size_t n)
{
    static const fast::PackedEncoderLayer weights(layer);
    static fast::Workspace workspace;
    const std::vector<float> x = random_floats(b * n * d_model, 7);
    std::vector<float> output(x.size());
    return seconds([&] {
        fast::encoder_layer({x.data(), n, d_model, b}, {}, weights, options, {output.data(), n, d_model, b}, workspace);
    });
}

double reference(const EncoderLayerWeights& layer, std::size_t b, std::size_t n)
{
    const Tensor3 x = RandomNumbers(7).tensor3(b, n, d_model);
    return seconds([&] { encoder_layer(x, layer, options); });
}

} // namespace

double encoder(const std::string& contender, std::istream& sizes)
{
    static const EncoderLayerWeights layer = random_layer();
    std::size_t b = 0, n = 0;
    if (!(sizes >> b >> n))
        throw Error("bench_fast: encoder takes a number of sequences and a length");
    if (contender == "fast")
        return fast_layer(layer, b, n);
    if (contender == "reference")
        return reference(layer, b, n);
    throw Error("bench_fast: there is no encoder layer of " + contender);
}

} // namespace attn::bench
