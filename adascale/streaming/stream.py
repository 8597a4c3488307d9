"""An online policy that answers one round at a time and can be resumed."""

import json
import math
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import DEFAULT_ORDERS
from adascale.checks import BoolArray, FloatArray
from adascale.errors import InvalidInput
from adascale.policies import OnlinePolicy, Selecting
from adascale.policies.base import NamedFailures, checked_decision
from adascale.policies.selection import choice
from adascale.problem import scaling
from adascale.scenario import Scenario
from adascale.streaming.answers import Answer
from adascale.streaming.heading import check_heading, heading
from adascale.streaming.journal import Journal
from adascale.streaming.moments import Leakage

_SAME = 1e-9  # relative tolerance of a repeated answer, as another machine may round differently


class _Decision(NamedTuple):
    """What the policy decides in a round: its next state, and eta in watts, 0 if nobody sends."""

    state: Any
    eta: float = 0.0
    senders: BoolArray | None = None
    """Whether each device sends; None if the policy does not choose."""


class _Progress(NamedTuple):
    """The last answer, and what the next one needs."""

    answer: Answer
    state: Any
    """State of the policy after this round."""
    moments: FloatArray
    """Log-moments of the rounds so far, a row per kind of device (if they select: per device), a column per order."""
    spent: float = 0.0
    """Sum of the noise energies above the floor."""
    offset: int | None = None
    """The caller's number of a round minus its index here; None before the first number."""
    gain: Any = None
    """The gain, or gains, of the last round; None if it was skipped."""


