#pragma once

#include "attn/diff/diff.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include "compare.hpp"
#include "known_steps.hpp"
#include "my_graph.hpp"
#include "names.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attn::diff {

// Of another run in double, over some layers.
inline constexpr double roundings_of_result = 256;
// What one draw of roundings finds wrong is tried with more before it is said.
inline constexpr std::size_t more_draws = 5;

/// What a program has for the weights of queries that can attend to nothing, where attn has zeros.
enum class EmptyRows { nan, even };

/// A softmax that has that there.
/// @param scores  what it is taken of
std::string with_empty_rows(const std::string& formula, std::string_view scores, EmptyRows rows);

/// The arrays of MINE. One that is bit by bit the step of its name is not kept: the reference has it.
class MyArrays {
public:
    MyArrays(const Recording& reference, files::NamedArrays arrays);

    /// Adds the next array that MINE computed.
    void add(const std::string& name, Array array);

    /// Takes note of what a recorder says of the arrays that were added, and of what the user calls the result.
    /// @throws Error where the user names an array that MINE does not have
    void describe(Listing listing, const std::vector<NameRule>& names);

    /// The reference; with a step more, the result's last token, where MINE has that of the result alone.
    const Recording& reference() const { return changed_ ? *changed_ : reference_; }

    /// The same beside a reference in which queries that can attend to nothing have even weights, as after a large negative number
    /// for minus infinity.
    static std::shared_ptr<const MyArrays> beside_even_rows(const std::shared_ptr<const MyArrays>& mine);

    /// The steps of the reference that have such weights, by path.
    const std::set<std::string, std::less<>>& even_rows() const { return even_rows_; }

    const ArrayViews& views() const { return views_; }

    const MyGraph& graph() const { return graph_; }

    const Listing& listing() const { return listing_; }

    /// The name of the array that a part was taken from: "probs" for "probs[..., 3, :, :]" and for "probs.T".
    std::string_view name_of(std::string_view part) const;

private:
    const Recording& reference_;
    formula::StepNames names_;
    files::NamedArrays kept_;
    ArrayViews views_;
    std::vector<std::string> order_;
    MyGraph graph_;
    Listing listing_;
    std::optional<Recording> changed_;
    std::set<std::string, std::less<>> even_rows_;
    std::shared_ptr<const MyArrays> of_views_; ///< which keeps the arrays, where this is a copy
};

/// What MINE computed, as far as it is known: its own arrays, and what follows from them.
///
/// Beside it stands what it would have been with other roundings, so that noise is measured and not guessed. Whole numbers
/// and booleans are exact in every type that can hold them: no rounding moves them.
struct Diff::World {
    World(std::shared_ptr<const MyArrays> arrays, Claims meanings);

    /// What a formula gives from MINE's operands, and how far right numbers can be off.
    struct Recomputed {
        Array value;
        Tolerance tolerance;
    };

    /// Computes a step by its formula.
    /// @param draws      how many times other roundings are tried: one can be an unlucky one. All but the first round the
    ///                   result of each operation, too
    /// @param as_dumped  from operands in MINE's layout, where that is another one than the reference's
    /// @throws FormulaError where that can't be done
    Recomputed recompute(std::size_t step, std::size_t draws = 1, bool as_dumped = false);

    /// The same numbers, with no more tolerance than for the rounding of the result: several times as fast.
    /// @throws FormulaError where that can't be done
    Recomputed recompute_plainly(std::size_t step);

    /// The same from weights whose rows are divided by their sums: a flash kernel saves exp(score - log of the sum), whose
    /// rows sum to 1 up to the roundings of that logarithm, and goes on with exponentials that it divides at the end.
    /// @return nothing where MINE has saved no right weights that the step is computed from
    /// @throws FormulaError where that can't be done
    std::optional<Recomputed> recompute_from_normalised(std::size_t step, std::size_t draws);

    /// What a formula gives from some operands, and from the same with other roundings.
    struct Both {
        formula::Evaluated plain;
        Array moved;
        double scale = 0;       ///< the largest number among the operands that roundings move
        bool has_exact = false; ///< one of the operands is exact
    };
    using ArrayOf = std::function<const Array&(std::size_t step)>;

