// "What is my epsilon?": the form is the state, and the address is the form. exact.js computes.
"use strict";
(() => {
  const { EXACT, epsilonText, share, dots, percent, copy, perFrame } = globalThis.ADASCALE_LAB;
  const byId = (id) => document.getElementById(id),
    form = byId("calc-form"),
    MOST_PHASES = 6,
    FIRST = "256,60,1.1";
  // what a field may be; the first sentence of an error
  const RULES = {
    samples: ["Samples", "a whole number of at least 1", (value) => Number.isInteger(value) && value >= 1],
    delta: ["δ", "between 0 and 1", (value) => value > 0 && value < 1],
    want: ["The wanted ε", "a number between 0.01 and 1000", (value) => value >= 0.01 && value <= 1000],
    batch: [
      "The batch",
      "above 0 and at most the number of samples",
      (value) => value > 0 && value <= Number(form.elements.samples.value),
    ],
    epochs: ["Epochs", "above 0 and at most 100,000", (value) => value > 0 && value <= 1e5],
    sigma: ["The noise multiplier", "between 0.2 and 1000", (value) => value >= 0.2 && value <= 1000],
  };

  function phase(text, number) {
    const [batch, epochs, sigma] = text.split(",");
    const field = (name, label, value) =>
      `<label>${label}<input name="${name}" inputmode="decimal" value="${Number(value) || ""}"></label>`;
    return `<fieldset class="lab-phase"><legend>Phase ${number}</legend><div class="lab-form">${field("batch", "Batch, per round", batch)}${field("epochs", "Epochs", epochs)}${field("sigma", "Noise multiplier σ", sigma)}</div></fieldset>`;
  }
  function setPhases(texts) {
    byId("calc-phases").innerHTML = texts.slice(0, MOST_PHASES).map((text, i) => phase(text, i + 1)).join("");
    byId("calc-drop").hidden = texts.length < 2;
    byId("calc-add").disabled = texts.length >= MOST_PHASES;
    for (const legend of form.querySelectorAll("legend")) legend.hidden = texts.length < 2;
  }
  const all = (name) => [...form.querySelectorAll(`[name=${name}]`)],
    phases = () =>
      [...form.querySelectorAll("fieldset")].map((each) =>
        [...each.querySelectorAll("input")].map((input) => input.value.trim()).join(),
      );
  const state = () =>
    `n=${form.elements.samples.value.trim()}&delta=${form.elements.delta.value.trim()}&want=${form.elements.want.value.trim()}&phases=${phases().join(";")}`;

  function restore() {
    const told = new URLSearchParams(location.hash.slice(1));
    for (const [key, name] of [["n", "samples"], ["delta", "delta"], ["want", "want"]])
      if (told.has(key)) form.elements[name].value = told.get(key);
    if (told.has("phases") || !phases().length) setPhases((told.get("phases") ?? FIRST).split(";"));
    update();
  }

  /** The first field that is not what it must be, as a sentence; every such field is marked. */
  function fault() {
    let first = "";
    for (const [name, [label, expected, accepts]] of Object.entries(RULES))
      for (const input of all(name)) {
        const is = input.value.trim() !== "" && accepts(Number(input.value));
        input.setAttribute("aria-invalid", String(!is));
        if (!is) first ||= `${label} must be ${expected}, got “${input.value}”.`;
      }
    return first;
  }

  const rounded = (value) => Number(value.toPrecision(6));
  function events() {
    const samples = Number(form.elements.samples.value);
    return phases().map((text) => {
      const [batch, epochs, sigma] = text.split(",").map(Number);
      return [rounded(batch / samples), sigma, Math.max(1, Math.round((epochs * samples) / batch))];
    });
  }

  let timer;
  function update() {
    clearTimeout(timer);
    const wrong = fault(),
      root = byId("calc");
    byId("calc-warn").textContent = wrong;
    delete root.dataset.epsilon;
    if (wrong) {
      for (const id of ["epsilon", "hits"]) byId(`calc-${id}`).textContent = "–";
      for (const id of ["renyi", "odds", "noise", "python", "shell", "curve"]) byId(`calc-${id}`).replaceChildren();
      return;
    }
    const begun = performance.now(),
      list = events(),
      delta = Number(form.elements.delta.value),
      { epsilon, renyi } = EXACT.epsilon(list, delta);
    byId("calc-epsilon").textContent = epsilonText(epsilon);
    const rate = list.map(([q, , count]) => `rate ${q.toPrecision(3)}, ${count.toLocaleString("en")} rounds`).join("; ");
    const usual = Number.isFinite(renyi) ? epsilonText(renyi) : "";
    byId("calc-renyi").innerHTML = Number.isNaN(epsilon)
      ? `${rate}. The sum does not converge in the browser: use the package. By Rényi orders, ε is at most ${usual}.`
      : `${rate}. By Rényi orders you would publish <s>${usual}</s>, which is ${Math.max(0, 100 * (renyi / epsilon - 1)).toFixed(0)} % more.`;
    const hits = EXACT.power(list, 0.01);
    byId("calc-hits").textContent = Number.isNaN(hits) ? "–" : share(hits);
    dots(byId("calc-dots"), Math.round(100 * hits) || 0);
    byId("calc-odds").textContent = Number.isNaN(epsilon)
      ? ""
      : `The definition alone: the odds of being found grow at most ${Math.exp(epsilon) < 1e4 ? Math.exp(epsilon).toPrecision(3) : "more than 10,000"} times, so that 50 % becomes at most ${percent(1 / (1 + Math.exp(-epsilon)))}, except in rare trainings (δ).`;
    const smallest = 1 / Number(form.elements.samples.value);
    byId("calc-warn").textContent = delta >= smallest ? "δ should be below 1 ÷ samples: a mechanism that publishes one sample at random has that δ." : "";
    const written = form.elements.delta.value.trim();
    const python = list.map(([q, sigma, count]) => `(${q}, ${sigma}, ${count})`).join(", ");
    byId("calc-python").textContent =
      `from adascale.accounting import epsilon\nprint(epsilon([${python}], delta=${written}))`;
    byId("calc-shell").textContent =
      `adascale epsilon ${list.map((event) => `--event ${event.join()}`).join(" ")} --delta ${written}`;
    Object.assign(root.dataset, { epsilon, hits, milliseconds: (performance.now() - begun).toFixed(1) });
    timer = setTimeout(() => rest(list, delta, epsilon, renyi), 150);
  }

  // four digits, rounded to the safe side
  const digits = (value) => 10 ** (3 - Math.floor(Math.log10(value || 1)));
  const raised = (value) => (Math.ceil(value * digits(value) - 1e-9) / digits(value)).toPrecision(4);
  const lowered = (value) => +(Math.floor(value * digits(value) + 1e-9) / digits(value)).toPrecision(4);

  /** The most rounds like these with at most the wanted epsilon, to a thousandth; NaN where no sum converges. */
  function longest([q, sigma, count], want, delta) {
    const at = (rounds) => EXACT.epsilon([[q, sigma, rounds]], delta).epsilon;
    let [low, high] = [count, count];
    while (at(low) > want && low > 1) low = Math.floor(low / 2);
    while (at(high) <= want && high < 1e8) high *= 2;
    if (!(at(low) <= want && at(high) > want)) return at(1) > want ? 0 : NaN;
    while (high - low > Math.max(1, 1e-3 * low)) {
      const middle = Math.floor((low + high) / 2);
      if (at(middle) <= want) low = middle;
      else high = middle;
    }
    return low;
  }

  /** What takes longer, once the form has come to rest: the noise for a wanted epsilon, and the curve. */
  function rest(list, delta, epsilon, renyi) {
    const want = Number(form.elements.want.value),
      factor = EXACT.noise(list, want, delta),
      sigmas = list.map(([, sigma]) => raised(sigma * factor)).join(", "),
      scaled = list.length > 1 ? `: ${raised(factor)} times yours, if no phase has run yet` : "",
      epochs = list.length > 1 ? NaN : longest(list[0], want, delta) * list[0][0];
    byId("calc-noise").innerHTML = Number.isNaN(factor)
      ? `No noise multiplier was found for ε = ${want}.`
      : `needs σ = <b>${sigmas}</b>${scaled}${Number.isNaN(epochs) ? "" : `, or at most ${lowered(epochs)} epochs at yours`}.`;
    byId("calc").dataset.epochs = epochs;
    byId("calc").dataset.factor = factor;
    curve(list, delta, epsilon, renyi);
    history.replaceState(null, "", `#${state()}`);
  }

  function curve(list, delta, epsilon, renyi) {
    const one = list.length === 1,
      middle = one ? list[0][1] : 1,
      [low, high] = [middle / 3, middle * 3],
      points = Array.from({ length: 25 }, (_, i) => {
        const sigma = low * (high / low) ** (i / 24),
          scaled = list.map(([q, own, count]) => [q, (own * sigma) / middle, count]);
        return { sigma, ...EXACT.epsilon(scaled, delta) };
      });
    const values = points.flatMap((each) => [each.epsilon, each.renyi]).filter((value) => value > 0.005 && value < 1e4),
      [bottom, top] = [Math.min(...values, epsilon || renyi) * 0.9, Math.max(...values, epsilon || renyi) * 1.1];
    const x = (sigma) => 48 + (500 * Math.log(sigma / low)) / Math.log(high / low),
      y = (value) => 196 - (186 * Math.log(value / bottom)) / Math.log(top / bottom);
    const marks = (least, most) =>
      [-2, -1, 0, 1, 2, 3].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power)).filter((tick) => tick >= least && tick <= most);
    const grid = marks(bottom, top).filter((tick, _, list) => list.length < 8 || /^1|^0\.0*1/.test(String(tick)));
    const line = (key) =>
      points
        .filter((each) => each[key] > bottom && each[key] < top)
        .map((each) => `${x(each.sigma).toFixed(1)} ${y(each[key]).toFixed(1)}`)
        .join("L");
    const path = (key, look) => (line(key) ? `<path d="M${line(key)}" fill="none" ${look}/>` : "");
    byId("calc-curve").innerHTML = [
      ...grid.map((tick) => `<path d="M48 ${y(tick)}H548" stroke="var(--lab-edge)"/><text x="42" y="${y(tick) + 4}" text-anchor="end" font-size="13">${+tick.toPrecision(1)}</text>`),
      ...marks(low, high).map((tick) => `<text x="${x(tick)}" y="214" text-anchor="middle" font-size="13">${+tick.toPrecision(1)}</text>`),
      path("renyi", 'stroke="var(--lab-quiet)" stroke-dasharray="5 4" stroke-width="1.6"'),
      path("epsilon", 'stroke="var(--lab-accent)" stroke-width="2.5"'),
      epsilon > bottom ? `<circle cx="${x(middle)}" cy="${y(epsilon)}" r="6" style="fill: var(--lab-accent)"/>` : "",
      `<text x="298" y="232" text-anchor="middle" font-size="13">${one ? "noise multiplier σ" : "all noise multipliers, times"}</text>`,
    ].join("");
  }

  const later = perFrame(update);
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("calc-add").addEventListener("click", () => {
    const now = phases();
    setPhases([...now, now[now.length - 1]]);
    update();
  });
  byId("calc-drop").addEventListener("click", () => {
    setPhases(phases().slice(0, -1));
    update();
  });
  byId("calc-copy").addEventListener("click", ({ target }) => copy(target, byId("calc-python").textContent));
  byId("calc-copy-shell").addEventListener("click", ({ target }) => copy(target, byId("calc-shell").textContent));
  byId("calc-link").addEventListener("click", ({ target }) => {
    history.replaceState(null, "", `#${state()}`);
    copy(target, location.href);
  });
  addEventListener("hashchange", restore);
  restore();
})();
