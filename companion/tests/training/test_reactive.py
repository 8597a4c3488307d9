"""Noise that reacts to the models: the rule on a stub whose received norms are given."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from adascale import Problem, Scenario
from adascale.accounting import RenyiAccountant, rdp
from companion.training import reactive

T = 40


def rows(monkeypatch, squares):
    """Return a row per rule, of a training that receives these square norms, without its noise."""
    scenario = replace(Scenario.digits(), num_rounds=T)
    given = {}

    def run(state, energy):
        t = 0 if state is None else state.t + 1
        given.setdefault("energy", []).append(energy[0])
        norm = np.sqrt(squares[t] + energy[0] / 2)
        return [SimpleNamespace(t=t, velocity=torch.tensor([norm]))]

    stub = SimpleNamespace(
        problem=Problem(scenario, np.full(T, 1e9), 1.0),  # floors of nearly zero
        federation=SimpleNamespace(start=lambda: None),
        run=run,
        evaluate=lambda state: {},
    )
    monkeypatch.setattr(reactive, "Digits", SimpleNamespace(at=lambda *_: stub))
    found = {row["rule"]: row for row in reactive.reactive_rows(0)}
    energies = np.reshape(given["energy"], (3, T))
    return found, dict(zip(reactive.RULES, energies, strict=True)), stub.problem


def leaked(problem, energy):
    """Return the nats of the worst device in each round at the study's order."""
    order, _, _ = reactive.budget_at_best_order(problem.scenario)
    sigma = problem.noise_multiplier(energy)[0]
    return rdp(float(problem.scenario.sampling_rate), sigma, order)


def test_equal_norms_give_every_rule_the_even_noise(monkeypatch):
    found, energies, problem = rows(monkeypatch, np.full(T, 3.0))
    for rule, row in found.items():
        np.testing.assert_allclose(energies[rule], energies["even"], rtol=1e-4)
        assert 0.999 * reactive.EPSILON < row["epsilon"] <= reactive.EPSILON
    one = leaked(problem, energies["even"])
    # each round spends its share up to the margin of the table
    np.testing.assert_allclose(one, one.mean(), rtol=1e-3)


@pytest.mark.parametrize("exponent", [1, -1])
def test_shares_follow_the_norms_within_their_limits(monkeypatch, exponent):
    squares = np.where(np.arange(T) < 10, 1.0, 1.1)
    found, energies, problem = rows(monkeypatch, squares)
    rule = {1: "less noise when large", -1: "more noise when large"}[exponent]
    order, left, _ = reactive.budget_at_best_order(problem.scenario)
    for t, spent in enumerate(leaked(problem, energies[rule])):
        seen = squares[:t] if t else np.ones(1)
        ratio = seen[-10:].mean() / seen.mean()
        share = np.clip(ratio**exponent, 0.8, 1.25) * left / (T - t)
        assert spent == pytest.approx(min(share, left), rel=1e-3)
        left -= spent
    assert found[rule]["epsilon"] <= reactive.EPSILON
    # control: half the noise of the same rounds exceeds epsilon
    half = problem.epsilon(energies[rule] / 2, RenyiAccountant((order,)))
    assert half > reactive.EPSILON
