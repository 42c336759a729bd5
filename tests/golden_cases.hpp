#pragma once

#include "golden.hpp"

#include "attn/core/trace.hpp"
#include "attn/files/npz.hpp"

#include <string>
#include <vector>

/// A case of a golden: what `attn run` is given, and every step that PyTorch or NumPy computed of it; see tests/golden/case.py.
struct GoldenCase {
    std::string name;         ///< "encoder_layer.pre.gelu.batch.both"
    std::string command = {}; ///< a module of `attn run` and its flags; empty where none computes it
    attn::files::NamedArrays input = {}, weights = {};
    Golden steps = {};                       ///< those that are inputs first
    attn::files::NamedArrays gradients = {}; ///< `seed`, and `grad.NAME` of the sum of all numbers of output times seed

    void run(const attn::Trace& trace) const; ///< as `attn run` does
};

/// The cases of tests/golden/NAME.npz, in its order.
std::vector<GoldenCase> golden_cases(const std::string& golden);

/// The cases of several goldens that modules of `attn run` compute.
std::vector<GoldenCase> module_cases(const std::vector<std::string>& goldens);
