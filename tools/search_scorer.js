// Which search result comes first: Sphinx's own scores, but chapters before back matter, and the API's pages last.
var Scorer = {
  score: ([page, , , , score]) => {
    if (page.startsWith("book/api")) return score - 100;
    if (/^notebooks\/[01]\d/.test(page)) return score + 10;
    return score + (/^book\/(howto|glossary|explorer)|^notebooks\/H/.test(page) ? 5 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Excerpts are of the text alone: without code, formulas in TeX, and what is around an article.
const ofPage = Search.htmlToText;
Search.htmlToText = (text, anchor) => {
  const page = new DOMParser().parseFromString(text, "text/html");
  page.querySelector('[role="main"]')?.replaceChildren(...page.querySelectorAll("article"));
  page.querySelectorAll("pre, div.math, summary, .figure-files").forEach((each) => each.remove());
  page.querySelectorAll("span.math").forEach((each) => each.replaceWith("…"));
  return ofPage(page.documentElement.outerHTML, anchor);
};

// A chapter is found once, at its best place.
const allResults = Search._performSearch;
Search._performSearch = (...query) => {
  const results = allResults(...query);
  const best = ([page], place) => results.findLastIndex((other) => other[0] === page) === place;
  return results.filter((result, place) => !result[0].startsWith("notebooks/") || best(result, place));
};
