#pragma once

#include <span>
#include <string_view>

namespace attn {

/// One lesson, and what it stands on.
struct CurriculumEntry {
    std::string_view topic;     ///< number and topic, as the lesson's folder is called: "01_single_query"
    std::string_view title;     ///< as its page is headed
    std::string_view idea;      ///< what is new in it, in a sentence
    std::span<const int> needs; ///< the numbers of the lessons that it builds on
};

/// The lessons, in order.
std::span<const CurriculumEntry> curriculum();

} // namespace attn
