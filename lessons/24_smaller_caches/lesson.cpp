// Lesson 24: smaller caches.
//
// A model that writes keeps keys and values of every token, for every head of every
// layer. Heads can share them, or make them from one small latent per token. What the
// cache keeps, what that costs, and why rotary positions stand beside the latent.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"

#include "attn/reference/layers/latent_attention.hpp"
#include "attn/reference/layers/multi_head.hpp"

#include <tuple>

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

// The helpers of teach(), which stand below it in this order.
void count_published(Lesson& lesson);
void share_heads(Lesson& lesson, const Term<Matrix>& inputs, const MultiHeadWeights& own);
LatentAttentionWeights latent_weights(Lesson& lesson);
void compress(Lesson& lesson, const Term<Matrix>& inputs,
              const LatentAttentionWeights& weights);
void rotate_latents(Lesson& lesson);
void count_work(Lesson& lesson);

void teach(Lesson& lesson)
{
    lesson.heading("1. What six published models keep of each token");
    count_published(lesson);

    lesson.heading("2. Given: three tokens, and the weights of two heads");
    const Term inputs = lesson.input("inputs[n, d_model]",
                                     Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const MultiHeadWeights own{
        {*lesson.input("query_weights[d_model, h_d_k]",
                       Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 1, 1, 0}})},
        {*lesson.input("key_weights[d_model, h_d_k]",
                       Matrix{{0, 1, 1, 0}, {1, 0, 1, 1}, {0, 1, 0, 0}, {1, 1, 0, 1}})},
        {*lesson.input("value_weights[d_model, h_d_v]",
                       Matrix{{0, 2, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}, {1, 1, 0, 2}})},
        LinearWeights{*lesson.input(
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

/// What six published models keep of each token: keys and values of g heads in each
/// layer, or a latent and one rotary key.
void count_published(Lesson& lesson)
{
    const Trace published = lesson.trace().scope("published");
    const WholeNumbers whole(published);
    // Llama 2 7B, Llama 3 8B, Qwen2.5 7B, Falcon 7B, DeepSeek-V2-Lite, DeepSeek-V3
    const Term layers = whole.given("layers[models]", {32, 32, 28, 32, 27, 61});
    const Term h = whole.given("heads[models]", {32, 32, 28, 71, 16, 128});
    const Term groups = whole.given("groups[models]", {32, 8, 4, 1, 0, 0});
    const Term d_k = whole.given("d_k[models]", {128, 128, 128, 64, 192, 192});
    const Term d_v = whole.given("d_v[models]", {128, 128, 128, 64, 128, 128});
    const Term d_c = whole.given("d_c[models]", {0, 0, 0, 0, 512, 512});
    const Term d_r = whole.given("d_r[models]", {0, 0, 0, 0, 64, 64});
    const Term numbers =
        whole("numbers[models]", layers * (groups * (d_k + d_v) + d_c + d_r));
    const Term own = whole("own[models]", layers * h * (d_k + d_v));
    const Term bytes = whole("bytes[models]", 2 * numbers);
    const Term gib = power(number(2, published), 30);
    std::ignore = published("gib[models]", bytes * 8192 / gib);
    std::ignore = published("share[models]", numbers / own);
}

/// The mean of both heads' columns of a map.
Term<Matrix> mean_of_heads(const Term<Matrix>& own)
{
    const std::size_t width = own.shape(1) / heads;
    return (matrix_columns(own, 0, width) + matrix_columns(own, width, 2 * width)) / 2;
}

/// Both heads with keys and values of their own, and with shared ones.
void share_heads(Lesson& lesson, const Term<Matrix>& inputs, const MultiHeadWeights& own)
{
    const Trace& trace = lesson.trace();
    const MultiHeadOptions options{.heads = heads};
    const Trace apart = trace.scope("own", {{"x", "inputs"},
                                            {"query_weights", "query_weights"},
                                            {"key_weights", "key_weights"},
                                            {"value_weights", "value_weights"},
                                            {"output_weights", "output_weights"}});
    const Trace made = trace.scope("shared", {{"x", "inputs"},
                                              {"query_weights", "query_weights"},
                                              {"output_weights", "output_weights"}});
    const Term own_keys = named(own.key.weight, "own.key_weights", trace);
    const Term own_values = named(own.value.weight, "own.value_weights", trace);
    //! [share]
    const Term each = multi_head_attention(inputs, own, options, apart).output;
    const Term keys = made("key_weights[d_model, d_k]", mean_of_heads(own_keys));
    const Term values = made("value_weights[d_model, d_v]", mean_of_heads(own_values));
    const MultiHeadWeights shared{own.query, {*keys}, {*values}, own.output};
    const Term together = multi_head_attention(inputs, shared, options, made).output;
    //! [share]
    const Term change = trace("change", max_all(abs(together - each)));
    lesson.table({"largest change of the output"}, {{*change}});
}

LatentAttentionWeights latent_weights(Lesson& lesson)
{
    LatentAttentionWeights weights;
    weights.query = LinearWeights{*lesson.input("latent_query_weights[d_model, h_d_q]",
                                                Matrix{{1, 0, 0, 1, 0, 1, 1, 0},
                                                       {0, 1, 1, 0, 1, 0, 0, -1},
                                                       {1, 1, 0, 0, 0, 1, 0, 1},
                                                       {0, 0, 1, 1, 1, 1, 0, 0}})};
    weights.latent.down = LinearWeights{
        *lesson.input("down_weights[d_model, d_c_r]",
                      Matrix{{1, 0, 1, 0}, {0, 1, 0, 1}, {1, -1, 1, 0}, {0, 1, 0, -1}})};
    weights.latent.norm = RmsNormWeights{*lesson.input("latent_gain[d_c]", Vector{1, 1})};
    weights.key_value = LinearWeights{
        *lesson.input("up_weights[d_c, h_d_n_v]",
                      Matrix{{1, 0, 1, 0, 0, 2, 0, 1}, {1, 1, 0, 1, -1, 0, 2, 0}})};
    weights.output = LinearWeights{
        *lesson.input("latent_output_weights[h_d_v, d_model]",
                      Matrix{{1, 0, 0, 1}, {0, 1, 0, 0}, {0, 0, 1, 0}, {1, 0, 0, 1}})};
    return weights;
}

/// One latent per token: keys and values made of it, and the same with absorbed maps.
void compress(Lesson& lesson, const Term<Matrix>& inputs,
              const LatentAttentionWeights& weights)
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
    const Term made = latent_attention(inputs, weights, options, by_heads).output;
    const Term absorbed =
        absorbed_latent_attention(inputs, weights, options, by_latents).output;
    //! [latent]
    lesson.expect_equal("absorbed maps give the same output", absorbed, made);
}

/// The scores of queries and keys that are rotated by their positions first.
Term<Matrix> rotated_scores(const Trace& trace, const Term<Matrix>& queries,
                            const Term<Matrix>& keys)
{
    const Term query = rotary(queries, {}, trace.scope("rotary_query"));
    const Term key = rotary(keys, {}, trace.scope("rotary_key"));
    return trace("scores[n, m]", matmul(query, transpose(key)));
}

/// Scores of head 0 if its keys were rotated after they are made of the latents, and what
/// comes out where the latents are rotated instead, so that the map can be absorbed.
void rotate_latents(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Term latent = recorded<Matrix>(lesson, "absorbed.latent_norm.output"),
               up = recorded<Matrix>(lesson, "absorbed.head.0.key_weights"),
               own = matrix_columns(recorded<Matrix>(lesson, "absorbed.query"), 0,
                                    up.shape(1));

    const Trace right = trace.scope("rotated");
    const Term queries = right("queries[n, d_n]", own);
    const Term keys = right("keys[m, d_n]", matmul(latent, up));
    const Term scores = rotated_scores(right, queries, keys);

    //! [pretended]
    const Trace wrong = trace.scope("pretended");
    const Term absorbed = wrong("queries[n, d_c]", matmul(own, transpose(up)));
    const Term latents = wrong("keys[m, d_c]", latent);
    const Term pretended = rotated_scores(wrong, absorbed, latents);
    //! [pretended]
    std::ignore = trace("off[n, m]", pretended - scores);
    if (lesson.is_example())
        lesson.expect("the rotation does not commute with the map",
                      *pretended != *scores);
}

/// Multiplications of one new token of DeepSeek-V3, in one layer.
void count_work(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const WholeNumbers whole(cost);
    const Term h = whole.given("h", 128), d_n = whole.given("d_n", 128),
               d_r = whole.given("d_r", 64), d_v = whole.given("d_v", 128),
               d_c = whole.given("d_c", 512), m = whole.given("m", 8192);
    const Term made = whole("made", m * d_c * h * (d_n + d_v));
    const Term by_heads = whole("by_heads", made + h * m * (d_n + d_r + d_v));
    const Term absorbed =
        whole("absorbed", h * d_c * (d_n + d_v) + h * m * (d_c + d_r + d_c));
    const Term ratio = cost("ratio", by_heads / absorbed);
    lesson.table({"multiplications: keys and values made anew", "absorbed", "ratio"},
                 {{*by_heads, *absorbed, *ratio}});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("24_smaller_caches", argc, argv, teach);
}
