#pragma once

#include "placement.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attn::diff {

/// A placement of arrays that say what they were computed from, and what speaks for each of MINE's arrays.
class Explained : public Placement {
public:
    using Placement::Placement;

protected:
    using Names = std::set<std::string, std::less<>>;

    /// What speaks for an array: the first that holds.
    enum class Reason {
        none,       ///< nothing: it can be wrong
        not_saved,  ///< MINE has no such array
        step,       ///< it stands for a step, and does not only have its name
        needed,     ///< something right was computed from it
        mask,       ///< it forbids nothing that the reference allows
        count,      ///< whole numbers
        whole,      ///< the numbers of a step, or of what a formula gives on the way to one
        rows,       ///< some rows of these
        look_alike, ///< a step but for the last digits
        half,       ///< both halves of its rows are the same, and one is that of a step: angles
        part,       ///< of an array that is explained, or that one with its axes split
        inside,     ///< a formula gives it on the way to its value, from MINE's own arrays
        longer      ///< a table of which the reference has the first rows
    };

    Reason reason_of(const std::string& name);

    bool is_explained(const std::string& name) { return reason_of(name) != Reason::none; }

    /// True where something right was computed from an array, at once or by others.
    bool is_needed(const std::string& name);

    /// The arrays that are explained without a doubt.
    Names explained();

    /// Those with the numbers of a step, in whatever layout, or some rows of these.
    Names right();

    /// All before an array, and itself, back to what stands for a step.
    Names before(const std::string& name) const;

private:
    Reason found_reason(const std::string& name);

    bool is_right(const std::string& name);

    /// What an array was surely computed from, of all that its line reads: where one of these has all of its numbers, as in
    /// `k, v = k.view(shape), v.view(shape)`, that one.
    Names needed_for(const std::string& name);

    bool is_half(const Array& array);
    bool is_longer(const Array& array);
    bool is_part(const std::string& name);

    /// The arrays that can lack something, by what one array is.
    Names doubted_by(const std::string& name);

    /// What an array was computed from besides the step that it is once more: a mask that masks nothing.
    Names beside_repeated(const std::string& name) const;

    /// True for some rows that are fewer, of their step, than in an array that they were computed from.
    bool is_cut(const std::string& name);

    /// True for one of several arrays that a line takes from another one, and that have all of its numbers together.
    bool is_one_of_all_parts(const std::string& name, const std::string& whole);

    /// The steps that an array was computed from and that its line did not choose: those of other calls; those, too, that its call
    /// computed from such once more.
    Names chosen_for(const std::string& name);

    /// True for a step that an earlier array is which this one was not computed from.
    bool is_computed_again(const std::string& name);

    /// True where all of an array's numbers are among others in one that was computed from it: these rows are put beside others there.
    bool is_put_beside_others(const std::string& name);

    /// True where an array was computed from other arrays than its step, so that its line can be right: from a step too early,
    /// past one that MINE has or a whole other module, from a foreign one, or without one. Masks, and whole numbers that tell
    /// what to mask, are no steps, and can be what is missing.
    bool has_other_sources(std::size_t i);

    /// The scope of a step's module: "layers.0.self_attn." of a head's scores, too.
    std::string module_of(std::size_t step) const;

    std::optional<Names> needed_;                        ///< once it was asked for
    std::map<std::string, Reason, std::less<>> reasons_; ///< of arrays that are no steps, as far as they are known
    std::size_t reasons_at_ = 0;                         ///< the changes() of which these are
};

} // namespace attn::diff
