#include "attn/files/weights/state_dict.hpp"

#include "reference/layers/decoder_examples.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"
#include "files/weights/examples.hpp"

#include "attn/files/file.hpp"
#include "attn/files/weights/attention_variants.hpp"
#include "attn/files/weights/transformer.hpp"

#include <chrono>
#include <limits>

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

bool same_map(const LinearWeights& left, const LinearWeights& right)
{
    return same_bits(left.weight, right.weight) && left.bias.has_value() == right.bias.has_value() &&
           (!left.bias || same_bits(*left.bias, *right.bias));
}

bool same_norm(const LayerNormWeights& left, const LayerNormWeights& right)
{
    return same_bits(left.gain, right.gain) && left.bias.has_value() == right.bias.has_value() &&
           (!left.bias || same_bits(*left.bias, *right.bias));
}

bool same_attention(const MultiHeadWeights& left, const MultiHeadWeights& right)
{
    return same_map(left.query, right.query) && same_map(left.key, right.key) && same_map(left.value, right.value) &&
           left.output.has_value() == right.output.has_value() &&
           (!left.output || same_map(*left.output, *right.output)) && left.sinks == right.sinks &&
           left.gate.has_value() == right.gate.has_value() && (!left.gate || same_map(*left.gate, *right.gate));
}

bool same_layer(const EncoderLayerWeights& left, const EncoderLayerWeights& right)
{
    return same_attention(left.self_attention, right.self_attention) &&
           same_map(left.feed_forward.hidden, right.feed_forward.hidden) &&
           same_map(left.feed_forward.output, right.feed_forward.output) && same_norm(left.norm1, right.norm1) &&
           same_norm(left.norm2, right.norm2);
}

HeadSizes pytorch_sizes(std::size_t d_model, std::size_t d_memory, std::size_t d_value, bool is_biased = true)
{
    return {d_model, d_model, d_model, d_memory, d_value, true, is_biased};
}

/// What comes back from a file of that name.
NamedArrays through_file(const std::string& name, const NamedArrays& arrays)
{
    const TemporaryFolder folder;
    write_weights(folder / name, arrays);
    return read_weights(folder / name);
}

Array filled(const Shape& shape, double value = 0.5, ElementType type = ElementType::real)
{
    return {shape, std::vector<double>(element_count(shape), value), type};
}

/// An encoder layer with d_model 4 and d_ff 3.
NamedArrays small_layer()
{
    Numbers numbers(1);
    return state_dict(random_encoder_layer(numbers, 4, 3));
}

} // namespace

// ------------------------------------------------------------------------------------------------- there and back again

TEST_CASE("every function reads what state_dict writes, from either kind of file", "[weights]")
{
    const std::string file = GENERATE(as<std::string>{}, "w.npz", "w.safetensors");
    for (const bool is_biased : {true, false}) {
        CAPTURE(file, is_biased);
        Numbers numbers(2);
        const MultiHeadWeights packed = random_heads(numbers, pytorch_sizes(6, 6, 6, is_biased));
        CHECK(same_attention(load_weights<MultiHeadWeights>(through_file(file, state_dict(packed)), {{"d_model", 6}}),
                             packed));

        const MultiHeadWeights separate = random_heads(numbers, pytorch_sizes(6, 5, 3, is_biased));
        CHECK(same_attention(load_weights<MultiHeadWeights>(through_file(file, state_dict(separate)),
                                                            {{"d_model", 6}, {"d_memory", 5}, {"d_value", 3}}),
                             separate));

        const FeedForwardWeights fed = random_feed_forward(numbers, 6, 5, is_biased);
        const FeedForwardWeights fed_back =
            load_weights<FeedForwardWeights>(through_file(file, state_dict(fed)), {{"d_model", 6}});
        CHECK(same_map(fed_back.hidden, fed.hidden));
        CHECK(same_map(fed_back.output, fed.output));

        const LayerNormWeights norm = random_norm(numbers, 6, is_biased);
        CHECK(same_norm(load_weights<LayerNormWeights>(through_file(file, state_dict(norm)), {{"d_model", 6}}), norm));

        const EncoderLayerWeights layer = random_encoder_layer(numbers, 6, 5, is_biased);
        CHECK(same_layer(load_weights<EncoderLayerWeights>(through_file(file, state_dict(layer)), {{"d_model", 6}}),
                         layer));

        const TalkingHeadsWeights talking{packed, numbers.matrix(2, 5), numbers.matrix(5, 3)};
        const TalkingHeadsWeights talking_back =
            load_weights<TalkingHeadsWeights>(through_file(file, state_dict(talking)), {{"d_model", 6}});
        CHECK(same_attention(talking_back.maps, talking.maps));
        CHECK(same_bits(talking_back.scores, talking.scores));
        CHECK(same_bits(talking_back.weights, talking.weights));

        for (const bool has_norm : {true, false}) {
            EncoderWeights stack{{layer, random_encoder_layer(numbers, 6, 5, is_biased)}};
            if (has_norm)
                stack.norm = norm;
            const EncoderWeights back =
                load_weights<EncoderWeights>(through_file(file, state_dict(stack)), {{"d_model", 6}});
            REQUIRE(back.layers.size() == 2);
            CHECK(same_layer(back.layers[0], stack.layers[0]));
            CHECK(same_layer(back.layers[1], stack.layers[1]));
            REQUIRE(back.norm.has_value() == has_norm);
            CHECK((!has_norm || same_norm(*back.norm, norm)));
        }
    }
}

