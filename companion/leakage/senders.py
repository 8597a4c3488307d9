r"""Who sends and which noise protects, at one total noise energy: ``python -m companion make senders``, ``noise``."""

from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from adascale.accounting import ExactAccountant
from adascale.channel import AntennaSelection
from adascale.policies import Best, Optimal, Selection, Truncated
from adascale.policies.selection import rank_of
from adascale.problem import Problem, RoundLeakage, over_devices
from adascale.scenario import FloatArray, Scenario
from companion.bounds.guarantees import optimum
from companion.results import Rows

SCENARIOS = {"MNIST": Scenario.mnist(), "CIFAR-10": Scenario.cifar10()}
BUDGETS = (0.01, 0.04, 0.16)
CURVE = (0.0025, 0.02, 0.08, 0.32, 0.64, 1.28)
SEEDS = range(20)
PARTS = (0, -3, -6, -10)


def _floor(scenario, gain, senders):
    """Return the floors of the rounds in which these devices send."""
    weakest = np.where(senders, scenario.scaled_gain(gain), np.inf).min(axis=0)
    return scenario.floor(weakest * senders.mean(axis=0) ** 2)


def by_error(scenario: Scenario, gain: FloatArray) -> NDArray[np.intp]:
    r"""Choose :math:`K_t` for the least :math:`w_t / 2 + 4G^2(1 - K_t/M)^2` at full power (arXiv 2108.07644)."""
    rank = rank_of(scenario.scaled_gain(gain))
    numbers = np.arange(1, scenario.num_devices + 1)
    noise = np.array([_floor(scenario, gain, rank < number) for number in numbers]) / 2
    absent = 1 - numbers[:, None] / scenario.num_devices
    return 1 + np.argmin(noise + 4 * scenario.clip_norm**2 * absent**2, axis=0)


def _least_error(scenario, gain, total):
    """Let the best devices send, as many as :func:`by_error` says, at one level of noise energy above the floors."""
    senders = rank_of(scenario.scaled_gain(gain)) < by_error(scenario, gain)
    floor = _floor(scenario, gain, senders)
    energy = optimum(floor, total - floor.mean())
    return Selection(scenario, scenario.noise_scale / energy, senders)


def optimum_on(selection: Selection, gain: FloatArray) -> Selection:
    r"""Minimise :math:`\sum_t \kappa_t f(\kappa_t^2 w_t)` for given senders and total, :math:`\kappa_t = K_t / M`."""
    s = selection.scenario
    grid = np.geomspace(1e-6, 1e4, 6000)
    slope = np.log(-RoundLeakage(s).slope(grid))
    share = selection.senders.mean(axis=0)
    floor = _floor(s, gain, selection.senders)

    def energy(price):
        # off its floor a round has kappa^3 f'(kappa^2 w) = -exp(price)
        seen = np.interp(3 * np.log(share) - price, -slope, np.log(grid))
        return np.maximum(np.exp(seen) / share**2, floor)

    price = brentq(
        lambda price: energy(price).mean() - selection.total,
        *slope[[-1, 0]],
        xtol=1e-13,
    )
    return Selection(s, s.noise_scale / energy(price), selection.senders)


def senders_rows(
    dataset: str,
    nu: float,
    seed: int,
    more: bool = True,
    antennas: int = 1,
    total: float = 0.0,
) -> Rows:
    """Yield a row per policy, at the ``total`` or at that of Optimal at ``nu``; with ``more``, of all policies."""
    s = SCENARIOS[dataset]
    model = AntennaSelection(antennas=antennas)
    gain = model.draw(s.num_devices, s.num_rounds, seed).gain
    W = total or nu + s.floor(s.min_gain(gain)).mean()
    cut = Truncated.of_total(s, gain, W).select(s, gain)

    def best(number):
        return Best.of_total(s, gain, W, number).select(s, gain)

    selections = {
        "Optimal": best(s.num_devices),
        "truncated": cut,
        "same senders": optimum_on(cut, gain),
        "8 best": best(8),
    }
    if more:
        selections |= {f"{number} best": best(number) for number in (5, 9)}
        selections["least error"] = _least_error(s, gain, W)
    for name, selection in selections.items():
        sent = selection.participation
        bias = 2 * s.clip_norm * (1 - selection.senders.mean(axis=0))
        yield {
            "dataset": dataset,
            "antennas": antennas,
            "policy": name,
            "nu": nu,
            "seed": seed,
            "total": float(selection.total),
            **over_devices(selection.epsilons(ExactAccountant())),
            "participation": sent.mean(),
            "participation_min": sent.min(),
            "bias": np.mean(bias**2),
        }


