#pragma once

#include <string>
#include <vector>

/// What a program that has ended left behind.
struct Ended {
    int code; ///< its exit code; 128 + N where signal N ended it
    std::string output;
    std::string errors;
};

/// Runs one of the build's programs as a user does, without a shell.
/// @param words        its name, as in the build's bin folder, or the whole path of another program, and its arguments
/// @param environment  what its environment has in addition: "NO_COLOR=1"
Ended run(const std::vector<std::string>& words, const std::vector<std::string>& environment = {});

/// The number of lines in a text.
std::size_t lines_in(const std::string& text);