TEST_CASE("both kinds of file give the same arrays back", "[weights]")
{
    Numbers numbers(3);
    const NamedArrays arrays = state_dict(EncoderWeights{{random_encoder_layer(numbers)}, random_norm(numbers, 6)});
    CHECK(same(through_file("w.npz", arrays), arrays));
    CHECK(same(through_file("w.safetensors", arrays), arrays));
}

TEST_CASE("state_dict has PyTorch's names", "[weights]")
{
    Numbers numbers(4);
    const Names of_layer{"linear1.bias",
                         "linear1.weight",
                         "linear2.bias",
                         "linear2.weight",
                         "norm1.bias",
                         "norm1.weight",
                         "norm2.bias",
                         "norm2.weight",
                         "self_attn.in_proj_bias",
                         "self_attn.in_proj_weight",
                         "self_attn.out_proj.bias",
                         "self_attn.out_proj.weight"};
    CHECK(names_of(state_dict(random_encoder_layer(numbers))) == of_layer);
    CHECK(names_of(state_dict(random_norm(numbers, 3))) == Names{"bias", "weight"});
    CHECK(names_of(state_dict(random_norm(numbers, 3, false))) == Names{"weight"});
    CHECK(names_of(state_dict(random_feed_forward(numbers, 3, 4, false))) == Names{"linear1.weight", "linear2.weight"});
    CHECK(names_of(state_dict(random_heads(numbers, pytorch_sizes(6, 5, 3)))) ==
          Names{"in_proj_bias", "k_proj_weight", "out_proj.bias", "out_proj.weight", "q_proj_weight", "v_proj_weight"});
    Names of_stack;
    for (const std::string layer : {"layers.0.", "layers.1."})
        for (const std::string& name : of_layer)
            of_stack.insert(layer + name);
    const EncoderLayerWeights layer = random_encoder_layer(numbers);
    CHECK(names_of(state_dict(EncoderWeights{{layer, layer}})) == of_stack);
    of_stack.insert({"norm.weight", "norm.bias"});
    CHECK(names_of(state_dict(EncoderWeights{{layer, layer}, layer.norm1})) == of_stack);
}

