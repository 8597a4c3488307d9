// Epsilon as a bet: drag it, and see the odds, the dots and the trade-off curve. exact.js computes.
"use strict";
(() => {
  const { EXACT, epsilonText, share, dots, percent, perFrame } = globalThis.ADASCALE_LAB;
  const ALARMS = Array.from({ length: 40 }, (_, i) => 1e-4 ** (1 - i / 39)); // 1e-4 ... 1
  const [LEFT, RIGHT, TOP, BOTTOM] = [68, 318, 8, 196];
  const x = (alarms) => LEFT + ((RIGHT - LEFT) * (Math.log10(alarms) + 4)) / 4,
    y = (hits) => BOTTOM - ((BOTTOM - TOP) * (Math.log10(Math.max(hits, 1e-4)) + 4)) / 4;
  const line = (points, look) => `<path d="M${points.join("L")}" fill="none" ${look}/>`;

  /** A training of 500 rounds, each sample in one of a hundred, with the noise that gives this epsilon. */
  function training(epsilon) {
    const rounds = [[0.01, 1, 500]];
    return rounds.map(([q, , count]) => [q, EXACT.noise(rounds, epsilon, 1e-5), count]);
  }

  function start(box) {
    const find = (name) => box.querySelector(`[data-part=${name}]`),
      slider = find("epsilon");
    function draw() {
      const epsilon = 10 ** Number(slider.value),
        odds = Math.exp(epsilon),
        events = training(epsilon),
        hits = EXACT.power(events, 0.01);
      find("value").textContent = epsilonText(epsilon);
      slider.setAttribute("aria-valuetext", epsilonText(epsilon));
      find("odds").textContent = `${odds < 1e4 ? odds.toPrecision(odds < 100 ? 2 : 3) : "more than 10,000"} to 1`;
      find("belief").textContent = percent(odds / (1 + odds));
      find("hits").textContent = share(hits);
      dots(find("dots"), Math.round(100 * hits));
      const found = EXACT.powers(events, ALARMS);
      const ticks = [1e-4, 1e-3, 1e-2, 1e-1, 1];
      find("curve").innerHTML = [
        ...ticks.map(
          (tick) =>
            `<path d="M${LEFT} ${y(tick)}H${RIGHT}" stroke="var(--lab-edge)"/><text x="${LEFT - 5}" y="${y(tick) + 4}" text-anchor="end" font-size="12">${100 * tick} %</text><text x="${x(tick)}" y="${BOTTOM + 16}" text-anchor="middle" font-size="12">${100 * tick} %</text>`,
        ),
        line([`${x(1e-4)} ${y(1e-4)}`, `${x(1)} ${y(1)}`], 'stroke="var(--lab-quiet)" stroke-dasharray="5 4"'),
        line(
          ALARMS.map((alarms) => `${x(alarms)} ${y(Math.min(odds * alarms + 1e-5, 1))}`),
          'stroke="var(--lab-quiet)" stroke-dasharray="2 3" stroke-width="2"',
        ),
        line(
          ALARMS.map((alarms, i) => `${x(alarms)} ${y(found[i])}`),
          'stroke="var(--lab-even)" stroke-width="2.5"',
        ),
        `<circle cx="${x(0.01)}" cy="${y(hits)}" r="5" style="fill: var(--lab-even)"/>`,
        `<text x="${(LEFT + RIGHT) / 2}" y="${BOTTOM + 33}" text-anchor="middle" font-size="12">false alarms</text><text transform="translate(12 ${(TOP + BOTTOM) / 2}) rotate(-90)" text-anchor="middle" font-size="12">used photos found</text>`,
      ].join("");
      Object.assign(box.dataset, { epsilon, hits });
    }
    slider.addEventListener("input", perFrame(draw));
    draw();
    box.hidden = false;
  }

  for (const box of document.querySelectorAll(".lab-bet")) {
    box.innerHTML = `<div class="lab-drag"><span class="lab-epsilon" style="font-size: 1.9rem">ε = <span data-part="value"></span></span>
<input type="range" data-part="epsilon" min="-1" max="1" step="0.02" value="0" aria-label="Epsilon"></div>
<div class="lab-stage"><div><p><b>The definition.</b> Someone bets at even odds that your photo was used. After the training, the odds are at most <b><span data-part="odds"></span></b>: 50 % becomes at most <b><span data-part="belief"></span></b>.</p>
<p><b>The best attack</b> on a training with this ε, with one false alarm in a hundred, finds <b><span data-part="hits"></span> of 100</b> used photos.</p><svg data-part="dots" viewBox="0 0 400 100" aria-hidden="true"></svg></div>
<div><svg data-part="curve" viewBox="0 0 340 234" aria-hidden="true"></svg><p class="lab-small">Line: the best attack. Dotted: what the definition allows. Dashed: guessing.</p></div></div>`;
    start(box);
  }
})();
