#pragma once

#include "attn/core/tensor.hpp"

/// The gradient of cross-entropy with respect to the logits. The loss is the mean, over
/// all tokens whose target is not negative, of -log softmax(logits)[target].
/// @param logits   (n, vocabulary)
/// @param targets  (n): the class of each token; negative for a token that is ignored
/// @return (n, vocabulary)
attn::Matrix my_loss_gradient(const attn::Matrix& logits, const attn::Integers& targets);