TEST_CASE("a linear map's weight is stored as its transpose, and queries, keys and values below each other",
          "[weights]")
{
    Numbers numbers(5);
    const MultiHeadWeights weights = random_heads(numbers, pytorch_sizes(4, 4, 4));
    const NamedArrays arrays = state_dict(weights);
    const Array& packed = arrays.at("in_proj_weight");
    const Array& bias = arrays.at("in_proj_bias");
    REQUIRE(packed.shape == Shape{12, 4});
    REQUIRE(bias.shape == Shape{12});
    const LinearWeights* const maps[] = {&weights.query, &weights.key, &weights.value};
    for (std::size_t out = 0; out < 12; ++out) {
        const LinearWeights& map = *maps[out / 4];
        CHECK(bias.values[out] == (*map.bias)(out % 4));
        for (std::size_t in = 0; in < 4; ++in)
            CHECK(packed.values[out * 4 + in] == map.weight(in, out % 4));
    }
    const Array& output = arrays.at("out_proj.weight");
    CHECK(output.values[1] == weights.output->weight(1, 0));
    CHECK(state_dict(random_feed_forward(numbers, 4, 7)).at("linear1.weight").shape == Shape{7, 4});
}

TEST_CASE("heads that stay side by side may have any size, and have no out_proj", "[weights]")
{
    Numbers numbers(6);
    for (const bool is_biased : {true, false}) {
        const MultiHeadWeights weights = random_heads(numbers, {6, 4, 8, 5, 3, false, is_biased});
        NamedArrays arrays{{"q_proj_weight", to_array(transpose_by_hand(weights.query.weight))},
                           {"k_proj_weight", to_array(transpose_by_hand(weights.key.weight))},
                           {"v_proj_weight", to_array(transpose_by_hand(weights.value.weight))}};
        if (is_biased) {
            std::vector<double> bias;
            for (const LinearWeights* map : {&weights.query, &weights.key, &weights.value})
                bias.insert(bias.end(), map->bias->begin(), map->bias->end());
            arrays["in_proj_bias"] = {{16}, bias};
        }
        CHECK(same_attention(load_weights<MultiHeadWeights>(arrays, {{"d_model", 6}, {"d_memory", 5}, {"d_value", 3}},
                                                            {.has_output_map = false}),
                             weights));
        arrays["out_proj.weight"] = filled({6, 8});
        CHECK(complaint_of<MultiHeadWeights>(arrays, {{"d_model", 6}, {"d_memory", 5}, {"d_value", 3}},
                                             {.has_output_map = false}) ==
              "1 tensor does not fit a multi-head attention with d_memory 5, d_model 6, d_value 3:\n  out_proj.weight "
              "(6, 8) is not expected");
        CHECK_THROWS_AS(state_dict(weights), Error);
    }
}

TEST_CASE("the gate of heads is a map beside theirs", "[weights]")
{
    Numbers numbers(8);
    MultiHeadWeights weights = random_heads(numbers, pytorch_sizes(6, 6, 6));
    weights.gate = random_linear(numbers, 6, 6);
    const NamedArrays arrays = state_dict(weights);
    CHECK(arrays.at("g_proj.weight").shape == Shape{6, 6});
    CHECK(same_attention(load_weights<MultiHeadWeights>(arrays, {{"d_model", 6}}), weights));
}

TEST_CASE("sinks of heads are a tensor beside their maps", "[weights]")
{
    Numbers numbers(7);
    MultiHeadWeights weights = random_heads(numbers, pytorch_sizes(6, 6, 6));
    weights.sinks = numbers.vector(3);
    const NamedArrays arrays = state_dict(weights);
    CHECK(arrays.at("sinks").shape == Shape{3});
    CHECK(same_attention(load_weights<MultiHeadWeights>(arrays, {{"d_model", 6}}), weights));
    CHECK_THAT(complaint_of<MultiHeadWeights>(arrays, {{"d_model", 6}, {"h", 2}}),
               ContainsSubstring("sinks is (3,), expected (h,) = (2,)"));
}

TEST_CASE("a bias of heads side by side that is not as long as all three maps is refused", "[weights]")
{
    const NamedArrays arrays{{"q_proj_weight", filled({4, 6})},
                             {"k_proj_weight", filled({4, 6})},
                             {"v_proj_weight", filled({8, 6})},
                             {"in_proj_bias", filled({12})}};
    CHECK_THAT(complaint_of<MultiHeadWeights>(arrays, {{"d_model", 6}}, {.has_output_map = false}),
               ContainsSubstring("\n  in_proj_bias is (12,), expected (2*h_d_k + h_d_v,) = (16,)"));
}

