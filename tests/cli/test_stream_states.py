"""Long streams go on from what their file holds of the policy's state, bit for bit, and decide few rounds again."""

import enum
import json
import math
import os
import random
import time
from collections import namedtuple
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import policies
from adascale.channel import EmpiricalFloors, RayleighFloors
from adascale.policies import Best, OnlinePolicy, Truncated
from adascale.streaming import Stream
from adascale.streaming.states import pack, unpack

from .streams import NU, POLICIES, SMALL, measured

ROUNDS = 330
LONGER = replace(SMALL, num_rounds=ROUNDS)
GAINS = measured(ROUNDS, 5)
PAST = measured(40, 1)
LAW = EmpiricalFloors.of(SMALL, SMALL.min_gain(PAST.T))
MEAN = SMALL.mean_gain(1 / PAST.mean(axis=0))
CAP = float(np.median(LONGER.x_max * LONGER.min_gain(GAINS.T)))
ALL = {name: build(LAW, MEAN) for name, (_, build) in POLICIES.items()}
ALL |= {
    "coherence seen": policies.Learn("hard", coherence="seen"),
    "resolve seen": policies.ReSolve(MEAN, budget_mode="hard", coherence="seen"),
    "power control": policies.PowerControl(MEAN, 50 * CAP),
    "lyapunov": policies.LyapunovPowerControl(
        0.01 * CAP**3, 0.1 * CAP, initial_queue=0.1 * CAP
    ),
    "programme": policies.DynamicProgramme(MEAN),
    "truncated": Truncated(1e-12),
    "best": Best(1, 0.5),
}


@pytest.fixture(autouse=True)
def nobody_waits_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def opened(path, policy):
    nu = None if isinstance(policy, policies.Selecting) else NU
    return Stream(policy, LONGER, nu, path, orders=[2.0, 4.0, 32.0])


def answered(stream, t):
    if t % 7 == 3:
        return stream.skip()
    selects = isinstance(stream.policy, policies.Selecting)
    return stream.answer(GAINS[t] if selects else LONGER.min_gain(GAINS[t][:, None])[0])


@pytest.mark.parametrize("name", ALL)
def test_a_long_stream_goes_on_bit_for_bit(tmp_path, name):
    policy, rng = ALL[name], random.Random(0)
    with opened(tmp_path / "one", policy) as one:
        expected = [answered(one, t) for t in range(ROUNDS)]
    answers, ends = (
        [],
        sorted({100, 101, 200, *rng.sample(range(1, ROUNDS), 3), ROUNDS}),
    )
    for end in ends:
        with opened(tmp_path / "many", policy) as many:
            assert many.round == len(answers)
            assert many.last == (answers[-1] if answers else None)
            answers += [answered(many, t) for t in range(many.round, end)]
    assert answers == expected
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()


class Counting(policies.Learn):
    decided = 0

    def decide(self, state, floor):
        Counting.decided += 1
        return super().decide(state, floor)


@pytest.mark.parametrize("rounds", [99, 100, 101, 200, 299])
def test_at_most_a_hundred_rounds_are_decided_again(tmp_path, rounds):
    policy = Counting()
    with opened(tmp_path / "s", policy) as stream:
        for _ in range(rounds):
            stream.answer(1e-12)
    Counting.decided = 0
    opened(tmp_path / "s", policy).close()
    assert 0 < Counting.decided == (rounds - 1) % 100 + 1


class Own(OnlinePolicy):
    """A policy of one's own that counts in a state of any kind; ``level`` stands for its code."""

    level = 2.0

    def __init__(self, kind):
        self.kind = kind

    def start(self, scenario, budget):
        return KINDS[self.kind]

    def decide(self, state, floor):
        count, following = NEXT[self.kind](state)
        return following, floor * (type(self).level + count)


@dataclass
class Counter:
    count: int
    array: np.ndarray


class Opaque:
    def __init__(self, count):
        self.count = count


Pair = namedtuple("Pair", "count name")


def generator_after(state):
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return rng.random(), rng.bit_generator.state


