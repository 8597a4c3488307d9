// "What is my epsilon?": the form is the state, and the address is the form. exact.js computes.
"use strict";
(() => {
  const { EXACT, epsilonText, share, dots, percent, copy, perFrame } = globalThis.ADASCALE_LAB;
  const byId = (id) => document.getElementById(id),
    form = byId("calc-form"),
    { samples, delta: deltaField, want: wantField, unit } = form.elements,
    MOST_PHASES = 6,
    CAUTION = 0.9995, // of a wanted epsilon, for which the noise is computed: its proven bound is above the computed value
    FIRST = "256,60,1.1";
  // what the form calls its fields, and what epsilon protects
  const WORDS = {
    epochs: { samples: "Samples", batch: "Batch size", length: "Epochs", one: "sample" },
    steps: { samples: "Samples", batch: "Batch size", length: "Steps", one: "sample" },
    rounds: { samples: "Clients", batch: "Per round", length: "Rounds", one: "client" },
  };
  const words = () => WORDS[unit.value],
    isWhole = (name) => name === "samples" || (name === "length" && unit.value !== "epochs"),
    isWholeNumber = (value) => Number.isInteger(value) && value >= 1;

  // ---- numbers as people type them: with decimal commas, or with marks between thousands

  const GROUPED = /^[1-9]\d{0,2}([.,]\d{3})+$/,
    EITHER = { batch: /^[1-9]\d{0,2}[.,]\d{3}$/, length: /^[1-9]\d{0,2},\d{3}$/ };
  const plain = (name, typed) => {
    const text = typed.replace(/[\s'’]/g, "").replace("−", "-").replace(/^(?:1[·×*])?10\^/, "1e");
    if (isWhole(name)) return GROUPED.test(text) ? text.replace(/[.,]/g, "") : text;
    return text.replace(/^(-?\d*),(\d+(?:e-?\d+)?)$/i, "$1.$2");
  };
  const written = (input) => plain(input.name, input.value),
    number = (input) => Number(written(input));
  const inside = (low, high) => (value) => value >= low && value <= high;
  // what a field may be
  const RULES = {
    samples: ["a whole number of at least 1", isWholeNumber],
    delta: ["between 0 and 1, such as 1e-5", (value) => value > 0 && value < 1],
    want: ["between 0.01 and 1000", inside(0.01, 1000)],
    batch: ["above 0 and no more than there are", (value) => value > 0 && !(fault(samples) === "" && value > number(samples))],
    length: ["above 0 and at most 100,000", (value) => value > 0 && value <= 1e5],
    rounds: ["a whole number from 1 to 1,000,000,000", (value) => isWholeNumber(value) && value <= 1e9],
    sigma: ["between 0.2 and 1000", inside(0.2, 1000)],
  };
  const LABELS = { delta: "δ", want: "The wanted ε", sigma: "σ" };

  /** What is wrong with a field, as a sentence. */
  function fault(input) {
    const { name } = input,
      text = written(input),
      [expected, accepts] = RULES[name === "length" && isWhole(name) ? "rounds" : name];
    const whole = Number(input.value.replace(/[.,]/, ""));
    if (!isWhole(name) && EITHER[name]?.test(input.value.trim()) && [whole, whole / 1000].every(accepts))
      return `“${input.value.trim()}” can be ${whole} or ${whole / 1000}: write ${whole} or ${(whole / 1000).toFixed(4)}.`;
    if (text !== "" && accepts(Number(text))) return "";
    return `${words()[name] ?? LABELS[name]} must be ${expected}, got “${input.value}”.`;
  }

  /** Say beside each field what is wrong with it; whether anything is. */
  function isFaulty() {
    const faults = [...form.querySelectorAll("input:not([type=checkbox])")].map((input) => {
      const text = fault(input);
      input.setAttribute("aria-invalid", String(text !== ""));
      let beside = input.parentElement.nextElementSibling;
      if (!beside && text) {
        beside = Object.assign(document.createElement("small"), { className: "lab-fault", id: `calc-${++faultsMade}` });
        beside.setAttribute("role", "alert");
        input.setAttribute("aria-describedby", beside.id);
        input.parentElement.after(beside);
      }
      if (beside && beside.textContent !== text) beside.textContent = text;
      return text;
    });
    return faults.some(Boolean);
  }
  let faultsMade = 0;

  // ---- the form, its phases and its address

  function phase(text, place) {
    const [batch, length, sigma, run] = text.split(",");
    const field = (name, label, value) =>
      `<div><label>${label}<input name="${name}" inputmode="decimal" value="${Number(value) || ""}"></label></div>`;
    const word = (name) => `<span data-of="${name}"></span>`;
    return `<fieldset class="lab-phase"><legend>Phase ${place}</legend><div class="lab-form">${field("batch", word("batch"), batch)}${field("length", word("length"), length)}${field("sigma", "Noise multiplier σ", sigma)}</div><label class="lab-run"><input type="checkbox" name="run"${run === "run" ? " checked" : ""}> has run: keep its σ</label></fieldset>`;
  }
  const fieldsets = () => [...form.querySelectorAll("fieldset")];
  function addPhases(texts) {
    for (const text of texts.slice(0, MOST_PHASES - fieldsets().length))
      byId("calc-phases").insertAdjacentHTML("beforeend", phase(text, fieldsets().length + 1));
  }
  /** Show what belongs to this number of phases, and call the fields what they are. */
  function arrange() {
    const all = fieldsets();
    byId("calc-drop").hidden = all.length < 2;
    byId("calc-add").disabled = all.length >= MOST_PHASES;
    for (const each of form.querySelectorAll("legend, .lab-run")) each.hidden = all.length < 2;
    byId("calc-many").textContent = words().samples;
    for (const each of form.querySelectorAll("[data-of]")) each.textContent = words()[each.dataset.of];
    for (const each of byId("calc").querySelectorAll("[data-word]")) each.textContent = words().one;
  }
  const FIELDS = ["batch", "length", "sigma"],
    inputs = (each) => FIELDS.map((name) => each.querySelector(`[name=${name}]`)),
    hasRun = (each) => fieldsets().length > 1 && each.querySelector("[name=run]").checked;
  const phases = () =>
    fieldsets().map((each) => [...inputs(each).map(written), ...(hasRun(each) ? ["run"] : [])].join());
  const state = () =>
    `n=${written(samples)}&delta=${written(deltaField)}&want=${written(wantField)}&phases=${phases().join(";")}${unit.value === "epochs" ? "" : `&unit=${unit.value}`}`;

  function restore() {
    const told = new URLSearchParams(location.hash.slice(1));
    for (const [key, field] of [["n", samples], ["delta", deltaField], ["want", wantField]])
      if (told.has(key)) field.value = told.get(key);
    if (told.has("phases") || !fieldsets().length) {
      counted = unit.value = Object.hasOwn(WORDS, told.get("unit")) ? told.get("unit") : "epochs";
      byId("calc-phases").replaceChildren();
      addPhases((told.get("phases") ?? FIRST).split(";"));
    }
    update();
  }

  const rounded = (value) => Number(value.toPrecision(6));
  function event(each) {
    const [batch, length, sigma] = inputs(each).map(number),
      rounds = isWhole("length") ? length : Math.max(1, Math.round((length * number(samples)) / batch));
    return [rounded(batch / number(samples)), sigma, rounds];
  }

  let timer;
  function update() {
    clearTimeout(timer);
    arrange();
    const root = byId("calc");
    byId("calc-take").disabled = true;
    for (const name of ["epsilon", "factor", "epochs"]) delete root.dataset[name];
    const wrong = isFaulty();
    for (const id of ["copy", "copy-shell", "link"]) byId(`calc-${id}`).disabled = wrong;
    if (wrong) {
      dots(byId("calc-dots"), 0);
      for (const id of ["epsilon", "hits"]) byId(`calc-${id}`).textContent = "–";
      for (const id of ["renyi", "odds", "noise", "warn", "python", "shell", "curve"])
        byId(`calc-${id}`).replaceChildren();
      return;
    }
    const begun = performance.now(),
      list = fieldsets().map(event),
      delta = number(deltaField),
      { epsilon } = EXACT.epsilon(list, delta),
      renyi = EXACT.renyi(list, delta);
    byId("calc-epsilon").textContent = atMost(epsilon);
    const rate = list.map(([q, , count]) => `rate ${q.toPrecision(3)}, ${count.toLocaleString("en")} rounds`).join("; ");
    const usual = Number.isFinite(renyi) ? atMost(renyi) : "";
    byId("calc-renyi").innerHTML = Number.isNaN(epsilon)
      ? `${rate}. The sum does not converge in the browser: use the package. By Rényi orders, ε is at most ${usual}.`
      : `${rate}. By Rényi orders, ε is ${usual}, ${Math.max(0, 100 * (renyi / epsilon - 1)).toFixed(0)} % more.`;
    const hits = EXACT.power(list, 0.01);
    byId("calc-hits").textContent = Number.isNaN(hits) ? "–" : share(upward(hits, 1000));
    dots(byId("calc-dots"), Math.round(100 * hits) || 0);
    byId("calc-odds").textContent = Number.isNaN(epsilon)
      ? ""
      : `The definition alone: the odds of being found grow at most ${Math.exp(epsilon) < 1e4 ? Math.exp(epsilon).toPrecision(3) : "more than 10,000"} times, so that 50 % becomes at most ${percent(1 / (1 + Math.exp(-epsilon)))}, except in rare trainings (δ).`;
    const { one } = words();
    byId("calc-warn").textContent =
      delta >= 1 / number(samples)
        ? `δ should be below 1 ÷ ${one}s: a mechanism that publishes one ${one} at random has that δ.`
        : "";
    const run = fieldsets().map(hasRun),
      training = { list, delta, epsilon, renyi, past: list.filter((_, i) => run[i]), left: list.filter((_, i) => !run[i]) };
    training.spent = EXACT.epsilon(training.past, delta).epsilon;
    training.places = run.flatMap((has, i) => (has ? [] : [i + 1]));
    commands(training);
    Object.assign(root.dataset, { epsilon, hits, milliseconds: (performance.now() - begun).toFixed(1) });
    timer = setTimeout(() => rest(training), 150);
  }
  const isWanted = ({ left, spent }) => left.length > 0 && !(spent >= number(wantField));

  /** The same two questions for the package: epsilon, and the noise for a wanted one. */
  function commands(training) {
    const { list, past, left } = training,
      [delta, want] = [deltaField, wantField].map(written),
      tuples = (some) => `[${some.map((each) => `(${each.join(", ")})`).join(", ")}]`,
      options = (some, name = "event") => some.map((each) => ` --${name} ${each.join()}`).join(""),
      fixed = past.length ? `, fixed=${tuples(past)}` : "",
      wanted = isWanted(training);
    byId("calc-python").textContent =
      `from adascale.accounting import ${wanted ? "calibrate, " : ""}epsilon\nprint(epsilon(${tuples(list)}, delta=${delta}))` +
      (wanted ? `\nprint(calibrate(${tuples(left)}, epsilon=${want}, delta=${delta}${fixed}).noise_multiplier)` : "");
    byId("calc-shell").textContent =
      `adascale epsilon${options(list)} --delta ${delta} --report` +
      (wanted ? `\nadascale calibrate${options(left)}${options(past, "fixed")} --epsilon ${want} --delta ${delta}` : "");
  }

  // what is shown is rounded to the safe side
  const upward = (value, per) => Math.ceil(value * per - 1e-6) / per;
  const atMost = (epsilon) => epsilonText(upward(epsilon, epsilon < 10 ? 100 : epsilon < 100 ? 10 : 1));
  const digits = (value) => 10 ** (3 - Math.floor(Math.log10(value || 1)));
  const raised = (value) => (Math.ceil(value * digits(value) - 1e-9) / digits(value)).toPrecision(4);
  const lowered = (value) => +(Math.floor(value * digits(value) + 1e-9) / digits(value)).toPrecision(4);

  /** The most rounds like these after `past` with at most the wanted epsilon, to a thousandth; NaN: no sum converges. */
  function longest([q, sigma, count], want, delta, past) {
    const at = (rounds) => EXACT.epsilon([...past, [q, sigma, rounds]], delta).epsilon;
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
  function rest(training) {
    const { list, delta, past, left, spent } = training,
      want = number(wantField);
    let said = left.length
        ? `cannot be reached: the phases that have run have ε = ${atMost(spent)} already.`
        : "All phases have run.",
      sigmas = [];
    if (isWanted(training)) {
      const factor = EXACT.noise(left, CAUTION * want, delta, past),
        most = left.length > 1 ? NaN : longest(left[0], want, delta, past);
      Object.assign(byId("calc").dataset, { factor, epochs: most * left[0][0] });
      if (!Number.isNaN(factor)) sigmas = left.map(([, sigma]) => raised(sigma * factor));
      said = sigmas.length ? noiseText(training, sigmas, factor, most) : `No noise multiplier was found for ε = ${want}.`;
    }
    byId("calc-noise").innerHTML = said;
    byId("calc-take").disabled = !sigmas.length;
    found = sigmas;
    curve(training);
    history.replaceState(null, "", `#${state()}`);
  }
  let found = []; // the noise multipliers for the wanted epsilon

  function noiseText({ list, left, places }, sigmas, factor, most) {
    const several = left.length > 1,
      where = list.length > 1 ? ` in phase${several ? "s" : ""} ${places.join(", ")}` : "",
      times = several ? `: ${raised(factor)} times yours` : "",
      typed = number(inputs(fieldsets()[places[0] - 1])[1]), // rounds are whole numbers, and epochs as many as typed
      length = isWhole("length") ? most.toLocaleString("en") : lowered((typed * most) / left[0][2]),
      longer = Number.isNaN(most) ? "" : `, or at most ${length} ${unit.value}${list.length > 1 ? "" : " in all"} at your σ`;
    return `needs σ = <b>${sigmas.join(", ")}</b>${where}${times}${longer}.`;
  }

  function curve({ list, delta, epsilon, renyi, past, left, places }) {
    const varied = left.length ? left : list,
      one = varied.length === 1,
      middle = one ? varied[0][1] : 1,
      [low, high] = [middle / 3, middle * 3],
      points = Array.from({ length: 25 }, (_, i) => {
        const sigma = low * (high / low) ** (i / 24),
          scaled = varied.map(([q, own, count]) => [q, (own * sigma) / middle, count]);
        const events = left.length ? [...past, ...scaled] : scaled;
        return { sigma, renyi: EXACT.renyi(events, delta), ...EXACT.epsilon(events, delta) };
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
    const label = one ? `noise multiplier σ${list.length > 1 ? ` of phase ${places[0]}` : ""}` : "all noise multipliers, times yours";
    byId("calc-curve").innerHTML = [
      ...grid.map((tick) => `<path d="M48 ${y(tick)}H548" stroke="var(--lab-edge)"/><text x="42" y="${y(tick) + 4}" text-anchor="end" font-size="13">${+tick.toPrecision(1)}</text>`),
      ...marks(low, high).map((tick) => `<text x="${x(tick)}" y="214" text-anchor="middle" font-size="13">${+tick.toPrecision(1)}</text>`),
      path("renyi", 'stroke="var(--lab-quiet)" stroke-dasharray="5 4" stroke-width="1.6"'),
      path("epsilon", 'stroke="var(--lab-accent)" stroke-width="2.5"'),
      epsilon > bottom ? `<circle cx="${x(middle)}" cy="${y(epsilon)}" r="6" style="fill: var(--lab-accent)"/>` : "",
      `<text x="298" y="232" text-anchor="middle" font-size="13">${label}</text>`,
    ].join("");
  }

  const later = perFrame(update);
  /** The same training in the other unit: epochs are N / B rounds each. */
  let counted = "epochs";
  unit.addEventListener("input", () => {
    const wasEpochs = counted === "epochs",
      isEpochs = unit.value === "epochs";
    counted = unit.value;
    if (wasEpochs === isEpochs || form.querySelector("[aria-invalid=true]")) return;
    for (const each of fieldsets()) {
      const [batch, length] = inputs(each),
        rounds = number(samples) / number(batch);
      length.value = isEpochs ? rounded(Number(length.value) / rounds) : Math.max(1, Math.round(number(length) * rounds));
    }
  });
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("calc-add").addEventListener("click", () => {
    addPhases([inputs(fieldsets().at(-1)).map(written).join()]);
    update();
  });
  byId("calc-drop").addEventListener("click", () => {
    fieldsets().at(-1).remove();
    update();
  });
  byId("calc-take").addEventListener("click", () => {
    fieldsets()
      .filter((each) => !hasRun(each))
      .forEach((each, i) => (each.querySelector("[name=sigma]").value = found[i]));
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
