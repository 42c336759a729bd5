#include "attn/vectors/choose.hpp"

#include <algorithm>
#include <map>

namespace attn::vectors {
namespace {

/// Needs as numbers, and how many of the cases that are taken meet each.
class Coverage {
public:
    explicit Coverage(const std::vector<std::vector<Need>>& serves)
    {
        std::map<Need, std::size_t> numbers;
        for (const std::vector<Need>& needs : serves) {
            served_.emplace_back();
            for (const Need& need : needs) {
                const auto [known, is_new] = numbers.emplace(need, wanted_.size());
                if (is_new)
                    wanted_.push_back(need.cases);
                served_.back().push_back(known->second);
            }
        }
        met_.resize(wanted_.size());
    }

    /// How many needs are nearer to being met with this case.
    std::size_t gain(std::size_t one) const
    {
        return static_cast<std::size_t>(
            std::ranges::count_if(served_[one], [&](std::size_t need) { return met_[need] < wanted_[need]; }));
    }

    bool is_needed(std::size_t one) const
    {
        return std::ranges::any_of(served_[one], [&](std::size_t need) { return met_[need] <= wanted_[need]; });
    }

    void take(std::size_t one)
    {
        for (const std::size_t need : served_[one])
            ++met_[need];
    }

    void leave(std::size_t one)
    {
        for (const std::size_t need : served_[one])
            --met_[need];
    }

private:
    std::vector<std::vector<std::size_t>> served_;
    std::vector<std::size_t> wanted_, met_;
};

} // namespace

std::vector<std::size_t> choose(const std::vector<std::vector<Need>>& serves)
{
    Coverage coverage(serves);
    std::vector<std::size_t> taken, left;
    for (std::size_t i = 0; i < serves.size(); ++i)
        left.push_back(i);
    while (true) {
        const auto best = std::ranges::max_element(left, {}, [&](std::size_t one) { return coverage.gain(one); });
        if (best == left.end() || coverage.gain(*best) == 0)
            break;
        coverage.take(*best);
        taken.push_back(*best);
        left.erase(best);
    }
    std::erase_if(taken, [&](std::size_t one) {
        if (coverage.is_needed(one))
            return false;
        coverage.leave(one);
        return true;
    });
    std::ranges::sort(taken);
    return taken;
}

} // namespace attn::vectors
