addEventListener("load", () => {
  // Punctuation goes with its formula (custom.css): no line begins with a comma.
  const keep = (formula) => {
    const after = formula.nextSibling;
    const marks = after?.nodeType === 3 ? after.data.match(/^[.,;:!?…)\]’”%–-]+/)?.[0] : null;
    if (marks) {
      after.deleteData(0, marks.length);
      formula.append(marks);
    }
  };
  // A box that scrolls sideways can be reached by the Tab key, and only while it does.
  const boxes = document.querySelectorAll(
    "div.math, .bd-article p, .cell_output .output, .output.text_html, .pst-scrollable-table-container, figure, dl.py p, div.highlight pre",
  );
  const mark = (box) => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver((seen) => seen.forEach((each) => mark(each.target)));
  const whenSet = () => {
    document.querySelectorAll(".bd-article span.math").forEach(keep);
    boxes.forEach((box) => observer.observe(box)); // which marks each once
  };
  (window.MathJax?.startup?.promise ?? Promise.resolve()).then(whenSet);
});
