r"""A training run: everything that its result depends on, with an address.

It needs the extra ``learn``, so it is imported by its own name.
"""

from __future__ import annotations

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
"""A part of every address, to be raised when the same specification would give other results."""

NOISE_FREE = "NoiseFree"
"""The policy of a receiver without noise, :math:`\\eta_t = \\infty`; it keeps no budget and protects nobody."""


@dataclass(frozen=True)
class Run:
    r"""Everything that a training's result depends on, the code of one's own included.

    Make one with :func:`make_run`; two runs are the same if their addresses are.

    Parameters
    ----------
    scenario : Scenario
        Its ``num_parameters`` are the network's.
    training : Training
        Data set, network, optimiser.
    policy : str
        A name for :func:`adascale.comparison.find_method`, or ``NoiseFree``.
    nu : float
        :math:`\nu > 0`, what results are filed under.
    seed : int
        The realisation, >= 0: channels, partition, initial model, batches and noise.
    budget_factor : float
        The budget is :math:`\nu` times this (> 0); the paper's words ask for 1.
    channel : ChannelModel
        What the realisation's channel is drawn from.
    accountant : str
        A name for :func:`adascale.accounting.find`: what epsilon is computed by.
    every : int
        Evaluate after every so many rounds.
    delta : float
        :math:`\delta` of epsilon.
    shortened : bool
        Whether the scenario has fewer rounds than its preset.

    Attributes
    ----------
    own_code : dict
        Whatever is called ``module:object`` or is another package's, by its kind (:data:`adascale.registry.KINDS`).
    sources : dict
        The digest of the source of each, see :func:`adascale.registry.source_digest`.  It is taken when the run is
        specified.
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

    def __post_init__(self) -> None:
        for name in ("nu", "budget_factor"):
            if np.ndim(value := getattr(self, name)):
                raise ValueError(f"{name} must be one number, got {value!r}")
            object.__setattr__(self, name, float(check.positive(name, value)))
        object.__setattr__(self, "seed", _whole_seed(self.seed))
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
        digests = {name: registry.source_digest(kind, name) for kind, name in called.items() if name != NOISE_FREE}
        object.__setattr__(self, "sources", {name: each for name, each in digests.items() if each is not None})
        object.__setattr__(self, "own_code", {kind: name for kind, name in called.items() if name in self.sources})
        for kind, name in self.own_code.items():
            loaded_digest(kind, name)

    @property
    def specification(self) -> str:
        """The run as JSON text, the same for the same run."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "own_code"}
        plain |= {"scenario": asdict(self.scenario), "training": asdict(self.training)}
        plain |= {"channel": channels.specification(self.channel), "format": FORMAT}
        return json.dumps(plain, indent=1, sort_keys=True) + "\n"

    @property
    def address(self) -> str:
        """Sixteen hexadecimal digits of the SHA-256 of the specification."""
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
    r"""A run of a data set's preset, with what is named changed.

    Parameters
    ----------
    dataset : str
        A preset, by name or file (:func:`adascale.presets.load`): scenario, channel and training.  The number of
        parameters is the network's.  Or ``module:function``, a reader of one's own: the preset is that of the digits
        then, but for the name, the data and, where it is not given, the size of each device's share.
    policy, nu, seed
        As for :class:`Run`; in the name ``NoiseFree`` case, ``-`` and ``_`` do not matter.
    rounds : int, optional
        A shorter horizon, to which the policy is tuned as well: the first so many rounds of the channel.
    channel : str, optional
        Another channel model, see :func:`adascale.channel.find`.
    **changes
        Any other field of :class:`Run`, :class:`~adascale.scenario.Scenario`,
        :class:`~adascale.learning.settings.Training` or the channel model, such as ``budget_factor``, ``noise_power``,
        ``learning_rate``, ``placement``.

    Raises
    ------
    ValueError
        If there is no such preset, policy or field, the rounds are not 1 ... T, or a value is out of range or of
        another type.
    """
    for name, text in (("dataset", dataset), ("policy", policy), ("channel", channel)):
        if not (isinstance(text, str) or (name == "channel" and text is None)):
            raise ValueError(f"{name} must be a name, got {text!r}")
    own_data = ":" in dataset and not Path(dataset).is_file()
    base = "digits" if own_data else dataset
    preset = presets.load(base)
    scenario, training = preset.scenario, Training.preset(base)
    model = preset.channel if channel is None else channels.find(channel)
    if policy.replace("-", "").replace("_", "").lower() == NOISE_FREE.lower():
        policy = NOISE_FREE
    else:
        policy = registry.canonical("policies", policy)
    own = {
        name: {each.name for each in fields(kind)}
        for name, kind in (("scenario", scenario), ("training", training), ("channel", model), ("run", Run))
    }
    own["scenario"] -= {"name", "num_rounds", "num_parameters"}
    own["training"] -= {"dataset"}
    own["run"] -= {"scenario", "training", "channel", "shortened", "own_code", "sources"}
    taken = {kind: {name: changes.pop(name) for name in sorted(known & set(changes))} for kind, known in own.items()}
    if changes:
        raise ValueError(
            f"{min(changes)!r} is nothing that a run has; expected one of "
            f"{', '.join(sorted({'rounds', 'channel'}.union(*own.values())))}"
        )
    horizon = scenario.num_rounds
    if rounds is not None and check.whole("rounds", rounds) > horizon:
        raise ValueError(f"rounds must be at most the {horizon} of {scenario.name}, got {rounds}")
    training = replace(training, **taken["training"])
    scenario = replace(
        scenario, **taken["scenario"], num_parameters=models.size(training.model), num_rounds=rounds or horizon
    )
    model = replace(model, **taken["channel"])
    if own_data:
        training = replace(training, dataset=dataset)
        scenario = replace(scenario, name=registry.label(dataset))
        if "dataset_size" not in taken["scenario"]:
            scenario = replace(scenario, dataset_size=_shares(training, scenario.num_devices, seed))
    return Run(
        scenario, training, policy, nu, seed, channel=model, shortened=scenario.num_rounds < horizon, **taken["run"]
    )


_LOADED: dict[tuple[str, int], tuple[Any, str | None]] = {}


def loaded_digest(kind: str, name: str) -> str | None:
    """The digest of the code behind a name at the time when this process first saw the class or function."""
    value = registry.find(kind, name).value
    return _LOADED.setdefault((name, id(value)), (value, registry.source_digest(kind, name)))[1]


def _whole_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    return int(seed)


def _shares(training: Training, num_devices: int, seed: int) -> float | tuple[float, ...]:
    """How many samples each device gets."""
    labels = data.load(training.dataset, training.input_scaling).labels
    sizes = [float(part.size) for part in data.partition(labels, num_devices, training.partition, _whole_seed(seed))]
    return sizes[0] if len(set(sizes)) == 1 else tuple(sizes)


def described(run: Run) -> dict[str, Any]:
    """The first columns of a run's row, which are known before it is run: ``run`` to ``budget``."""
    return {
        "run": run.address,
        "dataset": run.scenario.name,
        "model": registry.label(run.training.model),
        "policy": registry.label(run.policy),
        "nu": run.nu,
        "seed": run.seed,
        "rounds": run.scenario.num_rounds,
        "shortened": run.shortened,
        "budget": run.nu * run.budget_factor,
    }
