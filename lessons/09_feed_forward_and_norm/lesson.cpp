// Lesson 9: feed-forward network, residual connection, layer norm.
//
// A Transformer layer has two blocks: attention, which mixes tokens, and a feed-forward
// network, which computes with each token by itself. The result of each block is added to
// its input (residual connection), and layer norm brings each token to mean 0 and
// variance 1.

#include "../lesson.hpp"

#include "attn/reference/layers/feed_forward.hpp"
#include "attn/reference/layers/layer_norm.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <cmath>

using namespace attn;

namespace {

/// What the network computes on the way, and in the end.
struct FedForward {
    Matrix hidden, output;
};

/// Each token by itself: d_model features, then d_ff hidden units, of which negative ones
/// become 0, then d_model again.
FedForward feed(Lesson& lesson, const Matrix& x, const FeedForwardWeights& weights)
{
    const Trace ff = lesson.trace().scope("feed_forward");
    //! [feed_forward]
    const Matrix hidden =
        ff("hidden[n, d_ff]", "x @ hidden_weights + hidden_bias",
           Matrix(matmul(x, weights.hidden.weight) + *weights.hidden.bias));
    const Matrix activated = ff("activated[n, d_ff]", "relu(hidden)", relu(hidden));
    const Matrix output =
        ff("output[n, d_model]", "activated @ output_weights + output_bias",
           Matrix(matmul(activated, weights.output.weight) + *weights.output.bias));
    //! [feed_forward]
    lesson.expect_equal("feed_forward gives the same", feed_forward(x, weights), output);
    return {hidden, output};
}

/// Later models have GELU, exact or by tanh: close to ReLU, but smooth at zero.
void take_gelu(Lesson& lesson, const Matrix& hidden)
{
    const Trace ff = lesson.trace().scope("feed_forward");
    const Trace exact = ff.scope("gelu"), approximate = ff.scope("gelu_tanh");
    //! [gelu]
    const Matrix smooth = exact(
        "activated[n, d_ff]", "0.5 * hidden * (1 + erf(hidden / sqrt(2)))", gelu(hidden));
    const Matrix nearly = approximate(
        "activated[n, d_ff]",
        "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))",
        gelu_tanh(hidden));
    //! [gelu]
    const double difference =
        approximate("largest_difference", "max(abs(activated - gelu.activated))",
                    max_all(Matrix(xt::abs(nearly - smooth))));
    lesson.expect("GELU by tanh is GELU to three digits", difference < 1e-3);
}

/// A convolution along the tokens: each output is a sum over a window of inputs, each
/// through its own matrix.
/// @param kernel  (width, d_in, d_out); zeros beyond the ends
Matrix convolve(const Matrix& x, const Tensor3& kernel)
{
    const std::size_t n = x.shape(0), width = kernel.shape(0), left = width / 2;
    Matrix output = xt::zeros<double>({n, kernel.shape(2)});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t w = 0; w < width; ++w)
            if (i + w >= left && i + w - left < n)
                for (std::size_t in = 0; in < kernel.shape(1); ++in)
                    for (std::size_t out = 0; out < kernel.shape(2); ++out)
                        output(i, out) += x(i + w - left, in) * kernel(w, in, out);
    return output;
}

/// With a window of one token, a convolution is the linear map of the feed-forward
/// network.
void compare_with_convolution(Lesson& lesson, const Matrix& x,
                              const LinearWeights& hidden)
{
    const Trace conv = lesson.trace().scope("convolution");
    //! [convolution]
    const Tensor3 kernel =
        conv("kernel[width, d_model, d_ff]", "hidden_weights[None, :, :]",
             Tensor3(xt::view(hidden.weight, xt::newaxis(), xt::all(), xt::all())));
    const Matrix output = conv("hidden[n, d_ff]", "x @ kernel[0] + hidden_bias",
                               Matrix(convolve(x, kernel) + *hidden.bias));
    //! [convolution]
    lesson.expect_equal("the hidden layer is a convolution of width 1", output,
                        linear(x, hidden));
}

