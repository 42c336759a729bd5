#pragma once

#include "attn/core/array.hpp"
#include "attn/core/number_type.hpp"
#include "attn/diff/origin.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Two runs of one's own, compared without a reference: eager and fused, in a padded batch and alone, with a cache and at once.
namespace attn::diff {

/// How far an array of one run is from that of the other, or a run from the other.
enum class Likeness {
    equal,          ///< every bit is the same
    rounding,       ///< off by what roundings can do
    without_effect, ///< off by more, and all that was computed from it is the same
    undecided,      ///< off by what roundings can do over the steps before it that were not compared
    different       ///< off by more
};

/// The name of a likeness as reports have it: "bits equal".
std::string_view name_of(Likeness likeness);

/// What a run has, in the order in which it was computed.
struct RecordedRun {
    std::vector<std::pair<std::string, Array>> arrays;
    Origins origins;                       ///< empty where the run was not recorded by attn_record
    std::vector<std::string> results = {}; ///< the names of what it returned, where that was recorded
    std::string incomplete = {};           ///< why the recording lacks something, where it does
};

/// Reads an .npz file or a folder of .npy files, recorded or not.
/// @throws FileError  where it is neither, or damaged
RecordedRun read_run(const std::filesystem::path& path);

/// An array that only one of the runs has.
struct Unshared {
    char run; ///< 'A' or 'B'
    std::string name;
    std::optional<Origin> origin;
};

/// An array of A and what it is in B.
struct RunPair {
    std::string a, b; ///< their names
    std::string how;  ///< they were found: "by name", "by its numbers"
    std::string part; ///< which part of one the other is, "[..., :5] of B"; empty where they have one size
    std::optional<Origin> a_origin = {}, b_origin = {};
    Likeness likeness = Likeness::equal;
    bool is_shape_wrong = false; ///< neither is a part of the other, so that no number was compared
    bool follows = false;        ///< different, and computed from one that is
    std::vector<Unshared> unshared =
        {};             ///< what lies between it and what is the same, where it is different and doesn't follow
    double off = 0;     ///< the root mean square of the differences, over that of the numbers
    double largest = 0; ///< the largest difference, over its number or the root mean square, whichever is larger
    double allowed = 0; ///< for off, what roundings can do
    Shape a_worst = {}, b_worst = {}; ///< where the largest difference is, in each
    double a_value = 0, b_value = 0;  ///< there
};

/// How the difference grows from layer to layer.
struct LayerGrowth {
    std::string layer; ///< "transformer.h.3"
    std::string last;  ///< its last array
    double off = 0;    ///< of that
    double worst = 0;  ///< the largest in this layer
};

/// What a run returned, or what nothing later was computed from.
struct RunResult {
    char run; ///< 'A' or 'B'
    std::string name;
    bool is_compared;
};

/// Where the first difference is, where arrays that only one run has lie between it and what is the same.
struct Parting {
    std::string last_name, first_name; ///< of the arrays
    std::optional<Origin> last_same;
    Origin first_different;
};

/// What two runs have in common.
struct RunsDiff {
    NumberType type = NumberType::float64; ///< the shortest that one of them computed in, where they are not equal
    std::vector<RunPair> pairs;            ///< in the order in which they were computed
    std::vector<std::string> only_a, only_b;
    std::vector<RunResult> results;
    std::vector<std::string> why_undecided;
    std::optional<Parting> between;  ///< in B; in A where B has no lines
    std::vector<LayerGrowth> layers; ///< empty where there are not two
    bool is_search_cut = false;      ///< not every array was looked for by its numbers

    /// The first that is different, or else undecided, and doesn't follow from another that is; or nullptr.
    const RunPair* first_different() const;
    std::size_t count(Likeness likeness) const;
    /// Different where a pair is; undecided where a result was not compared; else the same, by bits or up to roundings.
    Likeness verdict() const;
    bool passed() const;
};

/// Pairs the arrays of two runs by name and by numbers, in whatever order of axes, and finds the first pair that roundings don't
/// explain. The runs are the same only where each result of both was compared. An array without a partner, or one that is different,
/// is of no account where all that was computed from it is the same.
///
/// Where one is larger along some axes, as in a padded batch, or at once instead of with a cache, the part of it that the other is is
/// compared, and the rest left out. Which part it is is found by numbers where an array shows it, and stays the same for
/// all arrays of these sizes.
///
/// A pair is rounding where its root mean square difference is within four roundings of its type, 64 of the type that sums are taken
/// in, and eight times what its operands are off by. docs/runs.md has the reasons.
RunsDiff compare_runs(const RecordedRun& a, const RecordedRun& b);

} // namespace attn::diff
