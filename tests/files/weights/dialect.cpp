// Weights under the names, and in the layouts, of other families. What PyTorch computes from them: oracle/names_of_others.py.

#include "attn/files/weights/dialect.hpp"

#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/reference/layers/activation.hpp"

#include "examples.hpp"
#include "generators.hpp"
#include "reference/layers/examples.hpp"
#include "renamed.hpp"
#include "caught.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

const std::vector<std::pair<std::string, std::string>> of_gpt2{{"token_embedding", "transformer.wte"},
                                                               {"position_embedding", "transformer.wpe"},
                                                               {"layers.", "transformer.h."},
                                                               {"self_attn.in_proj_", "attn.c_attn."},
                                                               {"self_attn.out_proj", "attn.c_proj"},
                                                               {"linear1", "mlp.c_fc"},
                                                               {"linear2", "mlp.c_proj"},
                                                               {"norm1", "ln_1"},
                                                               {"norm2", "ln_2"}};

GptWeights small_model()
{
    Numbers numbers(1);
    GptWeights weights{numbers.matrix(7, 4), numbers.matrix(9, 4)};
    for (int i = 0; i < 2; ++i)
        weights.layers.push_back(random_encoder_layer(numbers, 4, 6));
    weights.norm = random_norm(numbers, 4);
    return weights;
}

NamedArrays nano_gpt(const GptWeights& weights)
{
    NamedArrays arrays = renamed(state_dict(weights), of_gpt2);
    for (const std::string part : {"weight", "bias"}) {
        arrays["transformer.ln_f." + part] = arrays.at("norm." + part);
        arrays.erase("norm." + part);
    }
    return arrays;
}

/// Maps as Hugging Face's Conv1D has them, (in, out).
NamedArrays gpt2(const GptWeights& weights)
{
    NamedArrays arrays = nano_gpt(weights);
    for (auto& [name, array] : arrays)
        if (name.find(".c_") != std::string::npos && array.rank() == 2)
            array = to_array(transpose(from_array<Matrix>(array)));
    arrays["transformer.h.0.attn.bias"] = {{1, 1, 9, 9}, std::vector<double>(81, 1), ElementType::boolean};
    arrays["transformer.h.0.attn.masked_bias"] = {{}, {-1e4}};
    return arrays;
}

std::string complaint_about(const NamedArrays& arrays)
{
    return caught<WeightsError>([&] { gpt_weights(arrays); });
}

} // namespace

TEST_CASE("a GPT is the same under GPT-2's names, nanoGPT's and PyTorch's", "[weights][dialect]")
{
    const GptWeights weights = small_model();
    const Matrix expected = gpt(Integers{1, 5, 2}, weights, {.heads = 2});
    for (const NamedArrays& arrays : {state_dict(weights), nano_gpt(weights), gpt2(weights)})
        CHECK(same_bits(gpt(Integers{1, 5, 2}, gpt_weights(arrays).weights, {.heads = 2}), expected));
    CHECK(gpt_weights(gpt2(weights)).activation == Activation::gelu_tanh);
    CHECK(gpt_weights(nano_gpt(weights)).activation == Activation::gelu);
    CHECK_FALSE(gpt_weights(state_dict(weights)).activation.has_value());
    NamedArrays tied = gpt2(weights);
    tied["lm_head.weight"] = tied.at("transformer.wte.weight");
    CHECK_FALSE(gpt_weights(tied).weights.output.has_value());
}

TEST_CASE("without biases, as nanoGPT can be, maps and norms have none", "[weights][dialect]")
{
    NamedArrays arrays = nano_gpt(small_model());
    std::erase_if(arrays, [](const auto& entry) { return entry.first.ends_with("bias"); });
    const GptWeights weights = gpt_weights(arrays).weights;
    CHECK_FALSE(weights.norm.bias.has_value());
    CHECK_FALSE(weights.layers[1].self_attention.key.bias.has_value());
    CHECK(dialect_of(arrays).family == "nanoGPT's");
}

