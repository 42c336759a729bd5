MathJax.Hub.Config({
  showMathMenu: false,
  messageStyle: "none",
  SVG: { linebreaks: { automatic: true }, matchFontHeight: true, EqnChunk: 1000, EqnDelay: 0 }
});
