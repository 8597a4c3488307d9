"""The numbers that the chapter on convergence tells; see :mod:`companion.reported`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale.presets import Preset
from companion.formatting import Texts, signed
from companion.theory.convergence import Training, momentum_over_bound, reuse_breaks, server_decay

FloatArray = NDArray[np.float64]

LAST_HIDDEN = {"mnist": 32, "cifar": 128}
"""Units of the last hidden layer of the paper's networks."""


def of_nearness(training: Training, ratios: pd.Series) -> Texts:
    """Of the nearly exact bound over the left side in some settings, and at a learning rate near its limit."""
    fast = training._replace(learning_rate=1.0, noise_energy=np.full(20_000, training.noise_energy[0]))
    return {
        "near-percent-low": f"{100 * (ratios.min() - 1):.0f}",
        "near-percent-high": f"{100 * (ratios.max() - 1):.0f}",
        "near-fast": f"{float(fast.nearly_exact().total) / fast.exact():.1f}",
    }


def of_averaging(preset: Preset) -> Texts:
    """By how much averaging makes the sampling and the heterogeneity term smaller than the paper's."""
    averaged = preset.scenario.num_devices * int(np.ravel(preset.scenario.batch_size)[0])
    return {"mnist-sampling": f"{2 * averaged:,}", "mnist-heterogeneity": f"{4 * averaged:,}"}


def of_allowances(training: Training, worths: pd.DataFrame, target: float) -> Texts:
    """Of :func:`~companion.theory.convergence_checks.allowances`."""
    paper, near = worths.loc["the paper's"], worths.loc["nearly exact"]
    return {
        "left-centre": f"{training.exact():.4f}",
        "target-gamma": f"{target:g}",
        "target-paper": f"{paper.stands_for:.3f}",
        "target-near": f"{near.stands_for:.4f}",
        "admitted-near": f"{near.at_reached:.1f}",
        "admitted-at-tenth": f"{near.at_target / paper.at_target:.1f}",
    }


def of_reuse(bias: tuple[FloatArray, FloatArray], samples: int) -> Texts:
    """Of the bias in the last round on fixed data, and of where reused samples break the bound."""
    return {
        "bias-last": signed(f"{100 * bias[0][-1]:.0f}"),
        "bias-half": f"{100 * 1.96 * bias[1][-1]:.0f}",
        "crossing": f"{reuse_breaks(samples, 2):,}",
        "crossing-one": f"{reuse_breaks(samples, 1):,}",
        "samples": f"{samples}",
    }


def of_steps(presets: Mapping[str, Preset]) -> Texts:
    """Of the paper's learning rates, what they ask of the smoothness, and what the last layer alone has."""
    texts: Texts = {}
    for name, preset in presets.items():
        rate = preset.training["learning_rate"]
        texts |= {
            f"rate-{name}": f"{rate:g}",
            f"need-{name}": f"{1 / (4 * rate):g}",
            f"near-{name}": f"{2 / rate:g}",
            f"last-{name}": f"{(LAST_HIDDEN[name] + 1) / 2:g}",
        }
    return texts


def of_server(momentum: float, decays: tuple[float, float]) -> Texts:
    """Of momentum at the largest admitted learning rate, and of a large and a small weight decay at the server."""
    soon, late = (server_decay(zeta, 2000).broken_from for zeta in decays)
    return {
        "momentum-factor": f"{float(momentum_over_bound(momentum, 0.25)):.1f}",
        "decay-soon": f"{soon:,}",
        "decay-broken": f"{late / 1e9:.1f}",
    }


def of_power(start: float, end: float) -> Texts:
    """Of the shares of the power limit that the most demanding device uses, in the first model and at the minimiser."""
    return {
        "power-start-60": f"{100 * start:.0f}",
        "power-end-60": f"{100 * end:.0f}",
        "power-db": f"{-10 * np.log10(end):.0f}",
    }
