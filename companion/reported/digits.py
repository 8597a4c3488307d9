r"""What trainings of the digits show (:ref:`chap-learning`): of noise, of methods, and of one round.

The functions that end in ``texts`` return texts by the names under which the chapter glues them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from adascale.scenario import Scenario
from adascale.statistics import interval, log_interval
from companion.formatting import Texts
from companion.summary import band, by_seed, clear, log_band, number
from companion.training.weighted_trainings import SETTINGS

FloatArray = NDArray[np.float64]
STATED = ("as stated", "without noise")
"""The readings of the i.i.d. trainings that clip."""
ONE_IMAGE = 100 / 297
"""Points of accuracy that one image of the test set is."""


@dataclass(frozen=True)
class Study:
    r"""The i.i.d. trainings of ``results/digits/accuracy.toml``, realisation by realisation.

    Tables have a row a seed and a column a :math:`\nu`.

    Parameters
    ----------
    table : pandas.DataFrame
        The rows of that sweep.
    """

    table: pd.DataFrame

    def of(self, policy: str, column: str) -> pd.DataFrame:
        """A column of a policy's results; accuracies in per cent."""
        rows = self.table[self.table.reading.isin(STATED) & (self.table.policy == policy)]
        if rows.empty:
            raise ValueError(f"the table has no training with {policy!r}")
        return by_seed(rows, column, arm=("nu",))

    def change(self, column: str) -> pd.DataFrame:
        """What AdaScale's trainings have beyond those without noise."""
        return self.of("AdaScale", column).sub(self.of("NoiseFree", column).iloc[:, 0], axis=0)

    def apart(self, column: str) -> pd.DataFrame:
        """What EqualAlloc's trainings have beyond AdaScale's."""
        other = self.of("EqualAlloc", column)
        return other - self.of("AdaScale", column)[other.columns]

    @cached_property
    def leaked(self) -> pd.DataFrame:
        r"""EqualAlloc's :math:`\varepsilon` over AdaScale's."""
        other = self.of("EqualAlloc", "epsilon")
        return other / self.of("AdaScale", "epsilon")[other.columns]

    def noise_table(self) -> pd.DataFrame:
        r"""What noise does: a row a :math:`\nu`, and one for none."""
        accuracy, loss, epsilon = (self.of("AdaScale", name) for name in ("test_accuracy", "test_loss", "epsilon"))
        change, more = self.change("test_accuracy"), self.change("test_loss")
        rows = {
            f"{nu:g}": [
                f"{accuracy[nu].mean():.1f}",
                band(change[nu], sign=True),
                f"{loss[nu].mean():.3f}",
                band(more[nu], 3, sign=True),
                f"{log_interval(epsilon[nu]).centre:.1f}",
            ]
            for nu in accuracy
        }
        quiet = [self.of("NoiseFree", name).iloc[:, 0].mean() for name in ("test_accuracy", "test_loss")]
        rows["no noise"] = [f"{quiet[0]:.1f}", "", f"{quiet[1]:.3f}", "", "∞"]
        columns = ["accuracy [%]", "against no noise [points]", "test loss [nats]", "against no noise [nats]", "ε"]
        return pd.DataFrame(rows, columns).T.rename_axis("ν")

    def method_table(self) -> pd.DataFrame:
        r"""EqualAlloc against AdaScale: a row a :math:`\nu`."""
        points, loss = self.apart("test_accuracy"), self.apart("test_loss")
        rows = {
            f"{nu:g}": [band(points[nu], sign=True), band(loss[nu], 4, sign=True), log_band(self.leaked[nu])]
            for nu in points
        }
        columns = ["accuracy [points]", "test loss [nats]", "ε [ratio]"]
        return pd.DataFrame(rows, columns).T.rename_axis("ν")

    def texts(self) -> Texts:
        """Of both tables."""
        small, still, felt, broken = self.of("AdaScale", "epsilon").columns
        epsilon, change, loss = self.of("AdaScale", "epsilon"), self.change("test_accuracy"), self.change("test_loss")
        points, nats = self.apart("test_accuracy"), self.apart("test_loss")
        texts = {"seeds": f"{len(change)}", "nu-least": f"{small:g}", "leaked-most": log_band(self.leaked[small])}
        for name, nu in {"still": still, "felt": felt, "broken": broken}.items():
            texts |= {
                name: f"{nu:g}",
                f"change-{name}": band(change[nu], sign=True),
                f"loss-{name}": band(loss[nu], 3, sign=True),
                f"epsilon-{name}": f"{log_interval(epsilon[nu]).centre:.1f}",
            }
        ends = [[abs(end) for nu in each for end in interval(each[nu])[1:]] for each in (points, nats)]
        found = [each[nu] for each in (points, nats) for nu in each]
        return texts | {
            "change-small": band(change[small], sign=True),
            "loss-small": band(loss[small], 3, sign=True),
            "excluded": f"{max(-interval(change[nu]).low for nu in (small, still)):.1f}",
            "unlike": f"{max(ends[0]):.1f}",
            "unlike-loss": f"{max(ends[1]):.3f}",
            "leaked-felt": f"{self.leaked[[felt, broken]].max(axis=None):.2f}",
            "intervals": f"{len(found)}",
            "clear": {0: "none excludes", 1: "1 excludes"}.get(n := clear(found), f"{n} exclude"),
        }


