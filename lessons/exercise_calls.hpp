#pragma once

#include "exercise_check.hpp"

#include <string>
#include <vector>

namespace attn {

/// A call of an exercise's function, and the computation that has the right result.
struct ExpectedCall {
    Call call;
    Recording reference;
    std::string step; ///< the path of the right result in it
};

/// The array of a call's argument in a file, and of what a function gave for the call.
std::string call_name(std::size_t number);

/// Writes calls as one .npz file: `calls.json`, the arguments as `call.0.keys` or
/// `call.0.weights.norm1.bias`, the steps of the reference as `reference.0.scores`.
void write_calls(const std::filesystem::path& path,
                 const std::vector<ExpectedCall>& calls);

/// @throws FileError where the file is damaged, or none that write_calls() wrote
std::vector<ExpectedCall> read_calls(const std::filesystem::path& path);

} // namespace attn
