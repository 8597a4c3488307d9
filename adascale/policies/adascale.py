r"""AdaScale: the paper's online policy (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.policies.adascale_rounds import run_rounds
from adascale.policies.base import OnlinePolicy, known_law, within_limit
from adascale.policies.optimal import water_level
from adascale.problem import ReceiveScalingProblem, RoundLeakage, scaling
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class AdaScaleState(NamedTuple):
    """The virtual queue of every lane and the last noise energy, where the next search starts; and the constants."""

    scenario: Scenario
    leakage: RoundLeakage
    budget: FloatArray
    queue: FloatArray
    energy: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.queue.shape


@dataclass(frozen=True)
class AdaScale(OnlinePolicy):
    r"""Each round minimises leakage, queue pressure and a quadratic guard (:eq:`eq:adascale-round`).

    .. math::
        w_t = \arg\min_{w \ge w_{\min,t}} V F(w) + Q_t (w - w_{\min,t}) + \tfrac12 (w - w_{\min,t})^2, \qquad
        Q_{t+1} = \max(Q_t + w_t - w_{\min,t} - \nu, 0),

    the paper's problem (30) and queue (29) in the noise energy, which starts from :math:`Q_0 = 0` there.  The objective
    is convex, so the round is the root of :math:`V F'(w) + Q_t + w - w_{\min,t}` above the floor, or the floor.
    ``schedule`` runs all rounds compiled (:func:`adascale_energies`); ``start`` and ``step`` are the same rounds one at
    a time.

    Parameters
    ----------
    penalty : array_like
        :math:`V > 0`: the weight of leakage against the budget; broadcasts against the lanes.  F is a sum over
        devices, so V scales with M.  Exactly one V has the cost :math:`\nu` (:prf:ref:`thm-one-penalty`);
        :func:`adascale.tuning.match_budget` finds it.
    initial_queue : array_like
        :math:`Q_0 \ge 0`; broadcasts against the lanes.  A queue that starts where it would end up,
        :math:`V |F'(\ell)|`, spends no rounds on getting there (:meth:`from_law`).
    """

    tuned: ClassVar[tuple[str, ...]] = ("penalty",)

    penalty: FloatArray
    initial_queue: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", check.positive("penalty", self.penalty))
        object.__setattr__(self, "initial_queue", check.at_least("initial_queue", self.initial_queue, 0))

    @classmethod
    def from_law(
        cls,
        scenario: Scenario,
        budget: ArrayLike,
        mean_gain: ArrayLike | None = None,
        law: FloorLaw | None = None,
        stiffness: float = 30.0,
    ) -> AdaScale:
        r"""AdaScale that no realisation has tuned: penalty and queue from the law of the floors.

        .. math:: V = \frac{s\,\nu}{|F'(\ell)|}, \qquad Q_0 = V |F'(\ell)| - \nu = (s - 1)\,\nu, \qquad g(\ell) = \nu

        The pressure :math:`Q_0 + y_0` is the price of the constant level :math:`\ell` from the first round on
        (:prf:ref:`thm-warm-start`), and the larger s, the more slowly it leaves it: what is lost is of order
        :math:`T / V` where an empty queue loses :math:`\sqrt T`.

        Parameters
        ----------
        scenario : Scenario
            The constants, whose order says which leakage F is.
        budget : array_like
            :math:`\nu > 0`.
        mean_gain : array_like, optional
            :math:`\mathbb E|h_m|^2 / k_m^2`, shape (..., M), of independent Rayleigh fading.
        law : FloorLaw, optional
            The law of the floors, if it is another one.  Exactly one of the two is given; lanes and budgets broadcast.
        stiffness : float
            :math:`s \ge 1`; at 1 the queue starts empty.

        Raises
        ------
        ValueError
            If a value is out of range, both of ``mean_gain`` and ``law`` are given or none, or the penalty is beyond
            floating point.
        """
        budget, stiff = check.positive("budget", budget), check.at_least("stiffness", stiffness, 1)
        if stiff.ndim:
            raise ValueError(f"stiffness must be one number, got {stiffness!r}")
        level = known_law(scenario, mean_gain, law).level(budget)
        with np.errstate(all="ignore"):
            penalty = -stiff * budget / RoundLeakage(scenario).slope(level)
        check.held(f"the penalty at a level of {np.max(level, initial=0):.3g}", penalty)
        return cls(penalty, np.broadcast_to((stiff - 1) * budget, penalty.shape))

    @classmethod
    def guess(cls, problem: ReceiveScalingProblem) -> FloatArray:
        r"""Where to look first for the penalty that spends the budget: :math:`5 \nu / |F'(\ell)|` at the water level.

        Measured, not proved: in both of the paper's scenarios the penalty found lies within a factor 4 of it.
        """
        level = water_level(problem.floor, problem.budget)
        slope = RoundLeakage(problem.scenario).slope(level)
        with np.errstate(all="ignore"):  # no leakage to speak of: an infinite penalty
            return -5 * problem.budget / slope

    def start(self, scenario: Scenario, budget: FloatArray) -> AdaScaleState:
        self._check_lanes(np.shape(budget))
        zero = np.zeros(np.shape(budget))
        return AdaScaleState(scenario, RoundLeakage(scenario), budget, zero + self.initial_queue, zero)

    def step(self, state: AdaScaleState, min_gain_t: FloatArray) -> tuple[AdaScaleState, FloatArray]:
        max_eta = state.scenario.x_max * min_gain_t
        floor = state.scenario.noise_scale / max_eta
        energy = _round(floor, state.queue, self.penalty, state.leakage, state.energy)
        queue = np.maximum(state.queue + (energy - floor) - state.budget, 0.0)
        return state._replace(queue=queue, energy=energy), scaling(energy, floor, max_eta, state.scenario.noise_scale)

    def skip(self, state: AdaScaleState) -> AdaScaleState:
        r"""A round that spends nothing: the queue falls by :math:`\nu`, never below 0: others may spend more."""
        return state._replace(queue=np.maximum(state.queue - state.budget, 0.0))

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r""":math:`\eta_t`, shape (..., T): all rounds in one compiled loop; errors as ``start`` and ``step``."""
        self._check_lanes(problem.lanes)
        leakage = RoundLeakage(problem.scenario)
        energy, _ = adascale_energies(problem.floor, problem.budget, self.penalty, leakage, self.initial_queue)
        eta = scaling(energy, problem.floor, problem.max_eta, problem.scenario.noise_scale)
        return within_limit(eta, problem, "AdaScale")

    def _check_lanes(self, lanes: tuple[int, ...]) -> None:
        for name in ("penalty", "initial_queue"):
            shape = np.shape(getattr(self, name))
            if check.broadcast(**{name: shape, "lanes": lanes}) != lanes:
                raise ValueError(f"{name} must broadcast against lanes {lanes}, got shape {shape}")


def best_energy(
    floor: ArrayLike, queue: ArrayLike, penalty: ArrayLike, leakage: RoundLeakage, start: ArrayLike = 0.0
) -> FloatArray:
    r"""The minimiser of one AdaScale round.

    .. math:: \arg\min_{w \ge w_{\min}} V F(w) + Q (w - w_{\min}) + \tfrac12 (w - w_{\min})^2

    Parameters
    ----------
    floor, queue, penalty : array_like
        :math:`w_{\min} > 0`, :math:`Q \ge 0` and :math:`V > 0`; they broadcast.
    leakage : RoundLeakage
        :math:`F`.
    start : array_like
        Where to look first; it matters for the speed alone, and below the floor not at all.

    Returns
    -------
    numpy.ndarray
        :math:`w`, of the broadcast shape, to the last few digits.

    Raises
    ------
    ValueError
        If a value is out of range.
    RuntimeError
        If no root is found, as where :math:`V F'(w)` is beyond floating point.
    """
    floor, penalty = check.positive("floor", floor), check.positive("penalty", penalty)
    queue, start = check.at_least("queue", queue, 0), check.at_least("start", start, 0)
    shapes = {"floor": floor.shape, "queue": queue.shape, "penalty": penalty.shape, "start": start.shape}
    check.broadcast(**shapes)
    return _round(floor, queue, penalty, leakage, start)


def _round(
    floor: ArrayLike, queue: ArrayLike, penalty: ArrayLike, leakage: RoundLeakage, start: ArrayLike
) -> FloatArray:
    """:func:`best_energy` of values that are known to be in range."""
    energy, _ = run_rounds(np.asarray(floor, dtype=float)[..., None], queue, start, 0.0, penalty, leakage)
    return energy[..., 0]


def adascale_energies(
    floor: ArrayLike, budget: ArrayLike, penalty: ArrayLike, leakage: RoundLeakage, initial_queue: ArrayLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    r"""AdaScale over whole horizons, in one compiled loop: :func:`best_energy` round by round, and the queue.

    Parameters
    ----------
    floor : array_like
        :math:`w_{\min,t} > 0`, shape (..., T).
    budget, penalty : array_like
        :math:`\nu > 0` and :math:`V > 0`; they broadcast against the leading axes of ``floor``.
    leakage : RoundLeakage
        :math:`F`.
    initial_queue : array_like
        :math:`Q_0 \ge 0`; it broadcasts as the penalty does.

    Returns
    -------
    tuple of numpy.ndarray
        The noise energies :math:`w_t`, shape (..., T), and the last queue :math:`Q_T`, shape (...).

    Raises
    ------
    ValueError
        If a value is out of range.
    RuntimeError
        If a round has no root: the message names the lane, the round and the values.
    """
    floor, budget, penalty = (
        check.positive(name, value) for name, value in (("floor", floor), ("budget", budget), ("penalty", penalty))
    )
    if floor.ndim == 0:
        raise ValueError(f"floor must have a last axis of rounds, got {floor}")
    queue = check.at_least("initial_queue", initial_queue, 0)
    return run_rounds(floor, queue, 0.0, budget, penalty, leakage)
