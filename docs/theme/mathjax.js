MathJax.Hub.Config({
  showMathMenu: false,
  messageStyle: "none",
  SVG: { linebreaks: { automatic: true }, matchFontHeight: true, EqnChunk: 1000, EqnDelay: 0 }
});
// A formula that is wider than the page breaks at an operator or a comma, never beside a parenthesis; without one, it scrolls.
MathJax.Hub.Register.StartupHook("SVG multiline Ready", () => {
  const penalty = MathJax.ElementJax.mml.mbase.prototype.SVGlinebreakPenalty;
  penalty.fence = penalty.close = penalty.nobreak;
});