TEST_CASE("weights that PyTorch's module has no place for are not written", "[weights]")
{
    Numbers numbers(7);
    CHECK_THROWS_WITH(state_dict(random_heads(numbers, {.h_d_k = 4, .h_d_v = 6})),
                      ContainsSubstring("it cannot hold these weights"));
    CHECK_THROWS_WITH(state_dict(random_heads(numbers, {.h_d_k = 6, .h_d_v = 8})),
                      ContainsSubstring("it cannot hold these weights"));
    MultiHeadWeights uneven = random_heads(numbers, pytorch_sizes(6, 6, 6));
    uneven.key.bias.reset();
    CHECK_THROWS_WITH(state_dict(uneven), ContainsSubstring("a bias for all of its maps or for none"));
}

TEST_CASE("a memory's sizes are d_model unless given, and a value's are the memory's", "[weights]")
{
    Numbers numbers(8);
    const NamedArrays narrow = state_dict(random_heads(numbers, pytorch_sizes(6, 5, 5)));
    CHECK_NOTHROW(load_weights<MultiHeadWeights>(narrow, {{"d_model", 6}, {"d_memory", 5}}));
    CHECK(complaint_of<MultiHeadWeights>(narrow, {{"d_model", 6}}) ==
          "2 tensors do not fit a multi-head attention with d_model 6:\n"
          "  k_proj_weight is (6, 5), expected (d_model, d_memory) = (6, 6)\n"
          "  v_proj_weight is (6, 5), expected (d_model, d_value) = (6, 6)");
}

// ------------------------------------------------------------------------------------------------------- what is wrong

TEST_CASE("a message about weights names each tensor, what it is and what was expected", "[weights]")
{
    NamedArrays arrays = small_layer();
    arrays["self_attn.in_proj_weight"] = filled({12, 5});
    arrays.erase("norm1.weight");
    CHECK(complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}}) ==
          "2 tensors do not fit an encoder layer with d_model 4:\n"
          "  self_attn.in_proj_weight is (12, 5), expected (3*d_model, d_model) = (12, 4)\n"
          "  norm1.weight is missing");
}

TEST_CASE("everything that does not fit is listed at once, in the order of the module", "[weights]")
{
    NamedArrays arrays = small_layer();
    arrays["self_attn.in_proj_bias"] = filled({4});
    arrays["self_attn.out_proj.weight"] = filled({4, 4}, 1, ElementType::integer);
    arrays["self_attn.out_proj.bias"] = filled({4}, 1, ElementType::boolean);
    arrays["linear1.bias"] = filled({3}, std::numeric_limits<double>::infinity());
    arrays.erase("linear2.weight");
    arrays["linear2.bias"] = filled({});
    arrays["norm1.weight"].values[2] = std::numeric_limits<double>::quiet_NaN();
    arrays["norm2.weight"] = filled({0});
    arrays["norm3.weight"] = filled({4});
    const std::string complaint = complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}});
    CHECK(complaint == "9 tensors do not fit an encoder layer with d_model 4:\n"
                       "  self_attn.in_proj_bias is (4,), expected (3*d_model,) = (12,)\n"
                       "  self_attn.out_proj.weight holds whole numbers, expected real numbers\n"
                       "  self_attn.out_proj.bias holds booleans, expected real numbers\n"
                       "  linear1.bias holds inf at (0,), expected finite numbers\n"
                       "  linear2.weight is missing\n"
                       "  linear2.bias is (), expected (d_model,) = (4,)\n"
                       "  norm1.weight holds nan at (2,), expected finite numbers\n"
                       "  norm2.weight is (0,), expected (d_model,) = (4,)\n"
                       "  norm3.weight (4,) is not expected");
}

TEST_CASE("a size that no tensor has decided yet is named by its letter", "[weights]")
{
    NamedArrays arrays = small_layer();
    arrays["linear1.weight"] = filled({12});
    CHECK_THAT(complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}}),
               ContainsSubstring("\n  linear1.weight is (12,), expected (d_ff, d_model)"));
    arrays = small_layer();
    arrays["linear2.weight"] = filled({4, 7});
    CHECK(complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}}) ==
          "1 tensor does not fit an encoder layer with d_model 4:\n"
          "  linear2.weight is (4, 7), expected (d_model, d_ff) = (4, 3)");
}

