r"""The numbers that chapters 14 and 15 tell in their sentences; see :mod:`companion.reported`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import j0

from adascale import channel
from adascale.channel import cost_hata_path_loss
from adascale.channel.shadowing import LIGHT
from adascale.scenario import Scenario
from adascale.statistics import interval
from companion.causal import worlds as channels
from companion.causal.fresh import HINDSIGHT
from companion.formatting import Texts, rounded_down, rounded_up, signed
from companion.theory.correlated import BLOCK_OPTIMUM, BLOCK_PREDICTED
from companion.theory.rounds_inside import ONE_GAIN
from companion.training import channel_estimates

SLOW, RICIAN, MOVING = "Gauss-Markov, r = 0.99", "Rician, believed Rayleigh", "moving at 1.5 m/s"
"""The worlds that the text of :ref:`chap-channels` speaks of most."""
WRONG = (RICIAN, "path losses off by 3 dB", "path losses off by 8 dB")
"""Where the law is wrong and rounds are independent."""
KNOWING = ("ConstantLevel", "ReSolve", "AdaScale, warm")
"""The policies that need a law."""


FIRST = {
    "known-level": (channels.KNOWN, "ConstantLevel"),
    "known-resolve": (channels.KNOWN, "ReSolve, hard"),
    "learn-wrong": (WRONG, "Learn"),
    "learn-hard-wrong": (WRONG, "Learn, hard"),
    "warm-slow": ((SLOW,), "AdaScale, warm"),
    "coherent-slow": ((SLOW,), "ReSolve, coherent, hard"),
    "warm-moving": ((MOVING,), "AdaScale, warm"),
    "learn-hard-moving": ((MOVING,), "Learn, hard"),
}
"""The worlds and the policy of each row of the first tables of :ref:`chap-channels`."""


def of_exact(exact: pd.DataFrame) -> Texts:
    r"""Of :func:`~companion.causal.worlds.exactly`: exact :math:`\varepsilon` of :data:`FIRST`, the range over worlds.

    And its ratio to the optimum's, the largest over worlds.
    """
    texts: Texts = {}
    for name, (worlds, policy) in FIRST.items():
        found = [exact.loc[world, policy] for world in worlds]
        ends = dict.fromkeys(f"{end(each.exact for each in found):.2f}" for end in (min, max))
        texts |= {f"{name}-eps": "–".join(ends), f"{name}-ratio": f"{max(each.ratio for each in found):.2f}"}
    return texts


def turns() -> dict[str, float]:
    r""":math:`f_D \tau`, the Doppler frequency times a round, of the worlds whose rounds hang together.

    Of a Gauss-Markov channel, that of Jakes' fading with the same correlation :math:`J_0(2\pi f_D\tau)` of neighbours.
    """
    found = {}
    for name, (truth, _) in channels.WORLDS.items():
        if isinstance(truth, channel.Jakes):
            found[name] = truth.doppler * truth.round_time
        elif isinstance(truth, channel.Moving):
            found[name] = truth.speed * truth.round_time * truth.carrier / LIGHT
        elif isinstance(truth, channel.GaussMarkov):
            r = truth.correlation
            found[name] = brentq(lambda x, r=r: j0(2 * np.pi * x) - r, 0, 0.38)  # up to the first zero
    return found


def in_turns() -> dict[str, str]:
    r"""The names of Jakes' worlds, each with its :math:`f_D \tau` behind it."""
    return {
        name: f"{name}, f_Dτ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{each:.2g}"
        for name, each in turns().items()
        if name.startswith("Jakes")
    }


def of_doppler() -> Texts:
    """Of :func:`turns`: how long a round is beside the channel's time, and how alike neighbours are."""
    found = turns()
    fast, slow = (found[f"Jakes, {hertz} Hz"] for hertz in ("10", "0.1"))
    return {
        "round-time": f"{channel.Jakes(doppler=0).round_time:g}",
        "turns-fast": f"{fast:.2g}",
        "turns-slow": f"{slow:.2g}",
        "turns-markov": f"{found[SLOW]:.2g}",
        "alike-slow": f"{j0(2 * np.pi * slow):.2f}",
        "coherent-rounds": f"{0.423 / slow:.0f}",
    }


