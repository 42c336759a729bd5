#pragma once

#include "calls.hpp"

#include "attn/formula/recompute.hpp"
#include "attn/vectors/vectors.hpp"

#include <optional>
#include <span>

namespace attn::vectors {

/// What the results of a recorded function would have been if some steps had been computed otherwise.
class Alternatives {
public:
    /// @param outputs  the names of the results, and their steps' paths
    /// @param rows     which rows of the results are given; empty for all
    Alternatives(const Recording& recording, const std::vector<std::pair<std::string, std::string>>& outputs,
                 std::vector<std::size_t> rows);

    /// The right results, and how near others have to be: as far as other roundings move them.
    const std::vector<Output>& right() const { return right_; }

    /// What a convention gives: formulas by the ends of steps' paths.
    /// @throws std::logic_error where there is no such step
    Alternative of_convention(const std::string& name, const std::map<std::string, std::string>& formulas) const;

    /// What each well-known mistake gives that can be made here and changes a result, in the first form that does.
    std::vector<Alternative> of_mistakes() const;

    /// The same of several calls, for the mistakes of these ids.
    /// @param calls  the names of each
    std::vector<Alternative> of_calls(const std::vector<std::string>& ids, const std::vector<CallNames>& calls) const;

private:
    Alternative of(std::string name, const formula::Changes& changes) const;
    std::optional<Alternative> differing(std::string name, const formula::Changes& changes) const;
    mistakes::StepOf steps_before(std::size_t number) const;
    std::vector<Output> outputs_with(const formula::Changes& changes) const;
    std::optional<Alternative> of_mistake(const mistakes::Pitfall& pitfall) const;
    std::optional<Alternative> of_edits(const mistakes::Pitfall& pitfall, std::span<const mistakes::StepEdit> edits,
                                        std::string_view value, bool needs_all) const;
    std::vector<Output> measured() const;
    bool keeps_shapes(const formula::Changes& changes, const formula::Recomputation::Arrays& arrays) const;
    std::optional<std::string> mistaken(const CallEdit& edit, const std::vector<CallNames>& calls,
                                        std::size_t number) const;

    const Recording& recording_;
    formula::Recomputation again_;
    std::vector<std::size_t> results_; ///< numbers of steps
    std::vector<std::string> names_;
    std::vector<std::size_t> rows_;
    bool is_backward_, has_calls_;
    std::vector<Output> right_;
};

} // namespace attn::vectors
