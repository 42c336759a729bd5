#pragma once

#include "attn/core/number_type.hpp"
#include "attn/core/recording.hpp"
#include "attn/diff/origin.hpp"
#include "attn/files/npz.hpp"
#include "attn/mistakes/pitfalls.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn::diff {

/// The verdict on one array of a program.
enum class DiffVerdict {
    equal,     ///< the same but for rounding in double
    noise,     ///< the same but for rounding in the type of that program
    no_effect, ///< another number, and the weights that follow are the same: -1e9 for minus infinity
    layout,    ///< the same numbers, laid out otherwise
    bug,       ///< wrong by itself: from that program's own operands the formula gives something else
    inherited, ///< another number, but right for that program's own operands: the cause is an earlier step
};

/// The name of a verdict as reports have it: "noise".
std::string_view name_of(DiffVerdict verdict);

/// How far two arrays of one shape are apart.
struct Distance {
    std::size_t differing = 0;  ///< how many numbers are not the same at all
    std::size_t beyond = 0;     ///< how many are off by more than the tolerance
    std::size_t nans = 0;       ///< found where another number is expected
    std::size_t infinities = 0; ///< found where another number is expected
    Shape worst;                ///< the index of the number that is furthest out of tolerance
    double expected = 0;        ///< there, by the reference
    double found = 0;           ///< there
    double tolerance = 0;       ///< there
    double typical = 0;         ///< how much other roundings changed the numbers; 0 where this was not measured
    double absolute = 0;        ///< the largest of all differences of finite numbers
    double relative = 0;        ///< the same over the expected number; where that is zero, left out
    double ulps = 0;   ///< the difference of the worst number in units of its last place in that program's type
    double cosine = 1; ///< between both as vectors, of the numbers that are finite in both
};

/// Some rows and columns of a step, with its worst number among them.
struct Window {
    Shape begin; ///< the index of its first number; along all axes but the last two it has one place
    Array expected, found;
};

/// The result for one array of MINE.
struct StepDiff {
    const Step* step = nullptr; ///< the reference's; or an alias that MINE has another array of, which the Diff keeps
    std::string mine;           ///< the array's name, with the part of it that was taken: "probs[..., 3, :, :]"
    DiffVerdict verdict = DiffVerdict::equal;
    Shape shape;                      ///< as found
    Distance distance;                ///< from the reference, where the shapes are the same
    Window window;                    ///< around the worst number, where some differ
    std::string place;                ///< of the worst number: "head 3, query 1, key 0"
    std::string layout;               ///< of another layout: "is the reference's transpose"
    std::string message;              ///< one line for people; empty where it is equal or noise
    std::vector<std::string> through; ///< earlier steps that MINE doesn't have and that can be the cause as well
    NumberType rounded_to = NumberType::float64; ///< of an input that is the reference's, rounded to a shorter type
    std::optional<Origin> origin;                ///< of the array, where MINE was recorded by attn_record

    bool passed() const { return verdict <= DiffVerdict::no_effect; }
};

/// A rule: the name of an array in a program, and the step that it is.
///
/// `{i}` stands for the same number on both sides, `{*}` for the same words. After a name, `[..., {h}, :, :]` takes one
/// entry of the axis of heads for each step `head.{h}`, `[1/3]` the second of three equal parts along the first axis, and
/// `.T` the transpose. A step can have alternatives, `masked|scaled`: the first that the reference has.
struct NameRule {
    std::string theirs; ///< "blocks.{i}.attn.hook_pattern[..., {h}, :, :]"
    std::string step;   ///< "layers.{i}.self_attn.head.{h}.weights"
};

/// The names that arrays have in one well-known program.
///
/// In front of `layer` a name can have more words, the model's. The names of a layer are known without `layer`, too; and a
/// reference that is one layer, or one attention, has the steps of `layers.0`, or `layers.0.self_attn`, without that.
struct NameTable {
    std::string_view name;  ///< as --names has it: "bert"
    std::string_view of;    ///< what it is for
    std::string_view layer; ///< what stands before the names of one layer: "encoder.layer.{i}."
    std::vector<NameRule> rules;
};

/// All tables of names.
const std::vector<NameTable>& name_tables();

/// How MINE is compared.
struct DiffOptions {
    std::optional<double> atol = {}, rtol = {}; ///< if either: off by no more than atol + rtol |expected|
    std::optional<NumberType> type = {};        ///< that MINE was computed in; detected from its numbers unless given
    std::vector<NameRule> names = {};           ///< tried in order, before the steps' own names
    const NameTable* table = nullptr;           ///< tried after names
    bool all = false;                           ///< a step that MINE doesn't have fails, as does an array without step
    bool by_numbers = true;                     ///< an array that no name claims is looked for by its numbers
    bool everywhere = false; ///< diagnose(): each mistake in all steps that it concerns, and not in some
};

/// An array of MINE whose step its numbers say, or its shape, place and name.
struct Found {
    std::string mine;   ///< its name
    std::string step;   ///< "self_attn.head.{h}.scaled"
    std::string how;    ///< "by its numbers"
    std::string layout; ///< its axes, where it has others than the step: "(h, n, m)"
};

/// What a verdict rests on besides the arrays that are wrong.
struct Ledger {
    std::vector<std::string> results;      ///< what MINE returned, as its recording says, and was compared
    std::vector<std::string> not_compared; ///< the same that was not
    std::size_t computed = 0;              ///< how many of the compared steps a formula gives
    std::string result;                    ///< the reference's, where it was not compared; else empty
    std::vector<std::string> open;         ///< why MINE can't be called the same, a sentence each; empty where it can
};