def of_worlds(table: pd.DataFrame) -> Texts:
    """Of :func:`~companion.causal.worlds.channels_table`: what policies leak and cost in the worlds that are named."""
    kept = channels.kept(table)
    middle = kept[kept.nu == channels.MIDDLE].set_index(["world", "policy"])
    small = kept[kept.nu == channels.OUTER[0]].set_index(["world", "policy"]).rdp
    rdp, cost, spread = (middle[name].unstack("policy") for name in ("rdp", "cost", "spread"))
    warm = channels.against(table, "AdaScale", "AdaScale, warm").set_index(["world", "nu"])
    colder = warm.ratio.xs(channels.MIDDLE, level="nu").drop(RICIAN)  # the warm queue overspends there
    texts = {
        f"{name}-{place}": f"{rdp.loc[world, policy]:.2f}"
        for place, world in {"slow": SLOW, "moving": MOVING}.items()
        for name, policy in {"warm": "AdaScale, warm", "level": "ConstantLevel"}.items()
    }
    return texts | {
        "table-draws": f"{table.seed.nunique()}",
        "table-worlds": f"{table.world.nunique()}",
        "middle": f"{channels.MIDDLE:g}",
        "known-most": f"{100 * (rdp.loc[list(channels.KNOWN), list(KNOWING)].max(axis=None) - 1):.1f}",
        "known-level": f"{rdp.loc[list(channels.KNOWN), 'ConstantLevel'].max():.2f}",
        "known-resolve": f"{rdp.loc[list(channels.KNOWN), 'ReSolve, hard'].max():.2f}",
        "learn-hard-moving": f"{rdp.loc[MOVING, 'Learn, hard']:.2f}",
        "learn-wrong": f"{rdp.loc[list(WRONG), 'Learn'].max():.2f}",
        "learn-hard-wrong": f"{rdp.loc[list(WRONG), 'Learn, hard'].max():.2f}",
        "level-rician": f"{cost.loc[RICIAN, 'ConstantLevel']:.2f}",
        "resolve-rician": f"{rdp.loc[RICIAN, 'ReSolve']:.0f}",
        "learn-slow": f"{rdp.loc[SLOW, 'Learn']:.1f}",
        "scatter-level": f"{100 * spread.loc[SLOW, 'ConstantLevel']:.0f}",
        "scatter-warm": f"{100 * spread.loc[SLOW, 'AdaScale, warm']:.0f}",
        "coherent-slow": f"{rdp.loc[SLOW, 'ReSolve, coherent, hard']:.2f}",
        "plain-slow": f"{rdp.loc[SLOW, 'ReSolve, hard']:.1f}",
        "estim-rician": f"{rdp.loc['Rician, K = 5', 'EstimFuture']:.0f}",
        "seen-average": f"{middle.excess['Jakes, 0.1 Hz', 'ReSolve, coherent'] + 1:.1f}",
        "cold-least": f"{100 * (colder.min() - 1):.0f}",
        "cold-most": f"{100 * (colder.max() - 1):.0f}",
        "warm-moving-small": f"{small[MOVING, 'AdaScale, warm']:.1f}",
        "level-moving-small": f"{small[MOVING, 'ConstantLevel']:.1f}",
        "power-least": f"{rdp['PowerControl'].drop(RICIAN).min():.2f}",
        "power-most": f"{rdp['PowerControl'].max():.0f}",
    }


def of_inside(inside: pd.DataFrame) -> Texts:
    """Of :func:`~companion.theory.rounds_inside.inside_table`: how floors rise and fall."""
    floor = inside.floor
    return {
        "cifar-blocks": f"{floor['CIFAR-10', '25 blocks, energy anywhere'] / floor['CIFAR-10', ONE_GAIN]:.0f}",
        "cifar-even": f"{floor['CIFAR-10', '25 blocks, energy even'] / floor['CIFAR-10', ONE_GAIN]:.1f}",
        "selection": f"{floor['MNIST', ONE_GAIN] / floor['MNIST', 'best of 4 antennas']:.1f}",
    }


def of_blocks(blocks: pd.DataFrame, length: int = 50) -> Texts:
    """Of :func:`~companion.causal.worlds.read_blocks`: mean ratios to the offline optimum for blocks of one length."""
    mean = blocks.groupby(["nu", "policy", "block"]).ratio.mean().unstack("block")[length]
    middle, small = mean[channels.MIDDLE], mean[channels.OUTER[0]]
    known = middle["ReSolve, coherence known, hard"] / middle[BLOCK_OPTIMUM]
    return {
        "blocks-length": f"{length}",
        "blocks-known": f"{100 * (known - 1):.0f}",
        "blocks-plain": f"{middle['ReSolve, hard']:.0f}",
        "blocks-best-small": f"{small[BLOCK_OPTIMUM]:.1f}",
        "blocks-seen-small": f"{small['ReSolve, coherent, hard']:.0f}",
        "blocks-plain-small": f"{small['ReSolve, hard']:.0f}",
        "blocks-learn-small": f"{small['Learn, coherent, hard']:.0f}",
        "blocks-predicted": f"{middle[BLOCK_PREDICTED]:.2f}",
        "blocks-best": f"{middle[BLOCK_OPTIMUM]:.2f}",
        "blocks-draws": f"{blocks.seed.nunique()}",
    }


