// attn run llama and attn run keras-attention, as a user runs them.

#include "cli/desk.hpp"
#include "files/weights/renamed.hpp"

#include "attn/files/trace_file.hpp"
#include "attn/files/weights/llama.hpp"
#include "attn/files/weights/state_dict.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

LlamaWeights decoder(bool has_output = false)
{
    Numbers numbers(1);
    LlamaWeights weights{numbers.matrix(5, 6)};
    LlamaLayerWeights& layer = weights.layers.emplace_back();
    layer.norm1 = {numbers.vector(6)};
    layer.self_attention = {
        {numbers.matrix(6, 16)}, {numbers.matrix(6, 8)}, {numbers.matrix(6, 8)}, LinearWeights{numbers.matrix(16, 6)}};
    layer.norm2 = {numbers.vector(6)};
    layer.feed_forward = {{numbers.matrix(6, 3)}, {numbers.matrix(6, 3)}, {numbers.matrix(3, 6)}};
    weights.norm = {numbers.vector(6)};
    if (has_output)
        weights.output = numbers.matrix(6, 5);
    return weights;
}

NamedArrays under_llama_cpp_names(const LlamaWeights& weights)
{
    return renamed(state_dict(weights), {{"model.embed_tokens", "token_embd"},
                                         {"model.layers.", "blk."},
                                         {"model.norm", "output_norm"},
                                         {"lm_head", "output"},
                                         {"self_attn.q_proj", "attn_q"},
                                         {"self_attn.k_proj", "attn_k"},
                                         {"self_attn.v_proj", "attn_v"},
                                         {"self_attn.o_proj", "attn_output"},
                                         {"input_layernorm", "attn_norm"},
                                         {"post_attention_layernorm", "ffn_norm"},
                                         {"mlp.gate_proj", "ffn_gate"},
                                         {"mlp.up_proj", "ffn_up"},
                                         {"mlp.down_proj", "ffn_down"}});
}

NamedArrays under_llama2_c_names(const LlamaWeights& weights)
{
    return renamed(state_dict(weights), {{"model.embed_tokens", "tok_embeddings"},
                                         {"model.layers.", "layers."},
                                         {"model.norm", "norm"},
                                         {"lm_head", "output"},
                                         {"self_attn.q_proj", "attention.wq"},
                                         {"self_attn.k_proj", "attention.wk"},
                                         {"self_attn.v_proj", "attention.wv"},
                                         {"self_attn.o_proj", "attention.wo"},
                                         {"input_layernorm", "attention_norm"},
                                         {"post_attention_layernorm", "ffn_norm"},
                                         {"mlp.gate_proj", "feed_forward.w1"},
                                         {"mlp.up_proj", "feed_forward.w3"},
                                         {"mlp.down_proj", "feed_forward.w2"}});
}

