"""What a comparison of policies says: a table of means, and notes on targets and on what adapting gains."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from adascale.cli import common

if TYPE_CHECKING:
    import pandas as pd

    from adascale.statistics import Interval

EVEN = "EqualAlloc"
_ROUNDING = 1e-6  # relative excess over a target that is none


def notes(policy: str, rows: "pd.DataFrame", target: str) -> Iterator[str]:
    """Say where a policy missed the target; ``policy`` is its label, and ``rows`` are all that it has."""
    unmet = int(rows["cost"].isna().sum())
    if unmet:
        yield (
            f"{policy} cannot meet --{target} in {unmet} of {len(rows)} realisations, which are left out"
        )
    if target == "epsilon":
        over = (rows["epsilon"] / rows["target_epsilon"]).max()
        if over > 1 + _ROUNDING:
            yield (
                f"{policy} has up to {over:.4g} times --epsilon: its parameter is fixed, "
                "or its epsilon is for the exact accountant and one receive chain"
            )
        if (rows["cost"] == 0).any():
            most = rows.loc[rows["cost"] == 0, "target_epsilon"].max()
            yield common.no_noise_note(policy, most)
        return
    # where not all devices send, the total may be below the floor of all, and so the cost below 0: totals are compared
    counts_floor = target == "total" or bool((rows["participation"] < 1).any())
    floor = rows["floor"] * counts_floor
    spent = (rows["cost"] + floor) / (rows["nu"] + floor)
    if (abs(spent - 1) > _ROUNDING).any():
        of = "the total" if counts_floor and target == "nu" else target
        yield common.spending_note(policy, spent.min(), spent.max(), of)


def table(rows: "pd.DataFrame", key: str, reference: str) -> "pd.DataFrame":
    """Return medians, geometric means with their intervals, and ratios to the reference in the same realisations.

    ``key`` is the column of the levels (``nu``, ``target_total`` or ``target_epsilon``), and ``reference`` a label.
    """
    import pandas as pd

    compared = ["total", "nu"] if key == "target_epsilon" else ["epsilon"]
    at_reference = rows[rows["label"] == reference].set_index([key, "seed"])
    means = []
    for (policy, level), group in rows.groupby(["label", key], sort=False):
        row = {"policy": policy, **group.iloc[0][["kind", "knows"]]}
        row[key.replace("_", " ")] = f"{level:g}"
        row["realisations"] = len(group)
        for name in ("floor", "total", "participation"):
            row[name] = f"{group[name].median():.4g}"
        if key != "nu" and (group["nu"] > 0).all():
            row["nu"] = _mean(group["nu"])
        row[f"RDP({group['order'].iloc[0]:g})"] = _mean(group["rdp"])
        row["epsilon"] = _mean(group["epsilon"], is_bound=True)
        row |= _interval("epsilon", group["epsilon"])
        row["mean epsilon"] = _mean(group["epsilon_mean"])
        for name in compared if policy != reference else []:
            ratio = (group.set_index([key, "seed"])[name] / at_reference[name]).dropna()
            if len(ratio) and (ratio > 0).all():
                heading = f"{name} / {reference}"
                row[heading] = _mean(ratio)
                row |= _interval(heading, ratio)
        means.append(row)
    return pd.DataFrame(means).fillna("")


def advice(reached: "pd.DataFrame", key: str) -> Iterator[str]:
    """Say at each level what adapting gains over an even share, in the same realisations, or why that is unknown.

    ``reached`` has the rows in which the target was met, and ``key`` is the column of the levels.
    """
    everyone = reached[reached["participation"] == 1]
    if EVEN not in {*everyone["policy"]}:
        yield f"what adapting gains is unknown without {EVEN}, an even share, among the policies"
        return
    for level, rows in everyone.groupby(key):
        parts = _gains(rows, key == "target_epsilon")
        yield f"at {key.replace('_', ' ')} = {level:g}, {'; '.join(parts)}"


def _gains(rows: "pd.DataFrame", is_noise: bool) -> list[str]:
    """Return what Optimal and the best policy that a server can run gain over an even share at one level.

    The gain is in total noise energy if ``is_noise``, as where epsilon is the target, else in epsilon.
    """
    name, what = ("total", "noise") if is_noise else ("epsilon", "epsilon")
    wide = rows.pivot(index="seed", columns="policy", values=name).dropna()
    if EVEN not in wide or wide.empty:
        return ["no realisation has all policies, so what adapting gains is unknown"]
    ratios = wide.div(wide[EVEN], axis=0)
    parts = []
    if "Optimal" in ratios:
        mean = _mean(ratios["Optimal"])
        parts.append(f"Optimal has {mean} times the {what} of an even share")
    parts += _best_to_run(rows, ratios, what)
    unknown = "no other causal policy keeps the budget and lets all devices send"
    return parts or [f"what adapting gains is unknown: {unknown}"]


def _best_to_run(rows: "pd.DataFrame", ratios: "pd.DataFrame", what: str) -> list[str]:
    """Say which policy that a server can run has least of ``what``, and whether that is less than an even share.

    ``ratios`` to the even share have a column per policy and a row per realisation.
    """
    can_run = [
        str(policy)
        for policy, group in rows.groupby("policy", sort=False)
        if policy != EVEN and _can_run(group)
    ]
    if not can_run:
        return []
    which = "among causal policies that keep the budget and let all devices send"
    best = ratios[min(can_run, key=lambda policy: _log_interval(ratios[policy]).centre)]
    centre, low, high = _log_interval(best)
    if centre >= 1:
        return [f"{which}, none has less than an even share, which will do"]
    label = rows.loc[rows["policy"] == best.name, "label"].iloc[0]
    several = len(best) >= 3 and centre > 0
    interval = f" ({low:.4g} .. {high:.4g})" if several else ""
    saved = 1 - (high if several else centre)
    return [
        f"{which}, {label} has least, {centre:.4g} times{interval}",
        f"adapting saves {'at least ' * several}{100 * saved:.2g} % of the {what}"
        if saved > 0
        else "an even share will do",
    ]


def _can_run(rows: "pd.DataFrame") -> bool:
    """Return whether a server can run the policy without exceeding the budget in any realisation."""
    is_within = (rows["cost"] <= rows["nu"] * (1 + _ROUNDING)).all()
    return bool(is_within and (rows["kind"] == "causal").all())


def _mean(values: "pd.Series", is_bound: bool = False) -> str:
    """Return the geometric mean as text; that of upper bounds is rounded up."""
    from adascale.accounting.interval import round_outward

    mean = _log_interval(values).centre
    return f"{round_outward(mean, up=True, digits=4) if is_bound else mean:.4g}"


def _log_interval(values: "pd.Series") -> "Interval":
    """Return the geometric mean and its interval; with an infinite value the mean is infinite, and the ends are NaN."""
    from adascale.statistics import Interval, log_interval

    if math.inf in values.to_numpy():
        return Interval(math.inf, math.nan, math.nan)
    return log_interval(values)


def _interval(name: str, values: "pd.Series") -> dict[str, str]:
    """Return the interval of the geometric mean, as a column, if there are enough realisations."""
    if len(values) < 3:
        return {}
    centre, low, high = _log_interval(values)
    is_finite = 0 < centre < math.inf
    return {f"{name} 95 %": f"{low:.4g} .. {high:.4g}" if is_finite else ""}