def at_least(value: float, beyond: bool) -> str:
    """An epsilon with two decimals, or where it is beyond what can be computed, its lower bound."""
    return f"> {rounded_down(value)}" if beyond else f"{value:.2f}"


def of_pilots(scenario: Scenario) -> Texts:
    """What pilots as strong as data are worth, near and far, and how many privacy asks for."""
    power = float(np.max(scenario.max_power))
    far, near = channel_estimates.pilot_error(cost_hata_path_loss([200.0, 10.0]), 1, power, scenario.noise_power)
    batch, second = (float(np.mean(each)) for each in (scenario.batch_size, scenario.batch_second_moment))
    dose = 2 * scenario.num_parameters / (batch**2 * second)
    return {
        "est-edge": signed(f"{10 * np.log10(far):+.1f}"),
        "est-near": signed(f"{10 * np.log10(near):+.1f}"),
        "est-dose": f"{dose:.1f}",
        "est-third": f"{int(np.ceil(3 * dose))}",
    }


def of_estimates(mnist: pd.DataFrame, trained: Iterable[tuple[str, pd.DataFrame]]) -> Texts:
    """Of :func:`~companion.training.estimates.compared`, for MNIST and for the data sets that were trained on.

    Leakages are those at the larger level of nu, accuracies at both.
    """
    measured = mnist[mnist.kind == "mmse"].set_index(["nu", "error"]).sort_index()
    tight, loose = measured.index.levels[0].min(), measured.index.levels[0].max()
    texts = {
        "est-over": f"{100 * measured.over[loose, '-20 dB']:.0f}",
        "est-highest": f"{measured.highest[loose, '-20 dB']:.0f}",
    }
    for error, short in (("-20 dB", "20"), ("10 pilots", "10p"), ("100 pilots", "100p"), ("1000 pilots", "1000p")):
        row = measured.loc[(loose, error)]
        texts |= {f"est-{column}-{short}": f"{row[column]:.2g}" for column in ("epsilon", "promised")}
        for column in ("true", "worst"):
            texts[f"est-{column}-{short}"] = at_least(row[column], row.beyond).replace("> ", "more than ")
    for dataset, table in trained:
        rows = table.dropna(subset=["lost"])
        for row in rows[rows.error.isin(["-10 dB", "10 pilots"])].itertuples():
            lost = f"{100 * row.lost:.2f} [{100 * row.low:.2f}, {100 * row.high:.2f}]".replace("-", "−")
            end = ("tight" if row.nu == tight else "loose") + ("-10p" if row.error == "10 pilots" else "")
            texts[f"est-lost-{dataset}-{row.kind}-{end}"] = lost
        texts[f"est-trainings-{dataset}"] = f"{rows.trainings.min():.0f}"
    return texts


HELD, SERVER, ORBIT, COUNTED = ("Michigan, held", "Michigan, broadcasts", "ORBIT, packets", "Michigan, a count as 1 dB")
"""The readings of the measured links; the last one takes a count for a decibel."""
REAL = (HELD, SERVER, ORBIT)
"""Those that we take for right."""
_PLACES = {"held": HELD, "server": SERVER, "orbit": ORBIT, "wrong": COUNTED}
_SHORT = {
    "pc": "PowerControl" + HINDSIGHT,
    "ada": "AdaScale" + HINDSIGHT,
    "warm": "AdaScale, warm",
    "hard": "Learn, hard",
    "prior": "Learn, prior, hard",
    "resolve": "ReSolve, hard",
    "seen": "ReSolve, hard, seen",
    "equal": "EqualAlloc",
    "level": "ConstantLevel",
    "rayleigh-level": "ConstantLevel, Rayleigh",
    "rayleigh-hard": "ReSolve, hard, Rayleigh",
    "cold": "AdaScale",
    "learn": "Learn",
}