Ended run_llama(const NamedArrays& weights, const TemporaryFolder& folder, const Array& ids = {{3}, {4, 0, 2}},
                const std::vector<std::string>& flags = {"--heads", "4"})
{
    write_npz(folder / "in.npz", {{}, {{"ids", ids}}, {}});
    write_weights(folder / "w.npz", weights);
    std::vector<std::string> words{
        "attn",           "run",     "llama",          "--input", folder / "in.npz", "--weights",
        folder / "w.npz", "--trace", folder / "t.npz", "--quiet", "--without-config"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
}

Array output_of(const NamedArrays& weights, const std::vector<std::string>& flags = {"--heads", "4"})
{
    const TemporaryFolder folder;
    const Ended ended = run_llama(weights, folder, {{3}, {4, 0, 2}}, flags);
    CAPTURE(ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(run({"attn", "verify", folder / "t.npz"}).code == 0);
    return read_trace(folder / "t.npz").steps.back().value; // the step that output is another name of
}

std::string refused_llama(const NamedArrays& weights, const Array& ids = {{3}, {4, 0, 2}},
                          const std::vector<std::string>& flags = {"--heads", "4"})
{
    const TemporaryFolder folder;
    const Ended ended = run_llama(weights, folder, ids, flags);
    CHECK(ended.code == 2);
    CHECK_FALSE(std::filesystem::exists(folder / "t.npz"));
    return ended.errors;
}

Array by_library(const LlamaWeights& weights, RotaryLayout layout, double epsilon = 1e-5, double base = 10000)
{
    return to_array(llama(Integers{4, 0, 2}, weights,
                          {.heads = 4, .rotary = {.base = base, .layout = layout}, .norm = {.epsilon = epsilon}}));
}

} // namespace

TEST_CASE("attn run llama gives the library's logits, under each of the names that weights have", "[cli][run][llama]")
{
    for (const bool has_output : {false, true}) {
        const LlamaWeights weights = decoder(has_output);
        const Array halves = by_library(weights, RotaryLayout::halves),
                    pairs = by_library(weights, RotaryLayout::pairs);
        CHECK_FALSE(identical(halves, pairs));
        CHECK(identical(output_of(state_dict(weights)), halves));
        CHECK(identical(output_of(under_llama_cpp_names(weights)), pairs));
        CHECK(identical(output_of(under_llama2_c_names(weights)), pairs));
        CHECK(identical(output_of(state_dict(weights), {"--heads", "4", "--rotary-layout", "pairs"}), pairs));
        CHECK(identical(output_of(under_llama_cpp_names(weights), {"--heads", "4", "--rotary-layout", "halves"}),
                        halves));
    }
}

TEST_CASE("the flags of attn run llama mean what the library's options mean", "[cli][run][llama]")
{
    const LlamaWeights weights = decoder();
    CHECK(identical(output_of(state_dict(weights), {"--heads", "4", "--epsilon", "0.5", "--rotary-base", "10"}),
                    by_library(weights, RotaryLayout::halves, 0.5, 10)));
    CHECK(identical(
        output_of(state_dict(weights), {"--heads", "2"}),
        to_array(llama(Integers{4, 0, 2}, weights, {.heads = 2, .rotary = {.layout = RotaryLayout::halves}}))));
}

TEST_CASE("an output map that is the embedding is tied, and frequencies that follow are passed over",
          "[weights][llama]")
{
    const LlamaWeights tied = decoder();
    NamedArrays arrays = state_dict(tied);
    CHECK_FALSE(llama_weights(arrays).weights.output.has_value());
    arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"];
    arrays["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{1}, {1}};
    CHECK_FALSE(llama_weights(arrays).weights.output.has_value());
    arrays["lm_head.weight"].values[3] += 1;
    CHECK(llama_weights(arrays).weights.output.has_value());
}

TEST_CASE("a decoder's weights come back as they were written, and say which layout goes with them", "[weights][llama]")
{
    for (const bool has_output : {false, true}) {
        const LlamaWeights weights = decoder(has_output);
        for (const NamedArrays& arrays :
             {state_dict(weights), under_llama_cpp_names(weights), under_llama2_c_names(weights)}) {
            const LlamaCheckpoint back = llama_weights(arrays);
            const NamedArrays again = state_dict(back.weights);
            CHECK(std::ranges::equal(again, state_dict(weights), [](const auto& a, const auto& b) {
                return a.first == b.first && identical(a.second, b.second);
            }));
            CHECK((back.layout == RotaryLayout::halves) == arrays.contains("model.norm.weight"));
        }
    }
}

TEST_CASE("attn run llama says which weights and ids do not fit, and in which file", "[cli][run][llama]")
{
    NamedArrays weights = state_dict(decoder());
    CHECK_THAT(refused_llama(weights, {{2}, {1, 5}}), ContainsSubstring("in.npz") && ContainsSubstring("ids[1] is 5"));
    CHECK_THAT(refused_llama(weights, {{1, 1, 2}, {1, 1}}),
               ContainsSubstring("ids has the shape (1, 1, 2), expected one sequence (n,) or a batch (b, n)"));
    CHECK_THAT(refused_llama(weights, {{2}, {1, 1.5}}), ContainsSubstring("ids[1] is 1.5"));
    CHECK_THAT(refused_llama(weights, {{1}, {1}}, {"--heads", "3"}),
               ContainsSubstring("can't be divided evenly among 3 heads"));
    CHECK_THAT(refused_llama(weights, {{1}, {1}}, {}), ContainsSubstring("--heads"));
    weights.erase("model.layers.0.mlp.up_proj.weight");
    weights["model.layers.0.input_layernorm.weight"] = {{5}, std::vector<double>(5, 1)};
    weights["model.extra"] = {{1}, {1}};
    const std::string message = refused_llama(weights);
    CHECK_THAT(message, ContainsSubstring("w.npz: 3 tensors do not fit a decoder with Hugging Face's names"));
    CHECK_THAT(message, ContainsSubstring("model.layers.0.input_layernorm.weight is (5,), expected (d_model,) = (6,)"));
    CHECK_THAT(message, ContainsSubstring("model.layers.0.mlp.up_proj.weight is missing"));
    CHECK_THAT(message, ContainsSubstring("model.extra (1,) is not expected"));
    CHECK_THAT(refused_llama({{"a", {{1}, {1}}}}), ContainsSubstring("token_embd.weight") &&
                                                       ContainsSubstring("model.embed_tokens.weight") &&
                                                       ContainsSubstring("tok_embeddings.weight"));
}

TEST_CASE("attn run keras-attention refuses masks that are none", "[cli][run][keras]")
{
    const NamedArrays given{{"x", to_array(tokens())}, {"memory", to_array(memory_tokens())}};
    const auto refusal = [&](const Array& value_mask) {
        return Desk(with(given, "value_mask", value_mask), keras_weights())
            .refusal("keras-attention", {"--heads", "2"});
    };
    CHECK_THAT(refusal({{5}, {1, 1, 1, 1, 0.5}}),
               ContainsSubstring("value_mask[4] is 0.5, expected 1 for a token, 0 for padding"));
    CHECK_THAT(refusal({{3}, {1, 1, 1}}), ContainsSubstring("value mask (3,) and memory (5, 4) must agree in m"));
}
