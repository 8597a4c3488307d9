r"""Training runs: everything that a result depends on, with an address; needs the extra ``learn``."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from adascale import accounting, presets, registry
from adascale import channel as channels
from adascale import checks as check
from adascale.channel import ChannelModel, Rayleigh
from adascale.comparison import find_method
from adascale.learning import data, models
from adascale.learning.settings import Training
from adascale.scenario import Scenario

FORMAT = 2
"""A part of every address; raise it when the same specification would give other results."""

NOISE_FREE = "NoiseFree"
r"""The policy of a receiver without noise, :math:`\eta_t = \infty`, which has no budget and no privacy."""


_FIXED = {
    "name",
    "num_rounds",
    "num_parameters",
    "dataset",
    "scenario",
    "training",
    "channel",
    "shortened",
}
"""Fields of a run and its parts that are no changes for :func:`make_run`."""


@dataclass(frozen=True)
class Run:
    r"""Everything that a training's result depends on, your own code included; see :func:`make_run`.

    ``own_code`` has the names of your own code by kind, ``sources`` their :func:`~adascale.registry.source_digest`, and
    ``data_digest`` is that of the data that your own reader gives.

    Parameters
    ----------
    scenario, training, channel
    policy : str
        A name for :func:`adascale.comparison.find_method`, or ``NoiseFree``.
    nu, budget_factor : float, > 0
        The noise budget is :math:`\nu` times the factor, 1 in the paper.
    seed : int, >= 0
    accountant : str
        A name for :func:`adascale.accounting.find`.
    every, delta
        As for :func:`adascale.learning.training.train`.
    shortened : bool
        Whether the scenario has fewer rounds than its preset.
    """

    scenario: Scenario
    training: Training
    policy: str
    nu: float
    seed: int
    budget_factor: float = 1.0
    channel: ChannelModel = field(default_factory=Rayleigh)
    accountant: str = "renyi"
    every: int = 25
    delta: float = 1e-5
    shortened: bool = False
    own_code: dict[str, str] = field(init=False, repr=False)
    sources: dict[str, str] = field(init=False)
    data_digest: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        for name in ("nu", "budget_factor"):
            if np.ndim(value := getattr(self, name)):
                raise ValueError(f"{name} must be one number, got {value!r}")
            object.__setattr__(self, name, float(check.positive(name, value)))
        object.__setattr__(self, "seed", check.whole("seed", self.seed, 0))
        check.whole("every", self.every)
        check.fraction("delta", self.delta)
        for name in ("policy", "accountant"):
            if not isinstance(value := getattr(self, name), str):
                raise ValueError(f"{name} must be a name, got {value!r}")
        if self.policy != NOISE_FREE:
            find_method(self.policy)
        accounting.find(self.accountant)
        called = {
            "policies": registry.parse_options(self.policy)[0],
            "channels": channels.specification(self.channel)["model"],
            "accountants": registry.parse_options(self.accountant)[0],
            "datasets": self.training.dataset,
            "models": self.training.model,
        }
        digests = {
            name: registry.source_digest(kind, name)
            for kind, name in called.items()
            if name != NOISE_FREE
        }
        object.__setattr__(
            self,
            "sources",
            {name: each for name, each in digests.items() if each is not None},
        )
        object.__setattr__(
            self,
            "own_code",
            {kind: name for kind, name in called.items() if name in self.sources},
        )
        for kind, name in self.own_code.items():
            loaded_digest(kind, name)
        if "datasets" in self.own_code:
            dataset = data.load(self.training.dataset, self.training.input_scaling)
            object.__setattr__(self, "data_digest", digest_of(dataset))

    @property
    def specification(self) -> str:
        """Return the run as JSON text, the same for the same run."""
        plain = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name != "own_code"
        }
        if self.data_digest is None:
            del plain["data_digest"]
        scenario = {
            name: value
            for name, value in asdict(self.scenario).items()
            if value is not None
        }
        plain |= {"scenario": scenario, "training": asdict(self.training)}
        plain |= {"channel": channels.specification(self.channel), "format": FORMAT}
        return json.dumps(plain, indent=1, sort_keys=True) + "\n"

    @property
    def address(self) -> str:
        """Return sixteen hexadecimal digits of the SHA-256 of the specification."""
        return hashlib.sha256(self.specification.encode()).hexdigest()[:16]


def make_run(
    dataset: str,
    policy: str,
    nu: float,
    seed: int,
    *,
    rounds: int | None = None,
    channel: str | None = None,
    **changes: Any,
) -> Run:
    """Make a run of a data set's preset with changes.

    Parameters
    ----------
    dataset : str
        A preset (:func:`adascale.presets.load`), or your own reader ``module:function`` with the preset of the digits.
    policy, nu, seed
    rounds : int, >= 1, optional
        A shorter horizon: the first rounds of the channel, to which the policy is tuned.
    channel : str, optional
        See :func:`adascale.channel.find`.
    **changes
        Other fields of :class:`Run`, its scenario, its training or the channel model.
    """
    for name, text in (
        ("dataset", dataset),
        ("policy", policy),
        ("channel", "" if channel is None else channel),
    ):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a name, got {text!r}")
    own_data = ":" in dataset and not Path(dataset).is_file()
    base = "digits" if own_data else dataset
    preset = presets.load(base)
    scenario, training = preset.scenario, Training.preset(base)
    model = preset.channel if channel is None else channels.find(channel)
    is_noise_free = (
        policy.replace("-", "").replace("_", "").lower() == NOISE_FREE.lower()
    )
    policy = NOISE_FREE if is_noise_free else registry.canonical("policies", policy)
    parts: dict[str, Any] = {
        "run": Run,
        "channel": model,
        "training": training,
        "scenario": scenario,
    }
    homes = {
        each.name: part
        for part, made in parts.items()
        for each in fields(made)
        if each.init
    }
    known = {name: part for name, part in homes.items() if name not in _FIXED}
    if unknown := changes.keys() - known.keys():
        expected = ", ".join(sorted({*known, "rounds", "channel"}))
        raise ValueError(
            f"{min(unknown)!r} is nothing that a run has; expected one of {expected}"
        )
    taken = {
        part: {name: each for name, each in changes.items() if known[name] == part}
        for part in parts
    }
    horizon = scenario.num_rounds
    if rounds is not None and check.whole("rounds", rounds) > horizon:
        raise ValueError(
            f"rounds must be at most the {horizon} of {scenario.name}, got {rounds}"
        )
    training = replace(training, **taken["training"])
    size, rounds = models.size(training.model), rounds or horizon
    scenario = replace(
        scenario, **taken["scenario"], num_parameters=size, num_rounds=rounds
    )
    if own_data:
        training = replace(training, dataset=dataset)
        scenario = replace(scenario, name=registry.label(dataset))
    is_sized = not own_data and not training.partition.startswith(
        "dirichlet"
    )  # the preset says n_m
    if not is_sized and "dataset_size" not in taken["scenario"]:
        labels, count = (
            data.load(training.dataset, training.input_scaling).labels,
            scenario.num_devices,
        )
        shares = data.partition(
            labels, count, training.partition, seed, scenario.batch_size
        )
        sizes = [float(share.size) for share in shares]
        scenario = replace(
            scenario, dataset_size=sizes[0] if len(set(sizes)) == 1 else tuple(sizes)
        )
    model, shortened = replace(model, **taken["channel"]), rounds < horizon
    return Run(
        scenario,
        training,
        policy,
        nu,
        seed,
        channel=model,
        shortened=shortened,
        **taken["run"],
    )


_LOADED: dict[tuple[str, int], tuple[Any, str | None]] = {}


def loaded_digest(kind: str, name: str) -> str | None:
    """Return the digest of the code behind a name when this process first loaded it."""
    value = registry.find(kind, name).value
    return _LOADED.setdefault(
        (name, id(value)), (value, registry.source_digest(kind, name))
    )[1]


def digest_of(dataset: data.Dataset) -> str:
    """Return a digest of the samples and labels of a data set."""
    digest = hashlib.sha256()
    for tensor in dataset[1:]:
        digest.update(
            f"{tuple(tensor.shape)}\0".encode() + tensor.contiguous().numpy().tobytes()
        )
    return digest.hexdigest()[:16]


def described(run: Run) -> dict[str, Any]:
    """Return the first columns of a run's row, known in advance: ``run`` to ``budget``."""
    model, policy = registry.label(run.training.model), registry.label(run.policy)
    name, rounds, budget = (
        run.scenario.name,
        run.scenario.num_rounds,
        run.nu * run.budget_factor,
    )
    first = {
        "run": run.address,
        "dataset": name,
        "model": model,
        "policy": policy,
        "nu": run.nu,
        "seed": run.seed,
    }
    return first | {"rounds": rounds, "shortened": run.shortened, "budget": budget}
