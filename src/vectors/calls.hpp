#pragma once

#include "draw.hpp"
#include "plan.hpp"

#include <optional>
#include <tuple>

/// A function that is called several times, each call with what the one before it has left.
namespace attn::vectors {

/// What stands for {…} in the formulas of a call, by name: the sizes of its axes, the parameters, and the numbers of other calls.
using CallNames = std::map<std::string, std::string>;

/// A text in which the names of a call are put in; nothing where it names a call that this one has not before it.
std::optional<std::string> with_names_of(const CallNames& call, std::string text);

/// "calls.2.": where the steps of a call are.
std::string scope_of(std::size_t call);

/// Runs all calls.
/// @return the inputs of all, their steps in one recording, in which what a call has of another is a formula; and the names of each
std::tuple<Arrays, Recording, std::vector<CallNames>> run_calls(const PlannedFile& file, const PlannedGroup& group,
                                                                const std::vector<Sizes>& sizes, const Arrays& weights,
                                                                Draws& draws, const RunFunction& run);

/// In which calls an edit is made.
enum class EditedCalls { all, first_of_request, later };

/// A step of calls, computed by another formula: as mistakes::StepEdit, with the names of a call in braces, too.
struct CallEdit {
    std::string step, right, mistaken;
    EditedCalls calls = EditedCalls::all;
};

/// A mistake that several calls show.
struct CallMistake {
    std::string id, sentence, why, link;
    std::vector<CallEdit> edits;
};

/// A file that is compiled in: src/vectors/calls/mistakes.json has the edits, docs/calls_table.tsv the sentences.
struct CallFile {
    std::string_view name, text;
};
std::span<const CallFile> call_edits();
std::span<const CallFile> call_sentences();

/// The mistake of that id.
/// @throws std::logic_error where there is none
const CallMistake& find_call_mistake(std::string_view id);

} // namespace attn::vectors
