#include "attn/show/graph/dataflow.hpp"

#include "scopes.hpp"

#include "attn/show/console.hpp"

namespace attn::show {
namespace {

std::string counted(std::size_t count, const std::string& what)
{
    const bool takes_es = what.ends_with('x');
    return std::to_string(count) + " " + what + (count == 1 ? "" : takes_es ? "es" : "s");
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& words)
{
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
    return text;
}

/// What a box is called in a sentence: several names where it stands for several given steps.
std::vector<std::string> names_of(const Dataflow& dataflow, const DataflowBox& box)
{
    if (box.kind == DataflowBox::Kind::folded)
        return {box.path};
    std::vector<std::string> names;
    for (const std::size_t step : box.steps)
        names.push_back(dataflow.recording->steps[step].path);
    return names;
}

void append(std::vector<std::string>& names, const std::vector<std::string>& more)
{
    names.insert(names.end(), more.begin(), more.end());
}

} // namespace

std::string label_of(const Dataflow& dataflow, const DataflowBox& box, std::size_t step)
{
    const Step& shown = dataflow.recording->steps[step];
    const std::string& around = box.kind == DataflowBox::Kind::folded ? box.path : dataflow.frames[box.frame].path;
    const bool is_shortened = !around.empty() && is_inside(around, shown.path);
    return shown.path.substr(is_shortened ? around.size() + 1 : 0) + format_axes(shown);
}

std::string summary(const Dataflow& dataflow)
{
    constexpr std::size_t most = 8;
    std::string text = counted(dataflow.boxes.size(), "box") + " and " + counted(dataflow.edges.size(), "edge");
    std::vector<std::string> folded;
    for (const DataflowBox& box : dataflow.boxes)
        if (box.kind == DataflowBox::Kind::folded)
            folded.push_back(box.path + " (" + counted(box.steps.size(), "step") + ")");
    if (folded.empty())
        return text + "; nothing is folded";
    if (folded.size() > most) {
        const std::size_t rest = folded.size() - most + 1;
        folded.resize(most - 1);
        folded.push_back(std::to_string(rest) + " more");
    }
    return text + "; folded at depth " + std::to_string(dataflow.depth) + ": " + listed(folded);
}

std::string description(const Dataflow& dataflow)
{
    constexpr std::size_t most = 200;
    std::vector<std::vector<std::string>> operands(dataflow.boxes.size());
    for (const DataflowEdge& edge : dataflow.edges)
        append(operands[edge.to], names_of(dataflow, dataflow.boxes[edge.from]));
    std::vector<std::string> given;
    std::string text;
    std::size_t sentences = 0;
    for (std::size_t i = 0; i < dataflow.boxes.size(); ++i) {
        const DataflowBox& box = dataflow.boxes[i];
        if (box.kind == DataflowBox::Kind::given) {
            append(given, names_of(dataflow, box));
        } else if (++sentences <= most) {
            const bool is_folded = box.kind == DataflowBox::Kind::folded;
            text += " " + box.path + (is_folded ? " (" + counted(box.steps.size(), "step") + ", folded)" : "") +
                    (operands[i].empty() ? "" : " from " + listed(operands[i])) + ".";
        }
    }
    if (sentences > most)
        text += " And " + counted(sentences - most, "more box") + ".";
    if (given.size() > most)
        given.resize(most);
    return counted(dataflow.boxes.size(), "box") + ", from top to bottom." +
           (given.empty() ? "" : " Given: " + listed(given) + ".") + text;
}

} // namespace attn::show
