// What the first page, the calculator and the bet share: numbers as text, a hundred dots, copying.
"use strict";
globalThis.ADASCALE_LAB = (() => {
  const EXACT = globalThis.ADASCALE_EXACT;

  /** An epsilon in three figures; below a hundredth it is no number that anybody compares. */
  function epsilonText(value) {
    if (!(value >= 0)) return "–";
    if (value < 0.01) return "< 0.01";
    return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
  }
  const share = (value) => (value < 0.0995 ? (100 * value).toFixed(1) : `${Math.round(100 * value)}`);

  /** A hundred dots in rows of twenty, the first of them filled. */
  function dots(svg, count) {
    const shapes = Array.from({ length: 100 }, (_, i) => {
      const [x, y] = [10 + 20 * (i % 20), 10 + 20 * Math.floor(i / 20)];
      return `<circle cx="${x}" cy="${y}" r="8" class="${i < count ? "lab-hit" : "lab-dot"}"/>`;
    });
    svg.setAttribute("viewBox", "0 0 400 100");
    svg.innerHTML = shapes.join("");
  }

  /** "90.5 %", and no 100 % where it is not certain. */
  const percent = (value) => `${value > 0.9995 ? "over 99.9" : (100 * value).toFixed(value > 0.99 ? 2 : 1)} %`;

  async function copy(button, text) {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = label), 1500);
    } catch {
      window.prompt("Copy this:", text); // a browser that keeps its clipboard to itself
    }
  }

  /** At most one call a frame. */
  function perFrame(act) {
    let waiting = 0;
    return () => {
      waiting ||= requestAnimationFrame(() => {
        waiting = 0;
        act();
      });
    };
  }

  return { EXACT, epsilonText, share, dots, percent, copy, perFrame };
})();