    /// What other roundings have done to a result.
    struct Otherwise {
        double largest_move = 0;
        std::vector<double> error; ///< of each number, where each operation's result was rounded, too
    };

    /// Computes a step by a formula from operands of whatever source; its names can mean later steps, too.
    /// @param judged       what the name mine means, if anything
    /// @param with_errors  or only the numbers, several times as fast
    /// @throws FormulaError where that can't be done
    formula::Evaluated evaluate_step(std::size_t step, const std::string& formula, const ArrayOf& array_of,
                                     const Array* judged = nullptr, bool with_errors = true) const;

    /// Computes a step by a formula from operands of whatever source.
    /// @throws FormulaError where that can't be done
    Both evaluate_both(std::size_t step, const std::string& formula, const ArrayOf& plain_of, const ArrayOf& moved_of,
                       const Array* judged = nullptr);
    /// A step as another program would compute it: by sums in another order.
    /// @param moved  what its formula gives from operands with other roundings
    Array computed_otherwise(std::size_t step, const formula::Evaluated& moved);
    /// @param otherwise  what other roundings did
    Recomputed recomputed(Both both, const Otherwise& otherwise) const;

    /// How far off the numbers of an array can be that was rounded and nothing else.
    Tolerance tolerance_of(const Array& expected) const;

    /// What MINE has for a step.
    const Array& plain(std::size_t step, bool as_dumped = false);
    /// The same with other roundings.
    const Array& moved(std::size_t step, bool as_dumped = false);

    /// Takes MINE to have computed in another type.
    void compute_as(NumberType other);

    /// Takes weights of queries that can attend to nothing for NaN, 0 / 0.
    void expect_nan_rows();

    /// The earlier steps that a step's formula names.
    const std::vector<std::size_t>& operands(std::size_t step) { return steps.operands(step); }
    /// True where no rounding moves a step: whole numbers that were given, or that follow from such alone.
    bool is_exact(std::size_t step);
    /// True where an operand is wrong, or follows from one that is.
    bool has_wrong_operand(std::size_t step);
    /// Steps that MINE doesn't have between a step and those that it has.
    std::set<std::size_t> unknown_before(std::size_t step);

    /// A step as the given reference has it, which outlives this; an alias that is a step here lives as long as this.
    const Step& original(std::size_t step) const;

    std::shared_ptr<const MyArrays> mine;
    const Recording& run; ///< the reference as it is given
    Claims claims;
    const Recording& recording;         ///< of the reference, with MINE's aliases as steps where they are others
    const std::vector<Step>& reference; ///< its steps
    formula::StepNames names;
    KnownSteps steps; ///< what MINE has for them
    NumberType type = NumberType::float64;
    std::vector<NumberType> coarser; ///< types that MINE can have computed in as well, as far as its numbers tell
    bool has_rounded_inputs = false; ///< MINE computed from inputs of a shorter type

    /// What is known of one step.
    struct Known {
        const Array* dumped = nullptr; ///< as it is in MINE, where that is another layout
        bool is_wrong = false;         ///< a bug, another layout or inherited
        bool is_claimed = false;
        std::optional<Array> moved, dumped_moved;        ///< with other roundings
        std::optional<bool> is_exact, has_wrong_operand; ///< once they are known
    };

    std::vector<Known> known;
    std::deque<Array> kept;                          ///< arrays of MINE, moved into the reference's layout
    std::optional<std::vector<Diagnosis>> diagnoses; ///< once they were needed
    std::shared_ptr<Diff> of_result; ///< the result alone, where it has been asked what the steps before can't tell
    bool is_everywhere = false;      ///< mistakes are made in all steps that they concern, and not in some
    bool is_search_cut = false;      ///< not all mistakes were tried
    bool is_cut = false;             ///< nor all arrays found or judged, since the budget did not suffice

private:
    Array moved_by_roundings(const Array& array, std::size_t step);
    Array moved_again(std::size_t step);
    void redraw(std::size_t draw);
    void forget_moved();
    std::map<std::size_t, Array> normalised_weights(std::size_t step);

    formula::ErrorModel error_model() const;

    std::size_t draw_ = 0; ///< which roundings are tried: in all but the first, those of each operation, too
};

} // namespace attn::diff
