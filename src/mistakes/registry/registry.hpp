#pragma once

#include "attn/mistakes/pitfalls.hpp"

#include <vector>

/// The registry of well-known mistakes, a file for each part of the computation: id, sentence, how it shows, where it was seen,
/// link, and its forms.
namespace attn::mistakes {

const std::vector<Pitfall>& positions_pitfalls();
const std::vector<Pitfall>& heads_pitfalls();
const std::vector<Pitfall>& cache_pitfalls();
const std::vector<Pitfall>& scores_pitfalls();
const std::vector<Pitfall>& masks_pitfalls();
const std::vector<Pitfall>& weights_pitfalls();
const std::vector<Pitfall>& layers_pitfalls();
const std::vector<Pitfall>& norms_pitfalls();
const std::vector<Pitfall>& feed_forward_pitfalls();
const std::vector<Pitfall>& models_pitfalls();
const std::vector<Pitfall>& machines_pitfalls();
const std::vector<Pitfall>& training_pitfalls();
const std::vector<Pitfall>& gradients_pitfalls();

} // namespace attn::mistakes
