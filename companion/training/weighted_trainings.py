r"""Trainings of the digits that show when noise hurts: ``python -m companion make weights-thirds``, and so on.

``response`` disturbs one round of a training and watches the loss at its end; ``thirds`` puts all noise early, midway
or late; ``contest`` trains with the optimum under the weights that these two have found (:ref:`sec-weights`).
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from adascale.policies import Optimal
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
from companion.results import Rows, load
from companion.training.weighted_optimal import WeightedOptimal
from companion.training.weights import equal_leakage, impulse_response

if TYPE_CHECKING:
    from adascale.learning import FedSGD
    from adascale.learning.fedsgd import State

LATER = (0, 1, 2, 4, 8, 16, 32, 64, 128)
"""How many rounds come after the disturbed one."""
SEEDS, FRESH = range(8), range(8, 16)
"""Realisations; those of the contest are not those that its weights come from."""
LEAST = 0.01
"""The contest's least weight over its largest; a smaller one would be an extrapolation."""


class Setting(NamedTuple):
    """How the digits are trained."""

    learning_rate: float
    momentum: float
    nu: float
    r"""The budget at which the training feels the noise."""
    disturbance: float
    """Noise energy of the disturbed round of ``response``."""


SETTINGS = {
    "momentum 0.9": Setting(0.5, 0.9, 0.32, 1.0),
    "no momentum": Setting(1.0, 0.0, 2.56, 8.0),
}
TASKS, CONTEST = ([*product(SETTINGS, seeds)] for seeds in (SEEDS, FRESH))


class Digits(NamedTuple):
    """One federation of the digits and its channel."""

    federation: "FedSGD"
    problem: Problem

    @classmethod
    def at(cls, setting: Setting, seed: int, rounds: int | None = None) -> "Digits":
        """Draw a realisation: channel, initial model, batches and noise."""
        import torch  # slow to import

        from adascale.learning import FedSGD, data
        from adascale.runs.execution import problem_of
        from adascale.runs.specification import make_run

        torch.set_num_threads(1)
        rate, momentum, nu, _ = setting
        run = make_run(
            "digits",
            "Optimal",
            nu,
            seed,
            rounds=rounds,
            learning_rate=rate,
            momentum=momentum,
        )
        dataset = data.load(run.training.dataset, run.training.input_scaling)
        problem, _ = problem_of(run)
        return cls(FedSGD(run.scenario, run.training, dataset, seed), problem)

    def run(self, state: "State", energy: FloatArray) -> "list[State]":
        """Return the states after each of the next rounds, with these noise energies; none where it is 0."""
        states = []
        for w in energy:
            state, _ = self.federation.step(
                state, self.problem.scenario.noise_scale / w if w > 0 else math.inf
            )
            states.append(state)
        return states

    def evaluate(self, state: "State") -> dict[str, float]:
        """Test loss in nats and accuracy."""
        loss, accuracy = self.federation.evaluate(state)
        return {"test_loss": loss, "test_accuracy": accuracy}


def disturbed(state: "State", disturbance: FloatArray, learning_rate: float) -> "State":
    r"""Return the state after a round as it would be with so much more noise in it, shape (d,)."""
    noise = state.parameters.new_tensor(disturbance)
    return state._replace(
        parameters=state.parameters - learning_rate * noise,
        velocity=state.velocity + noise,
    )


def response(name: str, seed: int) -> Rows:
    r"""Compute what noise in one round alone adds to the final test loss: a row for each of :data:`LATER`.

    The training has the optimum's noise at :math:`\nu`.  A round receives a further :math:`\pm\mathbf n`, of energy
    :math:`\lVert\mathbf n\rVert^2 = w/2` and random direction; the mean of both signs has no first-order part.
    ``response`` is in nats per unit of :math:`w`.
    """
    setting = SETTINGS[name]
    digits = Digits.at(setting, seed)
    energy = Optimal().schedule(digits.problem)
    states = digits.run(digits.federation.start(), energy)
    rng = np.random.default_rng((seed, 77))
    undisturbed = digits.evaluate(states[-1])["test_loss"]
    for k in LATER:
        t = len(energy) - 1 - k
        noise = rng.standard_normal(states[0].parameters.numel())
        noise *= math.sqrt(setting.disturbance / 2) / np.linalg.norm(noise)
        losses = []
        for sign in (1, -1):
            start = disturbed(states[t], sign * noise, setting.learning_rate)
            *_, end = start, *digits.run(start, energy[t + 1 :])
            losses.append(digits.evaluate(end)["test_loss"])
        change = (np.mean(losses) - undisturbed) / setting.disturbance
        yield {"setting": name, "seed": seed, "later": k, "response": change}


