#include "attn/core/recording.hpp"

#include "../reference/layers/examples.hpp"
#include "../test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/reference/layers/encoder.hpp"

using namespace attn;
using namespace attn::test;

namespace {

Recording given()
{
    Recording recording;
    for (const char* path : {"x", "self_attn.head.0.weights", "self_attn.head.1.weights", "output"})
        recording.steps.emplace_back().path = path;
    recording.aliases = {{"norm.x", "output"}, {"lost", "nothing"}};
    return recording;
}

} // namespace

TEST_CASE("a recording finds a step by its path, and by its other names", "[recording]")
{
    const Recording recording = given();
    CHECK(recording.find("x") == &recording.steps[0]);
    CHECK(&recording.at("self_attn.head.1.weights") == &recording.steps[2]);
    CHECK(&recording.at("norm.x") == &recording.steps[3]);
    CHECK(recording.find("weights") == nullptr);
    CHECK(recording.find("lost") == nullptr);
    CHECK(recording.find("") == nullptr);
}

TEST_CASE("a step that a recording lacks is an error that says which names are similar", "[recording]")
{
    const Recording recording = given();
    CHECK_THROWS_AS(recording.at("head.1.weights"), Error);
    CHECK_THROWS_WITH(recording.at("head.1.weights"), "no step is called head.1.weights; did you mean "
                                                      "self_attn.head.1.weights or self_attn.head.0.weights?");
    CHECK_THROWS_WITH(recording.at("ouput"), "no step is called ouput; did you mean output?");
    CHECK_THROWS_WITH(recording.at("loss.of.what"), "no step is called loss.of.what");
    CHECK_THROWS_WITH(Recording{}.at("x"), "no step is called x");
}

TEST_CASE("the attention weights of an encoder layer are steps of its recording, as its page says", "[recording]")
{
    Numbers numbers(1);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    const EncoderOptions options{.attention = {.heads = 2}};
    const Matrix x = numbers.matrix(4, 6);
    const Tensor3 batch = numbers.tensor3(2, 4, 6);
    Recorder of_one, of_batch;
    encoder_layer(x, weights, options, Trace(of_one));
    encoder_layer(batch, weights, options, Trace(of_batch));
    const MultiHead expected = multi_head_attention(x, weights.self_attention, options.attention);
    const BatchMultiHead expected_of_batch = multi_head_attention(batch, weights.self_attention, options.attention);
    for (std::size_t head = 0; head < 2; ++head) {
        const std::string path = "self_attn.head." + std::to_string(head) + ".weights";
        CHECK(identical(of_one.recording().at(path).value, to_array(expected.weights[head])));
        CHECK(identical(of_batch.recording().at(path).value, to_array(expected_of_batch.weights[head])));
    }
}
