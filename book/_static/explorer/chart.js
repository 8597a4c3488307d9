// Small charts in SVG: axes, lines, dots, areas. Colours are names of the page's own (--ex-NAME), so themes need no redrawing.
"use strict";
globalThis.ADASCALE_CHART = (() => {
  const MARGIN = { left: 44, right: 14, top: 8, bottom: 34 };
  const fixed = (value) => value.toFixed(1);
  const paint = (name) => `var(--ex-${name})`;

  /** 0.05, 20, 10⁵: a number in few signs. */
  function plainly(value, count = 3) {
    if (value < 1e4) return `${+value.toPrecision(count)}`;
    const [factor, power] = value.toExponential(count - 1).split("e+");
    return `${+factor === 1 ? "" : `${+factor}·`}10${"⁰¹²³⁴⁵⁶⁷⁸⁹"[power]}`;
  }

  /** Where an axis has its marks. */
  function ticks([least, most], log, count) {
    const found = [];
    if (log) {
      const decades = [];
      for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power++) decades.push(10 ** power);
      const steps = decades.length > 3 ? [1] : [1, 2, 5];
      decades.forEach((decade) => found.push(...steps.map((step) => step * decade)));
    } else {
      const rough = (most - least) / count,
        decade = 10 ** Math.floor(Math.log10(rough));
      const step = decade * [1, 2, 5, 10].find((each) => each * decade >= rough);
      for (let i = Math.ceil(least / step); i * step <= most; i++) found.push(i * step);
    }
    return found.filter((tick) => tick >= least && tick <= most);
  }

  /**
   * Draw into `svg`: `x` and `y` are ranges, `layers` are drawn in their order. A layer has `values` by round (null: a
   * gap) and a color; its kind is line, dots, area (down to `base` or to the bottom) or bar (from `base` up). `at` is the
   * place of a marker on the horizontal axis. Returns the scales, and what a point on the screen means.
   */
  function draw(svg, { x, y, log = false, layers, label, at = null }) {
    const width = svg.clientWidth,
      height = svg.clientHeight,
      { left, top } = MARGIN;
    const wide = Math.max(width - left - MARGIN.right, 1),
      high = Math.max(height - top - MARGIN.bottom, 1);
    const scale = log ? Math.log10 : (value) => value,
      [low, up] = y.map(scale);
    const toX = (value) => ((value - x[0]) / (x[1] - x[0] || 1)) * wide;
    const toY = (value) => Math.min(Math.max(high * (1 - (scale(value) - low) / (up - low)), -99), high + 99);
    const point = (value, i) => `${fixed(toX(i + 1))} ${fixed(toY(value))}`;
    const path = (values, join) =>
      values
        .map((value, i) => (value === null ? "" : `${i && values[i - 1] !== null ? join : "M"}${point(value, i)}`))
        .join("");
    const shapes = {
      line: ({ values, color, width = 1.8, dash = "" }) =>
        `<path d="${path(values, "L")}" stroke="${paint(color)}" stroke-width="${width}" stroke-dasharray="${dash}"/>`,
      dots: ({ values, color, hollow, size = 4.5 }) => {
        const d = values.map((value, i) => (value === null ? "" : `M${point(value, i)}h0`)).join("");
        const disc = (name, more) =>
          `<path d="${d}" stroke="${paint(name)}" stroke-width="${size + more}" stroke-linecap="round"/>`;
        return hollow ? disc(color, 0) + disc("paper", -2) : disc(color, 0);
      },
      area: ({ values, base, color }) => {
        const known = values.filter((value) => value !== null).length;
        if (!known) return "";
        const below = Array.from({ length: known }, (_, i) =>
          base ? point(base[i], i) : `${fixed(toX(i + 1))} ${high + 99}`,
        );
        return `<path d="${path(values.slice(0, known), "L")}L${below.reverse().join("L")}Z" fill="${paint(color)}" stroke="none"/>`;
      },
      // a break over what is higher than the picture
      cut: ({ values }) => {
        const half = (0.5 * wide) / (x[1] - x[0] + 1);
        const d = values.map((value, i) => (value > y[1] ? `M${fixed(toX(i + 1) - half)} 12l${fixed(2 * half + 0.5)} 0` : ""));
        return `<path d="${d.join("")}" stroke="${paint("paper")}" stroke-width="4"/>`;
      },
      bars: ({ values, base, color }) => {
        const each = Math.max((0.7 * wide) / (x[1] - x[0] + 1), 1);
        const d = values.map((value, i) =>
          value === null ? "" : `M${fixed(toX(i + 1))} ${base ? fixed(toY(base[i])) : high + 99}V${fixed(toY(value))}`,
        );
        return `<path d="${d.join("")}" stroke="${paint(color)}" stroke-width="${fixed(each)}"/>`;
      },
    };
    const text = (words, px, py, anchor) =>
      `<text x="${fixed(px)}" y="${fixed(py)}" text-anchor="${anchor}" fill="${paint("ink")}">${words}</text>`;
    const marksY = ticks(y, log, height / 50).map(
      (tick) =>
        `<path d="M${left} ${fixed(top + toY(tick))}h${wide}" stroke="${paint("grid")}"/>` +
        text(plainly(tick), left - 5, top + toY(tick) + 4, "end"),
    );
    const marksX = ticks(x, false, wide / 70)
      .filter(Number.isInteger)
      .map((tick) => text(tick, left + toX(tick), height - 19, "middle"));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.innerHTML =
      `<g font-size="12" font-family="system-ui, sans-serif">${marksY.join("")}${marksX.join("")}` +
      `${text(label, left + wide / 2, height - 4, "middle")}</g>` +
      `<svg x="${left}" y="${top}" width="${wide}" height="${high}" fill="none">` +
      `${layers.map((layer) => shapes[layer.kind](layer)).join("")}` +
      (at === null ? "" : `<path d="M${fixed(toX(at))} 0V${high}" stroke="${paint("ink")}" stroke-dasharray="2 3"/>`) +
      `</svg><path d="M${left} ${top + high}h${wide}" stroke="${paint("floor")}"/>`;
    return {
      /** The round and the value under a pointer. */
      under({ clientX, clientY }) {
        const box = svg.getBoundingClientRect(),
          share = (clientX - box.left - left) / wide;
        const value = low + (up - low) * (1 - (clientY - box.top - top) / high);
        return { round: Math.round(x[0] + share * (x[1] - x[0])), value: log ? 10 ** value : value };
      },
    };
  }

  /** The picture as a PNG, twice its size: a promise of a blob. */
  async function png(svg) {
    const style = getComputedStyle(svg),
      { width, height } = svg.getBoundingClientRect();
    const drawn = svg.outerHTML.replace(/var\((--ex-\w+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    const text = drawn.replace("<svg", `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"`);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(document.body).backgroundColor;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  return { draw, png, plainly };
})();
