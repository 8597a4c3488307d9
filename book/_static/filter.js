// A box above the table before this script: rows without its words go. It runs before formulas are set, so TeX counts.
{
  const folded = (text) =>
    text
      .normalize("NFD")
      .replace(/\p{Diacritic}/gu, "")
      .toLowerCase();
  const box = document.querySelector(".filter input"),
    said = document.querySelector(".filter output");
  const rows = [...document.querySelectorAll(".bd-article tbody tr")].map((row) => [row, folded(row.textContent)]);
  box.addEventListener("input", () => {
    const words = folded(box.value).split(/\s+/);
    for (const [row, text] of rows) row.hidden = !words.every((word) => text.includes(word));
    const left = rows.filter(([row]) => !row.hidden).length;
    said.textContent = box.value.trim() ? `${left} of ${rows.length}` : "";
  });
}
