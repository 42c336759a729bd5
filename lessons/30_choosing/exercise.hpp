#pragma once

#include "attn/core/tensor.hpp"

/// The probabilities with which the next tokens are drawn, with a temperature and top-p.
/// @param logits       (n, vocabulary): each row by itself
/// @param temperature  divides the logits
/// @param top_p        as few of the most likely tokens are left as have so much
///                     probability together, after the temperature; of equal tokens the
///                     first counts as more likely
/// @return (n, vocabulary): each row sums to 1
attn::Matrix my_probabilities(const attn::Matrix& logits, double temperature,
                              double top_p);

/// The probabilities of the token that comes in place of a rejected guess.
/// @param target  (vocabulary): the probabilities of the model
/// @param draft   (vocabulary): those with which the guess was drawn
/// @return (vocabulary), which sum to 1
attn::Vector my_next(const attn::Vector& target, const attn::Vector& draft);
