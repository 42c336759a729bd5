// What is recorded of weights, and counting them. The totals are PyTorch's: sum(p.numel() for p in module.parameters()).

#include "attn/files/weights/visit.hpp"

#include "reference/layers/decoder_examples.hpp"
#include "files/weights/examples.hpp"

#include "attn/files/weights/attention_variants.hpp"
#include "attn/files/weights/recurrent.hpp"
#include "attn/files/weights/transformer.hpp"

#include <vector>

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

/// "weight (2, 3) 6", a line per tensor.
std::vector<std::string> lines_of(const std::vector<Parameter>& parameters)
{
    std::vector<std::string> lines;
    for (const Parameter& parameter : parameters)
        lines.push_back(parameter.name + " " + to_string(parameter.shape) + " " + std::to_string(parameter.count()));
    return lines;
}

MultiHeadWeights heads_of(std::size_t d_model, std::size_t d_memory, std::size_t d_value, bool is_biased = true)
{
    Numbers numbers(1);
    return random_heads(numbers, {d_model, d_model, d_model, d_memory, d_value, true, is_biased});
}

LinearWeights zero_map(std::size_t d_in, std::size_t d_out)
{
    return {xt::zeros<double>({d_in, d_out}), xt::zeros<double>({d_out})};
}

/// nn.TransformerDecoderLayer(512, 8)
DecoderLayerWeights paper_layer()
{
    const LinearWeights square = zero_map(512, 512);
    const MultiHeadWeights heads{square, square, square, square};
    const LayerNormWeights norm{Vector(xt::ones<double>({512})), Vector(xt::zeros<double>({512}))};
    return {heads, heads, {zero_map(512, 2048), zero_map(2048, 512)}, norm, norm, norm};
}

} // namespace

TEST_CASE("parameters have PyTorch's names, shapes and order", "[weights][parameters]")
{
    CHECK(lines_of(parameters(heads_of(6, 5, 3))) ==
          std::vector<std::string>{"q_proj_weight (6, 6) 36", "k_proj_weight (6, 5) 30", "v_proj_weight (6, 3) 18",
                                   "in_proj_bias (18,) 18", "out_proj.weight (6, 6) 36", "out_proj.bias (6,) 6"});
    Numbers numbers(2);
    CHECK(lines_of(parameters(random_encoder_layer(numbers, 6, 5))) ==
          std::vector<std::string>{"self_attn.in_proj_weight (18, 6) 108", "self_attn.in_proj_bias (18,) 18",
                                   "self_attn.out_proj.weight (6, 6) 36", "self_attn.out_proj.bias (6,) 6",
                                   "linear1.weight (5, 6) 30", "linear1.bias (5,) 5", "linear2.weight (6, 5) 30",
                                   "linear2.bias (6,) 6", "norm1.weight (6,) 6", "norm1.bias (6,) 6",
                                   "norm2.weight (6,) 6", "norm2.bias (6,) 6"});
    CHECK(lines_of(parameters(random_recurrent(numbers, 3, 2, 3, 1, true, false))) ==
          std::vector<std::string>{"weight_ih_l0 (6, 3) 18", "weight_hh_l0 (6, 2) 12", "weight_ih_l0_reverse (6, 3) 18",
                                   "weight_hh_l0_reverse (6, 2) 12"});
}

TEST_CASE("totals are PyTorch's", "[weights][parameters]")
{
    Numbers numbers(3);
    CHECK(total(parameters(heads_of(6, 6, 6))) == 168);
    CHECK(total(parameters(heads_of(6, 6, 6, false))) == 144);
    CHECK(total(parameters(heads_of(6, 5, 3))) == 144);
    CHECK(total(parameters(random_encoder_layer(numbers, 6, 5))) == 263);
    CHECK(total(parameters(random_decoder_layer(numbers, 6, 5))) == 443);
    CHECK(total(parameters(random_transformer(numbers, 2, true))) == 1436);
    CHECK(total(parameters(random_recurrent(numbers, 3, 2, 3))) == 42);
    CHECK(total(parameters(random_recurrent(numbers, 3, 2, 3, 2, true))) == 180);
    CHECK(total(parameters(random_recurrent(numbers, 3, 2, 4, 3))) == 152);
    CHECK(total(parameters(random_recurrent(numbers, 3, 2, 4, 1, false, false))) == 40);
    CHECK(total({}) == 0);
}

