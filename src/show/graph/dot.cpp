#include "attn/show/graph/draw.hpp"

#include "plain_line.hpp"

#include <algorithm>
#include <string_view>

namespace attn::show {
namespace {

constexpr std::size_t longest_label = 80;

/// A text in quotes, in which Graphviz reads nothing but the text. It decodes &…; first.
std::string quoted(std::string_view text, std::string_view backslash = "&#92;")
{
    std::string result = "\"";
    for (const char c : text) {
        if (c == '&')
            result += "&amp;";
        else if (c == '\\')
            result += backslash;
        else if (c == '"')
            result += "&quot;";
        else
            result += c;
    }
    return result + "\"";
}

/// The same of what is shown, where a backslash begins \N for the node's name and the like.
std::string shown(std::string_view text) { return quoted(text, "\\\\"); }

/// Lines, each in the middle.
std::string shown(const std::vector<std::string>& lines)
{
    std::string text;
    for (const std::string& line : lines) {
        const std::string one = shown(plain_line(line, longest_label));
        text += (text.empty() ? "" : "\\n") + one.substr(1, one.size() - 2);
    }
    return "\"" + text + "\"";
}

class DotWriter {
public:
    DotWriter(const Dataflow& dataflow, const DrawOptions& options)
        : dataflow_(dataflow), options_(options), boxes_in_(dataflow.frames.size()), frames_in_(dataflow.frames.size())
    {
        for (std::size_t i = 0; i < dataflow.boxes.size(); ++i)
            boxes_in_[dataflow.boxes[i].frame].push_back(i);
        for (std::size_t i = 1; i < dataflow.frames.size(); ++i)
            frames_in_[dataflow.frames[i].parent].push_back(i);
    }

    std::string write()
    {
        text_ = "// " + plain_line(summary(dataflow_), 1000) + "\n";
        // Boxes for the widest of the usual fonts: the reader's browser can have any of them.
        text_ += "digraph " + quoted(plain_line(options_.title)) + R"( {
  graph [rankdir=TB, bgcolor=transparent, nodesep=0.22, ranksep=0.32]
  graph [fontname="DejaVu Sans,Verdana,sans-serif", fontsize=10.5]
  node [shape=box, height=0.3, margin="0.12,0.05", fontname="DejaVu Sans,Verdana,sans-serif", fontsize=11.5]
  edge [arrowsize=0.6]
)";
        add_frame(0, "  ");
        for (const DataflowEdge& edge : dataflow_.edges)
            text_ += "  " + id(edge.from) + " -> " + id(edge.to) + "\n";
        return text_ + "}\n";
    }

private:
    void add_frame(std::size_t frame, const std::string& indent)
    {
        for (const std::size_t i : boxes_in_[frame])
            add_box(i, indent);
        for (const std::size_t i : frames_in_[frame]) {
            text_ += indent + "subgraph " + quoted("cluster_" + plain_line(dataflow_.frames[i].path)) + " {\n" +
                     indent + "  label=" + shown(plain_line(frame_label(i), longest_label)) +
                     " labeljust=l style=rounded color=\"#80808080\" class=frame\n";
            add_frame(i, indent + "  ");
            text_ += indent + "}\n";
        }
    }

    /// The scope without the one around it, unless that leaves a number.
    std::string frame_label(std::size_t frame) const
    {
        const std::string& path = dataflow_.frames[frame].path;
        const std::string& around = dataflow_.frames[dataflow_.frames[frame].parent].path;
        const std::size_t begin = around.empty() ? 0 : around.size() + 1;
        return begin < path.size() && (path[begin] < '0' || path[begin] > '9') ? path.substr(begin) : path;
    }

    void add_box(std::size_t i, const std::string& indent)
    {
        const DataflowBox& box = dataflow_.boxes[i];
        const auto kind = static_cast<std::size_t>(box.kind);
        constexpr const char* classes[] = {"given", "computed", "folded"};
        const bool is_gathered = box.kind == DataflowBox::Kind::given && box.steps.size() > 1;
        // For renderers without style sheets; SVG gets its colours by class.
        static constexpr const char* looks[] = {"style=\"rounded,filled\", color=\"#2f7de0\", fillcolor=\"#2f7de026\"",
                                                "style=filled, fillcolor=\"#8080801a\"",
                                                "style=filled, peripheries=2, fillcolor=\"#80808033\""};
        text_ += indent + id(i) + " [label=" + shown(lines(box)) + ", class=\"" + classes[kind] +
                 (is_gathered ? " gathered" : "") + "\", " + looks[kind] +
                 ", tooltip=" + shown(plain_line(tooltip(box))) + "]\n";
    }

    std::vector<std::string> lines(const DataflowBox& box) const
    {
        if (box.kind == DataflowBox::Kind::folded)
            return {name_in_frame(box) + ", " + std::to_string(box.steps.size()) + " steps",
                    "→ " + label_of(dataflow_, box, box.steps.back())};
        if (box.steps.size() > 1)
            return gathered(box);
        const std::string label = label_of(dataflow_, box, box.steps[0]);
        const std::size_t bracket = std::min(label.find('['), label.size());
        std::vector<std::string> lines{label.substr(0, bracket)};
        if (bracket < label.size())
            lines.push_back(label.substr(bracket)); // below: a graph grows in width first
        if (options_.formulas && box.kind == DataflowBox::Kind::computed)
            lines.push_back("= " + dataflow_.step(box).formula);
        return lines;
    }

    std::vector<std::string> gathered(const DataflowBox& box) const
    {
        constexpr std::size_t most = 12;
        std::vector<std::string> lines;
        for (std::size_t i = 0; i < std::min(most, box.steps.size()); ++i)
            lines.push_back(label_of(dataflow_, box, box.steps[i]));
        if (box.steps.size() > most)
            lines.push_back("and " + std::to_string(box.steps.size() - most) + " more");
        return lines;
    }

    std::string name_in_frame(const DataflowBox& box) const
    {
        const std::string& around = dataflow_.frames[box.frame].path;
        return around.empty() ? box.path : box.path.substr(around.size() + 1);
    }

    std::string tooltip(const DataflowBox& box) const
    {
        if (box.kind == DataflowBox::Kind::folded)
            return box.path + ": " + std::to_string(box.steps.size()) + " steps; --scope " + box.path + " draws them";
        if (box.kind == DataflowBox::Kind::given)
            return dataflow_.recording->steps[box.steps.front()].path +
                   (box.steps.size() > 1 ? " and others, given" : ", given");
        return box.path + " = " + dataflow_.step(box).formula;
    }

    /// A folded scope can have the path of a step.
    std::string id(std::size_t i) const
    {
        const DataflowBox& box = dataflow_.boxes[i];
        return quoted(plain_line(box.path) + (box.kind == DataflowBox::Kind::folded ? ".*" : ""));
    }

    const Dataflow& dataflow_;
    const DrawOptions& options_;
    std::vector<std::vector<std::size_t>> boxes_in_, frames_in_; ///< by frame
    std::string text_;
};

} // namespace

std::string to_dot(const Dataflow& dataflow, const DrawOptions& options)
{
    return DotWriter(dataflow, options).write();
}

} // namespace attn::show
