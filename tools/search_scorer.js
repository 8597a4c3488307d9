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