KINDS = {
    "int": 0,
    "tuple": (0, None),
    "named": Pair(0, "é\n"),
    "dict": {"count": 0, "history": []},
    "dataclass": Counter(0, np.zeros(0)),
    "generator": np.random.default_rng(3).bit_generator.state,
    "opaque": Opaque(0),
    "growing": None,
    "set": frozenset(),
}
NEXT = {
    "int": lambda n: (n, n + 1),
    "tuple": lambda pair: (pair[0], (pair[0] + 1, pair)[:1] + (1.5,)),
    "named": lambda pair: (pair.count, pair._replace(count=pair.count + 1)),
    "dict": lambda d: (
        d["count"],
        {"count": d["count"] + 1, "history": [*d["history"], d["count"] / 3]},
    ),
    "dataclass": lambda c: (
        c.count + c.array.sum(),
        Counter(c.count + 1, np.append(c.array, 0.1 * c.count)),
    ),
    "generator": generator_after,
    "opaque": lambda one: (one.count, Opaque(one.count + 1)),
    "growing": lambda one: (1, Pair(1, "changes its kind")),
    "set": lambda one: (len(one), one | {len(one)}),
}
WRITTEN = ["int", "tuple", "named", "dict", "dataclass", "generator"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_ones_own_goes_on_whether_it_can_be_written_or_not(tmp_path, kind):
    """What cannot be written exactly is decided again from the start."""
    policy, answers = Own(kind), []
    with opened(tmp_path / "one", policy) as one:
        expected = [answered(one, t) for t in range(230)]
    for end in (150, 205, 230):
        with opened(tmp_path / "many", policy) as many:
            answers += [answered(many, t) for t in range(many.round, end)]
    assert answers == expected
    lines = (tmp_path / "many").read_text().splitlines()
    written = [len(json.loads(line[: line.rindex(" ")])) == 4 for line in lines[1:]]
    assert [t for t, one in enumerate(written) if one] == (
        [100, 200] if kind in WRITTEN else []
    )


def test_a_state_that_is_changed_in_place_goes_on(tmp_path):
    """Against the rules; it is noticed that the file holds another state than the rounds gave."""

    class InPlace(OnlinePolicy):
        def start(self, scenario, budget):
            return {"array": np.zeros(3), "list": [0]}

        def decide(self, state, floor):
            state["array"] += 1
            state["list"].append(len(state["list"]))
            return state, floor * (state["array"].sum() + len(state["list"]))

    with opened(tmp_path / "one", InPlace()) as one:
        expected = [answered(one, t) for t in range(230)]
    answers = []
    for end in (150, 205, 230):
        with opened(tmp_path / "many", InPlace()) as many:
            answers += [answered(many, t) for t in range(many.round, end)]
    assert answers == expected


def test_code_that_decides_otherwise_after_a_checkpoint_is_refused(
    tmp_path, monkeypatch
):
    with opened(tmp_path / "s", Own("int")) as stream:
        for t in range(150):
            answered(stream, t)
    before = (tmp_path / "s").read_bytes()
    monkeypatch.setattr(Own, "level", 3.0)
    with pytest.raises(
        ValueError,
        match=r"round 0 was answered eta = .*, and the policy decides .* now",
    ):
        opened(tmp_path / "s", Own("int"))
    assert (tmp_path / "s").read_bytes() == before


@pytest.mark.parametrize("end", [100, 200])
def test_a_disk_that_is_full_at_a_checkpoint_spoils_no_later_one(
    tmp_path, monkeypatch, end
):
    policy = policies.Learn()
    with opened(tmp_path / "one", policy) as one:
        expected = [answered(one, t) for t in range(310)]
    with opened(tmp_path / "s", policy) as stream:
        answers = [answered(stream, t) for t in range(end)]

        def full(file):
            raise OSError(28, "No space left on device")

        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", full)
                with pytest.raises(OSError, match="No space left"):
                    answered(stream, end)
        answers += [answered(stream, t) for t in range(end, 305)]
    with opened(tmp_path / "s", policy) as stream:
        answers += [answered(stream, t) for t in range(305, 310)]
    assert answers == expected


@pytest.mark.slow
@pytest.mark.fuzz
def test_a_long_state_opens_within_seconds(tmp_path):
    long = replace(SMALL, num_rounds=30_000)
    gains = long.min_gain(measured(long.num_rounds, 2).T)
    with Stream(policies.Learn(), long, NU, tmp_path / "s", orders=[4.0]) as stream:
        running = time.process_time()
        for gain in gains[:-1]:
            last = stream.answer(gain)
        running = time.process_time() - running
    opening = time.process_time()
    with Stream(policies.Learn(), long, NU, tmp_path / "s", orders=[4.0]) as stream:
        opening = time.process_time() - opening
        assert stream.last == last
    print(f"\n30,000 rounds: running {running:.1f} s, opening {opening:.2f} s")
    assert opening < running / 10


# States as JSON -------------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DTYPES = st.sampled_from(["f8", "f4", "i8", "u1", "?", "i2"])


@st.composite
def arrays(draw):
    shape = draw(st.sampled_from([(), (0,), (3,), (1, 4), (2, 5), (2, 0), (2, 3, 2)]))
    entries = np.frombuffer(draw(st.binary(min_size=96, max_size=96)), draw(DTYPES))
    return entries[: math.prod(shape)].reshape(shape)


NUMPY = (
    arrays()
    | st.builds(np.float64, st.floats())
    | st.builds(np.int32, st.integers(-5, 5))
)
STATES = st.recursive(
    SCALARS | NUMPY,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)


def shown(value):
    """A value with all its types and bits."""
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), [shown(one) for one in value]
    if isinstance(value, dict):
        return dict, [(key, shown(one)) for key, one in value.items()]
    return type(value), repr(value)


