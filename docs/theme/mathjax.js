MathJax.Hub.Config({
  showMathMenu: false,
  messageStyle: "none",
  SVG: { linebreaks: { automatic: true }, matchFontHeight: true, EqnChunk: 1000, EqnDelay: 0 }
});
// A formula that is wider than the page breaks at a wide space, or else at an operator or a comma, outside of parentheses if
// it can. It never breaks beside a parenthesis or within a product. Without a place to break, it scrolls.
MathJax.Hub.Register.StartupHook("SVG multiline Ready", () => {
  const mml = MathJax.ElementJax.mml, penalty = mml.mbase.prototype.SVGlinebreakPenalty;
  penalty.fence = penalty.close = penalty.nobreak;
  penalty.nestfactor = 600;
  penalty.spacefactor = -150;
  const breakOnlyIf = (node, holds) => {
    const betterBreak = node.prototype.SVGbetterBreak;
    node.Augment({ SVGbetterBreak(info, state) { return holds(this) && betterBreak.call(this, info, state); } });
  };
  breakOnlyIf(mml.mspace, space => space.SVGdata.w >= 1000);
  breakOnlyIf(mml.mo, operator => operator.data.join("") !== "\u2061"); // between a function and what it is applied to
});
// A comma or full stop stays on the line of the formula before it.
MathJax.Hub.Register.StartupHook("End", () => {
  for (const script of document.querySelectorAll('script[type="math/tex"]')) {
    const text = script.nextSibling, frame = document.getElementById(`${script.id}-Frame`);
    const mark = text?.nodeType === Node.TEXT_NODE && text.data.match(/^[,.;:!?)]+/);
    if (mark && frame) {
      const line = document.createElement("span");
      line.style.whiteSpace = "nowrap";
      frame.before(line);
      text.data = text.data.slice(mark[0].length);
      line.append(frame, script, mark[0]);
    }
  }
});
// A formula has a name that can be read out: its TeX, without what is only for the eye. Also where it was made again.
(() => {
  const nameOf = tex => tex.replace(/\\(?:left|right|big[lr]?|displaystyle|mathrm|text|operatorname|,|;|quad|qquad)(?![a-zA-Z])/g, " ").replace(/[{}\\]/g, "").replace(/\s+/g, " ").trim();
  const name = script => {
    const frame = document.getElementById(`${script.id}-Frame`);
    if (frame) {
      frame.setAttribute("role", "img");
      frame.setAttribute("aria-label", nameOf(script.text));
      frame.removeAttribute("tabindex");
      for (const drawn of frame.querySelectorAll("svg")) {
        drawn.removeAttribute("role");
        drawn.setAttribute("aria-hidden", "true");
      }
    }
  };
  MathJax.Hub.Register.MessageHook("New Math", message => name(document.getElementById(message[1])));
})();
