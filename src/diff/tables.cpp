// The names of arrays in other programs. docs/diff.md has the same tables, and a test compares them.

#include "attn/diff/diff.hpp"

namespace attn::diff {
namespace {

/// The rules of one layer: those after "layer." in the other program's names, with "layers.{i}." before our steps.
void add_layer(NameTable& table, const std::vector<NameRule>& rules)
{
    for (const NameRule& rule : rules) {
        NameRule& added = table.rules.emplace_back(rule);
        added.theirs.insert(0, table.layer);
        std::string steps = "layers.{i}." + rule.step;
        for (std::size_t at = steps.find('|'); at != std::string::npos; at = steps.find('|', at + 1))
            steps.insert(at + 1, "layers.{i}.");
        added.step = steps;
    }
}

/// A linear map of torch.nn, whose weight is stored as (d_out, d_in).
void add_linear(std::vector<NameRule>& rules, const std::string& module, const std::string& ours)
{
    rules.push_back({module + ".weight.T", ours + "_weights"});
    rules.push_back({module + ".bias", ours + "_bias"});
}

void add_norm(std::vector<NameRule>& rules, const std::string& module, const std::string& ours)
{
    rules.push_back({module + ".weight", ours + ".gain"});
    rules.push_back({module + ".bias", ours + ".bias"});
}

/// The parameters of nn.MultiheadAttention: three maps in one.
void add_projections(std::vector<NameRule>& rules, const std::string& theirs, const std::string& ours)
{
    constexpr const char* thirds[] = {"[0/3]", "[1/3]", "[2/3]"};
    for (std::size_t part = 0; part < 3; ++part) {
        const std::string name = std::vector<std::string>{"query", "key", "value"}[part], third = thirds[part];
        rules.push_back({theirs + "in_proj_weight" + third + ".T", ours + name + "_weights"});
        rules.push_back({theirs + "in_proj_bias" + third, ours + name + "_bias"});
        rules.push_back({theirs + name.front() + "_proj_weight.T", ours + name + "_weights"});
    }
    add_linear(rules, theirs + "out_proj", ours + "output");
}

NameTable pytorch()
{
    NameTable table{"pytorch",
                    "forward hooks and state_dict of nn.TransformerEncoder, nn.TransformerDecoder, their layers, "
                    "nn.MultiheadAttention",
                    "layers.{i}.",
                    {}};
    std::vector<NameRule> layer{
        {"self_attn", "self_attn.output"},
        {"self_attn.attn_output", "self_attn.output"},
        {"self_attn.attn_output_weights[..., {h}, :, :]", "self_attn.head.{h}.weights"},
        {"dropout1", "self_attn.output"},
        {"multihead_attn", "cross_attn.output"},
        {"multihead_attn.attn_output", "cross_attn.output"},
        {"multihead_attn.attn_output_weights[..., {h}, :, :]", "cross_attn.head.{h}.weights"},
        {"linear1", "feed_forward.hidden"},
        {"dropout", "feed_forward.activated"},
        {"linear2", "feed_forward.output"},
        {"dropout2", "cross_attn.output|feed_forward.output"},
        {"dropout3", "feed_forward.output"},
        {"norm1", "norm1.output"},
        {"norm2", "norm2.output"},
        {"norm3", "norm3.output"},
    };
    add_projections(layer, "self_attn.", "self_attn.");
    add_projections(layer, "multihead_attn.", "cross_attn.");
    add_linear(layer, "linear1", "feed_forward.hidden");
    add_linear(layer, "linear2", "feed_forward.output");
    for (const char* norm : {"norm1", "norm2", "norm3"})
        add_norm(layer, norm, norm);
    add_layer(table, layer);
    table.rules.push_back({"layers.{i}", "layers.{i}.output"});
    // One attention alone.
    add_projections(table.rules, "", "layers.0.self_attn.");
    table.rules.push_back({"attn_output", "layers.0.self_attn.output"});
    table.rules.push_back({"attn_output_weights[..., {h}, :, :]", "layers.0.self_attn.head.{h}.weights"});
    return table;
}

NameTable bert()
{
    NameTable table{"bert",
                    "modules and parameters of Hugging Face's BertModel; attentions and hidden_states",
                    "encoder.layer.{i}.",
                    {}};
    std::vector<NameRule> layer{
        {"attention.self.query", "self_attn.query"},
        {"attention.self.key", "self_attn.key"},
        {"attention.self.value", "self_attn.value"},
        {"attention.self.dropout[..., {h}, :, :]", "self_attn.head.{h}.weights"},
        {"attention.self", "self_attn.merged"},
        {"attention.output.dense", "self_attn.output"},
        {"attention.output.LayerNorm", "norm1.output"},
        {"attention.output", "norm1.output"},
        {"attention", "norm1.output"},
        {"intermediate.dense", "feed_forward.hidden"},
        {"intermediate.intermediate_act_fn", "feed_forward.activated"},
        {"intermediate", "feed_forward.activated"},
        {"output.dense", "feed_forward.output"},
        {"output.LayerNorm", "norm2.output"},
        {"output", "norm2.output"},
    };
    for (const char* part : {"query", "key", "value"})
        add_linear(layer, std::string("attention.self.") + part, std::string("self_attn.") + part);
    add_linear(layer, "attention.output.dense", "self_attn.output");
    add_norm(layer, "attention.output.LayerNorm", "norm1");
    add_linear(layer, "intermediate.dense", "feed_forward.hidden");
    add_linear(layer, "output.dense", "feed_forward.output");
    add_norm(layer, "output.LayerNorm", "norm2");
    add_layer(table, layer);
    table.rules.push_back({"encoder.layer.{i}", "layers.{i}.output"});
    table.rules.push_back({"attentions.{i}[..., {h}, :, :]", "layers.{i}.self_attn.head.{h}.weights"});
    table.rules.push_back({"hidden_states.{i}", "layers.{i}.x"});
    return table;
}

/// Modules and parameters of pre-norm layers under Hugging Face's names, which others have taken over.
NameTable llama_like(std::string_view name, std::string_view of)
{
    NameTable table{name, of, "layers.{i}.", {}};
    std::vector<NameRule> layer{
        {"self_attn.q_proj", "self_attn.query"},
        {"self_attn.k_proj", "self_attn.key"},
        {"self_attn.v_proj", "self_attn.value"},
        {"self_attn.o_proj", "self_attn.output"},
        {"self_attn", "self_attn.output"},
        {"input_layernorm", "norm1.output"},
        {"post_attention_layernorm", "norm2.output"},
        {"mlp.down_proj", "feed_forward.output"},
        {"mlp", "feed_forward.output"},
    };
    add_linear(layer, "self_attn.q_proj", "self_attn.query");
    add_linear(layer, "self_attn.k_proj", "self_attn.key");
    add_linear(layer, "self_attn.v_proj", "self_attn.value");
    add_linear(layer, "self_attn.o_proj", "self_attn.output");
    layer.push_back({"self_attn.q_norm.weight", "self_attn.query_norm.gain"});
    layer.push_back({"self_attn.k_norm.weight", "self_attn.key_norm.gain"});
    layer.push_back({"input_layernorm.weight", "norm1.gain"});
    layer.push_back({"post_attention_layernorm.weight", "norm2.gain"});
    add_linear(layer, "mlp.down_proj", "feed_forward.output");
    add_layer(table, layer);
    table.rules.push_back({"layers.{i}", "layers.{i}.output"});
    return table;
}

NameTable llama()
{
    NameTable table = llama_like("llama", "modules of Hugging Face's LlamaModel, as far as it is a pre-norm layer; "
                                          "attentions and hidden_states");
    table.rules.push_back({"attentions.{i}[..., {h}, :, :]", "layers.{i}.self_attn.head.{h}.weights"});
    table.rules.push_back({"hidden_states.{i}", "layers.{i}.x"});
    return table;
}

/// llama.cpp's names of what its graphs compute, which eval-callback prints, and of the tensors of a .gguf file.
NameTable ggml()
{
    NameTable table{
        "ggml", "llama.cpp's graphs, as eval-callback prints them, and tensors of .gguf files", "blk.{i}.", {}};
    std::vector<NameRule> layer;
    add_linear(layer, "attn_q", "self_attn.query");
    add_linear(layer, "attn_k", "self_attn.key");
    add_linear(layer, "attn_v", "self_attn.value");
    add_linear(layer, "attn_output", "self_attn.output");
    add_norm(layer, "attn_norm", "norm1");
    add_norm(layer, "ffn_norm", "norm2");
    layer.push_back({"ffn_gate.weight.T", "feed_forward.gate_weights"});
    layer.push_back({"ffn_up.weight.T", "feed_forward.up_weights|feed_forward.hidden_weights"});
    layer.push_back({"ffn_down.weight.T", "feed_forward.down_weights|feed_forward.output_weights"});
    add_layer(table, layer);
    for (const NameRule& rule : std::vector<NameRule>{
             {"inp_embd", "embedded"},
             {"attn_norm-{i}", "layers.{i}.norm1.output"},
             {"Qcur-{i}", "layers.{i}.self_attn.query"},
             {"Kcur-{i}", "layers.{i}.self_attn.key"},
             {"Vcur-{i}", "layers.{i}.self_attn.value"},
             {"kq-{i}[..., {h}, :, :]", "layers.{i}.self_attn.head.{h}.scores"},
             {"kq_soft_max-{i}[..., {h}, :, :]", "layers.{i}.self_attn.head.{h}.weights"},
             {"kqv_out-{i}", "layers.{i}.self_attn.merged"},
             {"attn_out-{i}", "layers.{i}.self_attn.output"},
             {"ffn_inp-{i}", "layers.{i}.residual1"},
             {"ffn_norm-{i}", "layers.{i}.norm2.output"},
             {"ffn_gate-{i}", "layers.{i}.feed_forward.gate"},
             {"ffn_up-{i}", "layers.{i}.feed_forward.up|layers.{i}.feed_forward.hidden"},
             {"ffn_swiglu-{i}", "layers.{i}.feed_forward.gated"},
             {"ffn_geglu-{i}", "layers.{i}.feed_forward.gated"},
             {"ffn_out-{i}", "layers.{i}.feed_forward.output"},
             {"l_out-{i}", "layers.{i}.output"},
             {"result_norm", "norm.output"},
             {"result_output", "logits"},
         })
        table.rules.push_back(rule);
    return table;
}

NameTable candle()
{
    NameTable table{"candle", "members of the structs of candle-transformers' llama", "blocks.{i}.", {}};
    add_layer(table, {
                         {"rms_1", "norm1.output"},
                         {"attn.q_proj", "self_attn.query"},
                         {"attn.k_proj", "self_attn.key"},
                         {"attn.v_proj", "self_attn.value"},
                         {"attn.o_proj", "self_attn.output"},
                         {"attn", "self_attn.output"},
                         {"rms_2", "norm2.output"},
                         {"mlp.c_fc1", "feed_forward.gate"},
                         {"mlp.c_fc2", "feed_forward.up"},
                         {"mlp.c_proj", "feed_forward.output"},
                         {"mlp", "feed_forward.output"},
                     });
    table.rules.push_back({"blocks.{i}", "layers.{i}.output"});
    table.rules.push_back({"wte", "embedded"});
    table.rules.push_back({"ln_f", "norm.output"});
    table.rules.push_back({"lm_head", "logits"});
    return table;
}

NameTable transformer_lens()
{
    NameTable table{"transformer-lens", "hooks of TransformerLens, as run_with_cache names them", "blocks.{i}.", {}};
    add_layer(table, {
                         {"hook_resid_pre", "x"},
                         {"attn.hook_q[..., {h}, :]", "self_attn.head.{h}.rotary_query.x|self_attn.head.{h}.queries"},
                         {"attn.hook_k[..., {h}, :]", "self_attn.head.{h}.rotary_key.x|self_attn.head.{h}.keys"},
                         {"attn.hook_v[..., {h}, :]", "self_attn.head.{h}.values"},
                         {"attn.hook_rot_q[..., {h}, :]", "self_attn.head.{h}.queries"},
                         {"attn.hook_rot_k[..., {h}, :]", "self_attn.head.{h}.keys"},
                         {"attn.hook_attn_scores[..., {h}, :, :]",
                          "self_attn.head.{h}.masked|self_attn.head.{h}.biased|self_attn.head.{h}.scaled"},
                         {"attn.hook_pattern[..., {h}, :, :]", "self_attn.head.{h}.weights"},
                         {"attn.hook_z[..., {h}, :]", "self_attn.head.{h}.context"},
                         {"hook_attn_out", "self_attn.output"},
                         {"hook_resid_mid", "residual1"},
                         {"mlp.hook_pre", "feed_forward.hidden"},
                         {"mlp.hook_post", "feed_forward.activated"},
                         {"hook_mlp_out", "feed_forward.output"},
                         {"hook_resid_post", "output"},
                         {"attn.b_O", "self_attn.output_bias"},
                         {"mlp.W_in", "feed_forward.hidden_weights"},
                         {"mlp.b_in", "feed_forward.hidden_bias"},
                         {"mlp.W_out", "feed_forward.output_weights"},
                         {"mlp.b_out", "feed_forward.output_bias"},
                         {"ln1.w", "norm1.gain"},
                         {"ln1.b", "norm1.bias"},
                         {"ln2.w", "norm2.gain"},
                         {"ln2.b", "norm2.bias"},
                     });
    return table;
}

NameTable onnx()
{
    // Several heads, one attention beside nothing, and heads that are still side by side. K and V are what is given, which
    // has other names where heads share it, or a past comes before it.
    return {"onnx",
            "inputs and outputs of ONNX's operator Attention; qk_matmul_output of mode 0",
            "",
            {
                {"Q[..., {h}, :, :]", "head.{h}.queries"},
                {"K[..., {h}, :, :]", "head.{h}.keys"},
                {"V[..., {h}, :, :]", "head.{h}.values"},
                {"Y[..., {h}, :, :]", "head.{h}.context"},
                {"qk_matmul_output[..., {h}, :, :]", "head.{h}.scaled"},
                {"Q", "query|queries"},
                {"K", "key|new_keys|group_keys|keys"},
                {"V", "value|new_values|group_values|values"},
                {"past_key", "past_keys"},
                {"past_value", "past_values"},
                {"present_key", "group_keys|keys"},
                {"present_value", "group_values|values"},
                {"Y", "merged|context|output"},
                {"qk_matmul_output", "scaled"},
                {"attn_mask", "bias|given_mask|mask"},
                {"nonpad_kv_seqlen", "lengths"},
            }};
}

} // namespace

const std::vector<NameTable>& name_tables()
{
    static const std::vector<NameTable> tables{
        pytorch(),
        bert(),
        llama(),
        ggml(),
        llama_like("mlx", "modules and parameters of mlx-lm's models, as far as they are pre-norm layers"),
        candle(),
        transformer_lens(),
        onnx()};
    return tables;
}

} // namespace attn::diff