/// Mean 0 and variance 1 for each token, then a gain and a bias for each feature.
void normalize(Lesson& lesson, const Matrix& x, const LayerNormWeights& weights)
{
    //! [norm]
    const Trace norm = lesson.trace().scope(
        "norm", {{"x", "residual"}, {"gain", "gain"}, {"bias", "bias"}});
    layer_norm(x, weights, {}, norm);
    //! [norm]
    const Matrix plain = layer_norm(x, {xt::ones<double>({x.shape(1)})});
    lesson.expect_equal("before gain and bias, each token's mean is 0",
                        mean_along(plain, 1), Vector(xt::zeros<double>({x.shape(0)})));
}

/// The variance divided by d - 1 (Bessel's correction): larger by the same factor for
/// each token.
void compare_variances(Lesson& lesson, const Matrix& x)
{
    const Vector mean = mean_along(x, 1);
    Matrix squares(x.shape());
    for (std::size_t i = 0; i < x.shape(0); ++i)
        for (std::size_t j = 0; j < x.shape(1); ++j)
            squares(i, j) = (x(i, j) - mean(i)) * (x(i, j) - mean(i));
    const Trace bessel = lesson.trace().scope("bessel");
    //! [bessel]
    const Vector unbiased =
        bessel("variance[n]",
               "sum((residual - mean(residual, axis=1)[:, None]) ** 2, axis=1) / "
               "(residual.shape[1] - 1)",
               Vector(sum_along(squares, 1) / static_cast<double>(x.shape(1) - 1)));
    //! [bessel]
    const Vector biased = mean_along(squares, 1);
    const Vector ratio = bessel("ratio[n]",
                                "sqrt(variance / mean((residual - mean(residual, "
                                "axis=1)[:, None]) ** 2, axis=1))",
                                Vector(xt::sqrt(unbiased / biased)));
    const double d = static_cast<double>(x.shape(1));
    lesson.expect_equal(
        "the ratio of the deviations is sqrt(d / (d - 1)) for every token", ratio,
        Vector(xt::ones<double>({x.shape(0)}) * std::sqrt(d / (d - 1))));
}

/// A token of nearly equal features: the place of epsilon decides the result.
void place_epsilon(Lesson& lesson)
{
    const Trace epsilon = lesson.trace().scope("epsilon");
    const Vector token = epsilon("token[d]", "", Vector{1.001, 0.999, 1.001, 0.999});
    const double mean = epsilon("mean", "mean(token)", mean_all(token));
    const Vector distances = token - mean;
    const double variance = epsilon("variance", "mean((token - mean) ** 2)",
                                    mean_all(Vector(distances * distances)));
    //! [epsilon]
    const Vector inside = epsilon("inside[d]", "(token - mean) / sqrt(variance + 1e-5)",
                                  Vector(distances / std::sqrt(variance + 1e-5)));
    const Vector outside =
        epsilon("outside[d]", "(token - mean) / (sqrt(variance) + 1e-5)",
                Vector(distances / (std::sqrt(variance) + 1e-5)));
    //! [epsilon]
    lesson.expect("inside the root epsilon makes a difference here, outside hardly any",
                  inside(0) < 0.5 && outside(0) > 0.9);
}

/// The root of the mean square.
double size_of(const Matrix& x) { return std::sqrt(mean_all(Matrix(x * x))); }

/// One block without any norm.
Matrix bare_block(const Trace& trace, const Matrix& x, const FeedForwardWeights& block)
{
    return trace(
        "output[n, d_model]",
        "x + relu(x @ hidden_weights + hidden_bias) @ output_weights + output_bias",
        Matrix(x + feed_forward(x, block)));
}

/// One block with its norm after the sum.
Matrix post_norm_block(const Trace& trace, const Matrix& x,
                       const FeedForwardWeights& block)
{
    //! [post_norm]
    const Matrix sum =
        trace("sum[n, d_model]",
              "x + relu(x @ hidden_weights + hidden_bias) @ output_weights + output_bias",
              Matrix(x + feed_forward(x, block)));
    return trace(
        "output[n, d_model]",
        "(sum - mean(sum, axis=1)[:, None]) / "
        "sqrt(mean((sum - mean(sum, axis=1)[:, None]) ** 2, axis=1)[:, None] + 1e-5)",
        layer_norm(sum, {xt::ones<double>({x.shape(1)})}));
    //! [post_norm]
}

