"""An online policy that answers one round at a time and can be resumed."""

import contextlib
import json
import math
import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import DEFAULT_ORDERS
from adascale.accounting.renyi import as_orders, conversion_offset
from adascale.errors import InvalidInput
from adascale.policies import OnlinePolicy, Selecting, Selection
from adascale.policies.base import checked_decision
from adascale.problem import RoundLeakage, over_devices, scaling
from adascale.scenario import Scenario
from adascale.streaming.answers import Answer, SelectedAnswer
from adascale.streaming.heading import FORM, check_heading, described, digest
from adascale.streaming.journal import Journal
from adascale.streaming.moments import joined_terms, log_moments
from adascale.streaming.states import pack, unpack

_EVERY = 100  # rounds from one checkpoint in the file to the next: so many are decided again at a start, at most
_SAME = 1e-9  # relative tolerance of a replayed answer, as another machine may round differently


class _Served(NamedTuple):
    """The last answer, and what the next one needs."""

    answer: Answer | SelectedAnswer
    state: Any
    moments: NDArray[np.float64]
    """Log-moments of the rounds so far, a row per kind of device (if they select: per device), a column per order."""
    spent: float = 0.0
    offset: int | None = None
    """The caller's number of a round minus its index here; None before the first number."""
    gain: Any = None
    """The gain, or gains, of the last round; None if it was skipped."""


