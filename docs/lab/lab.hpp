#pragma once

#include "attn/core/array.hpp"
#include "attn/core/recorder.hpp"
#include "attn/files/npz.hpp"
#include "attn/mistakes/interventions.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace attn::lab {

using Json = nlohmann::ordered_json;

/// What a page asks of a lesson, and what came of it.
struct LessonRun {
    files::NamedArrays inputs; ///< the reader's; none where the example's are taken
    mistakes::InterventionFlags interventions;
    Recording recording;
    std::vector<std::string> asked_for; ///< what a reader can give, by name
    std::string refuted, overflow;      ///< see Lesson::Ending
};

/// The run that a lesson's program is called for: it has no other way to hear of it.
extern LessonRun* current_run;

/// What a page asks of an exercise: a formula for each of its functions.
struct ExerciseRun {
    std::map<std::string, std::string> formulas; ///< by the function's name
    Json calls = Json::array();                  ///< each with its arguments, and what came of it
};
extern ExerciseRun* current_exercise;

/// An array as the page has it: {"shape": [2], "values": [1, 2], "type": "real"}; a number that JSON doesn't have is a text.
Json to_json(const Array& array);
/// @throws Error where it is no such thing, or its numbers don't fill its shape
Array to_array(const Json& json);

} // namespace attn::lab
