r"""What :ref:`chap-accuracy` tells of the trainings under several readings: tables to read, and texts to glue.

What the chapter concludes from the committed tables stands in ``companion/tests/reported/test_accuracy.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy import stats

from adascale import channel
from adascale.comparison import leakage_table
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario
from adascale.statistics import Interval, interval, log_interval
from companion.claims import CLOSE, MARKS
from companion.formatting import Texts, listed
from companion.methods import METHODS
from companion.summary import band, by_seed, number
from companion.training.accuracy import accuracy_claims
from companion.training.weighted_trainings import SETTINGS, response_weights
from companion.training.weights import by_third, saving

MARKED = {"as stated": 1, "budget M nu": 10, "budget M^2 nu / 2": 50, "budget M^2 nu": 100}
r"""Readings that multiply :math:`\nu` by a factor and change nothing else."""
FORGOTTEN = 6
"""The x of :eq:`eq:saving` at which the chapter looks at epsilon."""
PAIR = "momentum 0.9, budget 2 nu"
"""The reading that changes two things."""
OTHERS = {
    "Optimal": "Optimal",
    "EqualAlloc": "EqualAlloc",
    "PowerControl": "liu",
    "LyapunovPowerControl": "shi",
    "EstimFuture": "EstimFuture",
}
"""The methods beside AdaScale, and what their texts are called by."""
_NBSP = "\N{NO-BREAK SPACE}"


def silent(results: pd.DataFrame, reading: str = "without noise") -> pd.Series:
    """Accuracy without noise in per cent, by seed."""
    quiet: pd.Series = by_seed(results[results.reading == reading]).iloc[:, 0]
    return quiet


def with_lost(readings: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    r"""The readings that differ in the budget alone, with the accuracy that each loses to noise.

    Parameters
    ----------
    readings : pandas.DataFrame
        See :func:`~companion.training.accuracy.reading_table`.
    results : pandas.DataFrame
        The rows of the sweeps.

    Returns
    -------
    pandas.DataFrame
        The rows of :data:`MARKED`, by budget, with ``lost, lost_low, lost_high``: points, paired by seed.
    """
    rows = readings[readings.reading.isin(list(MARKED))]
    accuracy, quiet = by_seed(results[results.policy == "AdaScale"]), silent(results)
    found = [
        interval((quiet - accuracy[reading, "AdaScale", nu]).dropna())
        for reading, nu in zip(rows.reading, rows.nu, strict=True)
    ]
    lost = pd.DataFrame(found, columns=["lost", "lost_low", "lost_high"], index=rows.index)
    return rows.join(lost).sort_values("budget")


def stated_texts(results: pd.DataFrame, floors: Iterable[np.ndarray]) -> Texts:
    """Of the trainings as stated, and of the floors of their realisations, shape (T,) each."""
    points = by_seed(results[results.reading == "as stated"])["as stated", "AdaScale"]
    small, large = points.columns.min(), points.columns.max()
    floor = np.array(list(floors))
    mean, lost = floor.mean(), interval((silent(results) - points[large]).dropna())
    return {
        "small": f"{small:g}",
        "large": f"{large:g}",
        "close": f"{100 * (CLOSE - 1):.0f}",
        "floor-mean": f"{mean:.2f}",
        "floor-max": f"{floor.max():.0f}",
        "floor-share": f"{100 * mean / (mean + small):.0f}",
        "floor-share-large": f"{100 * mean / (mean + large):.0f}",
        "floor-below": f"{100 * (floor < large).mean():.0f}",
        "loss-large": f"{lost.centre:.2f}",
        "loss-large-high": f"{lost.high:.2f}",
    }


def at_loss(curve: pd.DataFrame, points: float) -> float:
    """The budget at which so many points are lost: on a logarithmic scale, between the first two that were run."""
    lost = curve.lost.to_numpy()
    k = int(np.argmax(lost > points))
    if k == 0:
        raise ValueError(f"{points:g} points must be lost between two budgets, got {lost.min():g} to {lost.max():g}")
    return float(np.exp(np.interp(points, lost[k - 1 : k + 1], np.log(curve.budget.iloc[k - 1 : k + 1]))))


def curve_texts(curve: pd.DataFrame, quiet: float, quoted: float) -> Texts:
    r"""Of :func:`with_lost`: the budgets at which one point is lost, and at which the accuracy quoted is reached.

    Parameters
    ----------
    curve : pandas.DataFrame
        The rows.
    quiet, quoted : float
        Mean accuracy without noise, and that quoted for the largest :math:`\nu`, in per cent.
    """

    def gap(budget: float) -> float:
        return float(np.exp(np.interp(np.log(budget), np.log(curve.budget), np.log(curve.gap))))

    small, large = curve.nu.min(), curve.nu.max()
    one, end = at_loss(curve, 1.0), at_loss(curve, quiet - quoted)
    return {
        "one-point": f"{one:.1f}",
        "ninety": f"{end:.1f}",
        "ninety-factor": f"{end / large:.0f}",
        "gap-one": f"{100 * (gap(one) - 1):.0f}",
        "gap-small": f"{gap(small):.0f}",
        "gap-factor": f"{100 * (gap(small * end / large) - 1):.0f}",
    }


def reading_rows(readings: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Both headlines to read, a row a reading: values with the marks of their verdicts.

    Parameters
    ----------
    readings, verdicts : pandas.DataFrame
        See :func:`~companion.training.accuracy.reading_table` and
        :func:`~companion.training.accuracy.reading_verdicts`.
    """
    small, large = (readings[readings.nu == nu].set_index("reading") for nu in (readings.nu.min(), readings.nu.max()))
    first, last = f"{readings.nu.min():g}", f"{readings.nu.max():g}"

    def cell(values: pd.Series, verdicts: pd.Series | None = None, digits: str = ".1f") -> pd.Series:
        text = values.map(lambda value: number(value, digits))
        return text if verdicts is None else text + _NBSP + verdicts.map(MARKS)

    def gap(values: pd.Series, verdicts: pd.Series | None = None) -> pd.Series:
        return cell(values, verdicts, ".2f")

    spans = cell(large.fall) + f"{_NBSP}[" + cell(large.fall_low) + f",{_NBSP}" + cell(large.fall_high) + "]"
    shown = pd.DataFrame(
        {
            f"accuracy at {first} [%]": cell(small.accuracy, verdicts.small),
            f"at {last} [%]": cell(large.accuracy, verdicts.large),
            "fall [points]": spans + _NBSP + verdicts.fall.map(MARKS),
            f"gap at {first}": gap(small.gap, verdicts.gap),
            f"gap at {last}": gap(large.gap, verdicts.narrows),
            f"of means at {first}": gap(small.gap_means),
            "gap in ε": gap(small.epsilon_gap),
            "ε": cell(small.epsilon, digits=".1f"),
        }
    ).loc[verdicts.index]
    return shown.rename(lambda name: name.replace("M^2", "M²").replace(" nu", " ν"))


