"""Long streams go on from what their file holds of the policy's state, bit for bit, and decide few rounds again."""

import enum
import json
import math
import os
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
MAX_ETA = float(np.median(LONGER.x_max * LONGER.min_gain(GAINS.T)))
ALL = {name: build(LAW, MEAN) for name, (_, build) in POLICIES.items()}
ALL |= {
    "coherence seen": policies.Learn("hard", coherence="seen"),
    "resolve seen": policies.ReSolve(MEAN, budget_mode="hard", coherence="seen"),
    "power control": policies.PowerControl(MEAN, 50 * MAX_ETA),
    "lyapunov": policies.LyapunovPowerControl(
        0.01 * MAX_ETA**3, 0.1 * MAX_ETA, initial_queue=0.1 * MAX_ETA
    ),
    "programme": policies.DynamicProgramme(MEAN),
    "truncated": Truncated(1e-12),
    "best": Best(1, 0.5),
}


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def opened(path, policy):
    nu = None if isinstance(policy, policies.Selecting) else NU
    return Stream(policy, LONGER, nu, path, orders=[2.0, 4.0, 32.0])


def answer_round(stream, t):
    if t % 7 == 3:
        return stream.skip()
    selects = isinstance(stream.policy, policies.Selecting)
    return stream.answer(GAINS[t] if selects else LONGER.min_gain(GAINS[t][:, None])[0])


def answer_until(path, policy, ends):
    """The answers to all rounds, of streams that are opened anew after those in ``ends``."""
    answers = []
    for end in ends:
        with opened(path, policy) as stream:
            assert stream.last == (answers[-1] if answers else None)
            answers += [answer_round(stream, t) for t in range(stream.round, end)]
    return answers


@pytest.mark.parametrize("name", ALL)
def test_a_long_stream_goes_on_bit_for_bit(tmp_path, name):
    one = answer_until(tmp_path / "one", ALL[name], [ROUNDS])
    ends = [42, 100, 101, 173, 200, 301, ROUNDS]
    assert answer_until(tmp_path / "many", ALL[name], ends) == one
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


KINDS = {  # the first state, and from a state a count and the next one
    "int": (0, lambda n: (n, n + 1)),
    "tuple": ((0, None), lambda pair: (pair[0], (pair[0] + 1, 1.5))),
    "named": (Pair(0, "é\n"), lambda p: (p.count, p._replace(count=p.count + 1))),
    "dict": (
        {"n": 0, "past": []},
        lambda d: (d["n"], {"n": d["n"] + 1, "past": [*d["past"], d["n"] / 3]}),
    ),
    "dataclass": (
        Counter(0, np.zeros(0)),
        lambda c: (
            c.count + c.array.sum(),
            Counter(c.count + 1, np.append(c.array, 0.1 * c.count)),
        ),
    ),
    "generator": (np.random.default_rng(3).bit_generator.state, generator_after),
    "opaque": (Opaque(0), lambda state: (state.count, Opaque(state.count + 1))),
    "set": (frozenset(), lambda state: (len(state), state | {len(state)})),
    "another kind": (None, lambda _: (1, Pair(1, "changes its kind"))),
}
REPLAYED = ["opaque", "set", "another kind"]


class Own(OnlinePolicy):
    """A policy of one's own that counts in a state of any kind; ``level`` stands for its code."""

    level = 2.0

    def __init__(self, kind):
        self.kind = kind

    def start(self, scenario, budget):
        return KINDS[self.kind][0]

    def decide(self, state, floor):
        count, next_state = KINDS[self.kind][1](state)
        return next_state, floor * (type(self).level + count)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_ones_own_goes_on_whether_it_can_be_written_or_not(tmp_path, kind):
    """What cannot be written exactly is decided again from the start."""
    one = answer_until(tmp_path / "one", Own(kind), [230])
    assert answer_until(tmp_path / "many", Own(kind), [150, 205, 230]) == one
    lines = (tmp_path / "many").read_text().removesuffix(".").splitlines()[1:]
    parts = [
        len(json.loads(line[line.index("[") : line.rindex(" ")])) for line in lines
    ]
    checkpoints = [t for t, count in enumerate(parts) if count == 4]
    assert checkpoints == ([] if kind in REPLAYED else [100, 200])