TEST_CASE("biases that PyTorch's modules have together are all there or none", "[weights]")
{
    using Names = std::vector<std::string>;
    for (const Names& alike : {Names{"norm1.bias", "norm2.bias"}, Names{"linear1.bias", "linear2.bias"},
                               Names{"self_attn.in_proj_bias", "self_attn.out_proj.bias"}}) {
        NamedArrays fewer = small_layer();
        for (const std::string& missing : alike) {
            NamedArrays one_missing = small_layer();
            one_missing.erase(missing);
            const std::string& there = alike[missing == alike[0] ? 1 : 0];
            CHECK(complaint_of<EncoderLayerWeights>(one_missing, {{"d_model", 4}}) ==
                  "1 tensor does not fit an encoder layer with d_model 4:\n  " + missing + " is missing, and " + there +
                      " is there: expected both or neither");
            fewer.erase(missing);
        }
        CHECK_NOTHROW(load_weights<EncoderLayerWeights>(fewer, {{"d_model", 4}}));
    }
    const NamedArrays layer = small_layer();
    NamedArrays stack; // a layer with biases, and one without
    for (const auto& [name, array] : layer) {
        stack["layers.0." + name] = array;
        if (!name.ends_with("bias"))
            stack["layers.1." + name] = array;
    }
    CHECK_NOTHROW(load_weights<EncoderWeights>(stack, {{"d_model", 4}}));
    stack["layers.1.norm1.bias"] = filled({4});
    CHECK_THAT(complaint_of<EncoderWeights>(stack, {{"d_model", 4}}),
               ContainsSubstring("\n  layers.1.norm2.bias is missing, and layers.1.norm1.bias is there"));
    std::erase_if(stack, [](const auto& entry) { return entry.first.ends_with("bias"); });
    stack["norm.weight"] = filled({4});
    stack["norm.bias"] = filled({4}); // the norm after the layers has one of its own
    CHECK_NOTHROW(load_weights<EncoderWeights>(stack, {{"d_model", 4}}));

    NamedArrays arrays = small_layer();
    std::erase_if(arrays, [](const auto& entry) { return entry.first.ends_with("bias"); });
    CHECK_NOTHROW(load_weights<EncoderLayerWeights>(arrays, {{"d_model", 4}}));
    arrays["linear1.bais"] = filled({3}); // but one that is misspelt is not lost in silence
    CHECK_THAT(complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}}),
               ContainsSubstring("linear1.bais (3,) is not expected"));
}

TEST_CASE("a transposed map is one tensor that does not fit, and looks transposed", "[weights]")
{
    for (const std::string name : {"linear1.weight", "linear2.weight"}) {
        NamedArrays arrays = small_layer(); // d_ff is 3
        std::swap(arrays[name].shape[0], arrays[name].shape[1]);
        const std::string axes = name == "linear1.weight" ? "(d_ff, d_model) = (3, 4)" : "(d_model, d_ff) = (4, 3)";
        CHECK(complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}}) ==
              "1 tensor does not fit an encoder layer with d_model 4:\n  " + name + " is " +
                  to_string(arrays[name].shape) + ", expected " + axes + ": it looks transposed");
    }
}