def thirds(name: str, seed: int) -> Rows:
    r"""Train with all noise early, midway or late, at one total energy :math:`T \nu`; evenly, and with none."""
    setting = SETTINGS[name]
    digits = Digits.at(setting, seed)
    T = digits.problem.num_rounds
    third = np.arange(T) * 3 // T
    shares = {"none": np.zeros(T), "even": np.ones(T)} | {
        when: (third == i) * T / np.sum(third == i)
        for i, when in enumerate(("early", "middle", "late"))
    }
    for when, share in shares.items():
        end = digits.run(digits.federation.start(), setting.nu * share)[-1]
        yield {"setting": name, "seed": seed, "noise": when} | digits.evaluate(end)


def response_weights(table: pd.DataFrame, name: str, rounds: int) -> FloatArray:
    """Return weights of the form that :prf:ref:`prop-weights` gives, nearest to a setting's responses, shape (rounds,).

    Non-negative amounts of 60 curvatures, by least squares in units of the standard errors; none below :data:`LEAST` of
    the largest.
    """
    by_round = table[table.setting == name].groupby("later").response
    rate, momentum, *_ = SETTINGS[name]
    mean = by_round.mean()
    error = by_round.sem().to_numpy()
    grid = np.geomspace(0.05 * (1 - momentum) / (rate * rounds), 1.0 / rate, 60)
    psi = impulse_response(grid, rate, rounds, momentum) ** 2
    amount, _ = nnls((psi[:, mean.index] / error).T, mean.to_numpy() / error)
    return _at_least_a_share((amount @ psi)[::-1])


def _thirds_weights(table, name, rounds):
    """Compute the weights of rounds from what noise in each third added to a setting's loss, shape (rounds,)."""
    mean = table[table.setting == name].groupby("noise").test_loss.mean()
    added = (mean[["early", "middle", "late"]] - mean["none"]).to_numpy()
    return _at_least_a_share(added[np.arange(rounds) * 3 // rounds])


def _at_least_a_share(weights):
    return np.maximum(weights, LEAST * weights.max())


def contest(
    name: str, seed: int, weights: Mapping[str, FloatArray] | None = None
) -> Rows:
    r"""Trainings at one RDP, that of the optimum at :math:`\nu` (``flat``): a row for each, and for no noise at all.

    Each of the ``weights`` of the rounds, by default those that both committed experiments found, has its own optimum.
    """
    setting = SETTINGS[name]
    weights = weights or _found_weights(name)
    digits = Digits.at(setting, seed, len(next(iter(weights.values()))))
    problem = digits.problem
    flat = Optimal().schedule(problem)
    schedules = {"none": np.zeros(problem.num_rounds), "flat": flat}
    for label, counts in weights.items():
        policy = WeightedOptimal(counts)
        budget = equal_leakage(problem, policy, problem.rdp(flat))
        equal = Problem(problem.scenario, problem.min_gain, budget)
        schedules[label] = policy.schedule(equal)
    for label, w in schedules.items():
        row = {"setting": name, "seed": seed, "schedule": label}
        if label != "none":
            row["rdp"] = float(problem.rdp(w))
            row["epsilon"] = float(problem.epsilon(w))
        end = digits.run(digits.federation.start(), w)[-1]
        yield row | digits.evaluate(end)


def _found_weights(name):
    """Return the contest's weights: of both committed experiments, and the second one's in reversed order."""
    rounds = Scenario.digits().num_rounds
    by_third = _thirds_weights(load("weights/thirds"), name, rounds)
    by_response = response_weights(load("weights/response"), name, rounds)
    return {"response": by_response, "thirds": by_third, "reversed": by_third[::-1]}
