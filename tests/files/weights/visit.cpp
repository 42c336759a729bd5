// What is recorded of weights, and counting them. The totals are PyTorch's: sum(p.numel() for p in module.parameters()).

#include "attn/files/weights/visit.hpp"

#include "reference/layers/decoder_examples.hpp"
#include "files/weights/examples.hpp"

#include "attn/files/weights/attention_variants.hpp"
#include "attn/files/weights/gated_delta_net.hpp"
#include "attn/files/weights/latent_attention.hpp"
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

TEST_CASE("a latent attention is loaded and saved under the names of Hugging Face's DeepSeek", "[weights][visit]")
{
    Numbers numbers(9);
    LatentAttentionWeights weights{{numbers.matrix(3, 12)},
                                   {random_linear(numbers, 4, 7), {numbers.vector(5)}},
                                   {numbers.matrix(5, 14)},
                                   random_linear(numbers, 6, 4),
                                   LatentWeights{random_linear(numbers, 4, 3), {numbers.vector(3)}}};
    const NamedArrays arrays = state_dict(weights);
    CHECK(names_of(arrays) == Names{"q_a_proj.weight", "q_a_proj.bias", "q_a_layernorm.weight", "q_b_proj.weight",
                                    "kv_a_proj_with_mqa.weight", "kv_a_proj_with_mqa.bias", "kv_a_layernorm.weight",
                                    "kv_b_proj.weight", "o_proj.weight", "o_proj.bias"});
    CHECK(arrays.at("kv_a_proj_with_mqa.weight").shape == Shape{7, 4});
    CHECK(same(state_dict(load_weights<LatentAttentionWeights>(arrays, {{"d_model", 4}})), arrays));

    weights.query_latent.reset();
    weights.query = {numbers.matrix(4, 12)};
    NamedArrays direct = state_dict(weights);
    CHECK(direct.contains("q_proj.weight"));
    CHECK(same(state_dict(load_weights<LatentAttentionWeights>(direct, {{"d_model", 4}})), direct));

    direct["kv_a_layernorm.weight"] = {{4}, {1, 2, 3, 4}};
    direct.erase("o_proj.weight");
    CHECK(complaint_of<LatentAttentionWeights>(direct, {{"d_model", 4}}) ==
          "2 tensors do not fit a latent attention with d_model 4:\n"
          "  kv_b_proj.weight is (14, 5), expected (h_d_n_v, d_c)\n"
          "  o_proj.weight is missing");
}

namespace {

/// One head of keys for two of values; the numbers say the row.
GatedDeltaNetWeights numbered_delta_net()
{
    const auto map = [](double first, std::size_t out) {
        Matrix weight(Matrix::shape_type{4, out});
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t j = 0; j < out; ++j)
                weight(i, j) = first + static_cast<double>(j);
        return LinearWeights{weight};
    };
    Numbers numbers(10);
    return {.query = map(10, 4),
            .key = map(20, 4),
            .value = map(30, 12),
            .gate = map(50, 12),
            .beta = map(70, 4),
            .decay = map(80, 4),
            .kernel = numbers.tensor3(20, 1, 3),
            .dt_bias = numbers.vector(4),
            .a_log = numbers.vector(4),
            .norm = {numbers.vector(3)},
            .output = {numbers.matrix(12, 4)}};
}

/// A tensor whose rows have those numbers.
Array rows_numbered(const std::vector<double>& rows)
{
    Array array{.shape = {rows.size(), 4}, .values = {}};
    for (const double row : rows)
        array.values.insert(array.values.end(), 4, row);
    return array;
}

} // namespace

TEST_CASE("a gated DeltaNet is loaded and saved with a tensor for each map, or with packed ones, group by group",
          "[weights][visit]")
{
    const GatedDeltaNetWeights weights = numbered_delta_net(); // two heads of keys, four of values
    const NamedArrays arrays = state_dict(weights);
    CHECK(names_of(arrays) == Names{"in_proj_q.weight", "in_proj_k.weight", "in_proj_v.weight", "in_proj_z.weight",
                                    "in_proj_b.weight", "in_proj_a.weight", "conv1d.weight", "dt_bias", "A_log",
                                    "norm.weight", "out_proj.weight"});
    CHECK(arrays.at("conv1d.weight").shape == Shape{20, 1, 3});
    CHECK(same(state_dict(load_weights<GatedDeltaNetWeights>(arrays, {{"d_model", 4}})), arrays));
    CHECK(same(delta_net_unpacked(arrays, std::optional<std::size_t>()), arrays));

    NamedArrays packed = arrays, below = arrays;
    for (const char* map : {"q", "k", "v", "z", "b", "a"})
        packed.erase(std::string("in_proj_") + map + ".weight");
    packed["in_proj_qkvz.weight"] = rows_numbered({10, 11, 20, 21, 30, 31, 32, 33, 34, 35, 50, 51, 52, 53, 54, 55, //
                                                   12, 13, 22, 23, 36, 37, 38, 39, 40, 41, 56, 57, 58, 59, 60, 61});
    packed["in_proj_ba.weight"] = rows_numbered({70, 71, 80, 81, 72, 73, 82, 83});
    CHECK(same(delta_net_unpacked(packed, 2), arrays));
    for (const char* map : {"q", "k", "v"})
        below.erase(std::string("in_proj_") + map + ".weight");
    below["in_proj_qkv.weight"] =
        rows_numbered({10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41});
    CHECK(same(delta_net_unpacked(below, 2), arrays));

    CHECK_THROWS_WITH(delta_net_unpacked(packed, 3),
                      ContainsSubstring("conv1d.weight has 20 filters, expected 2 * 3 * "
                                        "d_k for queries and keys, and 4 * 3 for values"));
    CHECK_THROWS_WITH(delta_net_unpacked(packed, DeltaNetHeads{4, 3, 2, 3}),
                      ContainsSubstring("4 heads of values can't be divided evenly among 3 heads of keys"));
    CHECK_THROWS_WITH(delta_net_unpacked(packed, DeltaNetHeads{4, 2, 3, 3}),
                      ContainsSubstring("in_proj_qkvz.weight is (32, 4), expected 36 rows: 2 times 18"));
    packed["in_proj_k.weight"] = arrays.at("in_proj_k.weight");
    CHECK_THROWS_WITH(delta_net_unpacked(packed, 2),
                      ContainsSubstring("holds in_proj_k.weight, which is there by itself, too"));
    CHECK_THROWS_WITH(delta_net_unpacked(packed, std::optional<std::size_t>()),
                      ContainsSubstring("say how many heads of queries and keys there are"));
    packed.erase("A_log");
    CHECK_THROWS_WITH(delta_net_unpacked(packed, 2), ContainsSubstring("A_log is missing"));
}
