r"""A policy that answers a round at a time, and goes on where it was when its process was killed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import DEFAULT_ORDERS
from adascale.channel import FloorLaw
from adascale.policies import OnlinePolicy
from adascale.scenario import Scenario
from adascale.streaming.epsilon import RunningEpsilon
from adascale.streaming.journal import Journal

_FORM = "adascale stream 1"
_SAME = 1e-9  # between an answer and its repetition: another machine may round otherwise


class Answer(NamedTuple):
    """What a round is answered."""

    round: int
    """Its number, from 0."""
    eta: float
    r""":math:`\eta_t` in watts; 0 where the round was skipped."""
    noise_energy: float
    r""":math:`w_t = d \sigma_n^2 / \eta_t`; infinite where the round was skipped."""
    budget_left: float
    r""":math:`T \nu - \sum_{i \le t} (w_i - w_{\min,i})`, which who keeps :math:`\nu` on average may overdraw."""
    epsilon: float
    r"""The DP leakage of the rounds so far, mean over devices."""

    def line(self) -> str:
        """Comma-separated, with every digit; where ``adascale stream`` has none, its line begins with ``error``."""
        return ",".join(map(repr, self))


class Stream:
    r"""One horizon of an online policy: one lane, an answer a round, each on the disk before it is given.

    The file holds the gains and the answer of every round as text, a line each, behind a heading that says of what
    scenario and policy it is.  With such a file a new stream goes on with the next round: the policy is led through the
    rounds again, and has to decide as it did.  Where the last answer may not have reached anybody any more, the stream
    is :attr:`pending`: if the same gain comes again, it has the same answer and is not counted twice.  A file of
    adascale 0.2, or with a heading alone, is used with a warning; an older copy of a whole file is not recognised.

    Parameters
    ----------
    policy : OnlinePolicy
        What decides.
    scenario : Scenario
        The constants; ``scenario.num_rounds`` is the horizon T.
    budget : float
        :math:`\nu > 0`.
    path : path-like
        The file.
    delta : float
        :math:`\delta` in (0, 1).
    orders : sequence of float
        The Rényi orders among which epsilon is the least.
    unit : str
        The unit in which the caller measures gains, before they are made linear: the same at every start.

    Raises
    ------
    ValueError
        If an argument is out of range, the file is in use, empty, cut off, damaged or of another stream, or the policy
        does not decide as it did.
    OSError
        If the file cannot be read or written.
    """

    def __init__(
        self,
        policy: OnlinePolicy,
        scenario: Scenario,
        budget: float,
        path: str | os.PathLike[str],
        *,
        delta: float = 1e-5,
        orders: ArrayLike = DEFAULT_ORDERS,
        unit: str = "linear",
    ) -> None:
        nu = check.positive("nu", budget)
        if nu.ndim:
            raise ValueError(f"nu must be one number, got an array of shape {nu.shape}")
        self.policy, self.scenario = policy, scenario
        self.last: Answer | None = None
        """The answer to the last round."""
        self._accounting = RunningEpsilon(scenario, delta, orders)
        self._moments = self._accounting.start()
        self._state = policy.start(scenario, nu)
        self._total, self._spent = scenario.num_rounds * float(nu), 0.0
        check.held(f"the budget of all {scenario.num_rounds} rounds", self._total)
        self._gain, self._offset = math.nan, math.nan
        self.pending = False
        """Whether the last answer is that of a stream before this one, which has not said that it was passed on."""
        known = {
            "scenario": _digest(scenario.to_toml()),
            **_described(policy),
            "nu": float(nu),
            "delta": self._accounting.delta,
            "orders": _digest(repr(self._accounting.orders.tolist())),
            "unit of gains": unit,
        }
        self._journal = Journal(path, f"{_FORM} {json.dumps(known)}")
        try:
            self._check_heading(known)
            for line in self._journal.lines:
                self._replay(line)
            self.pending = self._journal.pending
        except BaseException:
            self.close()
            raise

    @property
    def round(self) -> int:
        """The number of the next round."""
        return 0 if self.last is None else self.last.round + 1

    @property
    def finished(self) -> bool:
        """Whether all T rounds are answered."""
        return self.round >= self.scenario.num_rounds

    def passed_on(self) -> None:
        """The last answer was passed on: of that, a killed process leaves word then.

        The next round, and the end of a ``with`` without an error, say so as well.

        Raises
        ------
        OSError
            If that cannot be written.
        """
        self._journal.done()
        self.pending = False

    @property
    def orders_too_few(self) -> bool:
        """Whether an order before the first or behind the last may lower the epsilon."""
        return self._accounting.at_end(self._moments)

    def answer(self, min_gain: float, number: float | None = None) -> Answer:
        r"""One round.

        Parameters
        ----------
        min_gain : float
            :math:`h_{\min,t}^2 > 0`.
        number : float, optional
            What the caller calls this round: numbers follow each other one by one.  The last round with its number and
            gain is answered as before, whether it is pending or not.

        Raises
        ------
        ValueError
            If the gain is refused by the policy, the number is out of order, all rounds are over, or the policy returns
            no scaling within the power limit.  The stream is as it was, and the round can be sent again.
        OSError
            If the answer cannot be kept; there is none then.
        """
        if self.last is not None and min_gain == self._gain:
            again = self.pending if number is None else number == self.last.round + self._offset
            if again:
                return self.last
        self._check_number(number)
        self._check_open()
        state, eta = self._decide(min_gain)
        return self._take(state, eta, float(min_gain), number)

    def skip(self) -> Answer:
        """A round in which nobody transmits: eta is 0, nothing leaks, nothing is spent, and T has one round less.

        Raises
        ------
        ValueError, OSError
            As for :meth:`answer`.
        """
        if self.last is not None and self.pending and self.last.eta == 0:
            return self.last
        self._check_open()
        return self._take(self.policy.skip(self._state), 0.0, math.nan, None)

    def close(self) -> None:
        """Let another process go on."""
        self._journal.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None and not self.pending:
                self.passed_on()
        finally:
            self.close()

    def _check_number(self, number: float | None) -> None:
        if number is None:
            return
        expected = self.round + self._offset
        if not float(number).is_integer() or not (math.isnan(expected) or number == expected):
            wanted = "a whole number" if math.isnan(expected) else f"{expected:.0f}"
            raise ValueError(f"rounds must be in order: expected round {wanted}, got {number:g}")

    def _check_open(self) -> None:
        if self.finished:
            self.passed_on()
            raise ValueError(f"all {self.scenario.num_rounds} rounds of {self.scenario.name} are answered")

    def _decide(self, min_gain: float) -> tuple[Any, float]:
        """The next state and the scaling, which is within the power limit."""
        name = type(self.policy).__name__
        gain: Any = np.float64(min_gain)  # as a row of one lane is
        returned: Any = self.policy.step(self._state, gain)
        scaling = np.asarray(returned[1]) if isinstance(returned, tuple) and len(returned) == 2 else np.array("")
        if scaling.shape != () or scaling.dtype.kind not in "iuf":
            raise ValueError(f"{name}.step must return the next state and eta, a number, got {returned!r:.80}")
        cap = self.scenario.x_max * float(gain)
        if not 0 < (eta := float(scaling)) <= cap:
            raise ValueError(f"{name} returned eta = {eta} in round {self.round}, expected 0 < eta <= {cap}")
        return returned[0], eta

    def _take(self, state: Any, eta: float, gain: float, number: float | None) -> Answer:
        """The answer, once it is on the disk."""
        answer, spent, moments = self._accounted(eta, gain)
        told = "" if number is None else f"{number:.0f}"
        self._journal.append(f"{gain!r},{told},{answer.line()}")
        self.pending = False
        self._keep(answer, state, spent, moments, gain, number)
        return answer

    def _accounted(self, eta: float, gain: float) -> tuple[Answer, float, Any]:
        if eta == 0:
            energy, spent, moments = math.inf, self._spent, self._moments
        else:
            energy = self.scenario.noise_scale / eta
            spent = self._spent + (energy - self.scenario.noise_scale / (self.scenario.x_max * gain))
            moments = self._accounting.add(self._moments, energy)
        epsilon = self._accounting.epsilon(moments)
        return Answer(self.round, eta, energy, self._total - spent, epsilon), spent, moments

    def _keep(self, answer: Answer, state: Any, spent: float, moments: Any, gain: float, number: float | None) -> None:
        if number is not None:
            self._offset = number - answer.round
        self.last, self._state, self._spent, self._moments, self._gain = answer, state, spent, moments, gain

    # A stream that goes on ------------------------------------------------------------------------------------------

    def _check_heading(self, known: dict[str, Any]) -> None:
        path, heading = self._journal.path, self._journal.heading
        try:
            there = json.loads(heading.removeprefix(_FORM))
        except ValueError:
            there = None
        if not heading.startswith(_FORM) or not isinstance(there, dict):
            raise ValueError(f"{path} is no state of a stream of this version: it begins with {heading[:40]!r}")
        for old, new in getattr(self.policy, "former", {}).items():  # parameters as 0.2 named them
            if old in there:
                there[new] = there.pop(old)
        if (key := "unit of gains") not in there:
            there[key] = known[key]
            lacks = f"it has no {key} ({known[key]} now), and rounds cut off its end are not missed"
            warnings.warn(f"{path} is a state of adascale 0.2: {lacks}", stacklevel=3)
        for key in {**known, **there}:
            was, now = (json.dumps(each.get(key)).strip('"') for each in (there, known))
            if was != now:
                raise ValueError(f"{path} is the state of another stream: {key} is {was} there, and {now} here")

    def _replay(self, line: str) -> None:
        """A round that was answered, once more."""
        gain, number, *rest = line.split(",")
        was = Answer(int(rest[0]), *map(float, rest[1:]))
        where = f"{self._journal.path}: round {was.round}"
        try:
            state, eta = (self.policy.skip(self._state), 0.0) if was.eta == 0 else self._decide(float(gain))
        except ValueError as error:
            raise ValueError(f"{where} was answered, and is refused now: {error}") from None
        if not math.isclose(eta, was.eta, rel_tol=_SAME):
            raise ValueError(f"{where} was answered eta = {was.eta}, and the policy decides {eta} now")
        answer, spent, moments = self._accounted(was.eta, float(gain))
        if not math.isclose(answer.epsilon, was.epsilon, rel_tol=_SAME, abs_tol=_SAME):
            raise ValueError(f"{where} had epsilon = {was.epsilon}, and has {answer.epsilon} now")
        self._keep(was, state, spent, moments, float(gain), float(number) if number else None)


def _described(policy: OnlinePolicy) -> dict[str, Any]:
    """The class of a policy and its parameters, as far as they can be told."""
    names = [each.name for each in fields(policy)] if is_dataclass(policy) else sorted(vars(policy))
    kind = type(policy)
    return {"policy": f"{kind.__module__}:{kind.__qualname__}"} | {
        name: _plain(getattr(policy, name)) for name in names if not name.startswith("_")
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, FloorLaw):
        shares = (np.arange(100) + 0.5) / 100
        return f"law {_digest(' '.join(f'{each:.9g}' for each in value.quantile(shares)))}"
    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "iuf":
        shown = np.asarray(value).tolist()
        return shown if np.size(value) < 5 else f"array {_digest(repr(shown))}"
    return type(value).__qualname__


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
