// The first page: twenty rounds, one noise budget, three ways to pour it. exact.js computes.
"use strict";
(() => {
  const data = globalThis.ADASCALE_DATA,
    { EXACT, epsilonText, share, dots, perFrame } = globalThis.ADASCALE_LAB;
  const byId = (id) => document.getElementById(id),
    plot = byId("pour"),
    slider = byId("pour-nu");
  const { unit, rate, rounds } = data.scenarios.mnist,
    ORDER = [13, 3, 8, 16, 0, 10, 5, 18, 2, 11, 7, 14, 1, 19, 9, 4, 15, 6, 12, 17], // as rounds come: good and bad ones
    floor = ORDER.map((i) => data.typical[i]),
    N = floor.length,
    total = (values) => values.reduce((sum, value) => sum + value, 0);
  const LEFT = 52,
    TOP = 10;
  let right = 700,
    bottom = 200; // of the plot, as wide and high as the screen lets it be
  const state = { who: "even", nu: data.nu[6], chosen: 0, own: null };

  function waterLevel() {
    const sorted = [...floor].sort((a, b) => a - b);
    let level = Infinity;
    for (let k = 0, below = 0; k < N && sorted[k] < level; k++) {
      below += sorted[k];
      level = (N * state.nu + below) / (k + 1);
    }
    return level;
  }
  const added = {
    even: () => floor.map(() => state.nu),
    level: () => floor.map((least) => Math.max(waterLevel() - least, 0)),
    you: () => state.own,
  };

  const seen = new Map(); // what a pour leaks, by its noise
  function leaks(more) {
    const key = more.map((value) => value.toPrecision(6)).join();
    if (!seen.has(key)) {
      const events = floor.map((least, i) => [rate, Math.sqrt((least + more[i]) / unit), rounds / N]);
      if (seen.size > 300) seen.clear();
      seen.set(key, { epsilon: EXACT.epsilon(events, data.delta).epsilon, hits: EXACT.power(events, 0.01) });
    }
    return seen.get(key);
  }

  const top = () => Math.max(0.12, 1.7 * waterLevel()),
    y = (value) => bottom - (bottom - TOP) * Math.min(value / top(), 1.03),
    width = () => (right - LEFT) / N;
  function bars(more) {
    const step = width();
    const parts = [0, 0.5, 1].map((part) => {
      const value = 0.9 * part * top();
      return `<path d="M${LEFT} ${y(value)}H${right}" stroke="var(--lab-edge)"/><text x="${LEFT - 5}" y="${y(value) + 4}" text-anchor="end" font-size="12">${value.toFixed(2)}</text>`;
    });
    floor.forEach((least, i) => {
      const [x, low, high] = [LEFT + i * step + 2, y(least), y(least + more[i])];
      const water = state.who === "you" ? "you" : "water";
      parts.push(
        `<rect x="${x}" y="${low}" width="${step - 4}" height="${bottom - low}" fill="var(--lab-floor)"/>`,
        `<rect x="${x}" y="${high}" width="${step - 4}" height="${Math.max(low - high, 0)}" fill="var(--lab-${water})"/>`,
      );
      // a bar that leaves the picture is broken
      if (least + more[i] > top())
        parts.push(`<path d="M${x - 1} ${TOP + 12}l${step - 2} -8" stroke="var(--lab-paper)" stroke-width="4"/>`);
    });
    if (state.who === "level")
      parts.push(
        `<path d="M${LEFT} ${y(waterLevel())}H${right}" stroke="var(--lab-level)" stroke-width="2" stroke-dasharray="6 4"/>`,
      );
    if (document.activeElement === plot)
      parts.push(
        `<path d="M${LEFT + (state.chosen + 0.5) * step} ${bottom + 3}l6 9h-12z" fill="var(--lab-accent)"/>`,
      );
    return `${parts.join("")}<path d="M${LEFT} ${bottom}H${right}" stroke="var(--lab-quiet)"/><text x="${(LEFT + right) / 2}" y="${bottom + 16}" text-anchor="middle" font-size="12">rounds</text><text transform="translate(11 ${(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle" font-size="12">noise energy</text>`;
  }

  function scale(now, even, level) {
    const x = (value) => 20 + (360 * Math.log(Math.max(value, 0.4) / 0.4)) / Math.log(40 / 0.4);
    const ticks = [0.5, 1, 2, 5, 10, 20].map(
      (tick) =>
        `<path d="M${x(tick)} 30v8" stroke="var(--lab-quiet)"/><text x="${x(tick)}" y="52" font-size="12" text-anchor="middle">${tick}</text>`,
    );
    const apart = x(even) - x(level) > 75;
    return `<path d="M20 34H380" stroke="var(--lab-quiet)"/>${ticks.join("")}<text x="20" y="68" font-size="12">strong guarantee</text><text x="380" y="68" font-size="12" text-anchor="end">hardly any</text>
      <path d="M${x(level)} 34H${x(even)}" stroke="var(--lab-even)" stroke-width="5" opacity=".3"/>
      <circle cx="${x(level)}" cy="34" r="6" style="fill: var(--lab-level)"/><text x="${x(level) + (apart ? 0 : 4)}" y="19" font-size="12" text-anchor="${apart ? "middle" : "end"}">level ${epsilonText(level)}</text>
      <path d="M${x(even)} 26l7 13h-14z" style="fill: var(--lab-even)"/><text x="${x(even) + (apart ? 0 : -2)}" y="19" font-size="12" text-anchor="${apart ? "middle" : "start"}" style="fill: var(--lab-even)">even ${epsilonText(even)}</text>
      ${state.who === "you" ? `<rect x="${x(now) - 5}" y="29" width="10" height="10" style="fill: var(--lab-you)" transform="rotate(45 ${x(now)} 34)"/>` : ""}`;
  }

  const title = document.querySelector(".bd-article h1").firstChild,
    COLORS = { even: "even", level: "level", you: "you" };
  function draw() {
    const begun = performance.now(),
      more = added[state.who](),
      [now, even, level] = [more, added.even(), added.level()].map(leaks);
    const { clientWidth, clientHeight } = plot;
    plot.setAttribute("viewBox", `0 0 ${clientWidth} ${clientHeight}`);
    [right, bottom] = [clientWidth - 4, clientHeight - 20];
    plot.innerHTML = bars(more);
    byId("pour-scale").innerHTML = scale(now.epsilon, even.epsilon, level.epsilon);
    byId("pour-epsilon").textContent = epsilonText(now.epsilon);
    byId("pour-epsilon").parentElement.style.color = `var(--lab-${COLORS[state.who]})`;
    byId("pour-hits").textContent = share(now.hits);
    dots(byId("pour-dots"), Math.round(100 * now.hits));
    const verb = even.epsilon > 1.5 * level.epsilon ? "cuts" : "lowers";
    title.data = `The same noise, poured where there is least, ${verb} ε from ${epsilonText(even.epsilon)} to ${epsilonText(level.epsilon)}`;
    const text = state.nu.toPrecision(2);
    byId("pour-nu-text").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    for (const button of document.querySelectorAll("[data-who]"))
      button.setAttribute("aria-pressed", button.dataset.who === state.who);
    plot.setAttribute("aria-valuenow", state.chosen + 1);
    plot.setAttribute(
      "aria-valuetext",
      `Round ${state.chosen + 1}: floor ${floor[state.chosen].toPrecision(2)}, added ${more[state.chosen].toPrecision(2)}. Epsilon ${epsilonText(now.epsilon)}.`,
    );
    const root = byId("pour-root");
    Object.assign(root.dataset, { even: even.epsilon, level: level.epsilon, now: now.epsilon, hits: now.hits });
    root.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }
  const later = perFrame(draw);

  /** Pour so much into one round; the others share the rest as before. */
  function pourInto(i, amount) {
    if (state.who !== "you") state.own = added[state.who]();
    state.who = "you";
    const budget = N * state.nu,
      others = budget - state.own[i];
    state.own[i] = Math.min(Math.max(amount, 0), budget);
    const left = budget - state.own[i];
    state.own = state.own.map((value, j) => {
      if (j === i) return value;
      return others > 1e-12 * budget ? (value * left) / others : left / (N - 1);
    });
    state.chosen = i;
    later();
  }

  for (const button of document.querySelectorAll("[data-who]"))
    button.addEventListener("click", () => {
      state.who = button.dataset.who;
      state.own ??= added.even();
      draw();
    });
  slider.addEventListener("input", () => {
    const before = state.nu;
    state.nu = data.nu[Number(slider.value)];
    state.own = state.own?.map((value) => (value * state.nu) / before) ?? null;
    later();
  });
  function drag(event) {
    const box = plot.getBoundingClientRect(),
      i = Math.floor((event.clientX - box.left - LEFT) / width()),
      value = ((bottom - (event.clientY - box.top)) / (bottom - TOP)) * top();
    if (i >= 0 && i < N) pourInto(i, value - floor[i]);
  }
  plot.addEventListener("pointerdown", (event) => {
    plot.setPointerCapture(event.pointerId);
    drag(event);
  });
  plot.addEventListener("pointermove", (event) => event.buttons && drag(event));
  plot.addEventListener("keydown", (event) => {
    const aside = { ArrowLeft: -1, ArrowRight: 1 }[event.key],
      up = { ArrowDown: -0.25, ArrowUp: 0.25 }[event.key];
    if (!aside && !up) return;
    event.preventDefault();
    if (aside) state.chosen = (state.chosen + aside + N) % N;
    if (up) pourInto(state.chosen, added[state.who]()[state.chosen] + up * state.nu);
    later();
  });
  for (const name of ["focus", "blur"]) plot.addEventListener(name, later);
  slider.value = 6; // a browser that reloads keeps what was chosen
  draw();
  new ResizeObserver(later).observe(plot);
})();
