// How other families of models call the tensors of an encoder, a decoder, or their parts.

#include "attn/files/weights/dialect.hpp"

#include <algorithm>

namespace attn::files {
namespace {

bool has_ending(const NamedArrays& arrays, const std::string& ending)
{
    return std::ranges::any_of(arrays, [&](const auto& entry) { return entry.first.ends_with(ending); });
}

const Array* find(const NamedArrays& arrays, const std::string& ending)
{
    for (const auto& [name, array] : arrays)
        if (name.ends_with(ending))
            return &array;
    return nullptr;
}

/// Whether the first map that is wider on one side is (in, out): its bias is as long as what comes out.
bool is_conv1d(const NamedArrays& arrays)
{
    for (const std::string map : {"c_attn.", "c_fc."}) {
        const Array *weight = find(arrays, map + "weight"), *bias = find(arrays, map + "bias");
        if (weight != nullptr && weight->rank() == 2 && bias != nullptr && bias->rank() == 1)
            return weight->shape[1] == bias->shape[0] && weight->shape[0] != bias->shape[0];
        if (weight != nullptr && weight->rank() == 2 && map == "c_attn.")
            return weight->shape[1] == 3 * weight->shape[0];
    }
    return false;
}

/// Hugging Face's GPT-2, and nanoGPT, which took its names.
Dialect gpt(const NamedArrays& arrays)
{
    const std::string root = has_ending(arrays, "transformer.wte.weight") ? "transformer." : "";
    const std::string attention = has_ending(arrays, "attn.c_attn.weight") ? "attn." : "";
    const std::string network = has_ending(arrays, "mlp.c_fc.weight") ? "mlp." : "";
    const bool is_in_out = is_conv1d(arrays);
    return {.family = is_in_out ? "GPT-2's" : "nanoGPT's",
            .names = {{"token_embedding.", root + "wte."},
                      {"position_embedding.", root + "wpe."},
                      {"layers.", root + "h."},
                      {"norm.", root + "ln_f."},
                      {"self_attn.", attention},
                      {"in_proj_", "c_attn."},
                      {"out_proj.", "c_proj."},
                      {"linear1.", network + "c_fc."},
                      {"linear2.", network + "c_proj."},
                      {"norm1.", "ln_1."},
                      {"norm2.", "ln_2."}},
            .maps_are_in_out = is_in_out,
            .ignored = {".attn.bias", ".attn.masked_bias", "attn.bias", "attn.masked_bias", "bias", "masked_bias"}};
}

/// Hugging Face's BERT, and what it has been copied to.
Dialect bert(const NamedArrays& arrays)
{
    const bool is_whole = has_ending(arrays, "attention.self.query.weight");
    const std::string attention = is_whole ? "attention." : "";
    const std::string maps = has_ending(arrays, "self.query.weight") ? attention + "self." : "";
    Dialect dialect{.family = "BERT's",
                    .names = {{"layers.", "layer."},
                              {"self_attn.q_proj.", maps + "query."},
                              {"self_attn.k_proj.", maps + "key."},
                              {"self_attn.v_proj.", maps + "value."},
                              {"self_attn.out_proj.", attention + "output.dense."},
                              {"q_proj.", maps + "query."},
                              {"k_proj.", maps + "key."},
                              {"v_proj.", maps + "value."},
                              {"out_proj.", "output.dense."},
                              {"linear1.", "intermediate.dense."},
                              {"linear2.", "output.dense."},
                              {"norm1.", "attention.output.LayerNorm."},
                              {"norm2.", "output.LayerNorm."}},
                    .ignored = {".position_ids"}};
    if (!is_whole) // the norm after a layer's attention stands beside its output map
        dialect.ignored.insert(dialect.ignored.end(), {"output.LayerNorm.weight", "output.LayerNorm.bias"});
    return dialect;
}

} // namespace

std::string Dialect::theirs(const std::string& ours) const
{
    std::string result;
    for (std::size_t at = 0; at < ours.size();) { // at the beginning of a part
        const auto rule = std::ranges::find_if(
            names, [&](const auto& name) { return ours.compare(at, name.first.size(), name.first) == 0; });
        const bool is_theirs = rule != names.end();
        const std::size_t end = is_theirs ? at + rule->first.size() : std::min(ours.find('.', at), ours.size() - 1) + 1;
        result += is_theirs ? rule->second : ours.substr(at, end - at);
        at = end;
    }
    return result;
}

bool Dialect::is_in_out(const std::string& theirs) const
{
    return maps_are_in_out && theirs.find("c_") != std::string::npos && theirs.ends_with(".weight");
}

bool Dialect::ignores(const std::string& theirs) const
{
    return std::ranges::any_of(ignored, [&](const std::string& name) {
        return name.starts_with('.') ? theirs.ends_with(name) : theirs == name;
    });
}

Dialect dialect_of(const NamedArrays& arrays)
{
    if (has_ending(arrays, "c_attn.weight") || has_ending(arrays, "c_fc.weight"))
        return gpt(arrays);
    if (has_ending(arrays, "query.weight") && has_ending(arrays, "key.weight"))
        return bert(arrays);
    if (has_ending(arrays, "o_proj.weight"))
        return {.family = "Hugging Face's", .names = {{"out_proj.", "o_proj."}}};
    return {};
}

} // namespace attn::files