TEST_CASE("what does not fit is named as the file names it, in the file's layout", "[weights][dialect]")
{
    NamedArrays arrays = gpt2(small_model());
    arrays["transformer.h.0.mlp.c_fc.weight"] = {{6, 4}, std::vector<double>(24, 1)};
    arrays.erase("transformer.h.1.ln_1.weight");
    arrays["transformer.h.1.attn.c_atn.bias"] = {{12}, std::vector<double>(12, 1)};
    CHECK_THAT(complaint_about(arrays),
               ContainsSubstring("3 tensors do not fit a decoder like GPT-2 under GPT-2's names") &&
                   ContainsSubstring("\n  transformer.h.0.mlp.c_fc.weight is (6, 4), expected (d_model, d_ff)") &&
                   ContainsSubstring("\n  transformer.h.1.ln_1.weight is missing") &&
                   ContainsSubstring("\n  transformer.h.1.attn.c_atn.bias (12,) is not expected"));
}

TEST_CASE("a name is translated part by part, and never inside a part", "[weights][dialect]")
{
    const Dialect dialect{.names = {{"layers.", "h."}, {"norm.", "ln_f."}, {"self_attn.in_proj_", "attn.c_attn."}}};
    CHECK(dialect.theirs("layers.10.self_attn.in_proj_weight") == "h.10.attn.c_attn.weight");
    CHECK(dialect.theirs("norm.bias") == "ln_f.bias");
    CHECK(dialect.theirs("layers.0.final_norm.bias") == "h.0.final_norm.bias");
    CHECK(dialect.theirs("layers.0.") == "h.0.");
    CHECK(dialect.theirs("").empty());
    CHECK(Dialect{}.theirs("layers.0.norm1.weight") == "layers.0.norm1.weight");
}

TEST_CASE("packed maps can be of heads that share keys and values, or have a size of their own", "[weights][dialect]")
{
    Numbers numbers(2);
    const Matrix all = numbers.matrix(20, 6), output = numbers.matrix(6, 12); // 4 heads of 3, 4 rows are left for each
    const NamedArrays arrays{{"in_proj_weight", to_array(all)}, {"out_proj.weight", to_array(output)}};
    const auto weights = load_weights<MultiHeadWeights>(arrays, {{"d_model", 6}});
    CHECK(shape_of(weights.query.weight) == Shape{6, 12});
    CHECK(shape_of(weights.key.weight) == Shape{6, 4});
    CHECK(weights.value.weight(0, 3) == all(19, 0));
    CHECK(weights.key.weight(5, 0) == all(12, 5));
}

TEST_CASE("packed maps or an output map that is no matrix says nothing of other sizes, and is refused",
          "[weights][dialect]")
{
    const auto filled = [](const Shape& shape) { return Array{shape, std::vector<double>(element_count(shape), 1)}; };
    const auto load = [&](const Shape& packed, const Shape& output) {
        return load_weights<MultiHeadWeights>({{"in_proj_weight", filled(packed)}, {"out_proj.weight", filled(output)}},
                                              {{"d_model", 6}});
    };
    const std::string refused = "2 tensors do not fit a multi-head attention with d_model 6:\n";
    CHECK_THROWS_WITH(load({20}, {6, 12}), refused +
                                               "  in_proj_weight is (20,), expected (3*d_model, d_model) = (18, 6)\n"
                                               "  out_proj.weight is (6, 12), expected (d_model, d_model) = (6, 6)");
    CHECK_THROWS_WITH(load({20, 6}, {6}), refused +
                                              "  in_proj_weight is (20, 6), expected (3*d_model, d_model) = (18, 6)\n"
                                              "  out_proj.weight is (6,), expected (d_model, d_model) = (6, 6)");
}

TEST_CASE("weights with mixed biases, norms or shared heads are counted under names of linear maps",
          "[weights][dialect]")
{
    Numbers numbers(3);
    MultiHeadWeights weights{{numbers.matrix(6, 8), numbers.vector(8)},
                             {numbers.matrix(6, 4)},
                             {numbers.matrix(6, 4)},
                             LinearWeights{numbers.matrix(8, 6)}};
    weights.query_norms = {{numbers.vector(4)}};
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters(weights))
        names.push_back(parameter.name + " " + to_string(parameter.shape));
    CHECK(names == std::vector<std::string>{"q_proj.weight (8, 6)", "q_proj.bias (8,)", "k_proj.weight (4, 6)",
                                            "v_proj.weight (4, 6)", "q_norm.weight (4,)", "out_proj.weight (6, 8)"});
}
