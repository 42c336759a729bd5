#pragma once

#include "attn/show/graph/dataflow.hpp"

#include <string>

namespace attn::show {

/// How a dataflow is drawn.
struct DrawOptions {
    std::string title = "Dataflow"; ///< the picture's title
    bool formulas = false;          ///< writes each step's formula in its box, instead of only where the mouse rests
};

/// The picture as a text in Graphviz's language DOT. Names and formulas are always shown as text.
std::string to_dot(const Dataflow& dataflow, const DrawOptions& options = {});

/// The picture as SVG, laid out by Graphviz's program `dot`.
///
/// It has a title and a description for readers who cannot see it, follows the reader's light or dark scheme, and loads
/// nothing. Inside a page that has a scheme of its own, set `--attn-graph-ink: currentColor` for the class
/// `attn-graph`.
/// @throws Error  where `dot` is not installed, fails, or takes more than a minute
std::string to_svg(const Dataflow& dataflow, const DrawOptions& options = {});

} // namespace attn::show
