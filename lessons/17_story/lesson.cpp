// Lesson 17: from 2017 to today, with a model that writes.
//
// The decoder of today is that of 2017 with some parts changed: a simpler norm, positions that turn, heads that share
// keys and values, a network with a gate, one table for both ends. Here they are, one by one, and then all together,
// writing a story token by token. Without --weights the model is tiny and nobody has trained it.

#include "../lesson.hpp"

#include "attn/ops/activation.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/weights/llama_folder.hpp"
#include "attn/text/sampling.hpp"
#include "attn/trace_io/file.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

//! [tiny]
/// A decoder as nobody has trained it: two layers, four heads over two of keys and values, forty tokens.
LlamaWeights tiny_weights(std::size_t vocabulary)
{
    constexpr std::size_t d_model = 8, h_d_k = 8, g_d_k = 4, d_ff = 12;
    RandomNumbers numbers(28);
    const auto gain = [&] { return RmsNormWeights{1.0 + numbers.vector(d_model, 0.25)}; };
    LlamaWeights weights{numbers.matrix(vocabulary, d_model)};
    for (int i = 0; i < 2; ++i) {
        LlamaLayerWeights& layer = weights.layers.emplace_back();
        layer.self_attention.query.weight = numbers.matrix(d_model, h_d_k);
        layer.self_attention.key.weight = numbers.matrix(d_model, g_d_k);
        layer.self_attention.value.weight = numbers.matrix(d_model, g_d_k);
        layer.self_attention.output = {numbers.matrix(h_d_k, d_model)};
        layer.feed_forward.gate.weight = numbers.matrix(d_model, d_ff);
        layer.feed_forward.up.weight = numbers.matrix(d_model, d_ff);
        layer.feed_forward.down.weight = numbers.matrix(d_ff, d_model);
        layer.norm1 = gain();
        layer.norm2 = gain();
    }
    weights.norm = gain();
    return weights;
}
//! [tiny]

LlamaFolder tiny_model(const Lesson& lesson)
{
    Tokenizer tokenizer = read_tokenizer(lesson.file("tokens.json"));
    LlamaWeights weights = tiny_weights(tokenizer.size());
    return {std::move(weights), {.heads = 4}, std::move(tokenizer)};
}

Integers numbers_of(const std::vector<std::size_t>& ids)
{
    Integers numbers = xt::zeros<std::int64_t>({ids.size()});
    std::ranges::copy(ids, numbers.begin());
    return numbers;
}

std::string listed(const std::vector<std::size_t>& ids)
{
    std::string text;
    for (const std::size_t id : ids)
        text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
}

//! [norm]
/// Root mean square norm: layer norm without the mean and without the bias.
Matrix spelled_out_norm(const Trace& parts, const Matrix& x, const Vector& layer_gain)
{
    const Trace trace = parts.scope("norm", {{"x", "embedded"}});
    const Vector mean_square =
        trace("mean_square[n]", "mean(x ** 2, axis=-1)", mean_along(Matrix(x * x), 1));
    Matrix normalized = x;
    for (std::size_t token = 0; token < x.shape(0); ++token)
        xt::view(normalized, token, xt::all()) /= std::sqrt(mean_square(token) + 1e-5);
    normalized = trace("normalized[n, d_model]",
                       "x / sqrt(mean_square[..., None] + 1e-05)", normalized);
    const Vector gain = trace("gain[d_model]", "", layer_gain);
    return trace("output[n, d_model]", "normalized * gain", Matrix(normalized * gain));
}
//! [norm]

//! [network]
/// A network with a gate, SwiGLU: one product says how far each hidden unit opens, another what comes through.
Matrix spelled_out_network(const Trace& parts, const Matrix& x,
                           const GatedFeedForwardWeights& weights)
{
    const Trace trace = parts.scope("network", {{"x", "norm.output"}});
    const Matrix gate_weights =
        trace("gate_weights[d_model, d_ff]", "", weights.gate.weight);
    const Matrix gate =
        trace("gate[n, d_ff]", "x @ gate_weights", matmul(x, gate_weights));
    const Matrix activated =
        trace("activated[n, d_ff]", "gate * sigmoid(gate)", silu(gate));
    const Matrix up_weights = trace("up_weights[d_model, d_ff]", "", weights.up.weight);
    const Matrix up = trace("up[n, d_ff]", "x @ up_weights", matmul(x, up_weights));
    const Matrix gated =
        trace("gated[n, d_ff]", "activated * up", Matrix(activated * up));
    const Matrix down_weights =
        trace("down_weights[d_ff, d_model]", "", weights.down.weight);
    return trace("output[n, d_model]", "gated @ down_weights",
                 matmul(gated, down_weights));
}
//! [network]