def reading_texts(readings: pd.DataFrame, results: pd.DataFrame, quoted: tuple[float, float]) -> Texts:
    r"""Of single readings: gaps at both ends, falls, and the methods under the budget :math:`M^2\nu`."""
    small, large = (readings[readings.nu == nu].set_index("reading") for nu in (readings.nu.min(), readings.nu.max()))
    square = accuracy_claims(results[results.reading == "budget M^2 nu"], quoted).set_index("claim")
    texts = {
        "wide-0": f"{small.gap['clipping norm 3']:.1f}",
        "wide-1": f"{large.gap['clipping norm 3']:.0f}",
        "high-0": f"{small.gap['floors times M^2']:.2f}",
        "high-1": f"{large.gap['floors times M^2']:.2f}",
        "half-small": f"{small.accuracy['budget M^2 nu / 2']:.1f}",
        "half-large": f"{large.accuracy['budget M^2 nu / 2']:.1f}",
        "half-gap": f"{100 * (small.gap['budget M^2 nu / 2'] - 1):.0f}",
        "m2-gap": f"{small.gap['floors and budget times M^2']:.2f}",
        "m2-small": f"{small.accuracy['floors and budget times M^2']:.0f}",
        "square-same": f"{square.loc['same', ['low', 'high']].abs().max(axis=None):.2f}",
        "square-fall": f"{square.points['falls'].max():.1f}",
    }
    for name, label in (("learning rate 2", "two"), ("learning rate 5", "five"), ("momentum 0.9", "momentum")):
        row = large.loc[name]
        texts[f"fall-{label}"] = f"{row.fall:.1f} [{number(row.fall_low)}, {row.fall_high:.1f}]"
    one, other = small.loc[PAIR], large.loc[PAIR]
    return texts | {
        "two-small": f"{one.accuracy:.1f}",
        "two-large": f"{other.accuracy:.1f}",
        "two-fall": f"{other.fall:.1f} [{other.fall_low:.1f}, {other.fall_high:.1f}]",
        "two-gap": f"{one.gap:.0f}",
        "two-gap-large": f"{other.gap:.2f}",
        "two-epsilon-gap": f"{one.epsilon_gap:.1f}",
        "two-gap-means": f"{one.gap_means:.0f}",
        "stated-gap-means": f"{small.gap_means['as stated']:.1f}",
    }


