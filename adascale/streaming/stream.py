"""An online policy that answers one round at a time and can be resumed."""

import contextlib
import hashlib
import json
import math
import os
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import DEFAULT_ORDERS
from adascale.accounting.kernels import map_log_moment, moment_terms
from adascale.accounting.renyi import as_orders, conversion_offset
from adascale.channel import FloorLaw
from adascale.errors import InvalidInput
from adascale.policies import OnlinePolicy, Selecting, Selection
from adascale.policies.base import checked_decision
from adascale.problem import RoundLeakage, over_devices, scaling
from adascale.scenario import Scenario
from adascale.streaming.journal import Journal

_FORM = "adascale stream 2"
_SAME = 1e-9  # relative tolerance of a replayed answer, as another machine may round differently


class Answer(NamedTuple):
    """The answer to a round."""

    round: int
    """Index of the round, from 0."""
    eta: float
    r""":math:`\eta_t` in watts; 0 if the round was skipped."""
    noise_energy: float
    r""":math:`w_t = d \sigma_n^2 / \eta_t`; infinite if the round was skipped."""
    budget_left: float
    r""":math:`T \nu - \sum_{i \le t} (w_i - w_{\min,i})`; negative if overdrawn."""
    epsilon: float
    """DP leakage of the rounds so far, proven for every device: the largest over devices."""
    epsilon_mean: float
    """The mean over devices of their DP leakage, which is no guarantee."""

    def line(self) -> str:
        """Return the answer as comma-separated text with all digits."""
        return ",".join(map(repr, self))


class SelectedAnswer(NamedTuple):
    """The answer of a policy that chooses who sends; fields of :class:`Answer` have the same meaning."""

    round: int
    eta: float
    noise_energy: float
    epsilon: float
    epsilon_mean: float
    senders: tuple[int, ...]
    """The devices that send, numbered from 1; none of them if the round is skipped."""

    def line(self) -> str:
        """Return the answer as comma-separated text with all digits, and with blanks between the devices."""
        return ",".join([*map(repr, self[:-1]), " ".join(map(str, self.senders))])


class _Served(NamedTuple):
    """The last answer, and what the next one needs."""

    answer: Answer | SelectedAnswer
    state: Any
    moments: NDArray[np.float64]
    """Log-moments of the rounds so far, a row per kind of device (if they select: per device), a column per order."""
    spent: float = 0.0
    gain: float | tuple[float, ...] = math.nan
    offset: float = math.nan
    """The caller's number of a round minus its index here; NaN before the first number."""


