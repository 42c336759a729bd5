#pragma once

#include "attn/core/recording.hpp"
#include "attn/diff/origin.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::diff {

class Evidence;

/// MINE's arrays by name, wherever they are.
using ArrayViews = std::map<std::string, const Array*, std::less<>>;

/// A step that a reference gets where MINE has its result for the last token alone.
inline constexpr std::string_view last_token_path = "last_token";

/// The step that all others lead to: what is called output, or the last one.
std::size_t result_of(const Recording& reference);

/// MINE as a graph: its arrays in the order in which it computed them, and what each was computed from, as far as it says.
class MyGraph {
public:
    MyGraph() = default;

    /// @param order  the names of all arrays, in the order of MINE; empty where there is none
    MyGraph(std::vector<std::string> order, const Origins& origins);

    /// The names in the order in which MINE computed them; empty where they came without one.
    const std::vector<std::string>& order() const { return order_; }

    /// True where MINE says what its arrays were computed from.
    bool knows_reads() const { return knows_reads_; }

    /// True where the same call of a function assigned two arrays, or the same file outside of functions: the code that computed one
    /// could choose the other.
    bool are_of_one_call(std::string_view one, std::string_view other) const;

    /// True where some array was computed from it.
    bool is_read(std::string_view name) const { return read_.contains(name); }

    /// The arrays that one was computed from.
    const std::vector<std::string>& reads(std::string_view name) const;

    /// All arrays that one follows from, and itself; not those beyond an array that is left out.
    template <class IsLeftOut>
    std::set<std::string, std::less<>> all_before(const std::string& start, const IsLeftOut& is_left_out) const
    {
        std::vector<std::string> open{start};
        std::set<std::string, std::less<>> found{start};
        while (!open.empty()) {
            const std::string name = std::move(open.back());
            open.pop_back();
            for (const std::string& read : reads(name))
                if (!is_left_out(read) && found.insert(read).second)
                    open.push_back(read);
        }
        return found;
    }

    /// What the numbers of its arrays say beside a reference, found out once. All of these outlive the graph.
    Evidence& evidence(const Recording& reference, const ArrayViews& mine) const;

private:
    std::vector<std::string> order_;
    std::map<std::string, std::vector<std::string>, std::less<>> reads_;
    std::set<std::string, std::less<>> read_;
    std::map<std::string, std::pair<std::string, std::optional<std::size_t>>, std::less<>> calls_; ///< and their files
    bool knows_reads_ = false;
    mutable std::shared_ptr<Evidence> evidence_; ///< once it was asked for
};

} // namespace attn::diff
