// Lesson 24: smaller caches.
//
// A model that writes keeps keys and values of every token, for every head of every
// layer. Heads can share them, or make them from one small latent per token. What the
// cache keeps, what that costs, and why rotary positions stand beside the latent.

#include "../lesson.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/latent_attention.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <tuple>

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

/// What six published models keep of each token: keys and values of g heads in each
/// layer, or a latent and one rotary key.
void count_published(Lesson& lesson)
{
    const Trace published = lesson.trace().scope("published");
    const auto given = [&](std::string_view step, const Integers& numbers) {
        return published(step, "", numbers);
    };
    // Llama 2 7B, Llama 3 8B, Qwen2.5 7B, Falcon 7B, DeepSeek-V2-Lite, DeepSeek-V3
    const Integers layers = given("layers[models]", {32, 32, 28, 32, 27, 61}),
                   h = given("heads[models]", {32, 32, 28, 71, 16, 128}),
                   groups = given("groups[models]", {32, 8, 4, 1, 0, 0}),
                   d_k = given("d_k[models]", {128, 128, 128, 64, 192, 192}),
                   d_v = given("d_v[models]", {128, 128, 128, 64, 128, 128}),
                   d_c = given("d_c[models]", {0, 0, 0, 0, 512, 512}),
                   d_r = given("d_r[models]", {0, 0, 0, 0, 64, 64});
    const Integers numbers =
        published("numbers[models]", "layers * (groups * (d_k + d_v) + d_c + d_r)",
                  Integers(layers * (groups * (d_k + d_v) + d_c + d_r)));
    const Integers own = published("own[models]", "layers * heads * (d_k + d_v)",
                                   Integers(layers * h * (d_k + d_v)));
    const Integers bytes =
        published("bytes[models]", "2 * numbers", Integers(2 * numbers));
    std::ignore = published("gib[models]", "bytes * 8192 / 2 ** 30",
                            Vector(bytes * 8192.0 / 0x1p30));
    std::ignore =
        published("share[models]", "numbers / own", Vector(1.0 * numbers / own));
}

/// The mean of both heads' columns of a map.
/// @param step  name and axes; the name is that of the map, too
LinearWeights mean_of_heads(const Trace& trace, std::string_view step,
                            const LinearWeights& own)
{
    const std::size_t width = own.weight.shape(1) / heads;
    const Matrix first = columns(own.weight, 0, width),
                 second = columns(own.weight, width, 2 * width);
    const std::string from = "own." + std::string(step.substr(0, step.find('['))),
                      middle = std::to_string(width), end = std::to_string(2 * width);
    return {trace(step,
                  "(" + from + "[:, 0:" + middle + "] + " + from + "[:, " + middle + ":" +
                      end + "]) / 2",
                  Matrix((first + second) / 2.0))};
}

/// Both heads with keys and values of their own, and with shared ones.
void share_heads(Lesson& lesson, const Matrix& inputs, const MultiHeadWeights& own)
{
    const Trace trace = lesson.trace();
    const MultiHeadOptions options{.heads = heads};
    const Trace apart = trace.scope("own", {{"x", "inputs"},
                                            {"query_weights", "query_weights"},
                                            {"key_weights", "key_weights"},
                                            {"value_weights", "value_weights"},
                                            {"output_weights", "output_weights"}});
    const Trace made = trace.scope("shared", {{"x", "inputs"},
                                              {"query_weights", "query_weights"},
                                              {"output_weights", "output_weights"}});
    //! [share]
    const Matrix each = multi_head_attention(inputs, own, options, apart).output;
    const MultiHeadWeights shared{
        own.query, mean_of_heads(made, "key_weights[d_model, d_k]", own.key),
        mean_of_heads(made, "value_weights[d_model, d_v]", own.value), own.output};
    const Matrix together = multi_head_attention(inputs, shared, options, made).output;
    //! [share]
    const double change = trace("change", "max(abs(shared.output - own.output))",
                                max_all(Matrix(xt::abs(together - each))));
    lesson.table({"largest change of the output"}, {{change}});
}

LatentAttentionWeights latent_weights(Lesson& lesson)
{
    LatentAttentionWeights weights;
    weights.query = LinearWeights{lesson.input("latent_query_weights[d_model, h_d_q]",
                                               Matrix{{1, 0, 0, 1, 0, 1, 1, 0},
                                                      {0, 1, 1, 0, 1, 0, 0, -1},
                                                      {1, 1, 0, 0, 0, 1, 0, 1},
                                                      {0, 0, 1, 1, 1, 1, 0, 0}})};
    weights.latent.down = LinearWeights{
        lesson.input("down_weights[d_model, d_c_r]",
                     Matrix{{1, 0, 1, 0}, {0, 1, 0, 1}, {1, -1, 1, 0}, {0, 1, 0, -1}})};
    weights.latent.norm = RmsNormWeights{lesson.input("latent_gain[d_c]", Vector{1, 1})};
    weights.key_value = LinearWeights{
        lesson.input("up_weights[d_c, h_d_n_v]",
                     Matrix{{1, 0, 1, 0, 0, 2, 0, 1}, {1, 1, 0, 1, -1, 0, 2, 0}})};
    weights.output = LinearWeights{
        lesson.input("latent_output_weights[h_d_v, d_model]",
                     Matrix{{1, 0, 0, 1}, {0, 1, 0, 0}, {0, 0, 1, 0}, {1, 0, 0, 1}})};
    return weights;
}

