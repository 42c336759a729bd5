// Lesson 10: one encoder layer.
//
// An encoder layer is a block of self-attention and a block of a feed-forward network.
// Around each block there is a residual connection (its input is added to its output) and
// a layer norm. Input and output have the same shape, so that layers can be stacked.

#include "../lesson.hpp"

#include "attn/files/weights/state_dict.hpp"
#include "attn/mistakes/interventions.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <cmath>

using namespace attn;

namespace {

EncoderLayerWeights small_weights(Lesson& lesson);
void stack_six(Lesson& lesson, const Matrix& x, const EncoderLayerWeights& weights);
void round_every_step(Lesson& lesson, const Term<Matrix>& x,
                      const EncoderLayerWeights& weights, const Term<Matrix>& output);
void run_pytorch_weights(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. The tokens of lesson 1, and the weights of a small layer");
    const Term x =
        lesson.input("x[n, d_model]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const EncoderLayerWeights weights = small_weights(lesson);

    // In the scope of a layer, the names of its input and weights mean steps outside.
    lesson.heading("2. The attention block: self-attention, residual, layer norm");
    const Trace self_attn =
        trace.scope("self_attn", {{"x", "x"},
                                  {"query_weights", "query_weights"},
                                  {"key_weights", "key_weights"},
                                  {"value_weights", "value_weights"},
                                  {"output_weights", "output_weights"}});
    //! [attend]
    const Term attended =
        multi_head_attention(x, weights.self_attention, {.heads = 2}, self_attn).output;
    //! [attend]
    //! [residual1]
    const Term residual1 = trace("residual1[n, d_model]", x + attended);
    //! [residual1]
    const Trace norm1 =
        trace.scope("norm1", {{"x", "residual1"}, {"gain", "gain1"}, {"bias", "bias1"}});
    //! [norm1]
    const Term between = layer_norm(residual1, weights.norm1, {}, norm1);
    //! [norm1]

    lesson.heading(
        "3. The feed-forward block: feed-forward network, residual, layer norm");
    const Trace feed = trace.scope("feed_forward", {{"x", "norm1.output"},
                                                    {"hidden_weights", "up_weights"},
                                                    {"hidden_bias", "up_bias"},
                                                    {"output_weights", "down_weights"},
                                                    {"output_bias", "down_bias"}});
    //! [feed]
    const Term fed = feed_forward(between, weights.feed_forward, {}, feed);
    const Term residual2 = trace("residual2[n, d_model]", between + fed);
    //! [feed]
    const Trace norm2 =
        trace.scope("norm2", {{"x", "residual2"}, {"gain", "gain2"}, {"bias", "bias2"}});
    //! [norm2]
    const Term output = layer_norm(residual2, weights.norm2, {}, norm2);
    //! [norm2]
    trace.alias("output", "norm2.output");

    //! [whole]
    const EncoderOptions two_heads{.attention = {.heads = 2}};
    const Matrix same = encoder_layer(*x, weights, two_heads);
    //! [whole]
    lesson.expect_equal("encoder_layer gives the same", same, output);
    lesson.expect("the output has the shape of the input", output.shape() == x.shape());

    lesson.heading("4. Pre-norm: the same weights, each norm before its block");
    const Trace pre = trace.scope("pre");
    //! [pre]
    EncoderOptions pre_norm = two_heads;
    pre_norm.placement = NormPlacement::pre;
    encoder_layer(x, weights, pre_norm, pre);
    //! [pre]

    lesson.heading("5. Six such layers: the size of the tokens with and without norms");
    stack_six(lesson, *x, weights);

    lesson.heading("6. The layer in float32, bfloat16 and float16");
    round_every_step(lesson, x, weights, output);

    lesson.heading("7. A layer of PyTorch: 8 features, 2 heads, 16 hidden units");
    run_pytorch_weights(lesson);
}

/// Two heads of two features as in lesson 6, a network with six hidden units as in lesson
/// 9.
EncoderLayerWeights small_weights(Lesson& lesson)
{
    const auto given = [&](std::string_view step, const auto& example) {
        return *lesson.input(step, example);
    };
    const Vector ones = xt::ones<double>({4}), zeros = xt::zeros<double>({4});
    EncoderLayerWeights weights;
    MultiHeadWeights& heads = weights.self_attention;
    heads.query.weight =
        given("query_weights[d_model, h_d_k]",
              Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 2, 1, 2}});
    heads.key.weight =
        given("key_weights[d_model, h_d_k]",
              Matrix{{0, 1, 1, 0}, {1, 0, -1, 1}, {0, 1, 1, 0}, {1, 1, 0, -1}});
    heads.value.weight =
        given("value_weights[d_model, h_d_v]",
              Matrix{{0, 2, 1, 0}, {0, 3, 0, 1}, {1, 0, 3, 0}, {1, 1, 0, 2}});
    heads.output = {
        given("output_weights[h_d_v, d_model]",
              Matrix{{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, 1, 0}, {0, -0.5, 0, 1}})};
    weights.feed_forward.hidden = {
        given("up_weights[d_model, d_ff]", Matrix{{1, 0, -1, 0.5, 0, 1},
                                                  {0, 1, 1, -0.5, 1, 0},
                                                  {1, -1, 0, 0, 0.5, -1},
                                                  {-1, 0, 1, 1, 0, 0.5}}),
        given("up_bias[d_ff]", Vector{0, 0.5, 0, -0.5, 0, 0.25})};
    weights.feed_forward.output = {
        given("down_weights[d_ff, d_model]", Matrix{{0.5, 0, 0, -0.5},
                                                    {0, 0.5, -1, 0},
                                                    {0.25, 0, 0.5, 0},
                                                    {0, -0.5, 0, 1},
                                                    {1, 0, 0, 0.25},
                                                    {0, 0.25, 0.5, 0}}),
        given("down_bias[d_model]", Vector{0, 0.1, 0, -0.1})};
    weights.norm1 = {given("gain1[d_model]", ones), given("bias1[d_model]", zeros)};
    weights.norm2 = {given("gain2[d_model]", Vector{1, 2, 1, 0.5}),
                     given("bias2[d_model]", zeros)};
    return weights;
}

