#include "attn/show/graph/dataflow.hpp"

#include "attn/formula/scope.hpp"
#include "scopes.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace attn::show {
namespace {

constexpr std::size_t deepest = 100;
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

using Numbers = std::vector<std::size_t>;

void expect_scope(const Recording& recording, const std::string& scope)
{
    std::unordered_set<std::string_view> seen;
    std::vector<std::string_view> scopes;
    for (const Step& step : recording.steps) {
        if (is_inside(scope, step.path))
            return;
        const std::string_view path = step.path;
        for (std::size_t dot = path.find('.'), left = deepest; dot != std::string_view::npos && left > 0;
             dot = path.find('.', dot + 1), --left)
            if (seen.insert(path.substr(0, dot)).second)
                scopes.push_back(path.substr(0, dot));
    }
    const bool is_step = formula::StepNames(recording).find(scope).has_value();
    throw Error((is_step ? scope + " is a step, not a scope; --to " + scope + " draws what it follows from"
                         : "no scope is called " + scope.substr(0, 200) + suggestion(scopes, scope)),
                (scopes.empty() ? "; this trace has no scopes" : ""));
}

// ---------------------------------------------------------------------------------------------------- which uses which

/// The steps that are drawn, and what they use.
class Uses {
public:
    Uses(const Recording& recording, const DataflowOptions& options)
        : recording_(recording),
          names_(recording),
          scope_(options.scope),
          used_(recording.steps.size()),
          is_needed_(recording.steps.size(), options.targets.empty())
    {
        for (const std::string& target : options.targets)
            is_needed_[formula::find_step(recording, target)] = true;
        const bool is_all = options.targets.empty();
        for (std::size_t i = recording.steps.size(); i-- > 0;) {
            if (!is_needed_[i] || (is_all && !is_in_scope(i)))
                continue;
            used_[i] = used_by(i);
            for (const std::size_t operand : used_[i])
                is_needed_[operand] = true;
        }
    }

    bool is_drawn(std::size_t step) const { return is_needed_[step] && is_in_scope(step); }

    const Numbers& of(std::size_t step) const { return used_[step]; }

private:
    bool is_in_scope(std::size_t step) const { return is_inside(scope_, recording_.steps[step].path); }

    Numbers used_by(std::size_t i) const
    {
        const Step& step = recording_.steps[i];
        Numbers used;
        if (step.formula.empty())
            return used;
        for (const formula::UsedName& name : formula::names_in(step.formula)) {
            const std::optional<std::size_t> found = names_.resolve(i, name.name);
            if (!found)
                throw Error(step.path, " can't be drawn: no earlier step is called ", name.name.substr(0, 200),
                            ", in its formula ", step.formula.substr(0, 200));
            if (!name.is_size_alone)
                used.push_back(*found);
        }
        return used;
    }

    const Recording& recording_;
    formula::StepNames names_;
    std::string_view scope_;
    std::vector<Numbers> used_;
    std::vector<bool> is_needed_;
};

// ------------------------------------------------------------------------------------------------------------- folding

/// How deep scopes are open.
struct Opened {
    std::size_t depth = 0;
    bool are_numbers_apart = true; ///< layers.0 and layers.1 are two boxes where they are folded
};

/// The largest depth at which there are not too many boxes.
Opened chosen_depth(const Recording& recording, std::string_view scope, const Numbers& drawn, std::size_t given)
{
    std::vector<std::size_t> steps(deepest + 2), scopes(deepest + 2); // that are as many scopes deep
    std::unordered_set<std::string_view> seen;
    for (const std::size_t i : drawn) {
        const std::vector<std::string_view> around = scopes_in(scope, recording.steps[i].path, deepest + 1);
        ++steps[around.size()];
        for (std::size_t depth = 0; depth < around.size(); ++depth)
            if (seen.insert(around[depth]).second)
                ++scopes[depth];
    }
    Opened opened;
    std::size_t open_steps = given;
    for (std::size_t depth = 0; depth <= deepest; ++depth) {
        open_steps += steps[depth];
        const std::size_t boxes = open_steps + scopes[depth];
        if (boxes > most_chosen_boxes) {
            opened.are_numbers_apart = depth > 0;
            return opened;
        }
        opened.depth = depth;
        if (scopes[depth] == 0)
            return opened;
    }
    return opened;
}

class Folding {
public:
    Folding(Dataflow& dataflow, const Opened& opened)
        : dataflow_(dataflow), opened_(opened), box_of_(dataflow.recording->steps.size(), nowhere)
    {
        dataflow_.depth = opened.depth;
        dataflow_.frames = {{"", 0}};
        if (!dataflow_.scope.empty())
            dataflow_.frames.push_back({dataflow_.scope, 0});
    }

    void add_given(std::size_t step)
    {
        box_of_[step] = dataflow_.boxes.size();
        dataflow_.boxes.push_back({DataflowBox::Kind::given, path_of(step), {step}});
    }

    void add(std::size_t step)
    {
        const std::string_view path = path_of(step);
        const std::vector<std::string_view> around = scopes_in(dataflow_.scope, path, opened_.depth + 1);
        const bool is_folded = around.size() > opened_.depth;
        const std::string_view key = is_folded ? folded_scope(around.back(), path) : path;
        // A step and a scope can have one path.
        const auto [place, is_new] = boxes_.try_emplace({key, is_folded}, dataflow_.boxes.size());
        box_of_[step] = place->second;
        if (is_new)
            dataflow_.boxes.push_back({is_folded ? DataflowBox::Kind::folded : DataflowBox::Kind::computed,
                                       std::string(key),
                                       {},
                                       frame_of(around, is_folded ? opened_.depth : around.size())});
        dataflow_.boxes[place->second].steps.push_back(step);
    }