class Stream:
    r"""One horizon of an online policy, with each answer on the disk before it is returned.

    A new stream with the same file replays the answered rounds and continues.  While it is :attr:`pending`, the last
    gain gets the same answer again and is not counted twice.

    Parameters
    ----------
    policy, scenario, path
    budget : float, :math:`\nu > 0`; None for a policy that chooses who sends
    delta : float, in (0, 1)
    orders : array_like, > 1, the Rényi orders of epsilon
    unit : str
        Unit of the caller's gains, which must be the same at every start.
    """

    def __init__(
        self,
        policy: OnlinePolicy | Selecting,
        scenario: Scenario,
        budget: float | None,
        path: str | os.PathLike[str],
        *,
        delta: float = 1e-5,
        orders: ArrayLike = DEFAULT_ORDERS,
        unit: str = "linear",
    ) -> None:
        self._selects = isinstance(policy, Selecting)
        self._answer: Any = SelectedAnswer if self._selects else Answer
        self.columns: tuple[str, ...] = self._answer._fields
        """The names of the values in an answer."""
        nu = None if self._selects else check.positive("nu", budget)  # type: ignore[arg-type]
        if nu is not None and nu.ndim:
            raise InvalidInput(f"nu must be one number, got an array of shape {nu.shape}", "nu")
        self.policy, self.scenario = policy, scenario
        self._total = 0.0 if nu is None else scenario.num_rounds * float(nu)
        delta = check.fraction("delta", delta)
        self._orders, self._devices = np.unique(as_orders(orders)), RoundLeakage(scenario)
        self._offset = conversion_offset(self._orders, delta)
        rate = np.broadcast_to(scenario.sampling_rate, scenario.num_devices) if self._selects else self._devices.rate
        self._count = (np.ones(rate.size) if self._selects else self._devices.count).astype(int)
        terms = {q: [moment_terms(q, float(order)) for order in self._orders] for q in {*rate.tolist()}}
        self._terms = [terms[q] for q in rate.tolist()]
        start: Any = policy.start
        begun = start(scenario) if nu is None else start(scenario, nu)
        first = Answer(-1, math.nan, math.nan, self._total, 0.0, 0.0)
        self._now = _Served(first, begun, np.zeros((rate.size, self._orders.size)))
        check.finite(f"the budget of all {scenario.num_rounds} rounds", self._total)
        known: dict[str, Any] = {"scenario": _digest(scenario.to_toml())}
        known["policy"] = f"{type(policy).__module__}:{type(policy).__qualname__}"
        names = [each.name for each in fields(policy)] if is_dataclass(policy) else sorted(vars(policy))
        known |= {name: _plain(getattr(policy, name)) for name in names if not name.startswith("_")}
        listed = _digest(repr(self._orders.tolist()))
        known |= {"nu": None if nu is None else float(nu), "delta": delta, "orders": listed, "unit of gains": unit}
        self._journal = Journal(path, f"{_FORM} {json.dumps(known)}")
        self.pending = self._journal.pending
        """Whether an earlier stream may not have passed on its last answer."""
        try:
            self._check_heading(known)
            for line in self._journal.lines:
                self._replay(line)
        except BaseException:
            self.close()
            raise

    @property
    def last(self) -> Answer | SelectedAnswer | None:
        """The answer to the last round."""
        return self._now.answer if self.round else None

    @property
    def round(self) -> int:
        """The number of the next round."""
        return self._now.answer.round + 1

    @property
    def finished(self) -> bool:
        """Whether all T rounds are answered."""
        return self.round >= self.scenario.num_rounds

    def passed_on(self) -> None:
        """Record that the last answer was passed on; the next round records it as well."""
        self._journal.done()
        self.pending = False

    def answer(self, min_gain: ArrayLike, number: float | None = None) -> Answer | SelectedAnswer:
        r"""Answer one round; after an ``OSError`` or ``ValueError``, the round can be sent again.

        Parameters
        ----------
        min_gain : float, :math:`h_{\min,t}^2 > 0`, or for a policy that selects array_like, shape (M,)
            Of that one, the linear gains :math:`|h_{m,t}|^2` of all devices.
        number : float, optional
            The caller's number of this round, which begins at 0 or 1; the last number again gets the same answer.
        """
        now, expected = self._now, self.round + self._now.offset
        again = self.pending if number is None else number == expected - 1
        gain = float(min_gain) if not self._selects else tuple(np.atleast_1d(min_gain).tolist())  # type: ignore[arg-type]
        if again and gain == now.gain:
            return now.answer
        wanted = [self.round, self.round + 1] if math.isnan(expected) else [round(expected)]
        if number is not None and number not in wanted:
            raise ValueError(f"rounds must be in order: expected round {' or '.join(map(str, wanted))}, got {number:g}")
        self._check_open()
        return self._take(*self._decide(gain), gain, number)

    def skip(self) -> Answer | SelectedAnswer:
        """Skip a round, in which no device transmits: nothing leaks, nothing is spent."""
        if self.pending and self._now.gain != self._now.gain:  # it is NaN
            return self._now.answer
        self._check_open()
        return self._take(*self._skipped(), math.nan, None)

    def close(self) -> None:
        """Release the file for another process."""
        self._journal.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None and not self.pending:
                self.passed_on()
        finally:
            self.close()

    def _check_open(self) -> None:
        if self.finished:
            self.passed_on()
            raise ValueError(f"all {self.scenario.num_rounds} rounds of {self.scenario.name} are answered")

    def _decide(self, gain: Any) -> tuple[Any, float, Any]:
        """Return the next state, eta, and who sends if the policy selects."""
        if self._selects:
            return self._select(np.array(gain))
        max_eta = self.scenario.x_max * gain
        floor = np.float64(self.scenario.noise_scale / max_eta)
        state, energy = checked_decision(self.policy, self._now.state, floor, self.round)
        return state, float(scaling(energy, floor, max_eta, self.scenario.noise_scale)), ()

    def _select(self, gain: NDArray[np.float64]) -> tuple[Any, float, Any]:
        scaled = self.scenario.scaled_gain(gain[:, None])
        state, eta_t, senders_t = self.policy.decide(self._now.state, scaled)
        eta, senders = float(eta_t[0]), senders_t[:, 0]
        if not senders.any():
            return state, 0.0, senders
        cap = (senders.sum() / senders.size) ** 2 * self.scenario.x_max * scaled[senders].min()
        if not 0 < eta <= cap * (1 + 1e-9):
            name = type(self.policy).__name__
            raise ValueError(f"{name} returned eta = {eta} in round {self.round}, expected 0 < eta <= {cap}")
        return state, min(eta, cap), senders

    def _skipped(self) -> tuple[Any, float, Any]:
        return self.policy.skip(self._now.state), 0.0, ()

    def _take(self, state: Any, eta: float, senders: Any, gain: Any, number: float | None) -> Answer | SelectedAnswer:
        served = self._served(state, eta, senders, gain, number)
        gains, told = " ".join(map(repr, np.atleast_1d(gain).tolist())), "" if number is None else f"{number:.0f}"
        self._journal.append(f"{gains},{told},{served.answer.line()}")
        self.pending, self._now = False, served
        return served.answer

    def _served(self, state: Any, eta: float, senders: Any, gain: Any, number: float | None) -> _Served:
        """Return what holds after a round."""
        spent, moments, energy = self._now.spent, self._now.moments, math.inf
        if eta > 0:
            energy = self.scenario.noise_scale / eta
            if not self._selects:
                spent += energy - self.scenario.noise_scale / (self.scenario.x_max * gain)
                inverse = self._devices.unit / energy
            else:
                inverse = Selection(self.scenario, np.array([eta]), senders[:, None]).noise_multiplier[:, 0] ** -2.0
            kinds = zip(inverse, self._terms, strict=True)
            moments = moments + [[map_log_moment(np.array([s]), each)[0] for each in terms] for s, terms in kinds]
        by_order = moments / (self._orders - 1) + self._offset  # :eq:`eq:rdp-to-dp`, for every kind of device
        least = np.where(moments.any(axis=-1), np.maximum(by_order.min(axis=-1), 0.0), 0.0)
        check.finite("epsilon of these rounds, at every order", least)
        epsilons = [float(each) for each in over_devices(np.repeat(least, self._count)).values()]
        who = (tuple((np.flatnonzero(senders) + 1).tolist()),) if self._selects else ()
        left = () if self._selects else (self._total - spent,)
        found = self._answer(self.round, eta, energy, *left, *epsilons, *who)
        offset = self._now.offset if number is None else number - self.round
        return _Served(found, state, moments, spent, gain, offset)

    def _check_heading(self, known: dict[str, Any]) -> None:
        """Refuse the state of another stream."""
        path, heading, there = self._journal.path, self._journal.heading, None
        with contextlib.suppress(ValueError):
            there = json.loads(heading.removeprefix(_FORM)) if heading.startswith(_FORM) else None
        if not isinstance(there, dict):
            raise ValueError(f"{path} is not a stream state of this version: it begins with {heading[:40]!r}")
        for key in {**known, **there}:
            was, now = (json.dumps(each.get(key)).strip('"') for each in (there, known))
            if was != now:
                raise ValueError(f"{path} is the state of another stream: {key} is {was} there, and {now} here")

    def _replay(self, line: str) -> None:
        gains, number, first, *rest = line.split(",")
        gain: Any = tuple(map(float, gains.split())) if self._selects and gains != "nan" else float(gains)
        sent = [tuple(map(int, rest.pop().split()))] if self._selects else []
        was = self._answer(int(first), *map(float, rest), *sent)
        where = f"{self._journal.path}: round {was.round}"
        try:
            state, eta, senders = self._skipped() if gains == "nan" else self._decide(gain)
        except ValueError as error:
            raise ValueError(f"{where} was answered, and is refused now: {error}") from None
        if not math.isclose(eta, was.eta, rel_tol=_SAME):
            raise ValueError(f"{where} was answered eta = {was.eta}, and the policy decides {eta} now")
        served = self._served(state, was.eta, senders, gain, float(number) if number else None)
        if self._selects and (now := served.answer[-1]) != was[-1]:
            raise ValueError(f"{where} was sent by the devices {was[-1]}, and the policy chooses {now} now")
        if not math.isclose(epsilon := served.answer.epsilon, was.epsilon, rel_tol=_SAME, abs_tol=_SAME):
            raise ValueError(f"{where} had epsilon = {was.epsilon}, and has {epsilon} now")
        self._now = served._replace(answer=was)


def _plain(value: Any) -> Any:
    """Return a policy's parameter as JSON can hold it, a long one by its digest."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, FloorLaw):
        return f"law {_digest(' '.join(f'{each:.9g}' for each in value.quantile((np.arange(100) + 0.5) / 100)))}"
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iuf":
        return value.tolist() if value.size < 5 else f"array {_digest(repr(value.tolist()))}"
    return value if value is None or isinstance(value, bool | int | float | str) else type(value).__qualname__


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
