// Lesson 17: from 2017 to today, with a model that writes.
//
// First the small model of the lessons writes a story, greedily and at two temperatures,
// and byte pairs are learned from a short text. Then the parts that have replaced those
// of 2017: root mean square norm, rotary positions, shared keys and values, a
// feed-forward network with a gate, one table for both ends. At last all of them
// together, in a model of today's kind that writes token by token with a cache. Without
// --weights that model is tiny and untrained.

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "byte_pairs.hpp"

#include "attn/engines/fast/llama.hpp"
#include "attn/files/file.hpp"
#include "attn/files/weights/llama_folder.hpp"
#include "attn/reference/models/gpt.hpp"
#include "attn/reference/models/sampling.hpp"
#include "attn/reference/ops/concat.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace attn;

namespace {

/// The tokens so far, and the logits of what can follow each of them.
struct Story {
    std::vector<std::size_t> ids;
    Matrix logits;
};

void expect_fast_alone(const Lesson& lesson);
void tell(Lesson& lesson, const SmallModel& model);
files::LlamaFolder tiny_model(const Lesson& lesson);
void look_at_parts(Lesson& lesson, const files::LlamaFolder& model,
                   const std::vector<std::size_t>& prompt);
Story written(const Lesson& lesson, const files::LlamaFolder& model,
              const std::vector<std::size_t>& prompt, std::size_t steps);
Story written_fast(Lesson& lesson, const files::LlamaFolder& model,
                   const std::vector<std::size_t>& prompt, std::size_t steps);
void show_story(Lesson& lesson, const files::Tokenizer& tokenizer, const Story& story,
                std::size_t prompt);
Integers numbers_of(const std::vector<std::size_t>& ids);
std::string listed(const std::vector<std::size_t>& ids);

void teach(Lesson& lesson)
{
    const bool is_fast = lesson.flag<bool>("--fast");
    if (is_fast)
        expect_fast_alone(lesson);
    lesson.heading("1. The small model writes a story, at three temperatures");
    tell(lesson, small_model());

    lesson.heading("2. Byte pairs are learned from a short text");
    learn_byte_pairs(lesson, " the red ball the red hat the ball", 6);

    lesson.heading("3. Text becomes tokens");
    const auto& folder = lesson.flag<std::filesystem::path>("--weights");
    const bool is_tiny = folder.empty();
    const files::LlamaFolder model =
        is_tiny ? tiny_model(lesson) : files::read_llama_folder(folder);
    const files::Tokenizer& tokenizer = model.tokenizer;
    //! [tokens]
    for (const std::string text : {"the cat sat on", "the café"})
        lesson.say("\"" + text + "\": " + listed(tokenizer.encode(text)));
    //! [tokens]
    const std::string& wanted = lesson.flag<std::string>("--prompt");
    const std::vector<std::size_t> prompt =
        tokenizer.encode(is_tiny && wanted.empty() ? "the cat sat on" : wanted);

    look_at_parts(lesson, model, prompt);

    lesson.heading("7. Written token by token, with a cache");
    const std::size_t steps =
        lesson.flag<std::optional<std::size_t>>("--steps").value_or(is_tiny ? 8 : 200);
    const Story story = is_fast ? written_fast(lesson, model, prompt, steps)
                                : written(lesson, model, prompt, steps);
    show_story(lesson, tokenizer, story, prompt.size());

    lesson.heading("8. The same text in one pass, without a cache");
    //! [pass]
    const Term ids = lesson.input("ids[n]", numbers_of(story.ids));
    const Matrix logits = llama(*ids, model.weights, model.options, lesson.trace());
    //! [pass]
    if (lesson.is_example() && !is_fast)
        lesson.expect_equal("each token's logits are those computed with the cache",
                            slice(Term(logits), 0, story.logits.shape(0)), story.logits);
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

// ----------------------------------------------------------- 1. a story, and temperature

/// Continues a text of the small model to the end of its story.
Integers continued(const Trace& unrecorded, const SmallModel& model, double temperature)
{
    const Integers prompt = model.ids(sentence());
    std::vector<std::size_t> ids(prompt.begin(), prompt.end());
    RandomNumbers numbers(7);
    constexpr std::size_t end = 0; // the id of <end>
    //! [continue]
    while (ids.back() != end && ids.size() < model.weights.position_embedding.shape(0)) {
        const Trace step = unrecorded.scope("step", ids.size());
        const Matrix logits = gpt(numbers_of(ids), model.weights, model.options, step);
        const Vector last = xt::row(logits, ids.size() - 1);
        ids.push_back(sample(last, temperature, numbers));
    }
    //! [continue]
    return numbers_of(ids);
}

/// How the words after the lessons' sentence are scored, and what temperatures make of
/// the scores.
void show_temperature(Lesson& lesson, const Term<Matrix>& all_logits)
{
    const std::size_t place = words_of(sentence()).size() - 1;
    const Trace trace = lesson.trace().scope("temperature");
    const Term logits = trace("logits[vocabulary]", row(all_logits, place));
    const Term temperatures = trace.given("temperatures[t]", Vector{0.25, 0.5, 1, 2, 4});
    //! [temperature]
    const Term divided = trace("divided[t, vocabulary]", logits / each_row(temperatures));
    const Term probabilities = trace("probabilities[t, vocabulary]", softmax(divided));
    //! [temperature]
    std::vector<std::vector<double>> rows;
    for (std::size_t t = 0; t < temperatures.size(); ++t)
        rows.push_back({(*temperatures)(t), (*probabilities)(t, argmax(*logits))});
    lesson.table({"temperature", "probability of the likeliest word"}, rows);
}

/// The rest of the lessons' sentence at three temperatures.
void tell(Lesson& lesson, const SmallModel& model)
{
    const Vector temperatures{0, 1, 3};
    for (std::size_t i = 0; i < temperatures.size(); ++i) {
        const Trace written = lesson.trace().scope("written", i);
        const double temperature = written("temperature", "", temperatures(i));
        const Trace unrecorded = lesson.unrecorded_trace().scope("small_model", i);
        const Integers ids =
            written("ids[n]", "", continued(unrecorded, model, temperature));
        const Term logits = written.given(
            "logits[n, vocabulary]", gpt(ids, model.weights, model.options, unrecorded));
        lesson.say("at temperature " + std::to_string(static_cast<int>(temperature)) +
                   ": " + model.words(ids));
        if (i == 0)
            show_temperature(lesson, logits);
    }
}

// ------------------------------------------------------------------- 3. a model of today

//! [tiny]
/// An untrained decoder: two layers, four heads over two of keys and values, forty
/// tokens.
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

files::LlamaFolder tiny_model(const Lesson& lesson)
{
    files::Tokenizer tokenizer = files::read_tokenizer(lesson.file("tokens.json"));
    LlamaWeights weights = tiny_weights(tokenizer.size());
    return {std::move(weights), {.heads = 4}, std::move(tokenizer)};
}

/// Root mean square norm: layer norm without the mean and without the bias.
Term<Matrix> spelled_out_norm(const Trace& parts, const Term<Matrix>& embedded,
                              const Vector& layer_gain)
{
    const Trace trace = parts.scope("norm");
    const Term x = trace.alias("x", embedded);
    //! [norm]
    const Term mean_square = trace("mean_square[n]", mean_along(square(x), -1));
    const Term normalized =
        trace("normalized[n, d_model]", x / sqrt(column(mean_square) + 1e-5));
    //! [norm]
    const Term gain = trace.given("gain[d_model]", layer_gain);
    return trace("output[n, d_model]", normalized * gain);
}

/// The gated feed-forward network SwiGLU: each hidden unit is multiplied by a gate.
Term<Matrix> spelled_out_network(const Trace& parts, const Term<Matrix>& normalized,
                                 const GatedFeedForwardWeights& weights)
{
    const Trace trace = parts.scope("network");
    const Term x = trace.alias("x", normalized);
    const Term gate_weights =
        trace.given("gate_weights[d_model, d_ff]", weights.gate.weight);
    //! [gate]
    const Term gate = trace("gate[n, d_ff]", matmul(x, gate_weights));
    const Term activated = trace("activated[n, d_ff]", gate * sigmoid(gate));
    //! [gate]
    const Term up_weights = trace.given("up_weights[d_model, d_ff]", weights.up.weight);
    //! [up]
    const Term up = trace("up[n, d_ff]", matmul(x, up_weights));
    const Term gated = trace("gated[n, d_ff]", activated * up);
    //! [up]
    const Term down_weights =
        trace.given("down_weights[d_ff, d_model]", weights.down.weight);
    return trace("output[n, d_model]", matmul(gated, down_weights));
}

/// What each part has and stores, in 2017's form and in today's: for this model, and for
/// the sizes of Llama 3 8B.
void count_sizes(Lesson& lesson, const LlamaWeights& weights, std::size_t own_heads,
                 std::size_t own_groups)
{
    const LlamaLayerWeights& layer = weights.layers.front();
    const Trace sizes = lesson.trace().scope("sizes");
    const auto given = [&](std::string_view name, std::size_t own, std::int64_t llama3) {
        return sizes(name, "", Integers{static_cast<std::int64_t>(own), llama3});
    };
    const Integers d_model = given("d_model[models]", weights.embedding.shape(1), 4096);
    const Integers heads = given("heads[models]", own_heads, 32);
    const Integers groups = given("groups[models]", own_groups, 8);
    const Integers d_k =
        given("d_k[models]", layer.self_attention.query.weight.shape(1) / own_heads, 128);
    const Integers d_ff =
        given("d_ff[models]", layer.feed_forward.up.weight.shape(1), 14336);
    const Integers layers = given("layers[models]", weights.layers.size(), 32);
    const Integers vocabulary =
        given("vocabulary[models]", weights.embedding.shape(0), 128256);

    //! [cache]
    const Integers own_each = sizes("cache_2017[models]", "2 * layers * heads * d_k",
                                    Integers(2 * layers * heads * d_k));
    const Integers shared = sizes("cache_today[models]", "2 * layers * groups * d_k",
                                  Integers(2 * layers * groups * d_k));
    //! [cache]
    // Of 8,192 tokens, two bytes for each number.
    std::ignore = sizes("gib_2017[models]", "cache_2017 * 8192 * 2 / 2 ** 30",
                        Vector(own_each * 8192.0 * 2.0 / 0x1p30));
    std::ignore = sizes("gib_today[models]", "cache_today * 8192 * 2 / 2 ** 30",
                        Vector(shared * 8192.0 * 2.0 / 0x1p30));
    const Integers norms = sizes("norm_biases[models]", "(2 * layers + 1) * d_model",
                                 Integers((2 * layers + 1) * d_model));
    const Integers biases =
        sizes("biases[models]", "layers * (3 * heads * d_k + d_ff + 2 * d_model)",
              Integers(layers * (3 * heads * d_k + d_ff + 2 * d_model)));
    const Integers two =
        sizes("network_2017[models]", "2 * d_model * d_ff", Integers(2 * d_model * d_ff));
    const Integers three = sizes("network_today[models]", "3 * d_model * d_ff",
                                 Integers(3 * d_model * d_ff));
    const Integers table =
        sizes("table[models]", "vocabulary * d_model", Integers(vocabulary * d_model));
    for (std::size_t i = 0; i < 2; ++i)
        lesson.table(
            {i == 0 ? "this model: numbers per token in the cache, 2017"
                    : "Llama 3 8B: numbers per token in the cache, 2017",
             "today", "biases of norms", "other biases", "network, 2017", "today",
             "embedding table"},
            {{double(own_each(i)), double(shared(i)), double(norms(i)), double(biases(i)),
              double(two(i)), double(three(i)), double(table(i))}});
}

void look_at_parts(Lesson& lesson, const files::LlamaFolder& model,
                   const std::vector<std::size_t>& prompt)
{
    const LlamaLayerWeights& layer = model.weights.layers.front();
    lesson.heading("4. Root mean square norm: no mean, no bias");
    const Term embedding =
        lesson.trace().given("embedding[vocabulary, d_model]", model.weights.embedding);
    const Trace parts = lesson.trace().scope("parts");
    const Term ids = parts.given("ids[n]", numbers_of(prompt));
    const Term embedded = parts("embedded[n, d_model]", take_rows(embedding, ids));
    const Term normalized = spelled_out_norm(parts, embedded, layer.norm1.gain);
    // How much of each token's mean square its mean makes up: all that layer norm would
    // take away.
    std::ignore = parts("mean_share[n]", square(mean_along(embedded, 1)) /
                                             mean_along(embedded * embedded, 1));
    lesson.expect_equal("rms_norm gives the same", normalized,
                        rms_norm(*embedded, layer.norm1));

    lesson.heading("5. SwiGLU: a feed-forward network with a gate");
    const Term fed = spelled_out_network(parts, normalized, layer.feed_forward);
    lesson.expect_equal("gated_feed_forward gives the same", fed,
                        gated_feed_forward(*normalized, layer.feed_forward));

    lesson.heading("6. Heads share keys and values, so that the cache is smaller");
    const std::size_t heads = model.options.heads,
                      groups = key_value_heads(layer.self_attention, heads);
    std::vector<std::vector<double>> rows;
    for (std::size_t head = 0; head < heads; ++head)
        rows.push_back({double(head), double(head / (heads / groups))});
    lesson.table({"head", "uses key/value head"}, rows);
    count_sizes(lesson, model.weights, heads, groups);
}

/// Continues the text with a cache: in each step only the newest token is computed.
Story written(const Lesson& lesson, const files::LlamaFolder& model,
              const std::vector<std::size_t>& prompt, std::size_t steps)
{
    RandomNumbers chance(lesson.flag<std::optional<std::size_t>>("--seed").value_or(0));
    Story story{prompt, Matrix(Matrix::shape_type{0, model.tokenizer.size()})};
    LlamaCache cache;
    std::vector<std::size_t> next = prompt;
    for (std::size_t i = 0; i < steps; ++i) {
        if (lesson.flag<bool>("--without-cache")) { // compute everything again
            cache = {};
            next = story.ids;
            story.logits = Matrix(Matrix::shape_type{0, model.tokenizer.size()});
        }
        const Trace unrecorded = lesson.unrecorded_trace().scope("step", i);
        //! [write]
        LlamaStep step =
            llama(numbers_of(next), cache, model.weights, model.options, unrecorded);
        cache = std::move(step.cache);
        story.logits = concat_rows(story.logits, step.logits);
        const Vector last = xt::view(step.logits, step.logits.shape(0) - 1, xt::all());
        next = {sample(last, lesson.flag<double>("--temperature"), chance)};
        //! [write]
        if (next.front() <= files::Tokenizer::end) // another text would begin
            break;
        story.ids.push_back(next.front());
    }
    return story;
}

/// The same in float32, for speed: no step is named, and the logits are not kept.
Story written_fast(Lesson& lesson, const files::LlamaFolder& model,
                   const std::vector<std::size_t>& prompt, std::size_t steps)
{
    RandomNumbers chance(lesson.flag<std::optional<std::size_t>>("--seed").value_or(0));
    Story story{prompt, {}};
    const auto begin = std::chrono::steady_clock::now();
    const fast::PackedLlama weights(model.weights);
    fast::LlamaCache cache(prompt.size() + steps);
    fast::Workspace workspace;
    std::vector<std::int64_t> next(prompt.begin(), prompt.end());
    for (std::size_t i = 0; i < steps; ++i) {
        std::vector<float> logits(next.size() * weights.vocabulary);
        fast::llama(next, cache, weights, model.options, logits, workspace);
        Vector last(Vector::shape_type{weights.vocabulary});
        std::copy(logits.end() - std::ptrdiff_t(last.size()), logits.end(), last.begin());
        const std::size_t id = sample(last, lesson.flag<double>("--temperature"), chance);
        next = {static_cast<std::int64_t>(id)};
        if (id <= files::Tokenizer::end) // another text would begin
            break;
        story.ids.push_back(id);
    }
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - begin;
    const double written = double(story.ids.size() - prompt.size());
    lesson.say(std::to_string(std::llround(written / seconds.count())) +
               " tokens per second");
    return story;
}

void show_story(Lesson& lesson, const files::Tokenizer& tokenizer, const Story& story,
                std::size_t prompt)
{
    std::string labels;
    for (const std::size_t id : story.ids)
        labels += files::label_of(tokenizer, id) + "\n";
    lesson.say("tokens: " +
               listed({story.ids.begin() + std::ptrdiff_t(prompt), story.ids.end()}));
    lesson.say(tokenizer.decode(story.ids));
    if (const auto& file = lesson.flag<std::filesystem::path>("--tokens"); !file.empty())
        files::write_file(file, labels);
}

/// @throws Error where --fast stands beside a flag that has no effect then
void expect_fast_alone(const Lesson& lesson)
{
    if (lesson.flag<bool>("--without-cache"))
        throw Error("--fast has a cache, and --without-cache is given, too");
    if (lesson.is_altered())
        throw Error("--fast names no steps that --round, --ablate or --pitfall change");
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
          "0 for the likeliest token, 1 for the model's own probabilities", 0.0},
         {"--seed", "S", "of the random choice; 0 unless given",
          std::optional<std::size_t>{}},
         {"--without-cache", "", "compute everything again for each token", false},
         {"--fast", "", "write in float32, for speed, and print the tokens per second",
          false},
         {"--tokens", "FILE", "write one token per line: labels for attn view",
          std::filesystem::path{}}});
}
