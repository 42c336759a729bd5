#include "my_graph.hpp"

#include "evidence.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace attn::diff {

MyGraph::MyGraph(std::vector<std::string> order, const Origins& origins) : order_(std::move(order))
{
    std::set<std::string_view> earlier; // nothing is computed from what comes later
    for (const std::string& name : order_) {
        earlier.insert(name);
        const auto origin = origins.find(name);
        if (origin == origins.end() || !origin->second.knows_reads)
            continue;
        knows_reads_ = true;
        if (origin->second.call || origin->second.function == "<module>")
            calls_[name] = {origin->second.file, origin->second.call};
        std::vector<std::string>& reads = reads_[name];
        std::ranges::copy_if(origin->second.reads, std::back_inserter(reads),
                             [&](const std::string& read) { return read != name && earlier.contains(read); });
        read_.insert(reads.begin(), reads.end());
    }
}

const std::vector<std::string>& MyGraph::reads(std::string_view name) const
{
    static const std::vector<std::string> none;
    const auto found = reads_.find(name);
    return found == reads_.end() ? none : found->second;
}

bool MyGraph::are_of_one_call(std::string_view one, std::string_view other) const
{
    const auto its = calls_.find(one), others = calls_.find(other);
    return its != calls_.end() && others != calls_.end() && its->second == others->second;
}

Evidence& MyGraph::evidence(const Recording& reference, const ArrayViews& mine) const
{
    if (!evidence_ || &evidence_->steps() != &reference.steps)
        evidence_ = std::make_shared<Evidence>(reference, mine);
    return *evidence_;
}

} // namespace attn::diff