def momentum_table(results: pd.DataFrame, gap: pd.Series) -> pd.DataFrame:
    r"""MNIST with momentum 0.9 realisation by realisation, by rising mean floor.

    Parameters
    ----------
    results : pandas.DataFrame
        The rows of the sweeps.
    gap : pandas.Series
        EqualAlloc's RDP over the optimum's at the smallest :math:`\nu`, by seed.

    Returns
    -------
    pandas.DataFrame
        ``floor_mean, floor_max, floor_max_round``, ``quiet`` and a column a :math:`\nu` in per cent, and ``gap``.
    """
    rows = results[(results.reading == "momentum 0.9") & (results.policy == "AdaScale")]
    floors = rows.groupby("seed")[["floor_mean", "floor_max", "floor_max_round"]].first()
    quiet = silent(results, "momentum 0.9, without noise").rename("quiet")
    return floors.join(quiet).join(by_seed(rows, arm=("nu",))).join(gap.rename("gap")).sort_values("floor_mean")


def gaps(seeds: Iterable[int], nu: float) -> pd.Series:
    r"""EqualAlloc's RDP leakage over the optimum's on MNIST at this :math:`\nu`, by seed."""
    methods = {name: METHODS[name] for name in ("Optimal", "EqualAlloc")}
    rdp = leakage_table(Scenario.mnist(), [nu], sorted(seeds), methods).pivot(
        index="seed", columns="policy", values="rdp"
    )
    ratio: pd.Series = rdp["EqualAlloc"] / rdp["Optimal"]
    return ratio


def momentum_rows(table: pd.DataFrame) -> pd.DataFrame:
    r""":func:`momentum_table` to read, at the smallest and the largest :math:`\nu`."""
    form = {"floor_mean": "{:.2f}", "floor_max": "{:.0f}", "floor_max_round": "{:.0f}", "gap": "{:.1f}"}
    heads = {
        "floor_mean": "mean floor",
        "floor_max": "largest",
        "floor_max_round": "in round",
        "quiet": "no noise [%]",
        "gap": "gap",
    }
    levels = [name for name in table if isinstance(name, float)]
    kept = [name for name in table if name not in levels or name in (min(levels), max(levels))]
    shown = pd.DataFrame({name: table[name].map(form.get(name, "{:.1f}").format) for name in kept})
    return shown.rename(columns=lambda name: heads.get(name, f"ν = {name} [%]")).rename_axis("realisation")


def momentum_texts(table: pd.DataFrame, results: pd.DataFrame) -> Texts:
    """Of :func:`momentum_table`, and of all methods against AdaScale on the same realisations."""
    levels = [name for name in table if isinstance(name, float)]
    small, large = min(levels), max(levels)
    cost = (table.quiet - table[small]).round(9)  # or equal losses rank apart
    rank = stats.spearmanr(table.floor_mean, cost)
    low = table[table.floor_mean < 0.1].sort_values("gap")
    points = by_seed(results[results.reading == "momentum 0.9"])["momentum 0.9"]
    apart = {name: points[name, large] - points["AdaScale", large] for name in OTHERS}
    least = [abs((points[name, small] - points["AdaScale", small]).mean()) for name in OTHERS]
    return {
        "momentum-small": f"{table[small].mean():.1f}",
        "momentum-large": f"{table[large].mean():.1f}",
        "slope": f"{(table[small] - table[large]).mean() / (large - small):.0f}",
        "quiet-momentum": f"{table.quiet.mean():.1f}",
        "floor-cost": band(cost),
        "rank": f"{rank.statistic:.2f}",
        "rank-p": f"{rank.pvalue:.3f}",
        "low-count": f"{len(low)}",
        "low-gaps": listed(map(number, low.gap)),
        "low-starts": listed(map(number, low[small])),
        "same-small": f"{max(least):.2f}",
    } | {f"same-{label}": band(apart[name], 2, sign=True) for name, label in OTHERS.items()}