@given(STATES, STATES)
def test_a_written_state_is_read_back_to_the_last_bit(value, before):
    packed = json.loads(json.dumps(pack(value, before)))
    assert shown(unpack(packed, before)) == shown(value)


@given(
    st.lists(st.floats(), max_size=40),
    st.integers(0, 40),
    st.lists(st.floats(), max_size=5),
    st.integers(1, 2),
)
def test_a_longer_array_is_written_from_where_it_differs(first, same, rest, rows):
    before = np.tile(np.array(first), (rows, 1))
    value = np.concatenate(
        [before[:, :same], np.tile(np.array(rest), (rows, 1))], axis=1
    )
    packed = json.loads(json.dumps(pack(value, before)))
    assert shown(unpack(packed, before)) == shown(value)
    assert packed["same"] >= min(same, len(first))


class Color(enum.IntEnum):
    RED = 1


class Float(float):
    pass


CYCLE = []
CYCLE.append(CYCLE)
REFUSED = {
    "complex": np.ones(2, complex),
    "objects": np.array([None, 1], dtype=object),
    "wide": np.ones(2, np.longdouble),
    "columns first": np.ones((2, 3), order="F"),
    "other byte order": np.ones(2, ">f8"),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "time": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "set": {1},
    "bytes": b"x",
    "enum": Color.RED,
    "a kind of float": Float(1.0),
    "numbers as keys": {1: 2},
    "opaque": Opaque(1),
    "function": len,
    "another distribution": RayleighFloors(1.0),
    "another kind of state": Pair(1, "x"),
    "cycle": CYCLE,
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_back_exactly_is_refused(kind, nested):
    value = (1.0, [REFUSED[kind]]) if nested else REFUSED[kind]
    with pytest.raises((TypeError, RecursionError)):
        pack(value, None)


def test_a_dataclass_with_more_than_its_fields_is_refused():
    one = Counter(1, np.zeros(1))
    assert (
        unpack(json.loads(json.dumps(pack(Counter(2, np.ones(1)), one))), one).count
        == 2
    )
    changed = Counter(2, np.ones(1))
    changed.other = 3
    with pytest.raises(TypeError, match="cannot be written exactly"):
        pack(changed, one)