/// The same block with its norm in front: x itself is added without a norm.
Matrix pre_norm_block(const Trace& trace, const Matrix& x,
                      const FeedForwardWeights& block)
{
    //! [pre_norm]
    const Matrix normalized =
        trace("normalized[n, d_model]",
              "(x - mean(x, axis=1)[:, None]) / "
              "sqrt(mean((x - mean(x, axis=1)[:, None]) ** 2, axis=1)[:, None] + 1e-5)",
              layer_norm(x, {xt::ones<double>({x.shape(1)})}));
    return trace("output[n, d_model]",
                 "x + relu(normalized @ hidden_weights + hidden_bias) @ output_weights + "
                 "output_bias",
                 Matrix(x + feed_forward(normalized, block)));
    //! [pre_norm]
}

/// Six blocks in a row: without a norm, with post-norm, with pre-norm.
void stack_blocks(Lesson& lesson, const Matrix& x, const FeedForwardWeights& block)
{
    const Trace bares = lesson.trace().scope("bare"),
                posts = lesson.trace().scope("post"), pres = lesson.trace().scope("pre");
    Matrix bare = x, post = x, pre = x;
    std::vector<std::vector<double>> rows;
    std::string before = "x";
    for (std::size_t depth = 1; depth <= 6; ++depth) {
        const Trace plain = bares.scope("block", depth, {{"x", before}});
        const Trace after = posts.scope("block", depth, {{"x", before}});
        const Trace in_front = pres.scope("block", depth, {{"x", before}});
        bare = bare_block(plain, bare, block);
        post = post_norm_block(after, post, block);
        pre = pre_norm_block(in_front, pre, block);
        rows.push_back({static_cast<double>(depth),
                        plain("size", "sqrt(mean(output ** 2))", size_of(bare)),
                        after("size", "sqrt(mean(output ** 2))", size_of(post)),
                        in_front("size", "sqrt(mean(output ** 2))", size_of(pre))});
        before = "block." + std::to_string(depth) + ".output";
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

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Tokens, and a network from 4 features to 6 hidden units and back");
    const Matrix x =
        lesson.input("x[n, d_model]", Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1.5}});
    const Matrix hidden_weights =
        lesson.input("hidden_weights[d_model, d_ff]", Matrix{{1, 0, -1, 0.5, 0, 1},
                                                             {0, 1, 1, -0.5, 1, 0},
                                                             {1, -1, 0, 0, 0.5, -1},
                                                             {-1, 0, 1, 1, 0, 0.5}});
    const Vector hidden_bias =
        lesson.input("hidden_bias[d_ff]", Vector{0, 0.5, 0, -0.5, 0, 0.25});
    const Matrix output_weights =
        lesson.input("output_weights[d_ff, d_model]", Matrix{{0.5, 0, 0, -0.5},
                                                             {0, 0.5, -1, 0},
                                                             {0.25, 0, 0.5, 0},
                                                             {0, -0.5, 0, 1},
                                                             {1, 0, 0, 0.25},
                                                             {0, 0.25, 0.5, 0}});
    const Vector output_bias =
        lesson.input("output_bias[d_model]", Vector{0, 0.1, 0, -0.1});
    const FeedForwardWeights weights{{hidden_weights, hidden_bias},
                                     {output_weights, output_bias}};
    const FedForward fed = feed(lesson, x, weights);
    take_gelu(lesson, fed.hidden);

    lesson.heading("2. The same as a convolution of width 1");
    compare_with_convolution(lesson, x, weights.hidden);

    lesson.heading("3. Residual connection: the network's output is added to its input");
    //! [residual]
    const Matrix residual =
        trace("residual[n, d_model]", "x + feed_forward.output", Matrix(x + fed.output));
    //! [residual]

    lesson.heading("4. Layer norm, step by step");
    const LayerNormWeights norm{lesson.input("gain[d_model]", Vector{1, 2, 1, 0.5}),
                                lesson.input("bias[d_model]", Vector{0, 0, 1, 0})};
    normalize(lesson, residual, norm);

    lesson.heading("5. Divided by d or by d - 1, epsilon inside the root or outside");
    compare_variances(lesson, residual);
    place_epsilon(lesson);

    lesson.heading("6. Six blocks without a norm, with the norm after the sum, and "
                   "before the block");
    stack_blocks(lesson, x, weights);

    lesson.heading("7. The parameters of one layer, at the paper's size");
    count(lesson);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("09_feed_forward_and_norm", argc, argv, teach);
}
