#pragma once

#include "attn/core/array.hpp"
#include "attn/core/recording.hpp"

#include <string>
#include <utility>
#include <vector>

/// Arrays by name, in order.
using Golden = std::vector<std::pair<std::string, attn::Array>>;

/// A golden that PyTorch and NumPy made: tests/golden/NAME.npz.
Golden read_golden(const std::string& name);

/// The first difference between a recording and a golden, in words; empty where there is none.
///
/// Strict: the same steps in the same order, none missing and none extra, an alias where the golden has a copy, the same shapes, infinities and NaN at the same
/// places, and otherwise `!(error <= tolerance)` fails, with a tolerance of 1e-12 times the expected size or one.
std::string difference(const attn::Recording& recording, const Golden& golden);