    void connect(std::size_t from, std::size_t to)
    {
        const DataflowEdge edge{box_of_[from], box_of_[to]};
        if (edge.from != edge.to && edges_.insert({edge.from, edge.to}).second)
            dataflow_.edges.push_back(edge);
    }

    /// Draws a scope of one step as that step, and a step without a formula as given.
    void name_kinds()
    {
        for (DataflowBox& box : dataflow_.boxes) {
            if (box.steps.size() == 1) {
                box.kind = DataflowBox::Kind::computed;
                box.path = path_of(box.steps[0]);
            }
            const bool is_border = !is_inside(dataflow_.scope, box.path);
            const auto has_no_formula = [&](std::size_t i) { return dataflow_.recording->steps[i].formula.empty(); };
            if (is_border || (box.steps.size() == 1 && has_no_formula(box.steps[0])))
                box.kind = DataflowBox::Kind::given;
        }
    }

private:
    const std::string& path_of(std::size_t step) const { return dataflow_.recording->steps[step].path; }

    /// The scope, or its first word where numbers are not apart.
    std::string_view folded_scope(std::string_view scope, std::string_view path) const
    {
        if (opened_.are_numbers_apart)
            return scope;
        const std::size_t begin = dataflow_.scope.empty() ? 0 : dataflow_.scope.size() + 1;
        return path.substr(0, path.find('.', begin));
    }

    /// The frame of the innermost of so many scopes.
    std::size_t frame_of(const std::vector<std::string_view>& scopes, std::size_t count)
    {
        std::size_t frame = dataflow_.scope.empty() ? 0 : 1;
        for (std::size_t i = 0; i < count; ++i) {
            const auto [place, is_new] = frames_.try_emplace(scopes[i], dataflow_.frames.size());
            if (is_new)
                dataflow_.frames.push_back({std::string(scopes[i]), frame});
            frame = place->second;
        }
        return frame;
    }

    Dataflow& dataflow_;
    Opened opened_;
    Numbers box_of_; ///< by step
    std::map<std::pair<std::string_view, bool>, std::size_t> boxes_;
    std::unordered_map<std::string_view, std::size_t> frames_;
    std::set<std::pair<std::size_t, std::size_t>> edges_;
};

/// What is given to one folded box alone becomes one box: the weights of a layer.
void gather_given(Dataflow& dataflow)
{
    std::vector<Numbers> users(dataflow.boxes.size());
    for (const DataflowEdge& edge : dataflow.edges)
        users[edge.from].push_back(edge.to);
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> gathered; // by user and frame
    std::vector<std::size_t> place(dataflow.boxes.size());
    std::vector<DataflowBox> boxes;
    for (std::size_t i = 0; i < dataflow.boxes.size(); ++i) {
        DataflowBox& box = dataflow.boxes[i];
        place[i] = boxes.size();
        if (box.kind == DataflowBox::Kind::given && users[i].size() == 1 &&
            dataflow.boxes[users[i][0]].kind == DataflowBox::Kind::folded) {
            const auto [first, is_new] = gathered.try_emplace({users[i][0], box.frame}, boxes.size());
            place[i] = first->second;
            if (!is_new) {
                boxes[place[i]].steps.push_back(box.steps[0]);
                continue;
            }
        }
        boxes.push_back(box);
    }
    std::vector<DataflowEdge> edges;
    std::set<std::pair<std::size_t, std::size_t>> seen;
    for (const DataflowEdge& edge : dataflow.edges)
        if (seen.insert({place[edge.from], place[edge.to]}).second)
            edges.push_back({place[edge.from], place[edge.to]});
    dataflow.boxes = std::move(boxes);
    dataflow.edges = std::move(edges);
}

} // namespace

Dataflow dataflow_of(const Recording& recording, const DataflowOptions& options)
{
    if (!options.scope.empty())
        expect_scope(recording, options.scope);
    const Uses uses(recording, options);

    Numbers drawn, border;
    std::vector<bool> is_border(recording.steps.size());
    for (std::size_t i = 0; i < recording.steps.size(); ++i) {
        if (!uses.is_drawn(i))
            continue;
        drawn.push_back(i);
        for (const std::size_t operand : uses.of(i))
            if (!uses.is_drawn(operand) && !is_border[operand]) {
                is_border[operand] = true;
                border.push_back(operand);
            }
    }
    if (drawn.empty())
        throw Error(recording.steps.empty() ? "there are no steps to draw"
                                            : "no step of " + options.scope + " leads to what --to names");

    Dataflow dataflow{&recording, options.scope, {}, {}, {}, 0};
    Folding folding(dataflow, options.depth ? Opened{std::min(*options.depth, deepest), true}
                                            : chosen_depth(recording, options.scope, drawn, border.size()));
    for (std::size_t i = 0; i < recording.steps.size(); ++i) {
        if (is_border[i])
            folding.add_given(i);
        else if (uses.is_drawn(i))
            folding.add(i);
    }
    for (const std::size_t i : drawn)
        for (const std::size_t operand : uses.of(i))
            folding.connect(operand, i);
    folding.name_kinds();
    gather_given(dataflow);
    return dataflow;
}

} // namespace attn::show