def last_thirds(nu: float, seeds: Iterable[int] = range(10)) -> dict[str, Interval]:
    """The share of the budget that methods spend in the last third of MNIST's rounds, in per cent."""
    scenario, shares = Scenario.mnist(), {}
    drawn = [channel.draw(scenario.num_devices, scenario.num_rounds, seed) for seed in seeds]
    for name in ("Optimal", "PowerControl", "LyapunovPowerControl", "EstimFuture"):
        problems = [
            (ReceiveScalingProblem(scenario, scenario.min_gain(each.gain), nu), scenario.mean_gain(each.path_loss))
            for each in drawn
        ]
        spent = [problem.spend(METHODS[name](problem, mean).schedule(problem)) for problem, mean in problems]
        shares[name] = interval([100 * by_third(each)[2] for each in spent])
    return shares


def last_texts(nu: float) -> Texts:
    r"""Of :func:`last_thirds`: in per cent, by method."""
    last = last_thirds(nu)
    return {f"last-{OTHERS[name]}": f"{each.centre:.0f}" for name, each in last.items() if name in OTHERS}


def weights_texts(lost: pd.DataFrame, responses: pd.DataFrame, thirds: pd.DataFrame) -> Texts:
    """Of the thirds, see :func:`~companion.reported.digits.thirds_lost`, and of the responses of one round.

    The settings are told by :func:`~companion.reported.digits.thirds_texts`.
    """
    extra = thirds.pivot(index=["setting", "seed"], columns="noise", values="test_loss")
    mean = responses.groupby(["setting", "later"]).response.mean()
    heavy, _ = SETTINGS
    texts = {
        "thirds-seeds": f"{thirds.seed.nunique()}",
        "rise-rounds": "16",
        "rise": f"{mean[heavy, 16] / mean[heavy, 0]:.0f}",
    }
    for setting, label in zip(SETTINGS, ("heavy", "plain"), strict=True):
        texts |= {f"{label}-{when}": band(lost.loc[setting, when]) for when in lost}
        own = extra.loc[setting]
        texts[f"{label}-affine"] = band(own["even"] - own[["early", "middle", "late"]].mean(axis=1), 3)
    return texts


def contest_texts(contest: pd.DataFrame, quadratic: pd.DataFrame, responses: pd.DataFrame, nu: float) -> Texts:
    r"""Of the trainings with weighted schedules at equal leakage, and of the quadratics at this :math:`\nu`."""
    met = contest.pivot(index=["setting", "seed"], columns="schedule", values=["test_accuracy", "epsilon"])
    heavy, plain = SETTINGS
    worse = quadratic[(quadratic.nu == nu) & (quadratic.forgetting == FORGOTTEN)]
    counts, leak = response_weights(responses, heavy, 200), met.loc[plain]["epsilon"]
    texts = {
        "quadratic-seeds": f"{quadratic.seed.nunique()}",
        "contest-seeds": f"{contest.seed.nunique()}",
        "worse": f"{100 * (log_interval(worse.epsilon).centre - 1):.0f}",
        "plain-epsilon": f"{100 * (log_interval(leak['response'] / leak['flat']).centre - 1):.0f}",
        "heavy-promise": f"{100 * (1 - np.sqrt(counts).mean() ** 2 / counts.mean()):.0f}",
    }
    for setting, label in ((heavy, "heavy"), (plain, "plain")):
        own = 100 * met.loc[setting]["test_accuracy"]
        texts[f"{label}-noise"] = band(own["none"] - own["flat"])
        texts |= {f"{label}-won-{name}": band(own[name] - own["flat"]) for name in ("response", "thirds", "reversed")}
    return texts


def quadratic_rows(quadratic: pd.DataFrame) -> pd.DataFrame:
    r"""The weighted optimum over the unweighted one on quadratics, to read: geometric means."""
    names = {"leakage": "RDP", "epsilon": "ε", "best_epsilon": "ε, best order", "excess": "loss at equal RDP"}
    groups = quadratic.groupby(["nu", "forgetting"])
    ratios = groups[list(names)].agg(lambda values: log_interval(values).centre).rename(columns=names)
    ratios.insert(0, "no floors, q = 1", saving(ratios.index.get_level_values("forgetting")))
    ratios = ratios.rename_axis(["ν", "x"]).reset_index()
    return ratios.map("{:.2f}".format).assign(x=ratios["x"].map("{:g}".format)).set_index(["ν", "x"])