TEST_CASE("the Transformer of the paper has 44,140,544 parameters", "[weights][parameters]")
{
    const DecoderLayerWeights layer = paper_layer();
    const EncoderLayerWeights encoder_layer{layer.self_attention, layer.feed_forward, layer.norm1, layer.norm2};
    CHECK(total(parameters(encoder_layer)) == 3'152'384); // nn.TransformerEncoderLayer(512, 8)
    CHECK(total(parameters(layer)) == 4'204'032);         // nn.TransformerDecoderLayer(512, 8)
    const TransformerWeights one{{{encoder_layer}, layer.norm1}, {{layer}, layer.norm1}};
    CHECK(total(parameters(one)) + 5 * 3'152'384 + 5 * 4'204'032 == 44'140'544); // nn.Transformer()
}

TEST_CASE("what is counted is what is saved", "[weights][parameters]")
{
    Numbers numbers(4);
    const auto check = [](const auto& weights) {
        const NamedArrays saved = state_dict(weights);
        const std::vector<Parameter> counted = parameters(weights);
        CHECK(counted.size() == saved.size());
        for (const Parameter& parameter : counted) {
            CAPTURE(parameter.name);
            REQUIRE(saved.contains(parameter.name));
            CHECK(saved.at(parameter.name).shape == parameter.shape);
        }
    };
    check(random_transformer(numbers, 2, true));
    check(TranslatorWeights{numbers.matrix(7, 6), random_transformer(numbers, 1, false)});
    check(TalkingHeadsWeights{heads_of(6, 6, 6), numbers.matrix(2, 5), numbers.matrix(5, 3)});
    check(random_recurrent(numbers, 3, 2, 4, 2, true));
}

TEST_CASE("weights without a place in PyTorch's module are counted all the same", "[weights][parameters]")
{
    Numbers numbers(5);
    const MultiHeadWeights side_by_side = random_heads(numbers, {6, 4, 8, 5, 3, false, true});
    CHECK(lines_of(parameters(side_by_side)) ==
          std::vector<std::string>{"q_proj_weight (4, 6) 24", "k_proj_weight (4, 5) 20", "v_proj_weight (8, 3) 24",
                                   "in_proj_bias (16,) 16"});
}

TEST_CASE("a visitor changes the weights themselves, every number of them once", "[weights][visit]")
{
    Numbers numbers(6);
    TransformerWeights weights = random_transformer(numbers, 2, true);
    const NamedArrays before = state_dict(weights);
    std::size_t changed = 0;
    visit(weights, "", [&changed](const WeightTensor&, auto&... parts) {
        ((parts += 1), ...);
        changed += (parts.size() + ...);
    });
    CHECK(changed == total(parameters(weights)));
    for (const auto& [name, array] : state_dict(weights))
        for (std::size_t i = 0; i < array.size(); ++i)
            REQUIRE(array.values[i] == before.at(name).values[i] + 1);
}

TEST_CASE("a visitor gets each name after the prefix, and the sizes in letters", "[weights][visit]")
{
    std::vector<std::string> visited;
    const MultiHeadWeights weights = heads_of(6, 6, 6);
    visit(weights, "decoder.self_attn.", [&visited](const WeightTensor& tensor, const auto&... parts) {
        std::string line = tensor.name + " of " + std::to_string(sizeof...(parts)) + ":";
        for (const std::string& axis : tensor.axes)
            line += " " + axis;
        visited.push_back(line + (tensor.is_transposed ? ", transposed" : ""));
    });
    CHECK(visited == std::vector<std::string>{"decoder.self_attn.in_proj_weight of 3: 3*d_model d_model, transposed",
                                              "decoder.self_attn.in_proj_bias of 3: 3*d_model",
                                              "decoder.self_attn.out_proj.weight of 1: d_model d_model, transposed",
                                              "decoder.self_attn.out_proj.bias of 1: d_model"});
}

