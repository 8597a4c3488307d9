// The explorer's arithmetic: what adascale computes, and tested against it by companion/tests/test_explorer.py.
// The book's names: noise energy w, floor w_min, leakage F(w), allowance nu, penalty V, s = 1 / sigma^2 = unit / w.
"use strict";
globalThis.ADASCALE_CORE = (() => {
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  // ---- channels

  /** The floors w_min of a draw, round by round. */
  function floors(data, scenario, channel, draw) {
    const { rounds, floorScale } = data.scenarios[scenario];
    const lost = data.gains[channel][draw].slice(0, rounds); // in hundredths of a dB
    return lost.map((loss) => floorScale * 10 ** (loss / 1000));
  }

  /** The constant level for the nu of this index, from the law of the floors. */
  function constantLevel(data, scenario, channel, draw, index) {
    const levels = data.levels[scenario];
    return 10 ** ((levels[channel] ?? levels.rayleigh)[draw][index] / 1e5); // in ten-thousandths of a dB
  }

  // ---- leakage of the sampled Gaussian mechanism (appendix A1)

  /** ln(binomial(n, k) q^k (1-q)^(n-k)) for k = 2 ... n. */
  function logWeights(q, n) {
    const weights = [];
    let binomial = n;
    for (let k = 2; k <= n; k++) {
      binomial *= (n - k + 1) / k;
      weights.push(Math.log(binomial) + k * Math.log(q) + (n - k) * Math.log1p(-q));
    }
    return weights;
  }

  /** s -> A(s) = ln E[(1 - q + q e^L)^order], L ~ N(-s/2, s), for a whole order: the finite sum of Lemma 1. */
  function wholeMoment(q, order) {
    const logWeight = logWeights(q, order);
    const weight = logWeight.map(Math.exp);
    return (s) => {
      if (0.5 * order * (order - 1) * s < 600) {
        let total = 0;
        for (let i = 0; i < weight.length; i++) total += weight[i] * Math.expm1(0.5 * (i + 2) * (i + 1) * s);
        return Math.log1p(total);
      }
      // the same in logarithms, where a power of e^s overflows
      const terms = logWeight.map((log, i) => log + 0.5 * (i + 2) * (i + 1) * s);
      const peak = Math.max(...terms);
      const log = peak + Math.log(sum(terms.map((term) => Math.exp(term - peak))));
      return log < 30 ? Math.log1p(Math.exp(log)) : log;
    };
  }

  /** s -> [A'(s), A''(s)] for a whole order: mean and variance of k(k-1)/2 under the terms of the sum. */
  function wholeSlopes(q, order) {
    const logWeight = logWeights(q, order);
    const weight = logWeight.map(Math.exp);
    const rest = 1 - sum(weight); // the terms of k = 0 and 1
    const top = 0.5 * order * (order - 1);
    return (s) => {
      const shift = top * s < 600 ? 0 : Math.max(...logWeight.map((log, i) => log + 0.5 * (i + 2) * (i + 1) * s));
      let moment = rest * Math.exp(-shift), first = 0, second = 0;
      for (let i = 0; i < weight.length; i++) {
        const pairs = 0.5 * (i + 2) * (i + 1);
        const term = shift ? Math.exp(logWeight[i] + pairs * s - shift) : weight[i] * Math.exp(pairs * s);
        moment += term;
        first += pairs * term;
        second += pairs * pairs * term;
      }
      const mean = first / moment;
      return [mean, second / moment - mean * mean];
    };
  }

  /** F(w) of a round, the sum over all devices, with its first two derivatives; a whole order. */
  function leakage({ devices, rate, unit }, order) {
    const moment = wholeMoment(rate, order), slopes = wholeSlopes(rate, order), scale = devices / (order - 1);
    return {
      of: (w) => scale * moment(unit / w),
      slopes: (w) => {
        const s = unit / w, [first, second] = slopes(s);
        return [(-scale * s * first) / w, (scale * s * (2 * first + s * second)) / (w * w)];
      },
    };
  }

  // ---- policies: each gives the noise energies of all rounds

  /** The level with mean_t max(level - w_min,t, 0) = nu: water-filling. */
  function waterLevel(floor, nu) {
    const sorted = Float64Array.from(floor).sort();
    let below = 0, level = Infinity;
    for (let k = 0; k < sorted.length && sorted[k] < level; k++) {
      below += sorted[k];
      level = (floor.length * nu + below) / (k + 1);
    }
    return level;
  }

  const atLevel = (floor, level) => floor.map((least) => Math.max(level, least));
  const equalAlloc = (floor, nu) => floor.map((least) => least + nu);

  /** The root above the floor of V F'(w) + Q + w - w_min, by Newton's steps on logarithms within a bracket. */
  function adascaleRound(floor, queue, V, F, start) {
    const atFloor = F.slopes(floor)[0];
    if (V * atFloor + queue >= 0) return floor;
    let low = floor, high = Infinity, w = start > floor ? start : 1.5 * floor, size = Infinity;
    for (let turn = 0; turn < 200; turn++) {
      const [slope, curvature] = F.slopes(w), against = queue + (w - floor);
      const ratio = (-V * slope) / against; // 1 at the root, and falling
      if (ratio > 1) low = w;
      else high = w;
      const step = Math.log(ratio) / (w * (1 / against - curvature / slope));
      let next = w * Math.exp(step);
      if (Math.abs(next - w) <= 4e-16 * w || high - low <= 4e-16 * w) return next;
      // a step that leaves the bracket, or is hardly shorter than the one before, is replaced by halving
      const good = next > low && next < high && Math.abs(step) < 0.8 * size;
      if (!good) next = high < Infinity ? Math.sqrt(low * high) : Math.max(next, 2 * low);
      size = good ? Math.abs(step) : Infinity;
      w = next;
    }
    return w;
  }

  /** AdaScale: the queue counts what is spent beyond nu a round, and presses later rounds towards their floors. */
  function adascale(floor, nu, V, F) {
    let queue = 0, before = 0;
    return floor.map((least) => {
      before = adascaleRound(least, queue, V, F, before);
      queue = Math.max(queue + (before - least) - nu, 0);
      return before;
    });
  }

  /** The one V at which AdaScale costs nu on these very channels; it sees all of them. */
  function matchedPenalty(floor, nu, F) {
    const excess = (log) => Math.log(cost(adascale(floor, nu, Math.exp(log), F), floor) / nu); // rises with V
    const guess = (-5 * nu) / F.slopes(waterLevel(floor, nu))[0];
    let low = Math.log(guess) - 0.7, high = low + 1.4;
    let below = excess(low), above = excess(high);
    while (below > 0) [high, above, low, below] = [low, below, low - 2, excess(low - 2)];
    while (above < 0) [low, below, high, above] = [high, above, high + 2, excess(high + 2)];
    // regula falsi; an end that stays twice counts half (Illinois)
    for (let turn = 0, side = 0; turn < 80; turn++) {
      const log = (low * above - high * below) / (above - below), found = excess(log);
      if (Math.abs(found) < 1e-13 || high - low < 1e-14) return Math.exp(log);
      if (found > 0) {
        [high, above] = [log, found];
        if (side > 0) below /= 2;
      } else {
        [low, below] = [log, found];
        if (side < 0) above /= 2;
      }
      side = Math.sign(found);
    }
    return Math.exp(high);
  }

  /** Learn, with the hard promise: levels from the floors seen so far, a reserve, and never more than T nu spent. */
  function learn(floor, nu, reserve = 2) {
    const T = floor.length, seen = [];
    let left = T * nu, level = 0;
    return floor.map((least, t) => {
      const rest = T - t;
      seen.push(least);
      level = learnedLevel(seen, (rest - 1 + reserve * Math.log(rest)) / (seen.length + 1), left, level);
      const spent = rest > 1 ? Math.min(Math.max(level - least, 0), left) : left;
      left = Math.max(left - spent, 0);
      return least + spent;
    });
  }

  /** The level at which this round and `each` times all seen spend what is left: Newton on straight pieces. */
  function learnedLevel(seen, each, left, start) {
    const now = seen[seen.length - 1], highest = now + left;
    let level = Math.min(start, highest);
    for (let turn = 0; turn < seen.length + 3; turn++) {
      let over = -left, slope = 0;
      for (const least of seen) {
        if (least < level) {
          over += each * (level - least);
          slope += each;
        }
      }
      if (now < level) {
        over += level - now;
        slope += 1;
      }
      const next = slope ? Math.min(level - over / slope, highest) : highest;
      if (next === level || (turn > 1 && next > level)) break;
      level = next;
    }
    return level;
  }

  /** Drift-plus-penalty without AdaScale's quadratic term: V F'(w) + Q changes its sign, or w stops at the cap. */
  function plainLyapunov(floor, nu, V, F, cap) {
    let queue = 0;
    return floor.map((least) => {
      let low = least, high = Math.max(cap, least);
      if (V * F.slopes(high)[0] + queue >= 0) {
        for (let turn = 0; turn < 60; turn++) {
          const middle = Math.sqrt(low * high);
          if (V * F.slopes(middle)[0] + queue < 0) low = middle;
          else high = middle;
        }
      }
      queue = Math.max(queue + high - least - nu, 0);
      return high;
    });
  }

  // ---- what a schedule costs and leaks

  const cost = (w, floor) => sum(w.map((energy, t) => energy - floor[t])) / w.length;

  /** Renyi leakage up to and with each round, the mean over devices, in nats. */
  function leakedSoFar(w, F, devices) {
    let total = 0;
    return w.map((energy) => (total += F.of(energy) / devices));
  }

  /** AdaScale's queue after each round, for any noise energies: what was spent beyond nu a round so far. */
  function queueAfter(w, floor, nu) {
    let queue = 0;
    return w.map((energy, t) => (queue = Math.max(queue + energy - floor[t] - nu, 0)));
  }

  /** The exact epsilon of noise energies, by exact.js; not a number where its sum does not converge. */
  function epsilon(w, { rate, unit }, delta) {
    return globalThis.ADASCALE_EXACT.epsilon(
      w.map((energy) => [rate, Math.sqrt(energy / unit), 1]),
      delta,
    ).epsilon;
  }

  // ---- one position of the controls

  let last = {}; // the penalty takes longest, and does not depend on its multiple

  /** What noise energies cost and leak; epsilon takes longest, and is computed when it is asked for. */
  function judge(data, { scenario, order }, floor, w) {
    const constants = data.scenarios[scenario];
    const soFar = leakedSoFar(w, leakage(constants, order), constants.devices);
    let known;
    return {
      w,
      soFar,
      rdp: soFar[soFar.length - 1],
      cost: cost(w, floor),
      get epsilon() {
        return (known ??= epsilon(w, constants, data.delta));
      },
    };
  }

  /**
   * Everything the page shows. `level` is an index of data.nu, `multiple` is that of the matched V, `cap` is the plain
   * method's or null; of the training, the first `rounds` count. `own` are noise energies of the reader's, or null.
   */
  function solve(data, controls) {
    const { scenario, channel, draw, level: index, order, multiple, cap, rounds, own } = controls;
    const nu = data.nu[index], F = leakage(data.scenarios[scenario], order);
    const floor = floors(data, scenario, channel, draw).slice(0, rounds);
    const level = waterLevel(floor, nu), key = [scenario, channel, draw, index, order, rounds].join();
    if (last.key !== key || last.data !== data) last = { key, data, V: matchedPenalty(floor, nu, F) };
    const energies = {
      optimal: atLevel(floor, level),
      adascale: adascale(floor, nu, last.V * multiple, F),
      equal: equalAlloc(floor, nu),
      constant: atLevel(floor, constantLevel(data, scenario, channel, draw, index)),
      learn: learn(floor, nu),
      ...(cap && { plain: plainLyapunov(floor, nu, last.V * multiple, F, cap) }),
      ...(own && { you: own }),
    };
    const methods = {};
    for (const [name, w] of Object.entries(energies)) methods[name] = judge(data, controls, floor, w);
    for (const method of Object.values(methods)) method.ratio = method.rdp / methods.optimal.rdp;
    const highest = waterLevel(floors(data, scenario, channel, draw), data.nu[data.nu.length - 1]);
    return { nu, floor, level, highest, penalty: last.V, methods };
  }

  return { solve, floors, atLevel, queueAfter };
})();
