// The exact epsilon of Gaussian rounds with Poisson sampling, in the browser: the sum of adascale.accounting without its
// proof (appendix A5), tested against it by companion/tests/test_exact_js.py. Events are [sampling rate, sigma, count].
"use strict";
globalThis.ADASCALE_EXACT = (() => {
  const REACH = 8.5, // standard deviations of the nodes on either side
    DEPTH = 34, // nodes below e^-34 of the largest one are left out
    RATIO = 1.25, // of successive tilts
    MOST_TILTS = 150,
    MOST_NODES = 40_000,
    SOON = 1500, // points on the line after which a sum that has not converged is smoothed
    MOST_POINTS = 60_000,
    MOST_WORK = 5e7, // nodes times points of a line, about a tenth of a second
    GRID = 0.015, // of sigma^(-1/2), where rounds have many noise multipliers
    TOLERANCE = Math.log(1e-6), // of delta
    ORDERS = Array.from({ length: 151 }, (_, k) => (k < 99 ? 1.1 + k / 10 : k - 87)); // those of Opacus
  const ADD = 1,
    REMOVE = -1; // mixture against null (one sample is added), and null against mixture
  const order = (way, tilt) => (way === ADD ? 1 + tilt : -tilt);
  const offset = (tilt) => -tilt * Math.log1p(1 / tilt) - Math.log1p(tilt); // which the Renyi conversion adds
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  // ---- the moments of one round: M(z) = E[Y^z], Y = 1 - q + q e^L, L ~ N(-1 / (2 sigma^2), 1 / sigma^2)

  function logRatio(L, q) {
    if (L > Math.max(30, -Math.log(q))) return L + Math.log(q) + Math.log1p(((1 - q) / q) * Math.exp(-L));
    const more = q * Math.expm1(L);
    return more > -0.5 ? Math.log1p(more) : Math.log(1 - q + q * Math.exp(L));
  }

  /** Nodes of the trapezoidal rule for M(c + i xi), |xi| <= top: ln Y, and the logarithm of each term at xi = 0. */
  function nodes(q, root, c, top) {
    let step = 0; // the largest one whose error, bounded on a strip of half width d, is e^-24
    for (let k = 0, d = Math.min((Math.PI / root) * (c > 0 ? 0.999 : 0.9), 40); k < 24; k++, d *= 0.8) {
      const growth = d * (0.5 * d + top * root) + Math.min(c, 0) * Math.log(Math.cos(0.5 * root * d));
      step = Math.max(step, (2 * Math.PI * d) / (25 + growth));
    }
    // the peak moves by at most c root where c > 0, and else by the share that e^L has in Y at x = 0
    const tail = q * Math.exp(-0.5 * root * root),
      shift = c * root * (c > 0 ? 1 : tail / (1 - q + tail)),
      low = Math.min(shift, 0) - REACH,
      size = Math.ceil((Math.abs(shift) + 2 * REACH) / step) + 2;
    if (!(size < MOST_NODES)) return null;
    const y = new Float64Array(size),
      log = new Float64Array(size);
    let peak = -Infinity;
    for (let j = 0; j < size; j++) {
      const x = low + j * step;
      y[j] = logRatio(root * (x - 0.5 * root), q);
      log[j] = c * y[j] - 0.5 * x * x;
      peak = Math.max(peak, log[j]);
    }
    return { y, log, peak, scale: Math.log(step / Math.sqrt(2 * Math.PI)) + peak };
  }

  /** ln M(c) of all rounds together. */
  function logMoment(events, c) {
    let total = 0;
    for (const [q, sigma, count] of events) {
      if (q === 1) {
        total += (count * c * (c - 1)) / (2 * sigma * sigma);
        continue;
      }
      const found = nodes(q, 1 / sigma, c, 0);
      if (!found) return Infinity;
      let terms = 0;
      for (const log of found.log) terms += Math.exp(log - found.peak);
      total += count * (Math.log(terms) + found.scale);
    }
    return total;
  }

  // ---- the Renyi conversion at some tilts: where to sum

  /** Tilts around the best one for this delta, or for this epsilon if logDelta is null. */
  function look(events, way, logDelta, epsilon = 0) {
    const variance = sum(
      events.map(([q, sigma, count]) => {
        const u = sigma ** -2;
        return count * Math.min(q * q * Math.expm1(Math.min(u, 50)), u);
      }),
    );
    const first = logDelta === null ? Math.max(0.1, epsilon / variance) : Math.sqrt((-2 * logDelta) / variance);
    const known = new Map();
    const at = (i) => {
      if (!known.has(i)) {
        const tilt = first * RATIO ** i,
          log = logMoment(events, order(way, tilt)),
          bound = log + offset(tilt);
        known.set(i, { tilt, log, score: logDelta === null ? bound - tilt * epsilon : (bound - logDelta) / tilt });
      }
      return Number.isFinite(known.get(i).score) ? known.get(i).score : Infinity;
    };
    let best = 0;
    while (at(best) === Infinity && best > -MOST_TILTS) best--;
    for (const side of [1, -1]) while (Math.abs(best) < MOST_TILTS && at(best + side) < at(best)) best += side;
    for (let i = best - 6; i <= best + 6; i++) at(i);
    const tilts = [...known.values()].filter(({ score }) => Number.isFinite(score)).sort((a, b) => a.tilt - b.tilt);
    return { way, tilts, top: known.get(best).score, slope: known.get(best).tilt };
  }

  /** The line with the shortest period whose aliases are below the tolerance for every epsilon in low ... high. */
  function plan({ tilts }, low, high, logDelta) {
    const want = logDelta + TOLERANCE,
      bound = tilts.map(({ tilt, log }) => log - tilt * low + offset(tilt)),
      least = Math.min(...bound);
    let best = null;
    for (let j = 1; j < tilts.length - 1; j++) {
      if (bound[j] > least + 6) continue;
      const { tilt, log } = tilts[j];
      let reach = Infinity;
      for (let i = j + 1; i < tilts.length; i++)
        reach = Math.min(reach, (bound[i] - want) / (tilts[i].tilt - tilt));
      const left = Math.min(-want / tilt, (high - want) / (tilt + 1)),
        period = Math.max(left, reach, 0.5 * high, 1e-3 / tilt);
      const slope = (i) => (tilts[i + 1].log - tilts[i].log) / (tilts[i + 1].tilt - tilts[i].tilt);
      const curvature = (slope(j) - slope(j - 1)) / (0.5 * (tilts[j + 1].tilt - tilts[j - 1].tilt));
      if (!best || period < best.period) best = { tilt, log, period, curvature: Math.max(curvature, 1e-300) };
    }
    return best;
  }

  // ---- the sum on a line

  /** Multiply the complex numbers re + i im by size^power e^(i power angle). */
  function turn(re, im, k, size, angle) {
    const x = size * Math.cos(angle),
      y = size * Math.sin(angle);
    [re[k], im[k]] = [re[k] * x - im[k] * y, re[k] * y + im[k] * x];
  }

  /** M^count of every event on the points c + i k h, multiplied, relative to its value at k = 0. */
  function shares(events, c, h, count) {
    const re = new Float64Array(count).fill(1),
      im = new Float64Array(count);
    let log = 0,
      work = 0;
    for (const [q, sigma, times] of events) {
      if (q === 1) {
        const u = times / (sigma * sigma);
        log += 0.5 * u * c * (c - 1);
        for (let k = 0; k < count; k++) turn(re, im, k, Math.exp(-0.5 * u * (k * h) ** 2), u * k * h * (c - 0.5));
        continue;
      }
      const found = nodes(q, 1 / sigma, c, (count - 1) * h);
      if (!found || (work += found.y.length * count) > MOST_WORK) return null;
      const real = new Float64Array(count),
        imaginary = new Float64Array(count);
      found.y.forEach((y, j) => {
        if (found.log[j] < found.peak - DEPTH) return;
        const cos = Math.cos(h * y),
          sin = Math.sin(h * y);
        let a = Math.exp(found.log[j] - found.peak),
          b = 0;
        for (let k = 0; k < count; k++) {
          real[k] += a;
          imaginary[k] += b;
          [a, b] = [a * cos - b * sin, a * sin + b * cos];
        }
      });
      log += times * (Math.log(real[0]) + found.scale);
      // the angle is followed, as a number of times that is not whole would see it jump
      for (let k = 0, angle = 0, before = 0; k < count; k++) {
        const now = Math.atan2(imaginary[k], real[k]);
        angle += now - before - 2 * Math.PI * Math.round((now - before) / (2 * Math.PI));
        before = now;
        turn(re, im, k, (Math.hypot(real[k], imaginary[k]) / real[0]) ** times, times * angle);
      }
    }
    return { re, im, log };
  }

  /** epsilon -> delta on one line; smoothed by one more Gaussian round of noise 1 / tau, which can only raise it. */
  function lineSum(events, way, { tilt: a, period }, count, tau) {
    const h = (2 * Math.PI) / period,
      found = shares(tau ? [...events, [1, 1 / tau, 1]] : events, order(way, a), h, count);
    if (!found) return null;
    const { re, im, log } = found;
    for (let k = 0; k < count; k++) {
      // divided by s (s + 1), s = a + i xi
      const xi = k * h,
        x = a * (a + 1) - xi * xi,
        y = xi * (2 * a + 1),
        size = (k ? 1 : 0.5) / (x * x + y * y),
        turned = way === ADD ? im[k] : -im[k];
      [re[k], im[k]] = [(re[k] * x + turned * y) * size, (turned * x - re[k] * y) * size];
    }
    const value = (epsilon) => {
      let total = 0;
      const cos = Math.cos(h * epsilon),
        sin = Math.sin(h * epsilon);
      for (let k = 0, c = 1, s = 0; k < count; k++) {
        total += c * re[k] + s * im[k];
        [c, s] = [c * cos - s * sin, c * sin + s * cos];
      }
      // aliases at epsilon - m period < 0, where delta is 1 - e^epsilon
      const m = Math.max(Math.ceil(epsilon / period), 1),
        ones = Math.exp(-a * m * period) / -Math.expm1(-a * period),
        less = Math.exp(Math.min(epsilon, m * period) - (a + 1) * m * period) / -Math.expm1(-(a + 1) * period);
      return (h / Math.PI) * Math.exp(log - a * epsilon) * total - (ones - less);
    };
    let last = 0;
    for (let k = Math.max(count - 3, 0); k < count; k++) last = Math.max(last, Math.hypot(re[k], im[k]));
    return { value, log, rest: Math.log(last * count * h) };
  }

  /** A converged sum for epsilons in low ... high; null if none is found, and without smoothing if it is slow. */
  function settled(events, seen, low, high, logDelta, tau) {
    const line = plan(seen, low, high, logDelta);
    if (!line) return null;
    const h = (2 * Math.PI) / line.period,
      size = logDelta + TOLERANCE + line.tilt * low;
    if (tau) {
      const lead = line.log - size + 0.5 * tau * tau * line.tilt * (line.tilt + 1),
        count = Math.ceil(Math.sqrt(2 * Math.max(lead, 2)) / tau / h) + 2;
      return count > MOST_POINTS ? null : lineSum(events, seen.way, line, count, tau);
    }
    for (let count = Math.ceil(Math.sqrt(40 / line.curvature) / h) + 12; count < SOON; count = Math.ceil(1.6 * count)) {
      const found = lineSum(events, seen.way, line, count, 0);
      if (found && found.rest < size - found.log) return found;
    }
    return null;
  }

  /** Where the sum equals delta; 0 if it is smaller at 0, null if the sum does not converge. */
  function root(events, seen, delta, tau) {
    let high = 1.02 * Math.max(seen.top, 0);
    for (const part of [0.8, 0.55, 0.3, 0]) {
      let low = part * Math.max(seen.top, 0);
      const found = settled(events, seen, low, high, Math.log(delta), tau);
      if (!found || !(found.value(high) <= delta)) return null;
      if (found.value(low) <= delta) continue;
      while (high - low > 1e-10 * high) {
        const middle = 0.5 * (low + high);
        if (middle <= low || middle >= high) break;
        if (found.value(middle) > delta) low = middle;
        else high = middle;
      }
      return high;
    }
    return 0;
  }

  /** epsilon in one direction, with less and less smoothing where the plain sum is slow to converge. */
  function oneWay(events, seen, delta) {
    const plain = root(events, seen, delta, 0);
    if (plain !== null) return plain;
    // smoothing adds about slope tau^2 / 2
    const { top, slope, tilts } = seen,
      steepest = tilts[tilts.length - 1].tilt;
    let tau = Math.min(
        0.1 * Math.max(top, 1e-3 / steepest),
        Math.sqrt((0.04 * Math.max(top, 0.01 / slope)) / slope),
        0.5,
      ),
      before = null;
    for (let k = 0; k < 12; k++, tau *= 0.25) {
      const found = root(events, seen, delta, tau);
      if (found === null) return null;
      if (before !== null && Math.abs(before - found) <= 2e-3 * found) return found + (found - before) / 15;
      before = found;
    }
    return null;
  }

  // ---- what a page asks

  /** Equal rounds as one event; rounds that release nothing are left out. */
  function merge(list) {
    const rates = new Map();
    for (const [q, sigma, count] of list) {
      if (!(q > 0 && count > 0)) continue;
      if (!rates.has(q)) rates.set(q, new Map());
      rates.get(q).set(sigma, (rates.get(q).get(sigma) ?? 0) + count);
    }
    return [...rates].flatMap(([q, counts]) => thinned([...counts]).map(([sigma, count]) => [q, sigma, count]));
  }

  /** Many noise multipliers as fewer on a grid of sigma^(-1/2), with the weights of cubic interpolation. */
  function thinned(counts) {
    const places = counts.map(([sigma]) => sigma ** -0.5),
      low = Math.min(...places),
      range = Math.max(...places) - low,
      size = Math.max(Math.ceil(range / GRID), 3),
      step = range / size,
      weights = new Float64Array(size + 1);
    if (counts.length <= size + 1) return counts;
    counts.forEach(([, count], i) => {
      const x = (places[i] - low) / step,
        first = Math.min(Math.max(Math.floor(x) - 1, 0), size - 3);
      for (let j = first; j < first + 4; j++) {
        let weight = count;
        for (let k = first; k < first + 4; k++) if (k !== j) weight *= (x - k) / (j - k);
        weights[j] += weight;
      }
    });
    return Array.from(weights, (weight, j) => [(low + j * step) ** -2, weight]).filter(([, weight]) => weight);
  }

  /** The largest loss in the direction "remove", which bounds its epsilon. */
  const largest = (events) => sum(events.map(([q, , count]) => -count * Math.log1p(-q)));

  /**
   * The smallest epsilon at this delta, and both directions; NaN where no sum converges. The direction "remove" is null
   * where a bound shows that the other one is larger.
   */
  function epsilon(list, delta) {
    const events = merge(list);
    if (!events.length) return { epsilon: 0, add: 0, remove: 0 };
    const seen = [ADD, REMOVE].map((way) => look(events, way, Math.log(delta))),
      add = oneWay(events, seen[0], delta) ?? NaN,
      most = Math.min(largest(events), seen[1].top),
      remove = most <= add || events.every(([q]) => q === 1) ? null : (oneWay(events, seen[1], delta) ?? NaN);
    return { epsilon: Math.max(add, remove), add, remove };
  }

  /** The epsilon that the moments at some real orders give, as most tools compute it: an upper bound. */
  function renyi(list, delta) {
    const events = merge(list),
      bounds = ORDERS.map((order) => (logMoment(events, order) + offset(order - 1) - Math.log(delta)) / (order - 1));
    return events.length ? Math.max(0, Math.min(...bounds)) : 0;
  }

  /** delta at some epsilons: one sum for all of them, in the direction "add". */
  function deltas(events, epsilons) {
    const low = Math.min(...epsilons),
      high = Math.max(...epsilons),
      seen = look(events, ADD, null, 0.5 * (low + high)),
      least = Math.min(...seen.tilts.map(({ tilt, log }) => log - tilt * high + offset(tilt)));
    const logDelta = Math.max(Math.min(least, -1e-3), Math.log(1e-8)),
      tau = Math.min(0.5, 0.1 / seen.slope);
    const found = settled(events, seen, low, high, logDelta, 0) ?? settled(events, seen, low, high, logDelta, tau);
    return found ? epsilons.map((epsilon) => Math.min(Math.max(found.value(epsilon), 0), 1)) : null;
  }

  /** The largest shares of used samples that tests with these shares of false alarms find; NaN if no sum converges. */
  function powers(list, alarms) {
    const events = merge(list),
      most = -Math.log(Math.min(...alarms)),
      epsilons = Array.from({ length: 64 }, (_, i) => most * (i / 63) ** 2);
    if (!events.length) return alarms;
    const delta = deltas(events, epsilons) ?? [NaN];
    return alarms.map((alarm) => Math.min(1, ...delta.map((value, i) => Math.exp(epsilons[i]) * alarm + value)));
  }

  /** The same of one share. */
  const power = (list, alarms) => powers(list, [alarms])[0];

  /** What multiplies all noise multipliers of a list for this epsilon, to a hundred-thousandth; `fixed` keeps its own. */
  function noise(list, wanted, delta, fixed = []) {
    const scaled = (log) => list.map(([q, sigma, count]) => [q, sigma * Math.exp(log), count]),
      over = (log) => epsilon([...fixed, ...scaled(log)], delta).epsilon;
    let high = 0;
    while (over(high) > wanted && high < 20) high += 1;
    while (over(high - 1) <= wanted && high > -5) high -= 1;
    let low = high - 1;
    if (!(over(high) <= wanted && over(low) > wanted)) return NaN;
    // falling and nearly straight in logarithms: regula falsi, where an end that stays twice counts half
    let above = Math.log(over(low) / wanted),
      below = Math.log(Math.max(over(high), 1e-9) / wanted);
    for (let k = 0, side = 0; k < 40 && high - low > 1e-6; k++) {
      const middle = (low * below - high * above) / (below - above),
        value = Math.log(over(middle) / wanted);
      if (Math.abs(value) < 1e-6) return Math.exp(middle);
      if (value > 0) {
        [low, above] = [middle, value];
        if (side > 0) below /= 2;
      } else {
        [high, below] = [middle, value];
        if (side < 0) above /= 2;
      }
      side = Math.sign(value);
    }
    return Math.exp(high);
  }

  return { epsilon, renyi, power, powers, noise };
})();