def data_texts(scenario: Scenario, labels: ArrayLike, test_labels: ArrayLike, pixels: Sequence[int]) -> Texts:
    """Of the scans' classes and their height and width, and of the scenario's batches and clipping."""
    images = np.bincount(np.asarray(labels))
    return {
        "train-size": f"{images.sum():,}",
        "test-size": f"{len(np.asarray(test_labels))}",
        "rounds": f"{scenario.num_rounds}",
        "pixels": " × ".join(map(str, pixels)),
        "rate-sampling": f"{float(scenario.sampling_rate):g}",
        "clip-digits": f"{scenario.clip_norm:g}",
        "class-low": f"{images.min()}",
        "class-high": f"{images.max()}",
        "one-image": f"{ONE_IMAGE:.2f}",
    }


def signal_texts(signal: ArrayLike, noise_energy: ArrayLike, directions: int) -> Texts:
    r"""Of the energies of the signal and :math:`w_t` in some rounds: medians, and the noise along the signal."""
    energy, noise = float(np.median(np.asarray(signal))), float(np.median(np.asarray(noise_energy))) / 2
    return {
        "signal-energy": f"{energy:.3f}",
        "noise-energy": f"{noise:.3f}",
        "noise-along": f"{noise / energy / directions:.4f}",
    }


def floor_texts(floor: FloatArray, levels: tuple[float, ...]) -> Texts:
    r"""Of the floors of the realisations, shape (seeds, T), beside four values of :math:`\nu`."""
    mean, small = floor.mean(axis=1), min(levels)
    count = 5
    few = np.sort(floor, axis=1)[:, -count:].sum(axis=1) / floor.sum(axis=1)
    texts = {
        name: f"{nu / mean.mean():{form}}"
        for name, nu, form in zip(
            ("still-floor", "felt-floor", "broken-floor"), sorted(levels)[1:], (".1f", ".0f", ".0f"), strict=True
        )
    }
    return texts | {
        "floor-low": f"{mean.min():.2f}",
        "floor-high": f"{mean.max():.2f}",
        "few-rounds": f"{count}",
        "few-low": f"{100 * few.min():.0f}",
        "few-high": f"{100 * few.max():.0f}",
        "many-rounds": f"{100 * (small > floor / 2).mean():.0f}",
    }


def power_texts(share: FloatArray, gain: FloatArray, left: FloatArray) -> Texts:
    """Of the power that devices spend over the limit, and their channels' gains, both of shape (M, rounds).

    ``left`` is the norm of each device's clipped sum over the sum of its clipped norms.
    """
    rounds = np.arange(share.shape[1])
    worst = 100 * share[np.argmin(gain, axis=0), rounds]
    return {
        "power-worst": f"{worst.max():.0f}",
        "power-mean": f"{worst.mean():.0f}",
        "power-rounds": f"{len(rounds)}",
        "power-ahead": f"{(100 * share.max(axis=0) > worst).sum()}",
        "left-low": f"{100 * left.min():.0f}",
        "left-high": f"{100 * left.max():.0f}",
    }


def training_texts(histories: Mapping[str, pd.DataFrame]) -> Texts:
    """Of one training with each of Optimal, AdaScale and EqualAlloc, and without noise: their ends."""
    last = {name: history.iloc[-1] for name, history in histories.items()}
    accuracy = [100 * float(each.accuracy) for each in last.values()]
    noisy = [float(each.test_loss - last["no noise"].test_loss) for name, each in last.items() if name != "no noise"]
    return {
        "curve-low": f"{min(accuracy):.1f}",
        "curve-high": f"{max(accuracy):.1f}",
        "curve-loss-low": number(min(noisy), "+.3f"),
        "curve-loss-high": number(max(noisy), "+.3f"),
        "curve-spread": f"{round((max(accuracy) - min(accuracy)) / ONE_IMAGE)}",
        "leak-ratio": f"{last['EqualAlloc'].epsilon / last['AdaScale'].epsilon:.2f}",
        "leak-optimal": f"{last['AdaScale'].epsilon / last['Optimal'].epsilon:.3f}",
        "leak-ada": f"{last['AdaScale'].epsilon:.0f}",
    }


def thirds_lost(table: pd.DataFrame) -> pd.DataFrame:
    r"""Points of accuracy against no noise, by ``setting`` and ``seed``, of ``results/weights/thirds.csv``."""
    ends = table.pivot(index=["setting", "seed"], columns="noise", values="test_accuracy")
    return 100 * ends.sub(ends["none"], axis=0)[["early", "middle", "late", "even"]]


def thirds_texts(lost: pd.DataFrame) -> Texts:
    """Of :func:`thirds_lost` what early noise changes without momentum, what late noise costs, and both settings."""
    plain = lost.loc["no momentum"]
    settings: Texts = {}
    for label, setting in zip(("heavy", "plain"), SETTINGS.values(), strict=True):
        settings |= {f"nu-{label}": f"{setting.nu:g}", f"rate-{label}": f"{setting.learning_rate:g}"}
    return settings | {
        "early-third": band(plain["early"], sign=True),
        "late-third": band(-plain["late"]),
        "thirds-seeds": f"{len(plain)}",
    }


def thirds_table(lost: pd.DataFrame) -> pd.DataFrame:
    """:func:`thirds_lost` to read."""
    rows = {setting: [band(own[when], sign=True) for when in own] for setting, own in lost.groupby("setting")}
    names = ["first third", "middle third", "last third", "evenly"]
    return pd.DataFrame(rows, names).T.rename_axis("all noise in the")
