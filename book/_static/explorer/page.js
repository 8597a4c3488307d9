// The explorer's page: reads the controls, asks core.js, fills the table and two charts.
// These are drawn by uPlot 1.6.32 (MIT, see uPlot.LICENSE), as `npm pack uplot@1.6.32` brings it.
"use strict";
(() => {
  const data = globalThis.ADASCALE_DATA, core = globalThis.ADASCALE_CORE;
  const root = document.getElementById("explorer"), form = root.querySelector("form");
  const byId = (id) => document.getElementById(id);
  const METHODS = {
    // dash of the line; in the first chart `dots` are drawn instead of it, 1 filled and 2 hollow
    optimal: { label: "offline optimum", width: 2.2 },
    adascale: { label: "AdaScale", dots: 1 },
    equal: { label: "EqualAlloc", dash: [2, 3] },
    constant: { label: "constant level", dash: [9, 4] },
    learn: { label: "Learn", dash: [9, 3, 2, 3], dots: 2 },
    plain: { label: "plain Lyapunov", dash: [14, 5], dots: 1 },
  };
  const names = Object.keys(METHODS);
  const guesses = {};

  // ---- numbers as text

  const digits = (value, count) => {
    if (value === 0) return "0";
    const places = Math.min(Math.max(count - 1 - Math.floor(Math.log10(Math.abs(value))), 0), 6);
    return value >= 1e6 ? plainly(value) : value.toFixed(places);
  };
  const plainly = (value, count = 2) => {
    if (value < 1e4) return `${+value.toPrecision(count)}`;
    const [factor, power] = value.toExponential(count - 1).split("e+");
    return `${+factor === 1 ? "" : `${+factor}·`}10${"⁰¹²³⁴⁵⁶⁷⁸⁹"[power]}`;
  };
  const ratio = (value) => (value < 100 ? value.toFixed(2) : digits(value, 3));
  const mark = (cost) => (cost > 1.005 ? "▲\u2009" : cost < 0.995 ? "▼\u2009" : "");

  // ---- the table

  const COLUMNS = ["cost", "rdp", "ratio", "epsilon"];
  const swatch = (name, { dash = [], dots, width = 2 }) =>
    `<svg viewBox="0 0 30 10" width="30" height="10" aria-hidden="true" style="color: var(--ex-${name})">` +
    `<path d="M0 5H30" stroke-width="${width}" stroke-dasharray="${dash}"/>` +
    (dots ? `<circle cx="15" cy="5" r="3"${dots > 1 ? ' class="ex-hollow"' : ""}/>` : "") + "</svg>";
  byId("ex-rows").innerHTML = names
    .map((name) => `<tr data-method="${name}"><th scope="row"><label><input type="checkbox" checked>` +
      `${swatch(name, METHODS[name])}<span>${METHODS[name].label}</span></label></th>` +
      `${COLUMNS.map((column) => `<td data-column="${column}"></td>`).join("")}</tr>`)
    .join("");
  const row = (name) => byId("ex-rows").querySelector(`[data-method=${name}]`);
  const isShown = (name) => row(name).querySelector("input").checked;

  function fill({ nu, methods }) {
    for (const name of names) {
      row(name).hidden = !methods[name];
      if (!methods[name]) continue;
      const { rdp, epsilon, ratio: over } = methods[name], cost = methods[name].cost / nu;
      const texts = [mark(cost) + ratio(cost), digits(rdp, 3), ratio(over), digits(epsilon, 3)];
      [cost, rdp, over, epsilon].forEach((value, i) => {
        const cell = row(name).querySelector(`[data-column=${COLUMNS[i]}]`);
        cell.textContent = texts[i];
        cell.dataset.value = value; // all digits, for the tests
      });
    }
    // a phone keeps the chart in sight, but not the table
    const [best, own] = ["optimal", "adascale"].map((name) => digits(methods[name].epsilon, 3));
    byId("ex-brief").textContent = `ε: optimum ${best}, AdaScale ${own}`;
  }

  /** One sentence for who cannot see the charts, once the controls have come to rest. */
  let soon;
  function say({ nu, methods }) {
    clearTimeout(soon);
    soon = setTimeout(() => {
      const { optimal, ...rest } = methods;
      const others = Object.entries(rest).map(
        ([name, each]) => `${METHODS[name].label} ${ratio(each.ratio)} times at cost ${ratio(each.cost / nu)}`);
      byId("ex-status").textContent = `At nu ${digits(nu, 2)} the optimum leaks ${digits(optimal.rdp, 3)} nats, ` +
        `epsilon ${digits(optimal.epsilon, 3)}. ${others.join(", ")}.`;
    }, 700);
  }

  // ---- the charts

  const color = (name) => getComputedStyle(root).getPropertyValue(`--ex-${name}`).trim();
  const FONT = "12px system-ui, sans-serif";
  const axis = (more) => ({
    stroke: () => color("ink"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false }, gap: 4,
    font: FONT, ...more,
  });
  const BOTTOM_UP = ["equal", "constant", "learn", "adascale", "optimal", "plain"]; // what is drawn over what
  const lines = (withDots) => BOTTOM_UP.map((name) => {
    const { dash, dots, width = 1.8 } = METHODS[name], stroke = () => color(name);
    const line = { stroke, width, dash, points: { show: false } };
    const points = { show: true, size: 4, width: 1, stroke, fill: () => color(dots > 1 ? "paper" : name) };
    return withDots && dots ? { ...line, paths: () => null, points } : line;
  });
  function chart(id, y, series, bands, label) {
    const box = byId(id), size = () => ({ width: box.clientWidth, height: box.clientHeight });
    const isShort = (tick) => [1, 2, 5].includes(Number(tick.toExponential(6).split("e")[0]));
    const isDecade = (tick) => Math.abs(Math.log10(tick) % 1) < 1e-9;
    const filter = (u, ticks) => ticks.map((tick) => (y.distr !== 3 || isDecade(tick) ? tick : null));
    const told = (tick) => tick !== null && (y.distr !== 3 || isShort(tick));
    const values = (u, ticks) => ticks.map((tick) => (told(tick) ? plainly(tick, 3) : ""));
    const made = new uPlot({
      ...size(), series: [{}, ...series], bands, legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false }, y }, padding: [10, 18, 0, 0],
      axes: [
        axis({ size: 22, label, labelSize: 18, labelFont: FONT, labelGap: 0 }),
        axis({ size: 46, values, grid: { ...axis().grid, filter } }),
      ],
    }, [[], ...series.map(() => [])], box);
    new ResizeObserver(() => made.setSize(size())).observe(box);
    return made;
  }

  let noise, soFar, found;
  function charts() {
    const floor = {
      stroke: () => color("floor"), fill: () => color("ground"), fillTo: (u) => u.scales.y.min, points: { show: false },
    };
    // the deepest fades, which no method fills, may leave the picture; what a method does about them is in the table
    const range = () => {
      const { floor: floors, level, methods } = found;
      const first = methods.plain && isShown("plain") ? methods.plain.w[0] : 0;
      return [0.7 * Math.min(...floors), Math.max(12 * level, 2 * first)];
    };
    const water = { series: [BOTTOM_UP.indexOf("optimal") + 2, 1], fill: () => color("water") };
    noise = chart("ex-noise", { distr: 3, range }, [floor, ...lines(true)], [water], "rounds, best channel first");
    const fromZero = (u, least, most) => [Math.min(least * 1.04, 0), most * 1.04 || 1];
    soFar = chart("ex-so-far", { range: fromZero }, lines(false), [], "round");
  }
  function draw() {
    const { floor, methods } = found, rounds = floor.map((_, t) => t + 1);
    const sorted = floor.map((_, t) => t).sort((a, b) => floor[a] - floor[b]);
    const none = floor.map(() => null), base = methods.optimal.soFar;
    const drawn = (values) => BOTTOM_UP.map((name) => (methods[name] && isShown(name) ? values(methods[name]) : none));
    const beyond = byId("ex-beyond").checked ? (value, t) => value - base[t] : (value) => value;
    noise.setData([rounds, sorted.map((t) => floor[t]), ...drawn(({ w }) => sorted.map((t) => w[t]))]);
    soFar.setData([rounds, ...drawn((each) => each.soFar.map(beyond))]);
  }

  // ---- the controls

  function read() {
    const value = (name) => form.elements[name].value, number = (name) => Number(value(name));
    return {
      scenario: value("scenario"), channel: value("channel"), draw: number("draw"), level: number("level"),
      order: number("order"), multiple: 10 ** number("multiple"),
      cap: form.elements.plain.checked ? 10 ** number("cap") : null,
    };
  }
  function show(name, text) {
    form.querySelector(`output[for=ex-${name}]`).textContent = text;
    form.elements[name].setAttribute("aria-valuetext", text);
  }
  function update() {
    const begun = performance.now(), controls = read();
    found = core.solve(data, controls, guesses);
    show("draw", `${controls.draw + 1} of ${data.gains.rayleigh.length}`);
    show("level", digits(found.nu, 2));
    show("order", `${controls.order}`);
    show("multiple", `${plainly(controls.multiple)} × matched`);
    show("cap", plainly(10 ** Number(form.elements.cap.value)));
    byId("ex-capped").hidden = !controls.cap;
    fill(found);
    if (!noise) charts();
    draw();
    say(found);
    root.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }
  let waiting = 0; // at most one update a frame
  function later() {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      update();
    });
  }

  function set(values) {
    form.reset(); // to what explorer.md says
    for (const [name, value] of Object.entries(values)) {
      const control = form.elements[name];
      control[control.type === "checkbox" ? "checked" : "value"] = value;
    }
    update();
  }
  /** The answer takes the focus, and comes into sight with the chart; on a phone also with the table, if they fit. */
  function tell(answer) {
    answer.focus({ preventScroll: true });
    const chart = byId("ex-noise"), { top } = answer.getBoundingClientRect(), { bottom } = chart.getBoundingClientRect();
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
    const fromTop = root.clientWidth < 800 && bottom > innerHeight && bottom - top < innerHeight - 60;
    if (fromTop) answer.scrollIntoView({ behavior, block: "start" });
    else chart.scrollIntoView({ behavior, block: "nearest" });
  }
  for (const button of root.querySelectorAll("[data-set]")) {
    button.addEventListener("click", () => {
      set(JSON.parse(button.dataset.set));
      const answer = byId(button.dataset.answer);
      for (const each of root.querySelectorAll(".ex-answer")) each.hidden = each !== answer;
      if (answer) tell(answer);
    });
  }
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => event.preventDefault());
  [byId("ex-rows"), byId("ex-beyond")].forEach((each) => each.addEventListener("change", draw));
  const recolour = () => [noise, soFar].forEach((each) => each.redraw());
  new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["data-theme"] });

  root.hidden = false;
  form.reset(); // a browser that reloads keeps what was typed
  update();
})();
