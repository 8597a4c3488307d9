"""What the tests of the commands send and read."""

from dataclasses import replace

import numpy as np

from adascale import Scenario, policies
from adascale.streaming import Answer, Stream

SMALL = Scenario("small", 2, 12, 1000, (20, 30), (400, 500), 1.0, 0.2, 1e-12)
LONG = replace(SMALL, num_rounds=120)
HEADER = "round,eta,noise_energy,budget_left,epsilon,epsilon_mean,made_with"
NU = 0.002
NEW = "note: s is new, and begins with round 0"


def measured(rounds, seed):
    return np.random.default_rng(seed).exponential([2e-12, 5e-12], (rounds, 2)) + 1e-13


def lines(gains, first=None):
    """The lines of a trace without its header, with numbers from ``first`` on."""
    numbers = (
        [""] * len(gains)
        if first is None
        else [f"{t}," for t in range(first, first + len(gains))]
    )
    return [
        f"{number}{a!r},{b!r}\n"
        for number, (a, b) in zip(numbers, gains.tolist(), strict=True)
    ]


GAINS = measured(12, 0)
WHOLE = "".join(["h2_1,h2_2\n", *lines(GAINS)])
FLOORS = SMALL.min_gain(GAINS.T).tolist()
"""The smallest scaled gains of the rounds, as a stream in Python takes them."""
OWN = """
from collections import namedtuple
from adascale.policies import OnlinePolicy
State = namedtuple("State", "scenario rounds")
class Own(OnlinePolicy):
    def start(self, scenario, budget): return State(scenario, 0)
    def decide(self, state, floor):
        if floor < state.scenario.floor(1e-9):
            raise ValueError("too good")
        return State(state.scenario, state.rounds + 1), floor * (2 + state.rounds)
    def skip(self, state): return State(state.scenario, state.rounds + 1)

"""
CONSTANT = """
from adascale.policies import OnlinePolicy
class Constant(OnlinePolicy):
    tuned = ("extra",)
    def __init__(self, extra): self.extra = extra
    def start(self, scenario, budget): return scenario
    def decide(self, scenario, floor): return scenario, floor + self.extra
class Thrifty(Constant):
    tuned = ()
    def __init__(self): super().__init__(1e-4)
"""
PAST = ["--past", "past.csv"]
POLICIES = {
    "the default": ([], lambda *_: policies.Learn()),
    "learn, hard": (
        ["--policy", "learn:budget_mode=hard"],
        lambda *_: policies.Learn(budget_mode="hard"),
    ),
    "learn with a past": (PAST, lambda law, _: policies.Learn(prior=law)),
    "resolve": (
        ["--policy", "resolve", *PAST],
        lambda law, _: policies.ReSolve(law=law),
    ),
    "constantlevel": (
        ["--policy", "constantlevel", *PAST],
        lambda law, _: policies.ConstantLevel(law=law),
    ),
    "adascale": (
        ["--policy", "adascale", *PAST],
        lambda law, _: policies.AdaScale.from_law(SMALL, NU, law=law),
    ),
    "adascale with V": (
        ["--policy", "adascale:penalty=0.5"],
        lambda *_: policies.AdaScale(0.5),
    ),
    "estimfuture": (
        ["--policy", "estimfuture", *PAST],
        lambda _, mean: policies.EstimFuture(mean),
    ),
    "equalalloc": (["--policy", "equalalloc"], lambda *_: policies.EqualAlloc()),
}


def opened(path, scenario=LONG):
    return Stream(policies.Learn(), scenario, NU, path)


def write_inputs(folder):
    for scenario, name in (
        (SMALL, "my.toml"),
        (LONG, "long.toml"),
        (replace(SMALL, order=4), "other.toml"),
    ):
        (folder / name).write_text(scenario.to_toml())
    (folder / "mine.py").write_text(OWN + CONSTANT)
    (folder / "gains.csv").write_text(WHOLE)
    (folder / "past.csv").write_text("".join(["h2_1,h2_2\n", *lines(measured(40, 1))]))


def rows(answered):
    assert answered[0] == HEADER
    fields = (line.split(",")[:-1] for line in answered[1:])
    return [Answer(int(number), *map(float, values)) for number, *values in fields]