TEST_CASE("each reader says which module its weights are not of", "[weights]")
{
    const NamedArrays none;
    CHECK(complaint_of<LayerNormWeights>(none, {{"d_model", 4}}) ==
          "1 tensor does not fit a layer norm with d_model 4:\n  weight is missing");
    CHECK(complaint_of<FeedForwardWeights>(none, {{"d_model", 4}}) ==
          "2 tensors do not fit a feed-forward network with d_model 4:\n"
          "  linear1.weight is missing\n  linear2.weight is missing");
    CHECK(complaint_of<MultiHeadWeights>(none, {{"d_model", 4}}) ==
          "2 tensors do not fit a multi-head attention with d_model 4:\n"
          "  in_proj_weight is missing\n  out_proj.weight is missing");
    CHECK(complaint_of<TalkingHeadsWeights>(none, {{"d_model", 4}}) ==
          "4 tensors do not fit a talking-heads attention with d_model 4:\n"
          "  in_proj_weight is missing\n  out_proj.weight is missing\n"
          "  talking_scores is missing\n  talking_weights is missing");
    CHECK_THAT(complaint_of<EncoderWeights>(none, {{"d_model", 4}}),
               ContainsSubstring("not fit an encoder with d_model 4:\n  layers.0.self_attn.in_proj_weight is missing"));
    CHECK_THAT(complaint_of<EncoderLayerWeights>(state_dict(LayerNormWeights{Vector{1, 1, 1, 1}}), {{"d_model", 4}}),
               ContainsSubstring("\n  weight (4,) is not expected"));
}

TEST_CASE("an encoder has as many layers as its weights, and another number of layers is refused", "[weights]")
{
    Numbers numbers(9);
    const EncoderLayerWeights layer = random_encoder_layer(numbers, 4, 3, false);
    const NamedArrays three = state_dict(EncoderWeights{{layer, layer, layer}});
    CHECK(load_weights<EncoderWeights>(three, {{"d_model", 4}}).layers.size() == 3);
    CHECK(load_weights<EncoderWeights>(three, {{"d_model", 4}}, {.layers = 3}).layers.size() == 3);
    CHECK_THAT(complaint_of<EncoderWeights>(three, {{"d_model", 4}}, {.layers = 2}),
               ContainsSubstring("6 tensors") && ContainsSubstring("layers.2.linear1.weight (3, 4) is not expected"));
    CHECK_THAT(complaint_of<EncoderWeights>(three, {{"d_model", 4}}, {.layers = 4}),
               ContainsSubstring("6 tensors") && ContainsSubstring("layers.3.linear1.weight is missing"));
    // Without its middle layer, what follows is not taken for it.
    NamedArrays gap = three;
    std::erase_if(gap, [](const auto& entry) { return entry.first.starts_with("layers.1."); });
    CHECK_THAT(complaint_of<EncoderWeights>(gap, {{"d_model", 4}}),
               ContainsSubstring("layers.2.linear1.weight (3, 4) is not expected"));
}

TEST_CASE("layers of an encoder may differ in d_ff, and in whether they have biases", "[weights]")
{
    Numbers numbers(10);
    EncoderWeights weights{{random_encoder_layer(numbers, 4, 3), random_encoder_layer(numbers, 4, 5)}};
    weights.norm = {numbers.vector(4), numbers.vector(4)};
    NamedArrays arrays = state_dict(weights);
    std::erase_if(arrays, [](const auto& entry) {
        return entry.first.starts_with("layers.0.") && entry.first.ends_with("bias");
    });
    const EncoderWeights read = load_weights<EncoderWeights>(arrays, {{"d_model", 4}});
    CHECK(read.layers[1].feed_forward.hidden.weight.shape(1) == 5);
    CHECK_FALSE(read.layers[0].norm1.bias.has_value());
    CHECK(read.layers[1].norm1.bias.has_value());
    CHECK(read.norm->bias.has_value());

    arrays.erase("layers.1.norm1.weight");
    CHECK_THAT(complaint_of<EncoderWeights>(arrays, {{"d_model", 4}}),
               ContainsSubstring("layers.1.norm1.weight is missing"));
}

TEST_CASE("a hostile name is made printable", "[weights][hostile]")
{
    NamedArrays arrays = small_layer();
    arrays["\x1b[2Jevil\nname\t\x7f\xff"] = filled({1});
    arrays[std::string(100'000, 'x')] = filled({1});
    const std::string complaint = complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}});
    CHECK_THAT(complaint, ContainsSubstring("2 tensors do not fit") && ContainsSubstring("evil"));
    CHECK(std::ranges::count(complaint, '\n') == 2);
    CHECK(std::ranges::none_of(complaint, [](unsigned char c) { return (c < ' ' && c != '\n') || c == 0x7f; }));
    CHECK(complaint.size() < 2000);
}

