#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/engines/mpi/packed_recording.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"
#include "communicator.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace attn::mpi {
namespace {

constexpr int recording_tag = 1703;

std::vector<Recording> receive_all(const Recording& mine, MPI_Comm comm)
{
    std::vector<Recording> all{mine};
    for (std::size_t rank = 1; rank < ranks_in(comm); ++rank) {
        MPI_Status status;
        int size = 0;
        MPI_Probe(static_cast<int>(rank), recording_tag, comm, &status);
        MPI_Get_count(&status, MPI_CHAR, &size);
        std::string bytes(static_cast<std::size_t>(size), '\0');
        MPI_Recv(bytes.data(), size, MPI_CHAR, static_cast<int>(rank), recording_tag, comm, MPI_STATUS_IGNORE);
        all.push_back(unpack(bytes));
    }
    return all;
}

/// Brings steps of several ranks into an order in which each comes after those that it names.
class Merger {
public:
    explicit Merger(std::vector<Recording> ranks) : ranks_(std::move(ranks)), next_(ranks_.size(), 0)
    {
        for (const Recording& rank : ranks_)
            for (const Alias& alias : rank.aliases)
                targets_[alias.path] = alias.target;
    }

    Recording merged()
    {
        for (Recording& rank : ranks_) {
            for (const Step& step : rank.steps)
                if (step.formula.empty())
                    add(step);
            std::erase_if(rank.steps, [](const Step& step) { return step.formula.empty(); });
            all_.aliases.insert(all_.aliases.end(), rank.aliases.begin(), rank.aliases.end());
        }
        while (add_some()) {
        }
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            if (next_[rank] != ranks_[rank].steps.size())
                throw Error("mpi::gather_recording: no rank has recorded what ", ranks_[rank].steps[next_[rank]].path,
                            " names: ", ranks_[rank].steps[next_[rank]].formula);
        return std::move(all_);
    }

private:
    void add(const Step& step)
    {
        if (!added_.insert(step.path).second)
            throw Error("mpi::gather_recording: two ranks have recorded ", step.path);
        all_.steps.push_back(step);
    }

    /// The steps of each rank, up to one that has to wait for another rank's.
    bool add_some()
    {
        bool any = false;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            for (const std::vector<Step>& steps = ranks_[rank].steps;
                 next_[rank] < steps.size() && is_ready(steps[next_[rank]]); ++next_[rank]) {
                add(steps[next_[rank]]);
                any = true;
            }
        return any;
    }

    /// True where all steps of other ranks that it names are there: those of its own come before it anyway.
    bool is_ready(const Step& step) const
    {
        return std::ranges::all_of(formula::names_in(step.formula), [&](const formula::UsedName& used) {
            if (!used.name.starts_with("rank."))
                return true;
            const auto alias = targets_.find(used.name);
            return added_.contains(alias == targets_.end() ? used.name : alias->second);
        });
    }

    std::vector<Recording> ranks_;
    std::vector<std::size_t> next_;
    std::set<std::string, std::less<>> added_;
    std::map<std::string, std::string, std::less<>> targets_;
    Recording all_;
};

/// The ranks' chunks in the order of tokens: "concat(rank.0.context[:, :, 0:3], rank.1.context[:, :, 0:2], axis=2)".
std::string in_token_order(const Layout& layout, const std::string& step)
{
    std::map<std::size_t, std::string> parts; // by the first token
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank) {
        std::size_t row = 0;
        for (const Chunk& chunk : layout.of_rank[rank]) {
            if (chunk.count != 0)
                parts[chunk.first] = "rank." + std::to_string(rank) + "." + step + "[:, :, " + std::to_string(row) +
                                     ":" + std::to_string(row + chunk.count) + "], ";
            row += chunk.count;
        }
    }
    std::string formula = "concat(";
    for (const auto& [first, part] : parts)
        formula += part;
    return formula + "axis=2)";
}

} // namespace

Recording gather_recording(const Recording& mine, MPI_Comm comm)
{
    if (rank_in(comm) == 0)
        return Merger(receive_all(mine, comm)).merged();
    const std::string bytes = pack(mine);
    const int size = message_size("mpi::gather_recording", bytes.size());
    MPI_Send(bytes.data(), size, MPI_CHAR, 0, recording_tag, comm);
    return {};
}

Recording gather_recording(const Recording& mine, MPI_Comm comm, const Layout& layout, const std::string& step)
{
    Recording all = gather_recording(mine, comm);
    if (rank_in(comm) != 0 || layout.tokens() == 0)
        return all;
    Step whole;
    whole.path = step;
    whole.formula = in_token_order(layout, step);
    whole.axes = {"b", "h", "n", "d"};
    whole.module = "mpi::gather_recording";
    whole.value = formula::evaluate(whole.formula, [&](std::string_view name) -> const Array* {
                      const auto found = std::ranges::find(all.steps, name, &Step::path);
                      return found == all.steps.end() ? nullptr : &found->value;
                  }).value;
    all.steps.push_back(std::move(whole));
    return all;
}

} // namespace attn::mpi