/// Where a fault is that no line can be blamed for.
struct Between {
    std::optional<Origin> last_right; ///< nothing where nothing before it is known to be right
    Origin first_wrong;
};

/// The results for all arrays.
struct Diff {
    NumberType type = NumberType::float64;           ///< of MINE; found out only where something differs
    std::string hint;                                ///< a line, where MINE seems to be of another type
    std::vector<StepDiff> steps;                     ///< what both have, in the reference's order
    std::vector<std::string> missing;                ///< steps that MINE doesn't have
    std::vector<std::string> extra;                  ///< arrays of MINE that are no step
    std::vector<Found> matched;                      ///< arrays of MINE that were found by their numbers
    bool missing_fails = false, extra_fails = false; ///< where all have to be compared, and are not
    bool is_doubtful =
        false; ///< what differs can be right: the budget did not suffice to try all that it can come from
    Ledger ledger;
    std::optional<Between> between; ///< of the first wrong step, where the line of its array is not surely to blame

    /// The first step in the order of the computation that differs, or nullptr.
    const StepDiff* first_different() const;
    /// The first one that is a bug or laid out otherwise, or nullptr.
    const StepDiff* first_wrong() const;
    /// The first one that differs without effect, or nullptr.
    const StepDiff* first_without_effect() const;
    std::size_t count(DiffVerdict verdict) const;
    /// True where nothing is wrong, and what was compared is enough to say so.
    bool passed() const;

    struct World; ///< what MINE computed, as far as it is known
    std::shared_ptr<World> world;
};

/// Compares what a program computed with a reference.
///
/// Nothing is recomputed while all numbers are the same. A step that differs is computed by its formula from MINE's own
/// operands; those that MINE doesn't have are computed from what it has, or else are the reference's.
///
/// The tolerance of a step is measured: the formula is computed from the operands as they are, and from operands that
/// are each changed by a rounding of MINE's type. docs/diff.md has the details.
///
/// @param reference  a trace; it outlives the result
/// @param mine       arrays by name: the paths of steps, or what the options translate
/// @throws Error where a name rule is malformed, or names an array that MINE does not have
Diff compare(const Recording& reference, files::NamedArrays mine, const DiffOptions& options = {});

/// The same for files that a program wrote: a trace, an .npz file of plain arrays, or a folder of .npy files, named by
/// their place in it with dots for slashes. Arrays that are the reference's are not kept. Where attn_record wrote MINE,
/// the steps have origins.
/// @throws FileError  where it is not one of these, or damaged
Diff compare(const Recording& reference, const std::filesystem::path& mine, const DiffOptions& options = {});

/// A well-known mistake that gives the numbers of MINE's first wrong step, or of a later one.
struct Diagnosis {
    const mistakes::Pitfall* pitfall;
    std::vector<const Step*>
        steps; ///< where it is made: in the wrong step, or in those before it that MINE doesn't have
    std::vector<std::string> formulas; ///< of each of them, by which it is computed instead
    double off = 0;                    ///< by how much MINE differs from what the mistake gives, at most
    const Step* later = nullptr;       ///< the wrong step that it explains, where no mistake explains the first
    bool is_alternative = false;       ///< the one before it gives MINE's numbers as well, or better
};

/// Makes each form of each well-known mistake in the first wrong step (or, if none is wrong, in the first that differs
/// without effect) and in the steps before it that MINE doesn't have, wherever it can be made: in all of them, in those of
/// one map or one block, in one. It computes on to the wrong step. Where no mistake gives its numbers, the last array that
/// differs is explained, as if MINE had nothing else, and then a later step that is wrong by itself.
/// @return those that give MINE's numbers up to noise, where the right formulas don't; the nearest first
/// @param diff  outlives the result, whose steps it can hold
std::vector<Diagnosis> diagnose(const Diff& diff);
std::vector<Diagnosis> diagnose(const Diff&&) = delete;

/// The largest sizes of attention that a reference has: of what is larger, nothing was seen.
struct AttentionSizes {
    std::size_t keys = 0, queries = 0, features = 0, heads = 0; ///< 0 where the reference has no attention
};

/// What a comparison that found nothing wrong can tell.
struct Power {
    std::size_t possible = 0;      ///< of the well-known mistakes, those that would change some step of the reference
    std::size_t seen = 0;          ///< those of them that would have been found in what was compared
    std::vector<Diagnosis> nearer; ///< mistakes that give MINE's numbers much better than the right formulas do
    double times_off = 0; ///< a step is off by so many times more than roundings, in the mean; 0: too few numbers
    std::string off_in;   ///< the step of which times_off is largest; empty where it is 0
    std::vector<std::string> save; ///< steps that would show the others, those first that show most
    bool is_cut = false;           ///< not all mistakes were tried
    AttentionSizes sizes;          ///< at which they were looked for

    /// True where what was compared is enough to call a program the same.
    bool decides() const { return nearer.empty() && times_off <= 1 && 2 * seen >= possible; }
};

/// Makes each well-known mistake in the reference, and looks whether it would have been seen: in short types, roundings over many
/// steps that MINE does not have can be larger than what a mistake does.
/// @param diff  one that passed
Power power_of(const Diff& diff);

/// True where no mistake explains the first wrong step and not all were tried, as for a large model of which only the result is known.
bool is_diagnosis_cut(const Diff& diff);

} // namespace attn::diff