/// The same layer without norms: x + attention(x), then x + feed_forward(x).
Matrix layer_without_norms(const Matrix& x, const EncoderLayerWeights& weights)
{
    const Matrix between =
        x + multi_head_attention(x, weights.self_attention, {.heads = 2}).output;
    return between + feed_forward(between, weights.feed_forward);
}

/// The root of the mean of all squared features, before the first layer and after each.
/// @param layer  gives the next tokens
template <class Layer>
Vector sizes_through_six(Matrix tokens, const Layer& layer)
{
    Vector sizes(Vector::shape_type{7});
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        sizes(i) = std::sqrt(mean_all(Matrix(tokens * tokens)));
        tokens = layer(tokens);
    }
    return sizes;
}

/// Six layers with the same weights, in three arrangements: how large the tokens get.
void stack_six(Lesson& lesson, const Matrix& x, const EncoderLayerWeights& weights)
{
    const Trace six = lesson.trace().scope("six");
    const auto with_norms = [&](NormPlacement placement) {
        const EncoderOptions options{.attention = {.heads = 2}, .placement = placement};
        return sizes_through_six(x, [&](const Matrix& tokens) {
            return encoder_layer(tokens, weights, options);
        });
    };
    const Term none =
        six.given("none[layer]", sizes_through_six(x, [&](const Matrix& tokens) {
                      return layer_without_norms(tokens, weights);
                  }));
    const Term pre = six.given("pre[layer]", with_norms(NormPlacement::pre));
    const Term post = six.given("post[layer]", with_norms(NormPlacement::post));
    lesson.expect("without norms, tokens get larger than with them",
                  (*none)(6) > (*pre)(6) && (*none)(6) > (*post)(6));
}

/// The layer with every step rounded to fewer digits, and a norm of large tokens.
void round_every_step(Lesson& lesson, const Term<Matrix>& x,
                      const EncoderLayerWeights& weights, const Term<Matrix>& output)
{
    const Trace trace = lesson.trace().scope("rounded");
    const Term large = trace("large[n, d_model]", 512 * x);
    const auto with = [&](std::string_view name, NumberType type) {
        //! [rounded]
        mistakes::RoundSteps rounding(type);
        const Trace rounded(rounding);
        const Matrix found =
            encoder_layer(*x, weights, {.attention = {.heads = 2}}, rounded);
        //! [rounded]
        const Trace scope = trace.scope(name);
        const Term result = scope.given("output[n, d_model]", found);
        const Term error = scope("error", max_all(abs(result - output)));
        const Term normed =
            scope.given("large_norm[n, d_model]",
                        layer_norm(*large, weights.norm1, {}, rounded.scope("large")));
        lesson.table({"largest error of the output", "first feature of 512 x, normed"},
                     {{*error, (*normed)(0, 0)}});
    };
    with("float32", NumberType::float32);
    with("bfloat16", NumberType::bfloat16);
    with("float16", NumberType::float16);
}

/// A layer that PyTorch made, from its own file, and the output that PyTorch computed
/// with it.
void run_pytorch_weights(Lesson& lesson)
{
    //! [pytorch]
    files::NamedArrays parameters = files::read_weights(lesson.file("pytorch.npz"));
    const Matrix x = from_array<Matrix>(parameters.extract("x").mapped());
    const Matrix expected = from_array<Matrix>(parameters.extract("output").mapped());
    const EncoderLayerWeights weights =
        files::load_weights<EncoderLayerWeights>(parameters, {{"d_model", x.shape(1)}});
    //! [pytorch]
    const Trace pytorch = lesson.trace().scope("pytorch");
    const Matrix output = encoder_layer(x, weights, {.attention = {.heads = 2}}, pytorch);
    lesson.expect_equal("with PyTorch's weights the output is PyTorch's", output,
                        expected);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("10_encoder_layer", argc, argv, teach);
}