def test_code_that_decides_otherwise_after_a_checkpoint_is_refused(
    tmp_path, monkeypatch
):
    answer_until(tmp_path / "s", Own("int"), [150])
    before = (tmp_path / "s").read_bytes()
    monkeypatch.setattr(Own, "level", 3.0)
    expected = r"round 0 was answered eta = .*, and the policy decides .* now"
    with pytest.raises(ValueError, match=expected):
        opened(tmp_path / "s", Own("int"))
    assert (tmp_path / "s").read_bytes() == before


@pytest.mark.parametrize("end", [100, 200])
def test_a_disk_that_is_full_at_a_checkpoint_spoils_no_later_one(
    tmp_path, monkeypatch, end
):
    def full(file):
        raise OSError(28, "No space left on device")

    policy = policies.Learn()
    one = answer_until(tmp_path / "one", policy, [310])
    with opened(tmp_path / "s", policy) as stream:
        answers = [answer_round(stream, t) for t in range(end)]
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                answer_round(stream, end)
        answers += [answer_round(stream, t) for t in range(end, 305)]
    with opened(tmp_path / "s", policy) as stream:
        answers += [answer_round(stream, t) for t in range(305, 310)]
    assert answers == one


# States as JSON -------------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DTYPES = st.sampled_from(["f8", "f4", "i8", "u1", "?", ">i2"])
SHAPES = st.sampled_from([(0,), (3,), (1, 4), (2, 5), (2, 0), (2, 3, 2)])
DATA = st.binary(min_size=96, max_size=96)
ARRAYS = st.builds(
    lambda shape, data, dtype: np.frombuffer(data, dtype)[: math.prod(shape)].reshape(
        shape
    ),
    SHAPES,
    DATA,
    DTYPES,
)
NUMBERS = st.builds(np.float64, st.floats()) | st.builds(np.int32, st.integers(-5, 5))
STATES = st.recursive(
    SCALARS | ARRAYS | NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)


def bits(value):
    """A value with all its types and bits."""
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), [bits(part) for part in value]
    if isinstance(value, dict):
        return dict, [(name, bits(part)) for name, part in value.items()]
    return type(value), repr(value)


def read_back(value, before):
    packed = json.loads(json.dumps(pack(value, before)))
    return packed, unpack(packed, before)


@given(STATES, STATES)
def test_a_written_state_is_read_back_to_the_last_bit(value, before):
    assert bits(read_back(value, before)[1]) == bits(value)


@given(
    st.lists(st.floats(), max_size=40),
    st.integers(0, 40),
    st.lists(st.floats(), max_size=5),
    st.integers(1, 2),
)
def test_a_longer_array_is_written_from_where_it_differs(first, common, rest, rows):
    before = np.tile(np.array(first), (rows, 1))
    new = np.tile(np.array(rest), (rows, 1))
    value = np.concatenate([before[:, :common], new], axis=1)
    packed, copy = read_back(value, before)
    assert bits(copy) == bits(value)
    assert packed["array"]["same"] >= before[:, :common].nbytes


class Color(enum.IntEnum):
    RED = 1


CYCLE = []
CYCLE.append(CYCLE)
REFUSED = {
    "complex": np.ones(2, complex),
    "objects": np.array([None, 1], dtype=object),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "time": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "bytes": b"x",
    "enum": Color.RED,
    "numbers as keys": {1: 2},
    "opaque": Opaque(1),
    "another distribution": RayleighFloors(1.0),
    "another kind of state": Pair(1, "x"),
    "cycle": CYCLE,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_back_exactly_is_refused(kind):
    with pytest.raises((TypeError, RecursionError)):
        pack((1.0, [REFUSED[kind]]), None)