class Stream:
    r"""One horizon of an online policy, with each answer on the disk before it is returned.

    A new stream with the same file continues after the last round.  While it is :attr:`pending`, the last gain gets the
    same answer again, once, and is not counted twice.

    The file holds the gain and the answer of each round.  When it is opened again, the policy decides all rounds anew,
    which takes a few milliseconds each, and the file is refused if a decision differs.  A stream is for one thread of
    one process; no other stream can open the file until this one is closed or its process ends.

    Parameters
    ----------
    policy, scenario, path
    budget : float, :math:`\nu > 0`; None for a policy that chooses who sends or guarantees an epsilon
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
        self.policy: Any = policy
        self.scenario = scenario
        self._selects = isinstance(policy, Selecting)
        self._spends = not (self._selects or policy.needs_epsilon)
        present = {"budget_left": self._spends, "senders": self._selects}
        self.columns = tuple(n for n in Answer._fields if present.get(n, True))
        """The names of the values in an answer."""
        arguments: list[Any] = [scenario]
        self._total = 0.0
        if self._spends:
            # an array for the policy, and one number for the heading
            nu = check.positive("nu", budget)  # type: ignore[arg-type]
            budget = check.number("nu", nu, 0)
            arguments, self._total = [scenario, nu], scenario.num_rounds * budget
        elif not self._selects:
            # a policy that guarantees an epsilon ignores its budget
            arguments.append(np.ones(()))
        check.finite(f"the budget of all {scenario.num_rounds} rounds", self._total)
        delta = check.fraction("delta", delta)
        self._leakage = Leakage(scenario, orders, delta, self._selects)
        none_yet = Answer(-1, math.nan, math.nan, self._total, 0.0, 0.0)
        with NamedFailures(policy, "before round 0"):
            state = self.policy.start(*arguments)
        self._now = _Progress(none_yet, state, self._leakage.nothing)
        settings = {
            "scenario": scenario.to_toml(),
            "nu": budget,
            "delta": delta,
            "orders": self._leakage.orders,
            "unit of gains": unit,
        }
        own_heading = heading(policy, settings)
        self._journal = Journal(path, own_heading)
        self.pending = self._journal.pending
        """Whether the caller may not have the last answer, as with one of an earlier stream that was not passed on."""
        try:
            check_heading(self._journal.path, self._journal.heading, own_heading)
            self._repeat([json.loads(line) for line in self._journal.lines])
        except BaseException:
            self.close()
            raise

    @property
    def last(self) -> Answer | None:
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

    def answer(self, min_gain: ArrayLike, number: float | None = None) -> Answer:
        r"""Answer one round; after an ``OSError`` or ``ValueError``, the round can be sent again.

        Parameters
        ----------
        min_gain : float, :math:`h_{\min,t}^2 > 0`, or for a policy that selects array_like, shape (M,)
            Of that one, the linear gains :math:`|h_{m,t}|^2` of all devices.
        number : float, optional
            The caller's number of this round, which begins at 0 or 1; the last one with the same gain gets the same
            answer.
        """
        gain = self._checked(min_gain)
        if number is not None:
            number = check.number("number", number, -math.inf)
        return self._answer(gain, number)

    def skip(self) -> Answer:
        """Skip a round, in which no device transmits: nothing leaks, nothing is spent."""
        return self._answer(None, None)

    def passed_on(self) -> None:
        """Record that the last answer was passed on; the next round records it as well."""
        self._journal.done()
        self.pending = False

    def close(self) -> None:
        """Release the file for another process."""
        self._journal.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not self.pending:
                self.passed_on()
        finally:
            self.close()

    def _checked(self, gain: ArrayLike) -> Any:
        """Return the gain as a float, or the gains of all devices as a list."""
        name = "gain" if self._selects else "min_gain"
        shape = (self.scenario.num_devices,) if self._selects else ()
        array = check.positive(name, gain)
        if array.shape != shape:
            raise InvalidInput(
                f"{name} must have shape {shape}, got {array.shape}", name
            )
        if not self._selects:
            check.between(name, array, *self.scenario.gain_limits)
        return array.tolist()

    def _answer(self, gain: Any, number: float | None) -> Answer:
        """Give the last answer again if this is its round, else decide a round, and answer it once it is written."""
        if gain == self._now.gain and self._is_last(number):
            self.pending = False
            return self._now.answer
        self._check_order(number)
        if self._journal.count != self.round:
            raise RuntimeError(
                f"{self._journal.path} has another round of an interrupted call; close it and open it again"
            )
        now = self._after(self._decide(gain), gain, number)
        self._journal.append(json.dumps([gain, number, now.answer]))
        self.pending, self._now = False, now
        return now.answer

    def _is_last(self, number: float | None) -> bool:
        """Whether a round with this number and the last gain is the last one again."""
        offset = self._now.offset
        if number is None:
            return self.pending
        return offset is not None and number == self.round - 1 + offset

    def _check_order(self, number: float | None) -> None:
        """Raise ``ValueError`` unless the next round is one, and the caller's number, if given, is that of it."""
        offset = self._now.offset
        expected = [self.round + first for first in (0, 1) if offset in (None, first)]
        if number is not None and number not in expected:
            text = " or ".join(map(str, expected))
            raise ValueError(
                f"rounds must be in order: expected round {text}, got {number:g}"
            )
        if self.finished:
            self.passed_on()  # as who sends another round has all answers
            name = self.scenario.name
            raise ValueError(
                f"all {self.scenario.num_rounds} rounds of {name} are answered"
            )

    def _decide(self, gain: Any) -> _Decision:
        """Let the policy decide on a gain, or on those of all devices; None skips the round."""
        if gain is None:
            nobody = np.zeros(self.scenario.num_devices, dtype=bool)
            state = self.policy.skip(self._now.state)
            return _Decision(state, senders=nobody if self._selects else None)
        if self._selects:
            return self._select(np.array(gain))
        noise_scale, max_eta = self.scenario.noise_scale, self.scenario.x_max * gain
        floor: Any = np.float64(noise_scale / max_eta)
        with NamedFailures(self.policy, f"in round {self.round}"):
            decision = self.policy.decide(self._now.state, floor)
        state, energy = checked_decision(self.policy, decision, floor, self.round)
        return _Decision(state, float(scaling(energy, floor, max_eta, noise_scale)))

    def _select(self, gain: FloatArray) -> _Decision:
        """Let a policy that chooses who sends decide on the gains of all devices, shape (M,)."""
        scaled = self.scenario.scaled_gain(gain[:, None])
        when = f"in round {self.round}"
        state, etas, sending = choice(self.policy, when, self._now.state, scaled)
        eta, senders = float(etas[0]), sending[:, 0]
        if not senders.any():
            return _Decision(state, 0.0, senders)
        # the limit of a Selection; a little more is rounding
        share = senders.sum() / senders.size
        max_eta = share**2 * self.scenario.x_max * scaled[senders].min()
        if not 0 < eta <= max_eta * (1 + _SAME):
            name = type(self.policy).__name__
            raise ValueError(
                f"{name} returned eta = {eta} in round {self.round}, expected 0 < eta <= {max_eta}"
            )
        return _Decision(state, min(eta, max_eta), senders)

    def _after(self, decision: _Decision, gain: Any, number: float | None) -> _Progress:
        """Return what holds after a round with this decision."""
        spent, moments, energy = self._now.spent, self._now.moments, math.inf
        state, eta, senders = decision
        if eta > 0:
            energy = self.scenario.noise_scale / eta
            moments = moments + self._leakage.of_round(eta, senders)
            if senders is None:
                max_eta = self.scenario.x_max * gain
                spent += energy - self.scenario.noise_scale / max_eta
        left = self._total - spent if self._spends else None
        answer = Answer(self.round, eta, energy, left, *self._leakage.epsilons(moments))
        if senders is not None:
            numbers = (np.flatnonzero(senders) + 1).tolist()
            answer = answer._replace(senders=tuple(numbers))
        offset = self._now.offset if number is None else int(number) - self.round
        return _Progress(answer, state, moments, spent, offset, gain)

    def _repeat(self, rounds: list[Any]) -> None:
        """Decide these rounds of the file again; refuse them if a decision differs by more than rounding.

        What was answered counts, not what is decided now.
        """
        for gain, number, values in rounds:
            before = _read_answer(values)
            where = f"{self._journal.path}: round {before.round}"
            try:
                decision = self._decide(gain)
            except ValueError as error:
                raise ValueError(
                    f"{where} was answered, and is refused now: {error}"
                ) from None
            if not math.isclose(decision.eta, before.eta, rel_tol=_SAME):
                raise ValueError(
                    f"{where} was answered eta = {before.eta}, and the policy decides {decision.eta} now"
                )
            now = self._after(decision._replace(eta=before.eta), gain, number)
            if now.answer.senders != before.senders:
                raise ValueError(
                    f"{where} was sent by the devices {before.senders}, and the policy chooses {now.answer.senders} now"
                )
            self._now = now._replace(answer=before)


def _read_answer(values: list[Any]) -> Answer:
    """Return an answer from JSON, which has lists in place of tuples."""
    answer = Answer(*values)
    is_chosen = answer.senders is not None
    return answer._replace(senders=tuple(values[-1])) if is_chosen else answer