/// One latent per token: keys and values made of it, and the same with absorbed maps.
void compress(Lesson& lesson, const Matrix& inputs, const LatentAttentionWeights& weights)
{
    const Trace& trace = lesson.trace();
    MultiHeadOptions options{.heads = heads, .positions = HeadPositions::rotary};
    options.norm.epsilon = 1e-6;
    const auto scope = [&](std::string_view name) {
        return trace.scope(name, {{"x", "inputs"},
                                  {"query_weights", "latent_query_weights"},
                                  {"compressed_weights", "down_weights"},
                                  {"key_value_weights", "up_weights"},
                                  {"output_weights", "latent_output_weights"}});
    };
    const Trace by_heads = scope("plain"), by_latents = scope("absorbed");
    //! [latent]
    const Matrix made = latent_attention(inputs, weights, options, by_heads).output;
    const Matrix absorbed =
        absorbed_latent_attention(inputs, weights, options, by_latents).output;
    //! [latent]
    lesson.expect_equal("absorbed maps give the same output", absorbed, made);
}

/// The scores of queries and keys that are rotated by their positions first.
Matrix rotated_scores(const Trace& trace, const Matrix& queries, const Matrix& keys)
{
    const Trace of_query = trace.scope("rotary_query", {{"x", "queries"}});
    const Matrix turned = rotary(queries, {}, of_query);
    const Trace of_key = trace.scope("rotary_key", {{"x", "keys"}});
    return trace("scores[n, m]", "rotary_query.output @ rotary_key.output.T",
                 matmul(turned, transpose(rotary(keys, {}, of_key))));
}

/// Scores of head 0 if its keys were rotated after they are made of the latents, and what
/// comes out where the latents are rotated instead, so that the map can be absorbed.
void rotate_latents(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Recording& run = lesson.recording();
    const Matrix query = from_array<Matrix>(run.at("absorbed.query").value),
                 latent = from_array<Matrix>(run.at("absorbed.latent_norm.output").value),
                 up = from_array<Matrix>(run.at("absorbed.head.0.key_weights").value);
    const Matrix own = columns(query, 0, up.shape(1));
    const std::string of_query =
        "absorbed.query[:, 0:" + std::to_string(up.shape(1)) + "]";

    //! [rotated]
    const Trace right = trace.scope("rotated");
    const Matrix queries = right("queries[n, d_n]", of_query, own);
    const Matrix keys =
        right("keys[m, d_n]", "absorbed.latent_norm.output @ absorbed.head.0.key_weights",
              matmul(latent, up));
    const Matrix scores = rotated_scores(right, queries, keys);
    //! [rotated]

    //! [pretended]
    const Trace wrong = trace.scope("pretended");
    const Matrix absorbed =
        wrong("queries[n, d_c]", of_query + " @ absorbed.head.0.key_weights.T",
              matmul(own, transpose(up)));
    const Matrix latents = wrong("keys[m, d_c]", "absorbed.latent_norm.output", latent);
    const Matrix pretended = rotated_scores(wrong, absorbed, latents);
    //! [pretended]
    std::ignore = trace("off[n, m]", "pretended.scores - rotated.scores",
                        Matrix(pretended - scores));
    if (lesson.is_example())
        lesson.expect("the rotation does not commute with the map", pretended != scores);
}

/// Multiplications of one new token of DeepSeek-V3, in one layer.
void count_work(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const auto given = [&](std::string_view step, std::int64_t number) {
        return cost(step, "", number);
    };
    const std::int64_t h = given("h", 128), d_n = given("d_n", 128),
                       d_r = given("d_r", 64), d_v = given("d_v", 128),
                       d_c = given("d_c", 512), m = given("m", 8192);
    const std::int64_t made =
        cost("made", "m * d_c * h * (d_n + d_v)", m * d_c * h * (d_n + d_v));
    const std::int64_t by_heads = cost("by_heads", "made + h * m * (d_n + d_r + d_v)",
                                       made + h * m * (d_n + d_r + d_v));
    const std::int64_t absorbed =
        cost("absorbed", "h * d_c * (d_n + d_v) + h * m * (d_c + d_r + d_c)",
             h * d_c * (d_n + d_v) + h * m * (d_c + d_r + d_c));
    const double ratio =
        cost("ratio", "by_heads / absorbed",
             static_cast<double>(by_heads) / static_cast<double>(absorbed));
    lesson.table({"multiplications: keys and values made anew", "absorbed", "ratio"},
                 {{static_cast<double>(by_heads), static_cast<double>(absorbed), ratio}});
}

void teach(Lesson& lesson)
{
    lesson.heading("1. What six published models keep of each token");
    count_published(lesson);

    lesson.heading("2. Given: three tokens, and the weights of two heads");
    const Matrix inputs = lesson.input("inputs[n, d_model]",
                                       Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const MultiHeadWeights own{
        {lesson.input("query_weights[d_model, h_d_k]",
                      Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 1, 1, 0}})},
        {lesson.input("key_weights[d_model, h_d_k]",
                      Matrix{{0, 1, 1, 0}, {1, 0, 1, 1}, {0, 1, 0, 0}, {1, 1, 0, 1}})},
        {lesson.input("value_weights[d_model, h_d_v]",
                      Matrix{{0, 2, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}, {1, 1, 0, 2}})},
        LinearWeights{lesson.input(
            "output_weights[h_d_v, d_out]",
            Matrix{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}})}};

    lesson.heading("3. Two heads share one key and one value");
    share_heads(lesson, inputs, own);

    lesson.heading("4. One latent per token, of which every head makes keys and values");
    compress(lesson, inputs, latent_weights(lesson));

    lesson.heading("5. Why the rotary key stands beside the latent");
    rotate_latents(lesson);

    lesson.heading("6. The work for one new token");
    count_work(lesson);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("24_smaller_caches", argc, argv, teach);
}