class Stream:
    r"""One horizon of an online policy, with each answer on the disk before it is returned.

    A new stream with the same file continues after the last round.  While it is :attr:`pending`, the last gain gets the
    same answer again, once, and is not counted twice.

    Threads may share a stream: calls wait for each other, and each answers a round of its own.  Processes may not: the
    file belongs to the process that opened it until the stream is closed or that process ends.  In a forked process
    every call is an error, and a stream cannot be pickled or copied.  If a call is interrupted, the stream is pending.

    The file holds the policy's state every hundred rounds, if that consists of numbers, strings, arrays and containers
    of these; otherwise all rounds are decided again when it is opened.

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
            raise InvalidInput(
                f"nu must be one number, got an array of shape {nu.shape}", "nu"
            )
        self.policy: Any = policy
        self.scenario = scenario
        self._total = 0.0 if nu is None else scenario.num_rounds * float(nu)
        check.finite(f"the budget of all {scenario.num_rounds} rounds", self._total)
        delta = check.fraction("delta", delta)
        self._orders, self._devices = (
            np.unique(as_orders(orders)),
            RoundLeakage(scenario),
        )
        self._offset = conversion_offset(self._orders, delta)
        rate = (
            np.broadcast_to(scenario.sampling_rate, scenario.num_devices)
            if self._selects
            else self._devices.rate
        )
        self._count = (
            np.ones(rate.size) if self._selects else self._devices.count
        ).astype(int)
        self._terms = joined_terms(rate, self._orders)
        state = self.policy.start(*(scenario,) if nu is None else (scenario, nu))
        first = Answer(-1, math.nan, math.nan, self._total, 0.0, 0.0)
        self._now = _Served(first, state, np.zeros((rate.size, self._orders.size)))
        self._kept: Any = self._now[1:5]  # what the last checkpoint in the file holds
        listed = digest(repr(self._orders.tolist()))
        about = {"scenario": digest(scenario.to_toml())} | described(policy)
        about |= {
            "nu": None if nu is None else float(nu),
            "delta": delta,
            "orders": listed,
            "unit of gains": unit,
        }
        self._lock, self._busy = threading.RLock(), False
        self._journal = Journal(path, f"{FORM} {json.dumps(about)}")
        self.pending = self._journal.pending
        """Whether the caller may not have the last answer, as with one of an earlier stream that was not passed on."""
        try:
            check_heading(self._journal, about)
            self._resume()
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

    def answer(
        self, min_gain: ArrayLike, number: float | None = None
    ) -> Answer | SelectedAnswer:
        r"""Answer one round; after an ``OSError`` or ``ValueError``, the round can be sent again.

        Parameters
        ----------
        min_gain : float, :math:`h_{\min,t}^2 > 0`, or for a policy that selects array_like, shape (M,)
            Of that one, the linear gains :math:`|h_{m,t}|^2` of all devices.
        number : float, optional
            The caller's number of this round, which begins at 0 or 1; the last number again gets the same answer.
        """
        gain = self._checked(min_gain)
        if number is not None:
            number = check.number("number", number, -math.inf)
        with self._turn():
            now, wanted = self._now, [self.round, self.round + 1]
            if now.offset is not None:
                wanted = [self.round + now.offset]
            repeats = (
                self.pending
                if number is None
                else number == wanted[0] - 1 and now.offset is not None
            )
            if repeats and gain == now.gain:
                self.pending = False
                return now.answer
            if number is not None and number not in wanted:
                expected = " or ".join(map(str, wanted))
                raise ValueError(
                    f"rounds must be in order: expected round {expected}, got {number:g}"
                )
            self._check_horizon()
            return self._take(*self._decide(gain), gain, number)

    def skip(self) -> Answer | SelectedAnswer:
        """Skip a round, in which no device transmits: nothing leaks, nothing is spent."""
        with self._turn():
            if self.pending and self.round and self._now.gain is None:
                self.pending = False
                return self._now.answer
            self._check_horizon()
            return self._take(*self._skipped(), None, None)

    def passed_on(self, answer: Answer | SelectedAnswer | None = None) -> None:
        """Record that the last answer was passed on; the next round records it as well.

        Parameters
        ----------
        answer : Answer, optional
            The answer that was passed on, where other threads may have later ones; nothing is recorded of an earlier
            one.
        """
        with self._turn():
            if answer is None or answer.round == self._now.answer.round:
                self._journal.done()
                self.pending = False

    def close(self) -> None:
        """Release the file for another process."""
        self._journal.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not self.pending and self._journal.usable:
                self.passed_on()
        finally:
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the stream of {self._journal.path} cannot be pickled or copied; only one process may use it"
        )

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one call at a time use the stream; if it is interrupted after its round was written, it is pending."""
        self._journal.check_owner()  # before the lock, which a forked process may have inherited locked
        with self._lock:
            self._journal.check_usable()
            if self._busy or self._journal.count != self.round:
                what = (
                    "is in the middle of a round"
                    if self._busy
                    else "was interrupted in a round"
                )
                raise RuntimeError(
                    f"{self._journal.path} {what}; close it and open it again"
                )
            before, self._busy = self._now, True
            try:
                yield
            except BaseException:
                self.pending |= self._now is not before
                raise
            finally:
                self._busy = False

    def _checked(self, gain: ArrayLike) -> Any:
        """Return the gain as a float, or the gains of all devices as a list."""
        name = "gain" if self._selects else "min_gain"
        array = check.positive(name, gain)
        shape = (self.scenario.num_devices,) if self._selects else ()
        if array.shape != shape:
            raise InvalidInput(
                f"{name} must have shape {shape}, got {array.shape}", name
            )
        if not self._selects:
            check.within(name, array, *self.scenario.gain_limits)
        return array.tolist()

    def _check_horizon(self) -> None:
        if self.finished:
            self._journal.done()
            self.pending = False
            raise ValueError(
                f"all {self.scenario.num_rounds} rounds of {self.scenario.name} are answered"
            )

    def _decide(self, gain: Any) -> tuple[Any, float, Any]:
        """Return the next state, eta, and who sends if the policy selects."""
        if self._selects:
            return self._select(np.array(gain))
        max_eta = self.scenario.x_max * gain
        floor: Any = np.float64(self.scenario.noise_scale / max_eta)
        state, energy = checked_decision(
            self.policy, self._now.state, floor, self.round
        )
        return (
            state,
            float(scaling(energy, floor, max_eta, self.scenario.noise_scale)),
            (),
        )

    def _select(self, gain: NDArray[np.float64]) -> tuple[Any, float, Any]:
        scaled = self.scenario.scaled_gain(gain[:, None])
        state, eta_t, senders_t = self.policy.decide(self._now.state, scaled)
        eta, senders = float(eta_t[0]), senders_t[:, 0]
        if not senders.any():
            return state, 0.0, senders
        cap = (
            (senders.sum() / senders.size) ** 2
            * self.scenario.x_max
            * scaled[senders].min()
        )
        if not 0 < eta <= cap * (1 + 1e-9):
            name = type(self.policy).__name__
            raise ValueError(
                f"{name} returned eta = {eta} in round {self.round}, expected 0 < eta <= {cap}"
            )
        return state, min(eta, cap), senders

    def _skipped(self) -> tuple[Any, float, Any]:
        return self.policy.skip(self._now.state), 0.0, ()

    def _take(
        self, state: Any, eta: float, senders: Any, gain: Any, number: float | None
    ) -> Answer | SelectedAnswer:
        """Write a round to the disk, and only then answer it."""
        served = self._served(state, eta, senders, gain, number)
        line, kept = (
            [gain, None if number is None else int(number), served.answer],
            self._kept,
        )
        if self.round % _EVERY == 0 and self.round:
            kept, checkpoint = self._checkpoint()
            line += checkpoint
        self._journal.append(json.dumps(line))
        self.pending, self._kept, self._now = False, kept, served
        return served.answer

    def _served(
        self, state: Any, eta: float, senders: Any, gain: Any, number: float | None
    ) -> _Served:
        """Return what holds after a round."""
        spent, moments, energy = self._now.spent, self._now.moments, math.inf
        if eta > 0:
            energy = self.scenario.noise_scale / eta
            if not self._selects:
                spent += energy - self.scenario.noise_scale / (
                    self.scenario.x_max * gain
                )
                inverse = self._devices.unit / energy
            else:
                inverse = (
                    Selection(
                        self.scenario, np.array([eta]), senders[:, None]
                    ).noise_multiplier[:, 0]
                    ** -2.0
                )
            moments = moments + log_moments(inverse, *self._terms)
        by_order = (
            moments / (self._orders - 1) + self._offset
        )  # :eq:`eq:rdp-to-dp`, for every kind of device
        least = np.where(
            moments.any(axis=-1), np.maximum(by_order.min(axis=-1), 0.0), 0.0
        )
        check.finite("epsilon of these rounds, at every order", least)
        epsilons = [
            float(value)
            for value in over_devices(np.repeat(least, self._count)).values()
        ]
        who = (tuple((np.flatnonzero(senders) + 1).tolist()),) if self._selects else ()
        left = () if self._selects else (self._total - spent,)
        answer = self._answer(self.round, eta, energy, *left, *epsilons, *who)
        offset = self._now.offset if number is None else int(number) - self.round
        return _Served(answer, state, moments, spent, offset, gain)

    def _checkpoint(self) -> tuple[Any, list[Any]]:
        """Return what a reader needs besides the lines to go on from here, and how it is written, if it can be."""
        with contextlib.suppress(
            Exception
        ):  # a state of one's own may be anything: its rounds are decided again
            packed = pack(tuple(self._now[1:5]), self._kept)
            kept = unpack(packed, self._kept)
            if json.dumps(pack(kept, self._kept)) == json.dumps(packed):
                return kept, [packed]
        return self._kept, []

    def _resume(self) -> None:
        """Go on from the last checkpoint of the file: decide only the rounds after it again, and compare them."""
        lines, self._journal.lines = self._journal.lines, []
        first, start = self._now, 0
        for number in range(_EVERY, len(lines), _EVERY):
            for packed in json.loads(lines[number])[3:]:
                self._kept, start = unpack(packed, self._kept), number
        if start:
            gain, _, answer, *_ = json.loads(lines[start - 1])
            state, moments, spent, offset = self._kept
            self._now = _Served(
                self._as_answer(answer), state, moments, spent, offset, gain
            )
            try:
                self._repeat(lines[start:])
            except (
                ValueError
            ):  # its policy decides otherwise now, which may have begun earlier
                self._now, start = first, 0
        if not start:
            self._repeat(lines)

    def _as_answer(self, values: list[Any]) -> Answer | SelectedAnswer:
        values = [
            tuple(value) if isinstance(value, list) else value for value in values
        ]
        answer: Answer | SelectedAnswer = self._answer(*values)
        return answer

    def _repeat(self, lines: list[str]) -> None:
        """Decide the rounds of these lines again; refuse them if the decisions differ."""
        for line in lines:
            gain, number, answer, *_ = json.loads(line)
            was = self._as_answer(answer)
            where = f"{self._journal.path}: round {was.round}"
            try:
                state, eta, senders = (
                    self._skipped() if gain is None else self._decide(gain)
                )
            except ValueError as error:
                raise ValueError(
                    f"{where} was answered, and is refused now: {error}"
                ) from None
            if not math.isclose(eta, was.eta, rel_tol=_SAME):
                raise ValueError(
                    f"{where} was answered eta = {was.eta}, and the policy decides {eta} now"
                )
            served = self._served(state, was.eta, senders, gain, number)
            now = served.answer
            if self._selects and now[-1] != was[-1]:
                raise ValueError(
                    f"{where} was sent by the devices {was[-1]}, and the policy chooses {now[-1]} now"
                )
            if not math.isclose(now.epsilon, was.epsilon, rel_tol=_SAME, abs_tol=_SAME):
                raise ValueError(
                    f"{where} had epsilon = {was.epsilon}, and has {now.epsilon} now"
                )
            self._now = served._replace(answer=was)
