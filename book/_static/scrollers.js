// A box that scrolls sideways can be reached by the Tab key, and only while it does.
addEventListener("load", () => {
  const boxes = document.querySelectorAll(
    "div.math, .bd-article p, .cell_output .output, .output.text_html, .pst-scrollable-table-container, figure, dl.py p, div.highlight pre",
  );
  const mark = (box) => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver((seen) => seen.forEach((each) => mark(each.target)));
  const watch = () => boxes.forEach((box) => observer.observe(box)); // which marks each once
  (window.MathJax?.startup?.promise ?? Promise.resolve()).then(watch);
});
