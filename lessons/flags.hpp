#pragma once

#include "lesson.hpp"

#include "attn/mistakes/interventions.hpp"
#include "attn/show/console.hpp"

namespace attn {

/// The values of a lesson's command line.
struct LessonFlags {
    std::filesystem::path trace;
    std::filesystem::path input;
    show::ConsoleFlags console{.precision = 4, .all = false};
    bool summary = false;
    mistakes::InterventionFlags interventions;
    std::vector<LessonFlag> own;
};

/// Reads a lesson's command line.
/// @param flags  has the lesson's own flags; gets what is given
/// @return the exit code where the program ends here: after --help, or where the command
/// line can't be understood
std::optional<int> read_flags(LessonFlags& flags, const std::string& program, int argc,
                              const char* const* argv);

} // namespace attn
