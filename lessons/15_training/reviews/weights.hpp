#pragma once

#include "classifier.hpp"

#include "attn/files/weights/attention_variants.hpp"
#include "attn/files/weights/visit.hpp"

#include <string>
#include <string_view>

/// How the classifier's weights are named in a file, and in messages.
namespace attn {

/// embedding.weight, those of Keras-style attention after attention, output.weight and output.bias
void visit(files::Either<ReviewClassifierWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [embedding, attention, output] = w;
    files::visit(embedding, prefix + "embedding.", f);
    files::visit(attention, prefix + "attention.", f);
    files::visit(output, prefix + "output.", f, "h_d_v", "1");
}

template <>
inline constexpr std::string_view files::module_name<ReviewClassifierWeights> = "a classifier of reviews";

} // namespace attn
