// Punctuation goes with its formula (custom.css): no line begins with a comma.
const keep = (formula) => {
  const after = formula.matches(".bd-article span.math") && formula.nextSibling;
  const marks = after?.nodeType === 3 ? after.data.match(/^[.,;:!?…)\]’”%–-]+/)?.[0] : null;
  if (marks) {
    after.deleteData(0, marks.length);
    formula.append(marks);
  }
};
const set = async (formulas) => {
  await MathJax.typesetPromise(formulas);
  formulas.forEach(keep);
};
// Formulas are set from what is in sight on, and until this part is done the page's text is not shown: what one sees does
// not move. The rest follows in pieces, between which the page answers.
if (window.MathJax) {
  const { classList } = document.documentElement;
  const show = () => classList.remove("unset");
  classList.add("unset");
  setTimeout(show, 3000); // come what may
  MathJax.startup = {
    async pageReady() {
      const formulas = [...document.querySelectorAll(".math, .output_area, .tex2jax_process, .mathjax_process")];
      const isNear = (formula) => {
        const { top } = formula.getBoundingClientRect();
        return top > -innerHeight && top < 2 * innerHeight;
      };
      const near = new Set(formulas.filter(isNear)),
        later = formulas.filter((formula) => !near.has(formula));
      if (near.size) await set([...near]);
      document.body.getBoundingClientRect(); // which asks for the fonts of these formulas
      await document.fonts.ready;
      show();
      for (let i = 0; i < later.length; i += 100) {
        await new Promise((done) => setTimeout(done));
        await set(later.slice(i, i + 100));
      }
    },
  };
}
addEventListener("load", () => {
  // A box that scrolls sideways can be reached by the Tab key, and only while it does.
  const boxes = document.querySelectorAll(
    "div.math, .bd-article p, .cell_output .output, .output.text_html, .pst-scrollable-table-container, figure, dl.py p, div.highlight pre",
  );
  const mark = (box) => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver((seen) => seen.forEach((each) => mark(each.target)));
  const whenSet = () => boxes.forEach((box) => observer.observe(box)); // which marks each once
  (window.MathJax?.startup?.promise ?? Promise.resolve()).then(whenSet);
});

// A dark page is printed light: paper is white, and browsers leave backgrounds out.
{
  const { dataset } = document.documentElement;
  let screen = dataset.theme;
  matchMedia("print").addEventListener("change", ({ matches }) => {
    if (matches) screen = dataset.theme;
    dataset.theme = matches ? "light" : screen;
  });
}
