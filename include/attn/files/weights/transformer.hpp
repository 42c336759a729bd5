#pragma once

#include "attn/files/weights/visit.hpp"
#include "attn/reference/models/greedy_decode.hpp"

#include <string>
#include <string_view>

namespace attn::files {

/// nn.Transformer: those of both stacks after encoder and decoder
void visit(Either<TransformerWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [encoder, decoder] = w;
    visit(encoder, prefix + "encoder.", f);
    visit(decoder, prefix + "decoder.", f);
}
template <>
inline constexpr std::string_view module_name<TransformerWeights> = "a Transformer";

/// table (vocabulary, d_model), and those of a Transformer after transformer
void visit(Either<TranslatorWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [table, transformer] = w;
    f(WeightTensor{prefix + "table", {"vocabulary", "d_model"}}, table);
    visit(transformer, prefix + "transformer.", f);
}

} // namespace attn::files
