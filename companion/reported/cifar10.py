r"""What :ref:`chap-cifar10` tells of its trainings: settings, the noise of all rounds, and what a larger net takes.

What the chapter concludes from the committed tables stands in ``companion/tests/reported/test_cifar10.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from adascale import presets
from companion.claims import QUOTED_ACCURACY
from companion.formatting import Texts
from companion.reported.trainings import Pair, beside
from companion.summary import number
from companion.training import resnet
from companion.training.counterfactual import Forked

if TYPE_CHECKING:
    from adascale.runs.specification import Run


def settings_texts(run: Run, rows: pd.DataFrame) -> Texts:
    """What a training is, and the hours that each took.

    Parameters
    ----------
    run : Run
        One of them.
    rows : pandas.DataFrame
        The trainings that were run, as :func:`adascale.runs.sweep.tables` gives them.
    """
    scenario, paper = run.scenario, presets.load("cifar10").scenario
    first, last = (100 * each for each in QUOTED_ACCURACY["cifar10"])
    samples = paper.num_devices * float(np.mean(paper.batch_size))
    hours = rows.wall_seconds / 3600
    return {
        "rate": f"{run.training.learning_rate:g}",
        "momentum": f"{run.training.momentum:g}",
        "samples": f"{samples:,.0f}",
        "gradients": f"{samples * paper.num_rounds / 1e6:.1f}",
        "size": f"{scenario.num_parameters:,}",
        "paper-size": f"{paper.num_parameters:,}",
        "acc-quoted-small": f"{first:.0f}",
        "acc-quoted-large": f"{last:.0f}",
        "acc-quoted-fall": f"{first - last:.0f}",
        "took-low": f"{hours.min():.1f}",
        "took-high": f"{hours.max():.1f}",
    }


def noise_texts(walks: pd.DataFrame, floor: ArrayLike, floors: ArrayLike, reach: float) -> Texts:
    r"""How far the noise moves the model, over the norm that it begins with: by all rounds, and by the deepest fade.

    Parameters
    ----------
    walks : pandas.DataFrame
        What all rounds do, a row a :math:`\nu`, of which the first is 0, and the columns ``realisation 0``, ``median``.
    floor : array_like, shape (T,)
        Of realisation 0.
    floors : array_like, shape (realisations, T)
        Of the realisations that the median is of.
    reach : float
        The step :math:`\lambda / (1 - \mu)` over the norm of the initial model.
    """
    own, deepest = np.asarray(floor), np.asarray(floors).max(axis=-1)
    grown = 100 * (walks.iloc[-1] / walks.iloc[0] - 1)
    return {
        "walk-floor": f"{walks['realisation 0'].iloc[0]:.1f}",
        "walk-grows": f"{grown['realisation 0']:.0f}",
        "walk-median-grows": f"{grown['median']:.0f}",
        "floor-mean-here": f"{own.mean():.2f}",
        "deepest": f"{own.argmax()}",
        "deepest-floor": f"{own.max():.0f}",
        "shock": f"{reach * np.sqrt(own.max() / 2):.1f}",
        "paths": f"{100 * (reach * np.sqrt(deepest / 2) > 1).mean():.0f}",
    }


def fades_texts(pair: Pair, floor: ArrayLike, quiet: pd.Series, other: Pair, other_floor: ArrayLike) -> Texts:
    r"""What two further fades cost: the second deepest of one realisation, and the deepest of another.

    Parameters
    ----------
    pair, other : Pair
        Learning curves of both realisations.
    floor, other_floor : array_like, shape (T,)
        Their floors.
    quiet : pandas.Series
        Accuracy of the first without noise, in per cent, by round.
    """
    own, second = np.asarray(floor), int(np.argsort(floor)[-2])
    along = pd.DataFrame({"small": pair.small, "large": pair.large, "quiet": quiet})
    before, after = beside(along.index, second)
    lost_there = along.loc[before[-1]] - along.loc[after[0]]
    texts = {f"second-lost-{name}": number(points) for name, points in lost_there.items()} | {
        "second-round": f"{second}",
        "second-floor": f"{own[second]:.0f}",
        "second-from": f"{before[-1] + 1}",
        "second-to": f"{after[0] + 1}",
    }
    floors = np.asarray(other_floor)
    deepest = int(floors.argmax())
    elsewhere = pd.DataFrame({"small": other.small, "large": other.large})
    before, after = beside(elsewhere.index, deepest)
    lost = elsewhere.loc[before[-1]] - elsewhere.loc[after[:2]]
    return texts | {
        "other-round": f"{deepest}",
        "other-floor": f"{floors[deepest]:.0f}",
        "other-lost-small": number(lost["small"].iloc[0]),
        "other-lost-large": number(lost["large"].iloc[0]),
        "other-left": number(lost.iloc[1].abs().max()),
    }


def left_texts(found: Forked, quiet: pd.Series) -> Texts:
    """How far both trainings without the deepest fade end below the one without noise, in points."""
    below = quiet.iloc[-1] - found.levelled.iloc[-1]
    return {"fork-left-small": number(below[min(below.index)]), "fork-left-large": number(below[max(below.index)])}


def resnet_texts(timed: pd.DataFrame, realisations: int = 3) -> Texts:
    r"""What the network that the paper cites would take, from rounds timed beside those of the one that was trained.

    Parameters
    ----------
    timed : pandas.DataFrame
        Of :mod:`companion.training.resnet`.
    realisations : int
        How many, at two levels of :math:`\nu` each, a whole experiment would have.
    """
    rounds = presets.load("cifar10").scenario.num_rounds
    hours, seconds = resnet.whole_training(timed, rounds), timed.groupby("model").cpu_seconds.mean()
    trained, cited = resnet.NETWORKS
    return {
        "resnet-parameters": f"{timed.loc[timed.model == cited, 'parameters'].iloc[0]:,}",
        "resnet-samples": f"{timed.samples.mean():,.0f}",
        "resnet-rounds": f"{rounds}",
        "resnet-seconds": f"{seconds[cited]:.0f}",
        "tanh-seconds": f"{seconds[trained]:.0f}",
        "resnet-hours": f"{hours[cited]:.1f}",
        "tanh-hours": f"{hours[trained]:.1f}",
        "resnet-all": f"{2 * realisations * hours[cited]:.0f}",
    }