namespace {

/// A model of somebody else's.
struct ClassifierWeights {
    EncoderWeights encoder;
    LinearWeights head;
    std::optional<LinearWeights> other_head = {};
};

void visit(Either<ClassifierWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.encoder, prefix + "encoder.", f);
    visit(w.head, prefix + "head.", f, "d_model", "classes");
    begin_part(f, w.other_head, prefix + "other_head.");
    if (w.other_head)
        visit(*w.other_head, prefix + "other_head.", f, "d_model", "other_classes");
}

} // namespace

TEST_CASE("a struct of one's own is loaded, saved and counted by its visitor alone", "[weights][visit]")
{
    Numbers numbers(7);
    ClassifierWeights weights{{{random_encoder_layer(numbers, 6, 5)}, {}}, random_linear(numbers, 6, 3)};
    NamedArrays arrays = state_dict(weights);
    const ClassifierWeights back = load_weights<ClassifierWeights>(arrays, {{"d_model", 6}});
    CHECK(same(state_dict(back), arrays));
    CHECK(same_bits(back.head.weight, weights.head.weight));
    CHECK_FALSE(back.other_head.has_value());
    CHECK(total(parameters(weights)) == 263 + 21);

    weights.other_head = random_linear(numbers, 6, 4, false); // one part without biases, another with them
    const ClassifierWeights both = load_weights<ClassifierWeights>(state_dict(weights), {{"d_model", 6}});
    CHECK(same(state_dict(both), state_dict(weights)));
    CHECK_FALSE(both.other_head.value().bias.has_value());

    arrays["head.bias"] = {{4}, {1, 2, 3, 4}};
    CHECK(complaint_of<ClassifierWeights>(arrays, {{"d_model", 6}}) ==
          "1 tensor does not fit these weights with d_model 6:\n"
          "  head.bias is (4,), expected (classes,) = (3,)");
}

TEST_CASE("a mixture of experts is loaded and saved under its names, each expert as large as it is", "[weights][visit]")
{
    Numbers numbers(8);
    ExpertsWeights weights = random_experts(numbers, 4, 3, 2);
    weights.experts[1] = random_gated_feed_forward(numbers, 4, 5, true);
    weights.shared_expert = random_gated_feed_forward(numbers, 4, 7);
    const NamedArrays arrays = state_dict(weights);
    Names names{"router.weight", "router.e_score_correction_bias", "shared_expert_gate.weight"};
    for (const std::string network : {"experts.0", "experts.1", "shared_expert"})
        for (const std::string map : {"gate_proj", "up_proj", "down_proj"}) {
            names.insert(network + "." + map + ".weight");
            if (network == "experts.1")
                names.insert(network + "." + map + ".bias");
        }
    CHECK(names_of(arrays) == names);
    CHECK(arrays.at("router.weight").shape == Shape{2, 4});
    CHECK(same(state_dict(load_weights<ExpertsWeights>(arrays, {{"d_model", 4}})), arrays));
    CHECK(same(state_dict(load_weights<ExpertsWeights>(arrays, {{"d_model", 4}}, {.layers = 6})), arrays));

    const NamedArrays bare = state_dict(random_experts(numbers, 4, 3, 2, false));
    CHECK(same(state_dict(load_weights<ExpertsWeights>(bare, {{"d_model", 4}})), bare));

    NamedArrays wrong = bare;
    wrong["router.e_score_correction_bias"] = {{3}, {1, 2, 3}};
    wrong.erase("experts.1.up_proj.weight");
    CHECK(complaint_of<ExpertsWeights>(wrong, {{"d_model", 4}}) ==
          "2 tensors do not fit a mixture of experts with d_model 4:\n"
          "  router.e_score_correction_bias is (3,), expected (experts,) = (2,)\n"
          "  experts.1.up_proj.weight is missing");
}