void look_at_parts(Lesson& lesson, const LlamaFolder& model,
                   const std::vector<std::size_t>& prompt)
{
    const LlamaLayerWeights& layer = model.weights.layers.front();
    lesson.heading("2. The norm of today: no mean, no bias");
    const Matrix embedding =
        lesson.trace()("embedding[vocabulary, d_model]", "", model.weights.embedding);
    const Trace parts = lesson.trace().scope("parts");
    const Integers ids = parts("ids[n]", "", numbers_of(prompt));
    const Matrix embedded =
        parts("embedded[n, d_model]", "embedding[ids]", take_rows(embedding, ids));
    const Matrix normalized = spelled_out_norm(parts, embedded, layer.norm1.gain);
    lesson.expect_equal("rms_norm gives the same", normalized,
                        rms_norm(embedded, layer.norm1));

    lesson.heading(
        "3. The network of today: one product opens what another lets through");
    const Matrix fed = spelled_out_network(parts, normalized, layer.feed_forward);
    lesson.expect_equal("gated_feed_forward gives the same", fed,
                        gated_feed_forward(normalized, layer.feed_forward));

    //! [groups]
    lesson.heading("4. Heads share keys and values, so that a cache is smaller");
    const std::size_t heads = model.options.heads,
                      groups = key_value_heads(layer.self_attention, heads);
    std::vector<std::vector<double>> rows;
    for (std::size_t head = 0; head < heads; ++head)
        rows.push_back({double(head), double(head / (heads / groups))});
    lesson.table({"head", "looks at key/value head"}, rows);
    const std::size_t kept =
        model.weights.layers.size() * 2 * layer.self_attention.key.weight.shape(1);
    lesson.say("a token leaves " + std::to_string(kept) +
               " numbers in the cache; with keys and values of its own for "
               "each head it would leave " +
               std::to_string(kept * heads / groups));
    //! [groups]
}

/// The tokens so far, and the scores of what may follow each of them.
struct Story {
    std::vector<std::size_t> ids;
    Matrix logits;
};

//! [write]
/// Writes on: what the model has seen is in the cache, and only the newest token goes through it.
Story written(const Lesson& lesson, const LlamaFolder& model,
              const std::vector<std::size_t>& prompt, std::size_t steps)
{
    RandomNumbers chance(lesson.flag<std::optional<std::size_t>>("--seed").value_or(0));
    Story story{prompt, Matrix(Matrix::shape_type{0, model.tokenizer.size()})};
    LlamaCache cache;
    std::vector<std::size_t> next = prompt;
    for (std::size_t i = 0; i < steps; ++i) {
        if (lesson.flag<bool>("--without-cache")) { // everything anew
            cache = {};
            next = story.ids;
            story.logits = Matrix(Matrix::shape_type{0, model.tokenizer.size()});
        }
        const Trace unheard = lesson.unheard_trace().scope("step", i);
        LlamaStep step =
            llama(numbers_of(next), cache, model.weights, model.options, unheard);
        cache = std::move(step.cache);
        story.logits = concat_rows(story.logits, step.logits);
        const Vector last = xt::view(step.logits, step.logits.shape(0) - 1, xt::all());
        next = {sample(last, lesson.flag<double>("--temperature"), chance)};
        if (next.front() <= Tokenizer::end) // another text would begin
            break;
        story.ids.push_back(next.front());
    }
    return story;
}
//! [write]

void show(Lesson& lesson, const Tokenizer& tokenizer, const Story& story,
          std::size_t prompt)
{
    std::string labels;
    for (const std::size_t id : story.ids)
        labels += label_of(tokenizer, id) + "\n";
    lesson.say("tokens: " +
               listed({story.ids.begin() + std::ptrdiff_t(prompt), story.ids.end()}));
    lesson.say(shown(tokenizer.decode(story.ids)));
    if (const auto& file = lesson.flag<std::filesystem::path>("--tokens"); !file.empty())
        write_file(file, labels);
}

void teach(Lesson& lesson)
{
    //! [tokens]
    const auto& folder = lesson.flag<std::filesystem::path>("--weights");
    const bool is_tiny = folder.empty();
    const LlamaFolder model = is_tiny ? tiny_model(lesson) : read_llama_folder(folder);
    lesson.heading("1. Text becomes tokens: neighbours are joined, what has no token "
                   "becomes its bytes");
    const Tokenizer& tokenizer = model.tokenizer;
    for (const std::string text : {"the cat sat on", "the café"})
        lesson.say("\"" + text + "\": " + listed(tokenizer.encode(text)));
    const std::string& wanted = lesson.flag<std::string>("--prompt");
    const std::vector<std::size_t> prompt =
        tokenizer.encode(is_tiny && wanted.empty() ? "the cat sat on" : wanted);
    //! [tokens]

    look_at_parts(lesson, model, prompt);

    lesson.heading("5. Written token by token");
    const std::size_t steps =
        lesson.flag<std::optional<std::size_t>>("--steps").value_or(is_tiny ? 8 : 200);
    const Story story = written(lesson, model, prompt, steps);
    show(lesson, tokenizer, story, prompt.size());

    //! [pass]
    lesson.heading("6. All of it in one pass, without a cache");
    const Integers ids = lesson.input("ids[n]", numbers_of(story.ids));
    const Matrix logits = llama(ids, model.weights, model.options, lesson.trace());
    if (lesson.is_example()) {
        const Matrix seen =
            xt::view(logits, xt::range(std::size_t{0}, story.logits.shape(0)), xt::all());
        lesson.expect_equal(
            "each token's scores are those that it had when it was the newest", seen,
            story.logits);
    }
    //! [pass]
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run(
        "17_story", argc, argv, teach,
        {{"--weights", "DIR",
          "a model: config.json, one .npz or .safetensors, tok*.json; such as "
          "stories260K, "
          "published with llama2.c",
          std::filesystem::path{}},
         {"--prompt", "TEXT", "what the story begins with", std::string{}},
         {"--steps", "N", "tokens to write; 200 unless given, 8 by the tiny model",
          std::optional<std::size_t>{}},
         {"--temperature", "T",
          "0 for the likeliest token, 1 for chance as the model says", 0.0},
         {"--seed", "S", "of that chance; 0 unless given", std::optional<std::size_t>{}},
         {"--without-cache", "", "compute everything anew for each token", false},
         {"--tokens", "FILE", "write one token per line: labels for attn view",
          std::filesystem::path{}}});
}