TEST_CASE("100,000 unexpected tensors give a short message within ten seconds", "[weights][hostile]")
{
    NamedArrays arrays = small_layer();
    for (int i = 0; i < 100'000; ++i)
        arrays["tensor" + std::to_string(i)] = filled({1});
    const auto begin = std::chrono::steady_clock::now();
    const std::string complaint = complaint_of<EncoderLayerWeights>(arrays, {{"d_model", 4}});
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    CHECK(complaint.size() < 10'000);
    CHECK_THAT(complaint, ContainsSubstring("100000 tensors do not fit") && ContainsSubstring("\n  and 99900 more"));
}

// --------------------------------------------------------------------------------------------------------------- files

TEST_CASE("a prefix takes the tensors of one part of a larger model, without it", "[weights]")
{
    Numbers numbers(11);
    const EncoderLayerWeights layer = random_encoder_layer(numbers, 4, 3);
    NamedArrays larger{{"head.weight", filled({2, 4})}, {"encoder", filled({1})}};
    for (const auto& [name, array] : state_dict(layer))
        larger["encoder." + name] = array;
    for (const std::string file : {"w.npz", "w.safetensors"}) {
        CAPTURE(file);
        const TemporaryFolder folder;
        write_weights(folder / file, larger);
        CHECK(same(read_weights(folder / file), larger));
        CHECK(same(read_weights(folder / file, "encoder."), state_dict(layer)));
        CHECK(same_layer(load_weights<EncoderLayerWeights>(read_weights(folder / file, "encoder."), {{"d_model", 4}}),
                         layer));
        CHECK_THROWS_AS(read_weights(folder / file, "decoder."), FileError);
        CHECK_THROWS_WITH(read_weights(folder / file, "decoder."),
                          ContainsSubstring((folder / file).string()) &&
                              ContainsSubstring("no tensor whose name begins with \"decoder.\""));
    }
}

TEST_CASE("a file of weights is read and written only if its name ends in .safetensors or .npz", "[weights]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "model.pt", "PK");
    for (const std::string name : {"model.pt", "model", "model.npz.bin", "model.NPZ", ".npz"}) {
        CAPTURE(name);
        CHECK_THROWS_AS(read_weights(folder / name), FileError);
        CHECK_THROWS_WITH(read_weights(folder / name), ContainsSubstring("neither .safetensors nor .npz by its name"));
        CHECK_THROWS_AS(write_weights(folder / name, small_layer()), FileError);
    }
    CHECK(folder.count() == 1);
}

TEST_CASE("a damaged or missing file of weights is a file error that names it", "[weights]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "w.npz", "no zip");
    put_bytes(folder / "w.safetensors", "no safetensors");
    for (const std::string name : {"w.npz", "w.safetensors", "missing.npz", "missing.safetensors"}) {
        CHECK_THROWS_AS(read_weights(folder / name), FileError);
        CHECK_THROWS_WITH(read_weights(folder / name), ContainsSubstring((folder / name).string()));
    }
}

TEST_CASE("the same weights give the same bytes", "[weights]")
{
    const TemporaryFolder folder;
    for (const std::string ending : {".npz", ".safetensors"}) {
        write_weights(folder / ("a" + ending), small_layer());
        write_weights(folder / ("b" + ending), small_layer());
        CHECK(bytes_of(folder / ("a" + ending)) == bytes_of(folder / ("b" + ending)));
    }
}

TEST_CASE("decoders and Transformers come back from a file as they were written, under PyTorch's names",
          "[weights][decoder]")
{
    const std::string file = GENERATE(as<std::string>{}, "w.npz", "w.safetensors");
    for (const bool is_biased : {true, false}) {
        CAPTURE(file, is_biased);
        Numbers numbers(21);
        const auto same_decoder_layer = [](const DecoderLayerWeights& left, const DecoderLayerWeights& right) {
            return same_attention(left.self_attention, right.self_attention) &&
                   same_attention(left.cross_attention, right.cross_attention) &&
                   same_map(left.feed_forward.hidden, right.feed_forward.hidden) &&
                   same_map(left.feed_forward.output, right.feed_forward.output) &&
                   same_norm(left.norm1, right.norm1) && same_norm(left.norm2, right.norm2) &&
                   same_norm(left.norm3, right.norm3);
        };
        const DecoderLayerWeights layer = random_decoder_layer(numbers, 6, 5, is_biased);
        CHECK(same_decoder_layer(
            load_weights<DecoderLayerWeights>(through_file(file, state_dict(layer)), {{"d_model", 6}}), layer));

        DecoderWeights stack{{layer, random_decoder_layer(numbers, 6, 3, is_biased)}, random_norm(numbers, 6)};
        const DecoderWeights back =
            load_weights<DecoderWeights>(through_file(file, state_dict(stack)), {{"d_model", 6}}, {.layers = 2});
        REQUIRE(back.layers.size() == 2);
        CHECK(same_decoder_layer(back.layers[0], layer));
        CHECK(same_decoder_layer(back.layers[1], stack.layers[1]));
        REQUIRE(back.norm.has_value());
        CHECK(same_norm(*back.norm, *stack.norm));

        const TransformerWeights whole{{{random_encoder_layer(numbers, 6, 5, is_biased)}}, stack};
        const TransformerWeights both =
            load_weights<TransformerWeights>(through_file(file, state_dict(whole)), {{"d_model", 6}});
        REQUIRE(both.encoder.layers.size() == 1);
        REQUIRE(both.decoder.layers.size() == 2);
        CHECK(same_layer(both.encoder.layers[0], whole.encoder.layers[0]));
        CHECK(same_decoder_layer(both.decoder.layers[0], layer));
        CHECK(same_norm(*both.decoder.norm, *stack.norm));
        CHECK_FALSE(both.encoder.norm.has_value());
    }
    Numbers numbers(22);
    const Names names = names_of(state_dict(random_transformer(numbers, 1, true)));
    for (const char* name :
         {"encoder.layers.0.self_attn.in_proj_weight", "decoder.layers.0.self_attn.in_proj_bias",
          "decoder.layers.0.multihead_attn.in_proj_weight", "decoder.layers.0.multihead_attn.out_proj.bias",
          "decoder.layers.0.norm3.weight", "encoder.norm.weight", "decoder.norm.bias"})
        CHECK(names.contains(name));
    CHECK(names.size() == 12 + 18 + 4);
}

TEST_CASE("an encoder layer's weights do not fit a decoder layer, and what is missing is named", "[weights][decoder]")
{
    Numbers numbers(23);
    const NamedArrays encoder = state_dict(random_encoder_layer(numbers, 4, 3, false));
    CHECK(complaint_of<DecoderLayerWeights>(encoder, {{"d_model", 4}}) ==
          "3 tensors do not fit a decoder layer with d_model 4:\n"
          "  multihead_attn.in_proj_weight is missing\n"
          "  multihead_attn.out_proj.weight is missing\n"
          "  norm3.weight is missing");
    NamedArrays whole = state_dict(random_transformer(numbers, 2, false, 4));
    CHECK(load_weights<TransformerWeights>(whole, {{"d_model", 4}}).decoder.layers.size() == 2);
    CHECK_THAT(
        complaint_of<TransformerWeights>(whole, {{"d_model", 4}}, {.layers = 3}),
        ContainsSubstring("a Transformer with d_model 4:\n  encoder.layers.2.self_attn.in_proj_weight is missing"));
    whole["decoder.layers.0.norm3.bias"] = filled({3});
    CHECK_THAT(complaint_of<TransformerWeights>(whole, {{"d_model", 4}}),
               ContainsSubstring("decoder.layers.0.norm3.bias is (3,), expected (d_model,) = (4,)"));
    CHECK_THAT(complaint_of<DecoderWeights>({}, {{"d_model", 4}}),
               ContainsSubstring("not fit a decoder with d_model 4:\n  layers.0.self_attn.in_proj_weight is missing"));
}
