// The ways back that are written by hand in float32, against the gradients that follow from the formulas of the traced model.

#include "engines/train/examples.hpp"

#include "test.hpp"

#include "attn/engines/train/batches.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::train;
using namespace attn::test;

TEST_CASE("the decoder's float32 gradient of every weight is that of its formulas, padding and all", "[train]")
{
    Numbers numbers(2);
    for (const double smoothing : {0.0, 0.1})
        for (const auto& [vocabulary, d_model, d_ff, layers, heads] :
             {std::array<std::size_t, 5>{7, 6, 5, 2, 3}, {23, 4, 9, 1, 1}, {5, 16, 3, 3, 2}}) {
            CAPTURE(smoothing, d_model, layers, heads);
            const GptWeights weights = random_decoder(numbers, vocabulary, d_model, d_ff, layers);
            const std::vector<Text> texts = random_texts(numbers, 15, vocabulary);
            const TextBatch batch = batch_of(texts);
            const GptOptions model{.heads = heads};
            Recorder forward;
            const Trace trace(forward);
            const Tensor3 logits = gpt(batch.ids, {}, weights, model, trace);
            cross_entropy(logits, batch.targets, {smoothing}, trace);
            CHECK(verify(forward.recording()).passed());
            const auto expected = gradient_by_formulas(forward, weights);

            GptTrainer trainer(weights, {.model = model, .label_smoothing = smoothing, .threads = 2});
            const auto [error, where] = worst_difference(trainer.gradient(texts), expected);
            CAPTURE(where);
            CHECK(error < 1e-5);
            const double plain = cross_entropy(logits, batch.targets);
            CHECK(std::abs(trainer.evaluate(texts) - plain) < 1e-5 * plain);
        }
}

TEST_CASE("one thread and several give the same numbers, and so does training that was interrupted", "[train]")
{
    Numbers numbers(3);
    const GptWeights decoder = random_decoder(numbers);
    const std::vector<Text> texts = random_texts(numbers, 40, 7);
    const auto trained = [&](std::size_t threads, std::size_t interruption) {
        const GptTrainingOptions options{.model = {.heads = 3}, .threads = threads};
        auto trainer = std::make_unique<GptTrainer>(decoder, options);
        std::vector<double> losses;
        for (std::size_t step = 0; step < 20; ++step) {
            if (step == interruption) {
                const AdamState state = trainer->state();
                trainer = std::make_unique<GptTrainer>(decoder, options);
                trainer->restore(state);
            }
            losses.push_back(trainer->step(std::span(texts).subspan(step, 20)));
        }
        return std::pair(losses, trainer->state().weights);
    };
    const auto one = trained(1, 100);
    CHECK(trained(4, 100) == one);
    CHECK(trained(1, 7) == one);
}

TEST_CASE("a training that learns has a lower loss in the end", "[train]")
{
    Numbers numbers(4);
    const std::vector<Text> texts(4, Text{1, 2, 3, 4, 5, 6});
    GptTrainer trainer(random_decoder(numbers), {.model = {.heads = 2}, .rate = [](std::uint64_t) { return 0.01; }});
    const double first = trainer.step(texts);
    for (int i = 0; i < 200; ++i)
        trainer.step(texts);
    CHECK(trainer.evaluate(texts) < 0.05 * first);
}

TEST_CASE("a trainer refuses what it can't train, and names it", "[train]")
{
    Numbers numbers(5);
    GptWeights decoder = random_decoder(numbers);
    GptTrainer of_texts(decoder, {.model = {.heads = 2}});
    CHECK_THROWS_WITH(of_texts.step(std::vector<Text>{{1}}),
                      ContainsSubstring("text 0 has 0 ids that predict another, expected from 1 to 8"));
    CHECK_THROWS_WITH(of_texts.step(std::vector<Text>{{1, 7}}), ContainsSubstring("text 0 has the id 7"));
    CHECK_THROWS_WITH(of_texts.step(std::vector<Text>{}), ContainsSubstring("there is no text"));
    GptWeights with_norms = decoder;
    with_norms.layers[1].self_attention.query_norms = {{numbers.vector(4)}};
    const Mask all(Mask::shape_type{4, 4}, true);
    CHECK_THROWS_WITH(GptTrainer(decoder, {.model = {.heads = 2, .mask = all}}), ContainsSubstring("a mask is given"));
    CHECK_THROWS_WITH(GptTrainer(with_norms, {.model = {.heads = 2}}),
                      ContainsSubstring("heads share keys and values, have norms or sinks, or"));
    GptWeights with_sinks = decoder;
    with_sinks.layers[1].self_attention.sinks = numbers.vector(2);
    CHECK_THROWS_WITH(GptTrainer(with_sinks, {.model = {.heads = 2}}), ContainsSubstring("have norms or sinks, or"));
    GptWeights gated = decoder;
    gated.layers[1].self_attention.gate = gated.layers[1].self_attention.value;
    CHECK_THROWS_WITH(GptTrainer(gated, {.model = {.heads = 2}}), ContainsSubstring("or have a gate or a size"));
    decoder.layers[1].norm2.bias.reset();
    CHECK_THROWS_WITH(GptTrainer(decoder, {.model = {.heads = 2}}), ContainsSubstring("a bias is missing"));
}
