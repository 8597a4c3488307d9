r"""How regret and violation of AdaScale scale with the horizon: ``python -m companion make scaling``.

The penalty is :math:`V = c\,T^\beta`, and c needs no future: at T = 100 every curve starts from the same multiple of
:math:`\nu / |F'(\ell_\infty)|`, with the stationary level of :eq:`eq:stationary-level`.  A shorter horizon is the
beginning of a longer one.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from adascale import channel
from adascale.policies import adascale_energies
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import Scenario
from adascale.statistics import Interval, interval
from companion.bounds import growth_constant, stationary_level
from companion.bounds.guarantees import optimum

BETAS = (0.5, 1.0, 1.25, 1.5, 1.75)
HORIZONS = (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
SEEDS = range(16)
BUDGET = 0.04
# (V |F'(level)| / nu at T = 100, beta): of the order of a tuned penalty, and so far beyond that only w >> nu matters
CASES = [(20.0, beta) for beta in BETAS] + [(2e7, beta) for beta in BETAS if beta > 1]


def scaling_table(
    cases: Sequence[tuple[float, float]] = CASES,
    horizons: Iterable[int] = HORIZONS,
    seeds: Iterable[int] = SEEDS,
) -> pd.DataFrame:
    r"""Run AdaScale with :math:`V = c\,T^\beta` over horizons and realisations of MNIST's channel, at one budget.

    ``cases`` has pairs of :math:`V |F'(\ell_\infty)| / \nu` at the shortest horizon, and :math:`\beta`.  Rows per seed,
    T, start and beta: ``scale``, the :math:`\omega` of :eq:`eq:floor-law`; ``violation`` (mean of :math:`w_t -
    w_{\min,t}` minus :math:`\nu`) and ``queue`` (:math:`Q_T`); ``leakage, optimum, optimum_at_cost`` (means over rounds
    of F, nats: of AdaScale, of the offline optimum at :math:`\nu`, and of the one at the cost that AdaScale paid).
    What the bounds are made of: ``full_power, equal`` (means of :math:`F(w_{\min,t})` and :math:`F(w_{\min,t} + \nu)`),
    ``least_floor``, ``above, square`` (means of :math:`(y^\star_t - \nu)_+` and of :math:`{y^\star_t}^2`).
    """
    scenario = Scenario.mnist()
    budget = BUDGET
    leakage = RoundLeakage(scenario)
    horizons = sorted(horizons)
    rows = []
    for seed in seeds:
        fading = channel.draw(scenario.num_devices, horizons[-1], seed)
        min_gain = scenario.min_gain(fading.gain)
        mean_gain = scenario.mean_gain(fading.path_loss)
        scale = float(channel.RayleighFloors.of(scenario, mean_gain).scale)
        unit = budget / -float(leakage.slope(stationary_level(scale, budget)))
        for T in horizons:
            problem = Problem(scenario, min_gain[:T], budget)
            floor = problem.min_noise_energy
            best = optimum(floor, budget)
            spend = best - floor
            least = leakage(best).mean()
            ingredients = (
                leakage(floor).mean(),
                leakage(floor + budget).mean(),
                floor.min(),
                np.maximum(spend - budget, 0).mean(),
                np.mean(spend**2),
            )
            for start, beta in cases:
                penalty = start * unit * (T / horizons[0]) ** beta
                energy, last = adascale_energies(floor, budget, penalty, leakage)
                cost = np.mean(energy - floor)
                frontier = leakage(optimum(floor, cost)).mean()
                reached = (
                    cost - budget,
                    float(last),
                    leakage(energy).mean(),
                    least,
                    frontier,
                )
                rows.append(
                    (seed, scale, T, start, beta, penalty, *reached, *ingredients)
                )
    names = "seed scale T start beta penalty violation queue leakage optimum optimum_at_cost"
    return pd.DataFrame(
        rows, columns=f"{names} full_power equal least_floor above square".split()
    )


def end_slope(rows: pd.DataFrame) -> Interval:
    r"""Fit the exponent of T in the size of the violation at the last three horizons: mean and 95 % interval.

    ``rows`` are those of :func:`scaling_table` of one start and one :math:`\beta`.
    """
    wide = rows.pivot(index="T", columns="seed", values="violation").tail(3)
    slopes, _ = np.polyfit(np.log(wide.index), np.log(wide.abs()), 1)
    return interval(slopes)


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    r"""Measured and proved exponents of the violation, its constant, and the leakage at the cost paid.

    A row for each start and :math:`\beta`: ``paper`` and ``proved``, the exponents :math:`(\beta-1)/2` and of
    :prf:ref:`cor-rates`; ``slope, half``, what :func:`end_slope` finds and half its interval; at the longest horizon
    ``constant``, the violation over :math:`C\,T^{(\beta-1)/3}` (:prf:ref:`thm-growth`; of no meaning for
    :math:`\beta \le 1`), and ``dearer``, the leakage over that of the optimum at the cost paid.
    """
    leakage = RoundLeakage(Scenario.mnist())
    rows = []
    for (start, beta), group in table.groupby(["start", "beta"]):
        slope = end_slope(group)
        end = group[group["T"] == group["T"].max()]
        T, penalty, violation = end[["T", "penalty", "violation"]].to_numpy().T
        limit = growth_constant(leakage, penalty / T**beta) * T ** ((beta - 1) / 3)
        rows.append(
            {
                "start": start,
                "beta": beta,
                "paper": (beta - 1) / 2,
                "proved": (beta - 1) / (3 if beta > 1 else 1),
                "slope": slope.centre,
                "half": slope.high - slope.centre,
                "constant": np.mean(violation / limit),
                "dearer": (end["leakage"] / end["optimum_at_cost"]).mean(),
            }
        )
    return pd.DataFrame(rows)
