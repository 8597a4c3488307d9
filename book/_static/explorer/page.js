// The explorer's page: its form is its state and its address. core.js computes, chart.js draws.
"use strict";
(() => {
  const data = globalThis.ADASCALE_DATA,
    core = globalThis.ADASCALE_CORE,
    { draw, png, plainly } = globalThis.ADASCALE_CHART;
  const byId = (id) => document.getElementById(id);
  const root = byId("explorer"),
    form = byId("ex-form"),
    plot = byId("ex-noise");
  const ROUNDS = 20,
    STEP = 0.05; // the game's rounds, and the step of its slider in units of nu
  const METHODS = {
    // in the first chart `dots` are drawn instead of a line, 1 filled and 2 hollow
    optimal: { label: "offline optimum", width: 2.2 },
    adascale: { label: "AdaScale", dots: 1 },
    equal: { label: "EqualAlloc", dash: "2 3" },
    constant: { label: "constant level", dash: "9 4" },
    learn: { label: "Learn", dash: "9 3 2 3", dots: 2 },
    plain: { label: "plain Lyapunov", dash: "14 5", dots: 1 },
    you: { label: "you", dash: "4 2", dots: 1 },
  };
  const names = Object.keys(METHODS);
  const BOTTOM_UP = ["equal", "constant", "learn", "adascale", "optimal", "plain", "you"]; // what is drawn over what

  // ---- numbers as text

  const digits = (value, count) => {
    if (Number.isNaN(value)) return "–"; // a sum that does not converge
    if (value === 0) return "0";
    const places = Math.min(Math.max(count - 1 - Math.floor(Math.log10(Math.abs(value))), 0), 6);
    return value >= 1e6 ? plainly(value, 2) : value.toFixed(places);
  };
  const ratio = (value) => (value < 100 ? value.toFixed(2) : digits(value, 3));
  const mark = (cost) => (cost > 1.005 ? "▲\u2009" : cost < 0.995 ? "▼\u2009" : "");

  // ---- the table

  const COLUMNS = ["epsilon", "cost", "rdp", "ratio"];
  const swatch = ({ dash = "", dots, width = 2 }) =>
    `<svg viewBox="0 0 30 10" width="30" height="10" aria-hidden="true">` +
    `<path d="M0 5H30" stroke-width="${width}" stroke-dasharray="${dash}"/>` +
    (dots ? `<circle cx="15" cy="5" r="3"${dots > 1 ? ' class="ex-hollow"' : ""}/>` : "") +
    "</svg>";
  byId("ex-rows").innerHTML = names
    .map(
      (name) =>
        `<tr data-method="${name}" style="--of: var(--ex-${name})"><th scope="row"><label>` +
        `<input type="checkbox" name="see-${name}" checked>${swatch(METHODS[name])}<span>${METHODS[name].label}</span></label></th>` +
        `${COLUMNS.map((column) => `<td data-column="${column}"></td>`).join("")}</tr>`,
    )
    .join("");

  function fill(nu, methods) {
    for (const name of names) {
      const row = byId("ex-rows").querySelector(`[data-method=${name}]`);
      row.hidden = !methods[name];
      if (!methods[name]) continue;
      const { rdp, ratio: over } = methods[name],
        cost = methods[name].cost / nu,
        epsilon = held ? NaN : methods[name].epsilon; // once a slider is let go
      const texts = [digits(epsilon, 3), mark(cost) + ratio(cost), digits(rdp, 3), ratio(over)];
      [epsilon, cost, rdp, over].forEach((value, i) => {
        const cell = row.querySelector(`[data-column=${COLUMNS[i]}]`);
        cell.textContent = texts[i];
        cell.dataset.value = value; // all digits, for the tests
      });
    }
    const better = names.filter((name) => methods[name]?.ratio < 0.9995 && methods[name].cost > nu * 1.0005);
    byId("ex-over").textContent = better.length
      ? `▲ ${better.map((name) => METHODS[name].label).join(", ")}: below the optimum only by overspending. At equal cost nothing leaks less.`
      : "";
  }

  // ---- the state: what the form's elements say, and what of it an address has to say

  const isSwitch = (name) => form.elements[name].type === "checkbox";
  const values = () =>
    Object.fromEntries(
      [...new Set([...form.elements].map(({ name }) => name).filter(Boolean))].map((name) => [
        name,
        isSwitch(name) ? (form.elements[name].checked ? "1" : "0") : form.elements[name].value,
      ]),
    );
  const number = (name) => Number(form.elements[name].value);
  const mode = () => form.elements.mode.value;
  const moves = () =>
    form.elements.moves.value
      .split(".")
      .filter((each) => each !== "")
      .slice(0, ROUNDS)
      .map(Number);
  form.reset(); // a browser that reloads keeps what was typed
  const start = values();
  const link = () =>
    Object.entries(values())
      .filter(([name, value]) => value !== start[name])
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join("&");

  /** Take the state from the address; a value that a control cannot have is left out. */
  function restore() {
    const address = location.hash.slice(1);
    if (address && !address.includes("=")) return; // a place on this page
    pause();
    form.reset();
    for (const [name, value] of new URLSearchParams(address)) {
      if (!(name in start)) continue;
      if (isSwitch(name)) form.elements[name].checked = value === "1";
      else if (name === "moves") form.elements.moves.value = /^\d{1,3}(\.\d{1,3})*$/.test(value) ? value : "";
      else form.elements[name].value = value;
      if (form.elements[name].selectedIndex < 0) form.elements[name].selectedIndex = 0;
    }
    if (!mode()) form.elements.mode.value = start.mode;
    if ([...new URLSearchParams(address).keys()].some((name) => byId("ex-more").querySelector(`[name="${CSS.escape(name)}"]`)))
      byId("ex-more").open = true;
    const { answer } = form.elements;
    look = answer.value ? "" : "level";
    update();
    if (answer.value) {
      root.scrollIntoView({ block: "start", behavior: "instant" });
      byId("ex-say").focus({ preventScroll: true });
    }
  }
  function remember() {
    if (link() !== location.hash.slice(1)) history.pushState(null, "", `#${link()}`);
  }

  // ---- what each mode shows

  let found,
    look = "level",
    at = null,
    axes = {},
    held = false,
    verdict = "";
  const isShown = (name) => form.elements[`see-${name}`].checked;
  const only = (methods, chosen) =>
    Object.fromEntries(Object.entries(methods).filter(([name]) => chosen.includes(name)));

  /** The game's noise energies: what each move adds, as long as the budget lasts. */
  function played(floor, nu, chosen) {
    let left = ROUNDS * nu;
    return chosen.map((move, t) => {
      const added = Math.min(move * STEP * nu, left);
      left -= added;
      return floor[t] + added;
    });
  }

  /** What stands in the picture: values in the order of its axis, the floors that are known, methods that may be read. */
  function scene() {
    const { floor, methods, level } = found,
      count = floor.length,
      known = (values, n) => values.map((v, i) => (i < n ? v : null));
    if (mode() === "replay") {
      const n = number("round");
      return {
        order: floor.map((_, t) => t),
        n,
        floor: known(floor, n),
        methods: only(methods, ["adascale"]),
        label: "round",
      };
    }
    if (mode() === "game") {
      const made = moves(),
        n = Math.min(made.length + 1, ROUNDS),
        over = made.length === ROUNDS;
      const next = over ? [] : [number("pour")],
        w = played(floor, found.nu, [...made, ...next]);
      const you = { w: floor.map((_, t) => w[t] ?? null) };
      return {
        order: floor.map((_, t) => t),
        n,
        floor: known(floor, n),
        methods: over ? methods : { you },
        over,
        label: "round",
        bars: true,
      };
    }
    const order = floor.map((_, t) => t).sort((a, b) => floor[a] - floor[b]),
      sorted = order.map((t) => floor[t]);
    const guess = { you: { w: floor.map((least) => Math.max(least, 10 ** number("guess"))) } };
    const isOpen = form.elements.shown.value;
    const shown = mode() === "explore" ? methods : isOpen ? only(methods, ["optimal", "you"]) : guess;
    return { order, n: count, floor: sorted, methods: shown, level, label: "rounds, best channel first" };
  }

  function layers({ order, n, floor, methods, bars }) {
    const [, top] = range();
    const drawn = [{ kind: bars ? "bars" : "area", values: floor, color: "ground" }];
    if (!bars) drawn.push({ kind: "line", values: floor, color: "floor", width: 1 });
    else drawn.push({ kind: "cut", values: floor });
    const of = (name) => order.map((t, i) => (i < n ? methods[name].w[t] : null));
    const guessed = { game: "you", guess: form.elements.shown.value ? "optimal" : "you", replay: "adascale" };
    const wet = guessed[mode()] ?? form.elements.pours.value;
    if (methods[wet] && isShown(wet))
      drawn.push({ kind: bars ? "bars" : "area", values: of(wet), base: floor, color: bars ? "you" : "water" });
    for (const name of BOTTOM_UP.filter((each) => methods[each] && isShown(each))) {
      const { dash, dots, width } = METHODS[name],
        points = (dots && mode() !== "guess") || bars;
      if (bars && name === "you") continue;
      // noise beyond the picture stands at its upper edge; floors may leave it
      const values = of(name).map((w, i) => (points && w > top && w > 2 * floor[i] ? 0.95 * top : w));
      drawn.push({
        kind: points ? "dots" : "line",
        values,
        color: name,
        dash,
        width,
        hollow: dots > 1,
        size: bars ? 8 : plot.clientWidth < 500 ? 3.5 : 4.5,
      });
    }
    if (!bars && form.elements.linear.checked) drawn.push({ kind: "cut", values: floor });
    return drawn;
  }

  /** The first chart's axis: no state of the sliders changes a logarithmic one; a linear one leaves out the tallest floors. */
  function range() {
    const { scenario, channel, linear } = form.elements,
      floor = core.floors(data, scenario.value, channel.value, number("draw")).sort((a, b) => a - b);
    if (!linear.checked) return [0.7 * floor[0], 2 * found.highest];
    return hold("noise", [0, floor[Math.floor(0.7 * floor.length)] + 3 * found.nu]);
  }

  /** Axes that depend on what is drawn stay as they are while a slider moves. */
  function hold(name, limits) {
    if (!held || !axes[name]) axes[name] = limits;
    return axes[name];
  }

  let scales;
  function paint() {
    const seen = scene(),
      count = found.floor.length;
    at = at && Math.min(at, seen.n);
    const marker = at ?? (mode() === "replay" || (mode() === "game" && !seen.over) ? seen.n : null);
    scales = draw(plot.querySelector("svg"), {
      x: [mode() === "game" ? 0.5 : 1, mode() === "game" ? count + 0.5 : count],
      y: range(),
      log: !form.elements.linear.checked,
      layers: layers(seen),
      label: seen.label,
      at: marker,
    });
    read(seen);
    if (mode() === "explore") {
      const shown = BOTTOM_UP.filter((name) => found.methods[name] && isShown(name)),
        base = found.methods.optimal.soFar;
      const lines = shown.map((name) => {
        const { soFar } = found.methods[name],
          { dash, width } = METHODS[name];
        const curve = form.elements.beyond.checked ? soFar.map((value, t) => value - base[t]) : soFar;
        return { kind: "line", values: curve, color: name, dash, width };
      });
      const all = lines.flatMap(({ values: each }) => each);
      const y = hold("soFar", [Math.min(...all, 0) * 1.04, Math.max(...all) * 1.04 || 1]);
      draw(byId("ex-so-far"), { x: [1, count], y, layers: lines, label: "round" });
    } else if (mode() === "replay") {
      const until = (curve) => curve.map((value, t) => (t < seen.n ? value : null)),
        { w, soFar } = found.methods.adascale;
      for (const [id, curve] of [
        ["ex-queue", core.queueAfter(w, found.floor, found.nu)],
        ["ex-leaked", soFar],
      ]) {
        const line = { kind: "line", values: until(curve), color: "adascale", width: 2 };
        draw(byId(id), {
          x: [1, count],
          y: [0, 1.06 * Math.max(...curve) || 1],
          layers: [line],
          label: "round",
          at: seen.n,
        });
      }
    }
  }

  // ---- one round, read from the picture

  const sigma = (w) => Math.sqrt(w / data.scenarios[form.elements.scenario.value].unit);
  const leaks = ({ soFar }, t) => soFar[t] - (t ? soFar[t - 1] : 0);
  function read({ order, n, floor, methods, over }) {
    const box = byId("ex-readout"),
      i = (at ?? n) - 1,
      t = order[i],
      told = at !== null && at <= n;
    box.hidden = !told;
    plot.setAttribute("aria-valuemax", n);
    plot.setAttribute("aria-valuenow", i + 1);
    const entries = BOTTOM_UP.filter((name) => methods[name]?.w[t] != null && (name === "you" || isShown(name)));
    const cells = entries.map((name) => {
      const method = methods[name],
        w = method.w[t];
      return [
        METHODS[name].label,
        digits(w, 3),
        digits(sigma(w), 3),
        method.soFar ? digits(leaks(method, t), 3) : "",
        name,
        w,
        sigma(w),
        method.soFar ? leaks(method, t) : "",
      ];
    });
    plot.setAttribute(
      "aria-valuetext",
      `Round ${t + 1}: floor ${digits(floor[i], 3)}. ` +
        cells.map(([label, w, s, leak]) => `${label}: noise ${w}, sigma ${s}${leak && `, leakage ${leak}`}`).join(". "),
    );
    if (!told) return;
    box.classList.toggle("ex-left", i > n / 2 || (mode() === "game" && i > ROUNDS / 2));
    box.innerHTML =
      `<tr><th>Round ${t + 1}</th><th>w</th><th>σ</th><th>leaks</th></tr><tr data-round="${t + 1}"><td>floor</td><td data-value="${floor[i]}">${digits(floor[i], 3)}</td><td></td><td></td></tr>` +
      cells
        .map(
          ([label, w, s, leak, name, ...all]) =>
            `<tr data-of="${name}" style="--of: var(--ex-${name})"><td>${label}</td>` +
            [w, s, leak].map((text, k) => `<td data-value="${all[k]}">${text}</td>`).join("") +
            "</tr>",
        )
        .join("");
  }
  function inspect(round) {
    at = round === null ? null : Math.min(Math.max(round, 1), scene().n);
    paint();
  }
  const KEYS = {
    ArrowRight: 1,
    ArrowUp: 1,
    ArrowLeft: -1,
    ArrowDown: -1,
    PageUp: 20,
    PageDown: -20,
    Home: -1e4,
    End: 1e4,
  };
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") inspect(null);
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    inspect((at ?? (KEYS[event.key] > 0 ? 0 : scene().n + 1)) + KEYS[event.key]);
  });
  plot.addEventListener("blur", () => inspect(null));
  plot.addEventListener("pointerleave", () => document.activeElement !== plot && inspect(null));

  /** A pointer reads; one that is pressed drags the level of the guess, or the noise of the game. */
  function point(event) {
    const { round, value } = scales.under(event),
      pressed = event.buttons || event.type === "pointerdown";
    if (pressed && mode() === "guess" && !form.elements.shown.value) {
      form.elements.guess.value = Math.log10(Math.max(value, 1e-3));
    } else if (pressed && mode() === "game" && moves().length < ROUNDS) {
      form.elements.pour.value = (value - found.floor[moves().length]) / found.nu / STEP;
    } else {
      return inspect(round);
    }
    at = null;
    later();
  }
  plot.addEventListener("pointerdown", (event) => {
    plot.setPointerCapture(event.pointerId);
    point(event);
  });
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerup", remember);

  // ---- words

  const CAPTIONS = {
    explore:
      "<strong>Noise energy <i>w</i> of each round.</strong> Grey: its floor. Blue: the noise that is poured.",
    guess:
      "<strong>To which level would you fill the floors?</strong> The water must be ν per round. Drag it, then reveal.",
    replay: "<strong>Rounds come one after another.</strong> Grey: floors so far. Dots: what AdaScale decides at once.",
    game: "<strong>You are the server.</strong> Grey: the floor of each round, known only now. Violet: your noise.",
  };
  const CAPTIONED = {
    guess: () =>
      form.elements.shown.value &&
      "<strong>Your water, and the optimum’s.</strong> Violet: your level. Blue: the noise that the optimum adds.",
  };

  function words() {
    const { nu, floor, level, methods } = found,
      { optimal, adascale, you } = methods;
    if (mode() === "explore" && !held)
      byId("ex-brief").textContent =
        `ε: optimum ${digits(optimal.epsilon, 3)}, AdaScale ${digits(adascale.epsilon, 3)}, EqualAlloc ${digits(methods.equal.epsilon, 3)}`;
    if (mode() === "guess") {
      if (!form.elements.shown.value)
        return "The floors are there anyway, so only noise above them counts. Which level spends exactly ν on average?";
      const spent = you.cost / nu,
        close = Math.abs(spent - 1) < 0.1 ? "Close!" : spent > 1 ? "Too high." : "Too low.";
      return (
        `${close} Your level ${digits(10 ** number("guess"), 2)} spends ${ratio(spent)} times ν and leaks ${ratio(you.ratio)} times ` +
        `the optimum’s RDP. The optimum’s level is ${digits(level, 2)}.`
      );
    }
    if (mode() === "replay") {
      const t = number("round") - 1,
        w = adascale.w[t],
        queue = core.queueAfter(adascale.w, floor, nu),
        end = t + 1 === floor.length && !held ? `, so ε = ${digits(adascale.epsilon, 3)}` : "";
      return (
        `Round ${t + 1}: floor ${digits(floor[t], 3)}, AdaScale adds ${digits(w - floor[t], 2)}, which is ${ratio((w - floor[t]) / nu)} ν. ` +
        `Queue ${digits(queue[t], 2)}, leaked so far ${digits(adascale.soFar[t], 3)} nats${end}.`
      );
    }
    if (mode() === "game") {
      const made = moves(),
        spent = made.length ? played(floor, nu, made).reduce((sum, w, t) => sum + w - floor[t], 0) / nu : 0;
      if (made.length === ROUNDS) {
        const { learn } = methods,
          outcome = you.rdp < learn.rdp ? "You beat Learn" : "Learn leaks less than you";
        return `${outcome}: ${ratio(you.ratio)} times the optimum’s RDP, against ${ratio(learn.ratio)}. Learn knew no later round either.`;
      }
      return (
        `Round ${made.length + 1} of ${ROUNDS}. ${ratio(ROUNDS - spent)} ν are left, that is ${ratio((ROUNDS - spent) / (ROUNDS - made.length))} ν ` +
        "per round. Later floors are unknown: fill low floors, and leave high ones alone."
      );
    }
    return look ? byId(`ex-${look}-look`).textContent : "";
  }

  /** One sentence for who cannot see the charts, once the controls have come to rest. */
  let soon;
  function say(text) {
    clearTimeout(soon);
    soon = setTimeout(() => {
      byId("ex-status").textContent = text;
    }, 700);
  }
  function summary() {
    const {
      nu,
      methods: { optimal, ...rest },
    } = found;
    const others = Object.entries(rest).map(
      ([name, each]) => `${METHODS[name].label} ${ratio(each.ratio)} times at cost ${ratio(each.cost / nu)}`,
    );
    return `At nu ${digits(nu, 2)} the optimum leaks ${digits(optimal.rdp, 3)} nats${held ? "" : `, epsilon ${digits(optimal.epsilon, 3)}`}. ${others.join(", ")}.`;
  }

  // ---- from the form to the page

  function show(name, text) {
    form.querySelector(`output[for=ex-${name}]`).textContent = text;
    form.elements[name].setAttribute("aria-valuetext", text);
  }
  function update() {
    const begun = performance.now(),
      value = (name) => form.elements[name].value,
      now = mode();
    const controls = {
      scenario: value("scenario"),
      channel: value("channel"),
      draw: number("draw"),
      level: number("level"),
      order: number("order"),
      multiple: 10 ** number("multiple"),
      cap: form.elements.plain.checked ? 10 ** number("cap") : null,
    };
    const floor = core.floors(data, controls.scenario, controls.channel, controls.draw),
      made = moves(),
      nu = data.nu[controls.level];
    const over = made.length === ROUNDS;
    if (now === "game") controls.rounds = ROUNDS;
    if (now === "game" && over) controls.own = played(floor, nu, made);
    if (now === "guess") controls.own = core.atLevel(floor, 10 ** number("guess"));
    found = core.solve(data, controls);
    form.elements.round.max = floor.length;
    const left = ROUNDS - played(floor, nu, made).reduce((sum, w, t) => sum + w - floor[t], 0) / nu;
    if (now === "game" && !over && number("pour") * STEP > left) form.elements.pour.value = left / STEP;
    show("draw", `${controls.draw + 1} of ${data.gains.rayleigh.length}`);
    show("level", digits(found.nu, 2));
    show("order", `${controls.order}`);
    show("multiple", plainly(controls.multiple, 2));
    show("cap", plainly(10 ** number("cap"), 2));
    show("guess", digits(10 ** number("guess"), 2));
    show("round", `${number("round")} of ${floor.length}`);
    show("pour", `${(number("pour") * STEP).toFixed(2)} ν`);
    form.elements.cap.disabled = !controls.cap;
    for (const each of form.querySelectorAll(".ex-turn")) each.hidden = each.dataset.in !== now;
    const isOpen = now === "explore" || (now === "guess" && value("shown")) || (now === "game" && over);
    byId("ex-results").hidden = now === "replay";
    byId("ex-results").classList.toggle("ex-closed", !isOpen);
    byId("ex-so-far-figure").hidden = now !== "explore";
    byId("ex-replay").hidden = now !== "replay";
    byId("ex-reveal").textContent = value("shown") ? "Guess again" : "Reveal";
    byId("ex-send").textContent = over ? "Play again" : `Send round ${made.length + 1}`;
    form.elements.pour.disabled = over;
    form.elements.guess.disabled = Boolean(value("shown"));
    plot.classList.toggle("ex-drag", (now === "guess" && !value("shown")) || (now === "game" && !over));
    byId("ex-caption").innerHTML = CAPTIONED[now]?.() || CAPTIONS[now];
    fill(found.nu, isOpen ? (now === "guess" ? only(found.methods, ["optimal", "you"]) : found.methods) : {});
    const answer = byId("ex-answers").content.querySelector(`[data-answer="${CSS.escape(value("answer"))}"]`),
      text = words();
    byId("ex-say").replaceChildren(...(answer ? [verdict, ...answer.cloneNode(true).childNodes] : [text]));
    paint();
    say(now === "explore" ? summary() : text);
    root.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }
  let waiting = 0; // at most one update a frame
  function later() {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      update();
    });
  }

  form.addEventListener("input", ({ target }) => {
    if (target.name !== "round") pause();
    if (byId(`${target.id}-look`)) look = target.name;
    if (!target.name.startsWith("see-") && target.name !== "beyond") form.elements.answer.value = "";
    held = target.type === "range";
    if (["level", "scenario", "channel", "draw", "mode"].includes(target.name)) {
      // another question: guesses and moves were for the last one
      form.elements.shown.value = "";
      form.elements.moves.value = "";
      at = null;
    }
    later();
  });
  form.addEventListener("change", () => {
    held = false;
    if (waiting) cancelAnimationFrame(waiting);
    waiting = 0;
    update();
    remember();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const press = (id, act) => byId(id).addEventListener("click", act);
  const change = (name, value) => {
    form.elements[name].value = value;
    update();
    remember();
  };
  press("ex-reveal", () => change("shown", form.elements.shown.value ? "" : "1"));
  press("ex-send", () => {
    const made = moves();
    change("moves", made.length === ROUNDS ? "" : [...made, number("pour")].join("."));
  });
  press("ex-reset", () => {
    pause();
    const now = mode();
    form.reset();
    form.elements.mode.value = now;
    look = "level";
    change("answer", "");
  });

  // ---- replay

  let playing = 0;
  function pause() {
    cancelAnimationFrame(playing);
    playing = 0;
    byId("ex-play").textContent = "Play";
  }
  press("ex-play", () => {
    if (playing) {
      pause();
      return remember();
    }
    const { round } = form.elements,
      last = Number(round.max),
      from = number("round") < last ? number("round") : 1,
      begun = performance.now();
    byId("ex-play").textContent = "Pause";
    const frame = (now) => {
      round.value = from + Math.floor(((now - begun) / 20_000) * last); // the whole training in twenty seconds
      update();
      if (number("round") < last) playing = requestAnimationFrame(frame);
      else {
        pause();
        remember();
      }
    };
    playing = requestAnimationFrame(frame);
  });

  // ---- to take away

  function save(name, blob) {
    const anchor = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  }
  press("ex-csv", () => {
    const { floor, methods } = found,
      chosen = Object.keys(methods);
    const head = ["round", "floor", ...chosen.flatMap((name) => [`${name}_noise`, `${name}_sigma`, `${name}_leakage`])];
    const rows = floor.map((least, t) =>
      [
        t + 1,
        least,
        ...chosen.flatMap((name) => [methods[name].w[t], sigma(methods[name].w[t]), leaks(methods[name], t)]),
      ].join(),
    );
    save("explorer.csv", new Blob([[head.join(), ...rows, ""].join("\n")], { type: "text/csv" }));
  });
  press("ex-png", async () => save("explorer.png", await png(plot.querySelector("svg"))));
  press("ex-link", async () => {
    remember();
    try {
      await navigator.clipboard.writeText(location.href);
      byId("ex-link").textContent = "Copied";
      setTimeout(() => (byId("ex-link").textContent = "Copy link"), 1500);
    } catch {
      window.prompt("The link to this state:", location.href); // a browser that keeps its clipboard to itself
    }
  });

  addEventListener("hashchange", () => {
    verdict = "";
    restore();
  });
  root.addEventListener("click", (event) => {
    const anchor = event.target.closest("a[href^='#']");
    if (!anchor) return;
    const { guess } = anchor.dataset; // the reader said so before the answer
    verdict = guess ? (guess === "right" ? "You are right. " : "No. ") : "";
    event.preventDefault(); // else the browser takes the focus after the answer has got it
    history.pushState(null, "", anchor.hash);
    restore();
  });
  root.hidden = false;
  restore();
  if (!found) update();
  new ResizeObserver(paint).observe(plot);
})();
