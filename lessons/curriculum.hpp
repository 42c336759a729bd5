#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace attn {

/// One lesson, and what it builds on.
struct CurriculumEntry {
    std::string_view
        topic; ///< number and topic, the name of the lesson's folder: "01_single_query"
    std::string_view part;            ///< of the course: "II. The Transformer"
    std::string_view title;           ///< the heading of its page
    std::string_view idea;            ///< what is new in it, in one sentence
    std::vector<int> needs;           ///< the numbers of the lessons that it builds on
    std::string_view built_with = {}; ///< what it takes beside what all take: "MPI"
};

/// The lessons that exist, in order. A number is missing where its lesson is still to be
/// written.
std::span<const CurriculumEntry> curriculum();

} // namespace attn
