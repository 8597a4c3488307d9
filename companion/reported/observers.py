r"""Who listens, other promises, and audits (:ref:`chap-how-private`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale import accounting
from adascale.scenario import Scenario
from companion.formatting import Texts, rounded_down
from companion.privacy import observers as listeners
from companion.privacy.sharp import sharp_epsilon

FloatArray = NDArray[np.float64]


def of_listeners(table: pd.DataFrame) -> Texts:
    r"""Of :func:`~companion.privacy.observers.listeners_table` at two :math:`\nu`: noise and epsilon heard."""
    at, (tight, loose) = table.set_index(["listener", "nu"]), sorted(table.nu.unique())
    texts = {
        "least-sigma": f"{listeners.LEAST_SIGMA:g}",
        "eps-server": f"{at.epsilon['server', loose]:.2g}",
        "eps-quieter": f"{at.epsilon['quieter 3 dB', loose] / at.epsilon['server', loose]:.1f}",
        "eps-quieter-tight": f"{at.epsilon['quieter 3 dB', tight] / at.epsilon['server', tight]:.1f}",
        "sigma-neighbour": f"{at.sigma['neighbour', tight]:.4f}",
        "sigma-server": f"{at.sigma['server', tight]:.2f}",
    }
    return texts | {f"eps-{name}": rounded_down(at.epsilon[name, loose]) for name in ("stranger", "neighbour")}


def of_other_promises(scenario: Scenario, sigma: Mapping[float, FloatArray], near: float) -> Texts:
    r"""What else one may ask of the server's schedules: another adjacency, a whole device, a power meter, own noise.

    Parameters
    ----------
    scenario : Scenario
        Whose.
    sigma : mapping
        The larger and the smaller level of :math:`\nu`, in any order, each with the noise multipliers of its rounds.
    near : float
        The multiplier of one beside the victim, at the larger level.
    """
    (tight, of_tight), (loose, of_loose) = sorted(sigma.items())
    rate, length = float(scenario.sampling_rate), float(np.mean(scenario.batch_size))  # the norm C in units of C / B
    beside = {
        each: listeners.energy_multiplier(each, scenario.num_parameters, length).item()
        for each in (float(np.median(of_loose)), near)
    }
    own = np.median(of_loose) ** 2 * scenario.num_parameters / length**2
    texts = {
        "own-noise": f"{listeners.added_by_devices(scenario):.0f}",
        "own-power": f"{own:.0f}",
        "own-lower": f"{own + 1:.0f}",
        "meter": f"{beside[float(np.median(of_loose))] / np.median(of_loose):.1f}",
        "meter-near": f"{beside[near]:.4f}",
        "nu-tight": f"{tight:g}",
        "nu-loose": f"{loose:g}",
    }
    for name, each in (("tight", of_tight), ("loose", of_loose)):
        renyi = float(accounting.schedule_epsilon(rate, each, 1e-5).epsilon)
        texts |= {
            f"one-{name}": f"{float(sharp_epsilon(rate, each)):.2g}",
            f"replaced-{name}": f"{listeners.replaced(rate, each):.2g}",
            f"device-{name}": f"{float(f'{listeners.whole_device(scenario, each):.1e}'):,.0f}",
            f"opposite-{name}": f"{listeners.opposite_gradients(rate, each) / renyi:.2f}",
        }
    return texts


BOUNDS = ("one_run", "rates", "scaled")
"""The lower bounds of an audit, each a column of its table.

:meta hide-value:
"""
_FAULTS = ("no noise", "not clipped")


def _of_audit(name: str, row: Any) -> Texts:
    """Of a row of either table: its level, the epsilon accounted for, and the scaled bound as a percentage of it."""
    near = 100 * row.scaled / row.accounted
    return {f"{name}-nu": f"{row.nu:g}", f"{name}-eps": f"{row.accounted:.3g}", f"{name}-near": f"{near:.0f}"}


def of_audits(audits: pd.DataFrame, pairs: pd.DataFrame) -> Texts:
    """Of the audits of the digits and MNIST, and of the paired runs: how near bounds come, which faults they find."""
    texts: Texts = {}
    for dataset, rows in audits[audits.setting == "as claimed"].groupby("dataset"):
        for name, row in zip(("first", "second"), rows.itertuples(), strict=True):
            texts |= _of_audit(f"{dataset}-{name}", row)
            texts[f"{dataset}-{name}-one"] = f"{100 * row.one_run / row.accounted:.0f}"
    mnist = audits[(audits.dataset == "mnist") & (audits.setting == "as claimed")].iloc[0]
    broken = audits[audits.setting.isin(_FAULTS)]
    free = broken.one_run > broken.accounted
    either = broken[["one_run", "rates"]].max(axis=1) > broken.accounted
    honest = pairs[pairs.setting == "as claimed"]
    for name, row in zip(("first", "second"), honest.itertuples(), strict=True):
        texts |= _of_audit(f"pairs-{name}", row)
        texts[f"pairs-{name}-free"] = f"{100 * max(row.one_run, row.rates) / row.accounted:.0f}"
    return texts | {
        "mnist-canaries": f"{mnist.canaries:,}",
        "black-most": f"{audits[audits.setting == 'final model'].one_run.max():.2f}",
        "broken-rounds": f"{broken[broken.dataset == 'mnist'].rounds.iloc[0]}",
        "broken-canaries": f"{broken.canaries.iloc[0]:,}",
        "broken-free": f"{free.sum()} of {len(broken)}",
        "broken-rates": f"{either.sum()}",
        "pairs-runs": f"{honest.runs.iloc[0]:,}",
        "pairs-rounds": f"{honest.rounds.iloc[0]}",
        "pairs-broken-runs": f"{pairs[pairs.setting.isin(_FAULTS)].runs.iloc[0]}",
    }
