#pragma once

#include "program.hpp"

#include "attn/core/recording.hpp"

#include <filesystem>
#include <string>
#include <vector>

/// The names of all lessons that are built: "01_single_query".
std::vector<std::string> lesson_topics();

/// The command that runs a lesson: its program and, for lesson 15, a flag that lets its training end early. That changes
/// nothing in its trace.
std::vector<std::string> lesson_command(const std::string& topic, const std::vector<std::string>& flags = {});

/// What a lesson left behind that ran once, with --all and --trace, in the time zone of Tokyo. Tests share it: it lies in
/// the build folder until the lesson's program is newer.
struct LessonRun {
    std::filesystem::path trace;
    std::string output;
};

/// @throws std::runtime_error where the lesson fails or complains
LessonRun lesson_run(const std::string& topic);

/// What that run's trace holds; read once per test program.
const attn::Recording& lesson_recording(const std::string& topic);

/// A lesson's steps without those that the ranks of lesson 19 computed: these have a golden of their own.
attn::Recording of_one_process(attn::Recording recording);
