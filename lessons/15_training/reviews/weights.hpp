#pragma once

#include "classifier.hpp"

#include "attn/files/weights/visit.hpp"

#include <string>
#include <string_view>

/// How the classifier's weights are named in a file, and in messages.
namespace attn {

/// embedding.weight, those of Keras-style attention after attention, output.weight and output.bias
void visit(files::Either<ReviewClassifierWeights> auto& w, const std::string& prefix, auto&& f)
{
    files::visit(w.embedding, prefix + "embedding.", f);
    files::visit(w.attention, prefix + "attention.", f);
    files::visit(w.output, prefix + "output.", f, "h_d_v", "1");
}

inline std::string_view module_of(const ReviewClassifierWeights&) { return "a classifier of reviews"; }

} // namespace attn
