r"""Training runs: everything that a result depends on, with an address; needs the extra ``learn``."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

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


_DERIVED = {
    "name",
    "num_rounds",
    "num_parameters",
    "dataset",
    "scenario",
    "training",
    "channel",
    "shortened",
}
"""Fields of a run and its parts that are no changes: :func:`make_run` finds them, or has an argument for them."""


@dataclass(frozen=True)
class Run:
    r"""Everything that a training's result depends on, your own code included; see :func:`make_run`.

    ``sources`` has the :func:`~adascale.registry.source_digest` of your own code by name, and ``data_digest`` is that
    of the data that your own reader gives.

    Parameters
    ----------
    scenario, training, channel
    policy : str
        A name for :func:`adascale.comparison.find_method`, or ``NoiseFree``.
    nu, budget_factor : float, > 0
        The noise budget is :math:`\nu` times the factor, 1 in the paper; None for a policy that guarantees an epsilon.
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
    nu: float | None
    seed: int
    budget_factor: float = 1.0
    channel: ChannelModel = field(default_factory=Rayleigh)
    accountant: str = "renyi"
    every: int = 25
    delta: float = 1e-5
    shortened: bool = False
    sources: dict[str, str] = field(init=False)
    data_digest: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "budget_factor": float(check.positive("budget_factor", self.budget_factor)),
            "seed": check.whole("seed", self.seed, 0),
        }
        check.whole("every", self.every)
        check.fraction("delta", self.delta)
        has_epsilon = False
        if self.policy != NOISE_FREE:
            has_epsilon = "epsilon" in find_method(self.policy)[1].fixed
        if self.nu is not None or not has_epsilon:
            checked["nu"] = float(check.positive("nu", self.nu))  # type: ignore[arg-type]
        accounting.find(self.accountant)
        checked["sources"] = self.loaded_sources()
        if self.training.dataset in checked["sources"]:
            dataset = data.load(self.training.dataset, self.training.input_scaling)
            checked["data_digest"] = digest_of(dataset)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def loaded_sources(self) -> dict[str, str]:
        """Return the digests of your own code by name, as this process has loaded it."""
        names = {
            "policies": registry.parse_options(self.policy)[0],
            "channels": channels.specification(self.channel)["model"],
            "accountants": registry.parse_options(self.accountant)[0],
            "datasets": self.training.dataset,
            "models": self.training.model,
        }
        digests = {
            name: _code_digest(kind, name, registry.find(kind, name).value)
            for kind, name in names.items()
            if ":" in name
        }
        return {name: digest for name, digest in digests.items() if digest}

    @property
    def specification(self) -> str:
        """Return the run as JSON text, the same for the same run."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.data_digest is None:
            del content["data_digest"]
        # without what is None, the address stays when a scenario gets another optional field
        constants = asdict(self.scenario).items()
        content |= {
            "scenario": {key: value for key, value in constants if value is not None},
            "training": asdict(self.training),
            "channel": channels.specification(self.channel),
            "format": FORMAT,
        }
        return json.dumps(content, indent=1, sort_keys=True) + "\n"

    @cached_property
    def address(self) -> str:
        """Return sixteen hexadecimal digits of the SHA-256 of the specification."""
        return hashlib.sha256(self.specification.encode()).hexdigest()[:16]


def make_run(
    dataset: str,
    policy: str,
    nu: float | None,
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
    names = {"dataset": dataset, "policy": policy, "channel": channel}
    for key, name in (names | {"accountant": changes.get("accountant")}).items():
        if not isinstance(name, str | None):
            raise ValueError(f"{key} must be a name, got {name!r}")
    own_data = ":" in dataset and not Path(dataset).is_file()
    base = "digits" if own_data else dataset
    preset, preset_training = presets.load(base), Training.preset(base)
    scenario, horizon = preset.scenario, preset.scenario.num_rounds
    model = preset.channel if channel is None else channels.find(channel)
    parts = {
        "run": Run,
        "channel": model,
        "training": preset_training,
        "scenario": scenario,
    }
    by_part = _changes_by_part(changes, parts)
    rounds = horizon if rounds is None else check.whole("rounds", rounds)
    if rounds > horizon:
        raise ValueError(
            f"rounds must be at most the {horizon} of {scenario.name}, got {rounds}"
        )
    if own_data:
        by_part["training"]["dataset"] = dataset
        by_part["scenario"]["name"] = registry.label(dataset)
    training = replace(preset_training, **by_part["training"])
    size = models.size(training.model)
    sized = {"num_parameters": size, "num_rounds": rounds} | by_part["scenario"]
    scenario = replace(scenario, **sized)
    dealt_otherwise = own_data or training.partition != preset_training.partition
    if "dataset_size" not in sized and dealt_otherwise:  # else the preset says it
        scenario = replace(scenario, dataset_size=_sizes(training, scenario, seed))
    return Run(
        scenario,
        training,
        _policy_name(policy),
        nu,
        seed,
        channel=replace(model, **by_part["channel"]),
        shortened=rounds < horizon,
        **by_part["run"],
    )


def _changes_by_part(
    changes: dict[str, Any], parts: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the changes of each part of a run, by the fields that the parts have; refuse those that none has."""
    owners = {
        field.name: part
        for part, owner in parts.items()
        for field in fields(owner)
        if field.init and field.name not in _DERIVED
    }
    unknown = changes.keys() - owners.keys()
    if unknown:
        expected = ", ".join(sorted({*owners, "rounds", "channel"}))
        raise ValueError(
            f"{min(unknown)!r} is nothing that a run has; expected one of {expected}"
        )
    by_part: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for name, value in changes.items():
        by_part[owners[name]][name] = value
    return by_part


def _policy_name(text: str) -> str:
    """Return the canonical name of a policy with its arguments, or ``NoiseFree``."""
    is_noise_free = re.sub("[-_]", "", text).lower() == NOISE_FREE.lower()
    return NOISE_FREE if is_noise_free else registry.canonical("policies", text)


def _sizes(
    training: Training, scenario: Scenario, seed: int
) -> float | tuple[float, ...]:
    """Return the number of samples of each device, or of all if they are equal."""
    labels = data.load(training.dataset, training.input_scaling).labels
    how = (scenario.num_devices, training.partition, seed, scenario.batch_size)
    sizes = [float(indices.size) for indices in data.partition(labels, *how)]
    return sizes[0] if len({*sizes}) == 1 else tuple(sizes)


@cache
def _code_digest(kind: str, name: str, loaded: Any) -> str | None:
    """Return the digest of your own code when this process loaded it, as the file may change afterwards.

    The object ``loaded`` is a key of the cache: one that was loaded anew has another digest.
    """
    return registry.source_digest(kind, name)


def digest_of(dataset: data.Dataset) -> str:
    """Return a digest of the samples and labels of a data set."""
    digest = hashlib.sha256()
    for tensor in dataset[1:]:
        digest.update(f"{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def described(run: Run) -> dict[str, Any]:
    """Return the first columns of a run's row, known in advance: ``run`` to ``budget``."""
    return {
        "run": run.address,
        "dataset": run.scenario.name,
        "model": registry.label(run.training.model),
        "policy": registry.label(run.policy),
        "nu": run.nu,
        "seed": run.seed,
        "rounds": run.scenario.num_rounds,
        "shortened": run.shortened,
        "budget": None if run.nu is None else run.nu * run.budget_factor,
    }