def of_links(kept: pd.DataFrame) -> Texts:
    """Of :func:`~companion.causal.measured_links.summary`: every policy on every reading of the links.

    ``NAME-PLACE`` is the mean epsilon over the optimum's, with ``-worst`` the largest; ``-cost`` the mean cost over nu,
    with ``-most`` the largest; ``-rdp-worst`` the largest ratio of RDP.
    """
    at = kept.set_index(["trace", "policy"])
    texts = {
        "windows": f"{at.realisations[HELD, 'Optimal']}",
        "motes": f"{at.realisations[SERVER, 'Optimal']}",
        "receivers": f"{at.realisations[ORBIT, 'Optimal']}",
    }
    for name, policy in _SHORT.items():
        for place, trace in _PLACES.items():
            row, key = at.loc[(trace, policy)], f"{name}-{place}"
            worst = f"{row.rdp_worst:.2g}" if row.rdp_worst < 10 else f"{row.rdp_worst:.0f}"
            texts |= {
                key: f"{row.epsilon:.2f}",
                f"{key}-worst": f"{row.epsilon_worst:.1f}",
                f"{key}-cost": f"{row.cost:.2f}",
                f"{key}-most": f"{row.most:.2f}",
                f"{key}-rdp-worst": worst,
            }
    exact = kept[kept.trace.isin(REAL) & ~kept.policy.str.startswith("Lyapunov")].dropna(subset=["exact"])
    return texts | {"exact-gap": rounded_up((exact.exact - exact.epsilon).abs().max(), 2)}


def of_floors(statistics: pd.DataFrame) -> Texts:
    """Of :func:`~companion.causal.measured_links.links_statistics`: medians of spread, drift and correlation."""
    typical = statistics.assign(drift_db=statistics.drift_db.abs()).groupby("trace").median(numeric_only=True)
    drift = statistics[statistics.trace == SERVER].drift_db.abs().max()
    return {
        "spread": f"{typical.links_spread_db[SERVER]:.1f}",
        "wrong-spread": f"{typical.links_spread_db[COUNTED]:.1f}",
        "same": f"{100 * typical.same[SERVER]:.0f}",
        "drift": f"{typical.drift_db[SERVER]:.1f}",
        "drift-most": f"{drift:.1f}",
        "drift-orbit": f"{statistics[statistics.trace == ORBIT].drift_db.abs().max():.1f}",
        "changed": f"{100 * typical.changed[HELD]:.0f}",
        "lag-held": f"{typical.lag1[HELD]:.2f}",
        "lag-server": f"{typical.lag1[SERVER]:.2f}",
        "lag-orbit": f"{typical.lag1[ORBIT]:.2f}",
    }


def ran_dry(table: pd.DataFrame, statistics: pd.DataFrame, ratio: float = 3.0) -> pd.DataFrame:
    """The realisations in which re-solving under a hard budget leaks ``ratio`` times the optimum, with their drift."""
    dry = table[(table.policy == "ReSolve, hard") & (table.rdp > ratio) & table.trace.isin(REAL)]
    return dry.merge(statistics.astype({"group": str}), on=["trace", "group", "window"])


def leads(table: pd.DataFrame, above: str, below: str) -> pd.Series:
    """By how much epsilon, over the optimum's, is larger with one policy than with the other, in each realisation."""
    ratio = table.pivot(index=["trace", "group", "window"], columns="policy", values="epsilon")
    lead: pd.Series = ratio[above] - ratio[below]
    return lead


def of_leads(table: pd.DataFrame, statistics: pd.DataFrame) -> Texts:
    """Of the measured links: how often one policy leads another, and what runs dry."""
    lead = leads(table, "AdaScale" + HINDSIGHT, "PowerControl" + HINDSIGHT)
    hard = leads(table, "ReSolve, hard", "Learn, prior, hard")[SERVER].groupby("group").mean().to_numpy()
    dry = ran_dry(table, statistics)
    texts = {f"lead-{place}": f"{(lead[_PLACES[place]] > 0).sum()}" for place in ("held", "server", "orbit")}
    return texts | {
        "hard-low": f"{interval(hard).low:.2f}".replace("-", "−"),
        "hard-high": f"{interval(hard).high:.2f}",
        "dry": f"{len(dry)}",
        "dry-drift": rounded_down(-dry.drift_db.max()),
    }


def of_scales(shown: pd.DataFrame, look: pd.DataFrame) -> Texts:
    """Of the links at other scales, a column each, and of every sixth sample with either unit."""
    ada, power = "AdaScale" + HINDSIGHT, "PowerControl" + HINDSIGHT
    measured = shown["as measured"].drop([name for name in shown.index if "Lyapunov" in name])
    sixth = look[look.sampling == 6].groupby("unit")[["AdaScale", "PowerControl"]].max()
    return {
        "large-ada": f"{shown['floors × 10'][ada]:.2f}",
        "large-pc": f"{shown['floors × 10'][power]:.2f}",
        "measured-most": f"{measured.max():.2f}",
        "again-pc": f"{sixth.PowerControl['CC1000']:.2f}",
        "again-ada": f"{sixth.AdaScale['CC1000']:.2f}",
        "again-wrong": f"{sixth.PowerControl['-dBm']:.2f}",
    }
