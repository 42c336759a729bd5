// Lesson 9: feed-forward network, residual connection, layer norm.
//
// A Transformer layer has two blocks: attention, which mixes tokens, and a feed-forward
// network, which computes with each token by itself. The result of each block is added to
// its input (residual connection), and layer norm brings each token to mean 0 and
// variance 1.

#include "../lesson.hpp"

#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/feed_forward.hpp"
#include "attn/reference/layers/layer_norm.hpp"

#include <cmath>

using namespace attn;

namespace {

/// The parameters of the network, as the lesson's steps.
struct Network {
    Term<Matrix> hidden_weights;
    Term<Vector> hidden_bias;
    Term<Matrix> output_weights;
    Term<Vector> output_bias;

    Term<Matrix> operator()(const Term<Matrix>& x) const
    {
        const Term hidden = matmul(x, hidden_weights) + hidden_bias;
        return matmul(relu(hidden), output_weights) + output_bias;
    }
};

Matrix convolve(const Matrix& x, const Tensor3& kernel);
void compare_variances(Lesson& lesson, const Term<Matrix>& residual);
void place_epsilon(Lesson& lesson);
void stack_blocks(Lesson& lesson, const Term<Matrix>& x, const Network& network);
void count(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Tokens, and a network from 4 features to 6 hidden units and back");
    const Term x =
        lesson.input("x[n, d_model]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1.5}});
    const Term hidden_weights =
        lesson.input("hidden_weights[d_model, d_ff]", Matrix{{1, 0, -1, 0.5, 0, 1},
                                                             {0, 1, 1, -0.5, 1, 0},
                                                             {1, -1, 0, 0, 0.5, -1},
                                                             {-1, 0, 1, 1, 0, 0.5}});
    const Term hidden_bias =
        lesson.input("hidden_bias[d_ff]", Vector{0, 0.5, 0, -0.5, 0, 0.25});
    const Term output_weights =
        lesson.input("output_weights[d_ff, d_model]", Matrix{{0.5, 0, 0, -0.5},
                                                             {0, 0.5, -1, 0},
                                                             {0.25, 0, 0.5, 0},
                                                             {0, -0.5, 0, 1},
                                                             {1, 0, 0, 0.25},
                                                             {0, 0.25, 0.5, 0}});
    const Term output_bias =
        lesson.input("output_bias[d_model]", Vector{0, 0.1, 0, -0.1});

    // Each token by itself: d_model features, then d_ff hidden units, of which negative
    // ones become 0, then d_model again.
    const Trace ff = trace.scope("feed_forward");
    //! [feed_forward]
    const Term hidden = ff("hidden[n, d_ff]", matmul(x, hidden_weights) + hidden_bias);
    const Term activated = ff("activated[n, d_ff]", relu(hidden));
    const Term output =
        ff("output[n, d_model]", matmul(activated, output_weights) + output_bias);
    //! [feed_forward]
    lesson.expect_equal("feed_forward gives the same",
                        feed_forward(*x, {{*hidden_weights, *hidden_bias},
                                          {*output_weights, *output_bias}}),
                        output);

    // Later models have GELU, exact or by tanh: close to ReLU, but smooth at zero.
    const Trace exact = ff.scope("gelu"), approximate = ff.scope("gelu_tanh");
    //! [gelu]
    const Term smooth = exact("activated[n, d_ff]",
                              0.5 * hidden * (1 + erf(hidden / sqrt(number(2, ff)))));
    const Term nearly =
        activate("activated[n, d_ff]", hidden, Activation::gelu_tanh, approximate);
    const Term difference =
        approximate("largest_difference", max_all(abs(nearly - smooth)));
    //! [gelu]
    lesson.expect("GELU by tanh is GELU to three digits", *difference < 1e-3);

    // With a window of one token, a convolution is the linear map of the network.
    lesson.heading("2. The same as a convolution of width 1");
    const Trace conv = trace.scope("convolution");
    //! [convolution]
    const Term kernel = conv("kernel[width, d_model, d_ff]", in_front(hidden_weights));
    const Term convolved = conv("hidden[n, d_ff]", "x @ kernel[0] + hidden_bias",
                                Term(convolve(*x, *kernel)) + hidden_bias);
    //! [convolution]
    lesson.expect_equal("the hidden layer is a convolution of width 1", convolved,
                        hidden);

    lesson.heading("3. Residual connection: the network's output is added to its input");
    //! [residual]
    const Term residual = trace("residual[n, d_model]", x + output);
    //! [residual]

    // Mean 0 and variance 1 for each token, then a gain and a bias for each feature.
    lesson.heading("4. Layer norm, step by step");
    const LayerNormWeights gain_and_bias{
        *lesson.input("gain[d_model]", Vector{1, 2, 1, 0.5}),
        *lesson.input("bias[d_model]", Vector{0, 0, 1, 0})};
    const Trace norm =
        trace.scope("norm", {{"x", "residual"}, {"gain", "gain"}, {"bias", "bias"}});
    //! [norm]
    layer_norm(residual, gain_and_bias, {}, norm);
    //! [norm]
    const Matrix plain = layer_norm(*residual, {Vector({x.shape(1)}, 1.0)});
    lesson.expect_equal("before gain and bias, each token's mean is 0",
                        mean_along(Term(plain), 1), Vector({x.shape(0)}, 0.0));

    lesson.heading("5. Divided by d or by d - 1, epsilon inside the root or outside");
    compare_variances(lesson, residual);
    place_epsilon(lesson);

    lesson.heading("6. Six blocks without a norm, with the norm after the sum, and "
                   "before the block");
    stack_blocks(lesson, x, {hidden_weights, hidden_bias, output_weights, output_bias});

    lesson.heading("7. The parameters of one layer, at the paper's size");
    count(lesson);
}

/// A convolution along the tokens: each output is a sum over a window of inputs, each
/// through its own matrix.
/// @param kernel  (width, d_in, d_out); zeros beyond the ends
Matrix convolve(const Matrix& x, const Tensor3& kernel)
{
    const std::size_t n = x.shape(0), width = kernel.shape(0), left = width / 2;
    Matrix output({n, kernel.shape(2)}, 0.0);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t w = 0; w < width; ++w)
            if (i + w >= left && i + w - left < n)
                for (std::size_t in = 0; in < kernel.shape(1); ++in)
                    for (std::size_t out = 0; out < kernel.shape(2); ++out)
                        output(i, out) += x(i + w - left, in) * kernel(w, in, out);
    return output;
}

Term<Matrix> centered(const Term<Matrix>& x) { return x - each_row(mean_along(x, 1)); }

/// The variance divided by d - 1 (Bessel's correction): larger by the same factor for
/// each token.
void compare_variances(Lesson& lesson, const Term<Matrix>& residual)
{
    const Trace bessel = lesson.trace().scope("bessel");
    //! [bessel]
    const Term squares = square(centered(residual));
    const Term unbiased =
        bessel("variance[n]", sum_along(squares, 1) / (size_along(residual, 1) - 1));
    const Term ratio = bessel("ratio[n]", sqrt(unbiased / mean_along(squares, 1)));
    //! [bessel]
    const auto d = static_cast<double>(residual.shape(1));
    lesson.expect_equal(
        "the ratio of the deviations is sqrt(d / (d - 1)) for every token", ratio,
        Vector({residual.shape(0)}, std::sqrt(d / (d - 1))));
}

/// A token of nearly equal features: the place of epsilon decides the result.
void place_epsilon(Lesson& lesson)
{
    const Trace epsilon = lesson.trace().scope("epsilon");
    const Term token = epsilon.given("token[d]", Vector{1.001, 0.999, 1.001, 0.999});
    //! [epsilon]
    const Term mean = epsilon("mean", mean_all(token));
    const Term variance = epsilon("variance", mean_all(square(token - mean)));
    const Term inside = epsilon("inside[d]", (token - mean) / sqrt(variance + 1e-5));
    const Term outside = epsilon("outside[d]", (token - mean) / (sqrt(variance) + 1e-5));
    //! [epsilon]
    lesson.expect("inside the root epsilon makes a difference here, outside hardly any",
                  (*inside)(0) < 0.5 && (*outside)(0) > 0.9);
}

/// Layer norm with the gain 1 and the bias 0.
Term<Matrix> normalized(const Term<Matrix>& x)
{
    const Term variance = mean_along(square(centered(x)), 1);
    return centered(x) / sqrt(each_row(variance) + 1e-5);
}

/// One block without any norm.
Term<Matrix> bare_block(const Trace& trace, const Term<Matrix>& before,
                        const Network& network)
{
    const Term x = trace.input("x[n, d_model]", before);
    return trace("output[n, d_model]", x + network(x));
}

/// One block with its norm after the sum.
Term<Matrix> post_norm_block(const Trace& trace, const Term<Matrix>& before,
                             const Network& network)
{
    //! [post_norm]
    const Term x = trace.input("x[n, d_model]", before);
    const Term sum = trace("sum[n, d_model]", x + network(x));
    return trace("output[n, d_model]", normalized(sum));
    //! [post_norm]
}

/// The same block with its norm in front: x itself is added without a norm.
Term<Matrix> pre_norm_block(const Trace& trace, const Term<Matrix>& before,
                            const Network& network)
{
    //! [pre_norm]
    const Term x = trace.input("x[n, d_model]", before);
    const Term smaller = trace("normalized[n, d_model]", normalized(x));
    return trace("output[n, d_model]", x + network(smaller));
    //! [pre_norm]
}

/// Six blocks in a row: without a norm, with post-norm, with pre-norm.
void stack_blocks(Lesson& lesson, const Term<Matrix>& x, const Network& network)
{
    const Trace bares = lesson.trace().scope("bare"),
                posts = lesson.trace().scope("post"), pres = lesson.trace().scope("pre");
    const auto size = [](const Trace& trace, const Matrix& output) {
        return *trace("size", sqrt(mean_all(square(named(output, "output", trace)))));
    };
    Term bare = x, post = x, pre = x;
    std::vector<std::vector<double>> rows;
    for (std::size_t depth = 1; depth <= 6; ++depth) {
        const Trace plain = bares.scope("block", depth),
                    after = posts.scope("block", depth),
                    in_front = pres.scope("block", depth);
        bare = bare_block(plain, bare, network);
        post = post_norm_block(after, post, network);
        pre = pre_norm_block(in_front, pre, network);
        rows.push_back({static_cast<double>(depth), size(plain, *bare),
                        size(after, *post), size(in_front, *pre)});
    }
    lesson.table({"blocks", "size of a feature: no norm", "post-norm", "pre-norm"}, rows);
}

/// At the paper's size: 512 to 2048 to 512.
void count(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const auto number = [&](std::string_view name, std::string_view formula,
                            std::int64_t value) {
        return static_cast<double>(cost(name, formula, value));
    };
    constexpr std::int64_t d_model = 512, d_ff = 2048;
    number("d_model", "", d_model);
    number("d_ff", "", d_ff);
    const double feed_forward =
        number("feed_forward", "2 * d_model * d_ff + d_ff + d_model",
               2 * d_model * d_ff + d_ff + d_model);
    const double attention = number("attention", "4 * d_model ** 2 + 4 * d_model",
                                    4 * d_model * d_model + 4 * d_model);
    const double norms = number("norms", "2 * 2 * d_model", 4 * d_model);
    const double share =
        cost("share", "feed_forward / (feed_forward + attention + norms)",
             feed_forward / (feed_forward + attention + norms));
    lesson.table({"parameters of one layer: attention", "feed-forward", "both norms",
                  "share of feed-forward"},
                 {{attention, feed_forward, norms, share}});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("09_feed_forward_and_norm", argc, argv, teach);
}
