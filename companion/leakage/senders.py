r"""Who sends and which noise protects, at one total noise energy: ``python -m companion make senders``, ``noise``."""

from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.accounting import ExactAccountant, epsilon_by
from adascale.channel import AntennaSelection, ChannelModel, Rayleigh
from adascale.policies import Best, Optimal, Selection, Truncated
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray, Scenario
from companion.bounds.guarantees import optimum
from companion.results import Rows

SCENARIOS = {"MNIST": Scenario.mnist(), "CIFAR-10": Scenario.cifar10()}
BUDGETS = (0.01, 0.04, 0.16)
CURVE = (0.0025, 0.02, 0.08, 0.32, 0.64, 1.28)
SEEDS = range(20)
PARTS = (0, -3, -6, -10)


def at_level(
    scenario: Scenario, gain: FloatArray, number: ArrayLike, total: float
) -> Selection:
    """Let the best ``number`` devices of each round send, with the noise energy at one level above their floors."""
    scaled = scenario.scaled_gain(gain)
    number = np.broadcast_to(number, gain.shape[-1])
    senders = np.argsort(np.argsort(-scaled, axis=0, kind="stable"), axis=0) < number
    weakest = np.where(senders, scaled, np.inf).min(axis=0)
    floor = scenario.floor(weakest * (number / scenario.num_devices) ** 2)
    energy = optimum(floor, total - floor.mean())
    return Selection(scenario, scenario.noise_scale / energy, senders)


def by_error(scenario: Scenario, gain: FloatArray) -> NDArray[np.intp]:
    r"""Choose :math:`K_t` for the least :math:`w_t / 2 + 4G^2(1 - K_t/M)^2` at full power (arXiv 2108.07644)."""
    share = np.arange(1, scenario.num_devices + 1)[:, None] / scenario.num_devices
    # of the best 1, 2, ... M devices
    weakest = -np.sort(-scenario.scaled_gain(gain), axis=0)
    noise = scenario.floor(weakest * share**2) / 2
    return 1 + np.argmin(noise + 4 * scenario.clip_norm**2 * (1 - share) ** 2, axis=0)


def optimum_on(selection: Selection, gain: FloatArray) -> Selection:
    r"""Minimise :math:`\sum_t \kappa_t f(\kappa_t^2 w_t)` for given senders and total, :math:`\kappa_t = K_t / M`."""
    s = selection.scenario
    grid = np.geomspace(1e-6, 1e4, 6000)
    slope = np.log(-RoundLeakage(s).slope(grid))
    share = selection.senders.mean(axis=0)
    weakest = np.where(selection.senders, s.scaled_gain(gain), np.inf).min(axis=0)
    floor = s.floor(weakest * share**2)
    low, high = slope[-1], slope[0]
    # off its floor a round has kappa^3 f'(kappa^2 w) = -exp(price)
    for _ in range(100):
        price = (low + high) / 2
        level = (
            np.exp(np.interp(3 * np.log(share) - price, -slope, np.log(grid)))
            / share**2
        )
        energy = np.maximum(level, floor)
        low, high = (price, high) if energy.mean() > selection.total else (low, price)
    return Selection(s, s.noise_scale / energy, selection.senders)


def senders_rows(
    dataset: str,
    nu: float,
    seed: int,
    more: bool = True,
    model: ChannelModel | None = None,
    total: float = 0.0,
) -> Rows:
    """Yield a row per policy, at the ``total`` or at that of Optimal at ``nu``; with ``more``, of all policies."""
    s = SCENARIOS[dataset]
    gain = (model or Rayleigh()).draw(s.num_devices, s.num_rounds, seed).gain
    W = total or nu + Problem(s, s.min_gain(gain), 1.0).min_noise_energy.mean()
    cut = Truncated.of_total(s, gain, W).select(s, gain)
    selections = {
        "Optimal": at_level(s, gain, s.num_devices, W),
        "truncated": cut,
        "same senders": optimum_on(cut, gain),
    }
    for number in (8, 5, 9) if more else (8,):
        selections[f"{number} best"] = Best.of_total(s, gain, W, number).select(s, gain)
    if more:
        selections["least error"] = at_level(s, gain, by_error(s, gain), W)
    for name, selection in selections.items():
        epsilon = selection.epsilons(ExactAccountant())
        sent = selection.participation
        yield {
            "dataset": dataset,
            "antennas": getattr(model, "antennas", 1),
            "policy": name,
            "nu": nu,
            "seed": seed,
            "total": float(selection.total),
            "epsilon": epsilon.max(),
            "epsilon_mean": epsilon.mean(),
            "participation": sent.mean(),
            "participation_min": sent.min(),
            "bias": np.mean(
                (2 * s.clip_norm * (1 - selection.senders.mean(axis=0))) ** 2
            ),
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
        yield f"{name}, one chain", 0, gain, 1.0
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
        model.draw(s.num_devices, s.num_rounds, seed)
        for model in (Rayleigh(), AntennaSelection(antennas=4))
    )
    cases = [("one antenna", x, rayleigh.gain, 10 ** (-x / 10)) for x in PARTS]
    cases += [
        ("best of four, equal nu", 0, selected.gain, 1.0),
        ("best of four", 0, selected.gain, 1.0),
    ]
    if nu == BUDGETS[1]:
        cases += _four_antennas(s, rayleigh.path_loss, seed)
    floors = [
        Problem(s, s.min_gain(case[2]), 1.0).min_noise_energy.mean() for case in cases
    ]
    for (name, decibel, gain, exposure), floor in zip(cases, floors, strict=True):
        budget = nu if "equal nu" in name else nu + floors[0] - floor
        problem = Problem(s, s.min_gain(gain), budget)
        sigma = problem.noise_multiplier(Optimal().schedule(problem))
        sigma = (sigma if np.ndim(exposure) else sigma[0]) / np.sqrt(exposure)
        rate = float(s.sampling_rate)
        epsilon = epsilon_by(ExactAccountant(), rate, sigma, 1e-5)
        yield {
            "receiver": name,
            "decibel": decibel,
            "nu": nu,
            "seed": seed,
            "floor": floor,
            "total": floor + budget,
            "epsilon_mean": epsilon.mean(),
        }


FOUR = AntennaSelection(antennas=4)
TASKS = [
    *(("MNIST", nu, i, nu in BUDGETS) for nu in (*BUDGETS, *CURVE) for i in SEEDS),
    *(("CIFAR-10", BUDGETS[1], i, False) for i in SEEDS[:10]),
    *(("MNIST", 0.0, i, False, FOUR, 0.05) for i in SEEDS),
]
NOISE_TASKS = [*product(BUDGETS, SEEDS)]