def _four_antennas(scenario, path_loss, seed):
    """Yield the gains of the best of four antennas and of the best beam, and how much better all four chains hear."""
    normal = np.random.default_rng((seed, 4)).standard_normal
    fading = normal((scenario.num_rounds, scenario.num_devices, 8)).view(np.complex128)
    h = fading / np.sqrt(2 * path_loss[:, None])
    energy = abs(h) ** 2
    antenna = energy.min(axis=1).argmax(axis=-1)
    beam = np.eye(4, dtype=complex)[antenna]
    for name, steps in ("antenna", ()), ("beam", np.geomspace(1, 0.02, 12)):
        for step in steps:
            aside = normal((len(h), 200, 8)).view(np.complex128)
            beam = _best_beam(h, beam[:, None] + step * np.insert(aside, 0, 0, axis=1))
        gain = abs(np.einsum("tmn,tn->mt", h, beam.conj())) ** 2
        yield f"{name}, one chain", 0, gain, None
        yield f"{name}, four chains", 0, gain, energy.sum(axis=-1).T / gain


def _best_beam(h, beams):
    """Return the beam of each round, of several, in which the weakest device is the strongest; of length 1."""
    beams = beams / np.linalg.norm(beams, axis=-1, keepdims=True)
    weakest = abs(np.einsum("tmn,tkn->tmk", h, beams.conj())).min(axis=1)
    return beams[np.arange(len(h)), weakest.argmax(axis=-1)]


def noise_rows(nu: float, seed: int) -> Rows:
    """Yield Optimal's mean epsilon for parts of the noise that protect, and for one and four antennas and chains."""
    s = SCENARIOS["MNIST"]
    rayleigh, selected = (
        AntennaSelection(antennas=number).draw(s.num_devices, s.num_rounds, seed)
        for number in (1, 4)
    )
    cases = [("one antenna", decibel, rayleigh.gain, None) for decibel in PARTS]
    cases += [
        ("best of four, equal nu", 0, selected.gain, None),
        ("best of four", 0, selected.gain, None),
    ]
    if nu == BUDGETS[1]:
        cases += _four_antennas(s, rayleigh.path_loss, seed)
    total = nu + s.floor(s.min_gain(rayleigh.gain)).mean()
    for name, decibel, gain, exposure in cases:
        min_gain = s.min_gain(gain)
        floor = s.floor(min_gain).mean()
        budget = nu if "equal nu" in name else total - floor
        protects = s.noise_power * 10 ** (decibel / 10)
        problem = Problem(
            replace(s, privacy_noise_power=protects), min_gain, budget, exposure
        )
        epsilons = problem.epsilons(Optimal().schedule(problem), ExactAccountant())
        yield {
            "receiver": name,
            "decibel": decibel,
            "nu": nu,
            "seed": seed,
            "floor": floor,
            "total": floor + budget,
            "epsilon_mean": epsilons.mean(),
        }


TASKS = [
    *(("MNIST", nu, i, nu in BUDGETS) for nu in (*BUDGETS, *CURVE) for i in SEEDS),
    *(("CIFAR-10", BUDGETS[1], i, False) for i in SEEDS[:10]),
    *(("MNIST", 0.0, i, False, 4, 0.05) for i in SEEDS),
]
NOISE_TASKS = [*product(BUDGETS, SEEDS)]
