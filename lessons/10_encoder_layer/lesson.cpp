// Lesson 10: one encoder layer.
//
// Everything so far in one place: tokens look at each other, add what they found, are normalised, think by themselves,
// add that, and are normalised again. The shape that goes in comes out, so that layers can be stacked.

#include "../lesson.hpp"

#include "attn/layers/encoder.hpp"
#include "attn/weights/state_dict.hpp"

using namespace attn;

namespace {

//! [weights]
/// Two heads of two features as in lesson 6, a network with six hidden units as in lesson 9.
EncoderLayerWeights small_weights(Lesson& lesson)
{
    const auto matrix = [&](std::string_view step, const Matrix& example) {
        return lesson.input(step, example);
    };
    const Vector ones = xt::ones<double>({4}), zeros = xt::zeros<double>({4});
    EncoderLayerWeights weights;
    MultiHeadWeights& heads = weights.self_attention;
    heads.query.weight =
        matrix("query_weights[d_model, h_d_k]",
               Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 2, 1, 2}});
    heads.key.weight =
        matrix("key_weights[d_model, h_d_k]",
               Matrix{{0, 1, 1, 0}, {1, 0, -1, 1}, {0, 1, 1, 0}, {1, 1, 0, -1}});
    heads.value.weight =
        matrix("value_weights[d_model, h_d_v]",
               Matrix{{0, 2, 1, 0}, {0, 3, 0, 1}, {1, 0, 3, 0}, {1, 1, 0, 2}});
    heads.output = {
        matrix("output_weights[h_d_v, d_model]",
               Matrix{{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, 1, 0}, {0, -0.5, 0, 1}})};
    weights.feed_forward.hidden = {
        matrix("up_weights[d_model, d_ff]", Matrix{{1, 0, -1, 0.5, 0, 1},
                                                   {0, 1, 1, -0.5, 1, 0},
                                                   {1, -1, 0, 0, 0.5, -1},
                                                   {-1, 0, 1, 1, 0, 0.5}}),
        lesson.input("up_bias[d_ff]", Vector{0, 0.5, 0, -0.5, 0, 0.25})};
    weights.feed_forward.output = {
        matrix("down_weights[d_ff, d_model]", Matrix{{0.5, 0, 0, -0.5},
                                                     {0, 0.5, -1, 0},
                                                     {0.25, 0, 0.5, 0},
                                                     {0, -0.5, 0, 1},
                                                     {1, 0, 0, 0.25},
                                                     {0, 0.25, 0.5, 0}}),
        lesson.input("down_bias[d_model]", Vector{0, 0.1, 0, -0.1})};
    weights.norm1 = {lesson.input("gain1[d_model]", ones),
                     lesson.input("bias1[d_model]", zeros)};
    weights.norm2 = {lesson.input("gain2[d_model]", Vector{1, 2, 1, 0.5}),
                     lesson.input("bias2[d_model]", zeros)};
    return weights;
}
//! [weights]

//! [attend]
/// The first block: self-attention, residual, norm. In a scope, x and the names of weights mean steps outside of it.
Matrix attention_block(const Trace& trace, const Matrix& x,
                       const EncoderLayerWeights& weights)
{
    const Trace self_attn =
        trace.scope("self_attn", {{"x", "x"},
                                  {"query_weights", "query_weights"},
                                  {"key_weights", "key_weights"},
                                  {"value_weights", "value_weights"},
                                  {"output_weights", "output_weights"}});
    const Matrix attended =
        multi_head_attention(x, {}, {}, weights.self_attention, {.heads = 2}, self_attn)
            .output;

    const Matrix residual =
        trace("residual1[n, d_model]", "x + self_attn.output", Matrix(x + attended));
    const Trace norm1 =
        trace.scope("norm1", {{"x", "residual1"}, {"gain", "gain1"}, {"bias", "bias1"}});
    return layer_norm(residual, weights.norm1, {}, norm1);
}
//! [attend]

//! [think]
/// The second block: feed-forward network, residual, norm; its output is the layer's.
Matrix feed_forward_block(const Trace& trace, const Matrix& x,
                          const EncoderLayerWeights& weights)
{
    const Trace feed = trace.scope("feed_forward", {{"x", "norm1.output"},
                                                    {"hidden_weights", "up_weights"},
                                                    {"hidden_bias", "up_bias"},
                                                    {"output_weights", "down_weights"},
                                                    {"output_bias", "down_bias"}});
    const Matrix fed = feed_forward(x, weights.feed_forward, {}, feed);

    const Matrix residual = trace("residual2[n, d_model]",
                                  "norm1.output + feed_forward.output", Matrix(x + fed));
    const Trace norm2 =
        trace.scope("norm2", {{"x", "residual2"}, {"gain", "gain2"}, {"bias", "bias2"}});
    const Matrix output = layer_norm(residual, weights.norm2, {}, norm2);
    trace.alias("output", "norm2.output");
    return output;
}
//! [think]

//! [pytorch]
/// A layer that PyTorch made, from its own file, and the output that PyTorch computed with it.
void run_pytorch_weights(Lesson& lesson)
{
    const NamedArrays stored = read_weights(lesson.file("pytorch.npz"));
    NamedArrays parameters = stored;
    const Matrix x = from_array<Matrix>(parameters.extract("x").mapped());
    const Matrix expected = from_array<Matrix>(parameters.extract("output").mapped());

    const Trace pytorch = lesson.trace().scope("pytorch");
    const EncoderLayerWeights weights =
        load_weights<EncoderLayerWeights>(parameters, {{"d_model", x.shape(1)}});
    const Matrix output =
        encoder_layer(x, {}, weights, {.attention = {.heads = 2}}, pytorch);
    lesson.expect_equal("with PyTorch's weights the output is PyTorch's", output,
                        expected);
}
//! [pytorch]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. The tokens of lesson 1, and the weights of a small layer");
    const Matrix x =
        lesson.input("x[n, d_model]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const EncoderLayerWeights weights = small_weights(lesson);

    //! [layer]
    lesson.heading("2. The first block: look at each other, add, normalise");
    const Matrix between = attention_block(trace, x, weights);

    lesson.heading("3. The second block: think, add, normalise");
    const Matrix output = feed_forward_block(trace, between, weights);

    const EncoderOptions two_heads{.attention = {.heads = 2}};
    lesson.expect_equal("encoder_layer gives the same",
                        encoder_layer(x, {}, weights, two_heads), output);
    lesson.expect("what comes out has the shape of what went in",
                  output.shape() == x.shape());
    //! [layer]

    //! [pre]
    lesson.heading("4. The same weights with the norms in front");
    const Trace pre = trace.scope("pre", {{"x", "x"}});
    EncoderOptions in_front = two_heads;
    in_front.placement = NormPlacement::pre;
    encoder_layer(x, {}, weights, in_front, pre);
    //! [pre]

    lesson.heading("5. A layer of PyTorch's: 8 features, 2 heads, 16 hidden units");
    run_pytorch_weights(lesson);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("10_encoder_layer", argc, argv, teach);
}
