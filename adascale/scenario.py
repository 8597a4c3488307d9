"""The constants of an experiment, in SI units; "the paper" is that of Moradi Kalarde et al., INFOCOM 2026."""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.errors import InvalidFile, InvalidInput
from adascale.files import from_mapping, read_preset, read_toml
from adascale.text import shown

FloatArray = NDArray[np.float64]
MOST_DEVICES = 1_000_000
"""Largest M of a scenario."""
MOST_COUNT = 2**53
"""Largest T and d of a scenario, up to which floats are whole."""
MOST_USUAL_POWER = 10.0
"""Largest power in watts of a device in a file that is read without a warning."""

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Scenario:
    r"""The constants of over-the-air FedSGD, in SI units.

    Parameters
    ----------
    name : str
    num_devices, num_rounds, num_parameters : int, >= 1
        :math:`M` (at most 1,000,000), :math:`T`, and the dimension :math:`d` of the gradient.
    batch_size, dataset_size : float or sequence of float, > 0
        :math:`B_m \le n_m`, the *expected* size of a Poisson batch, and :math:`n_m` samples, for all or per device.
    clip_norm : float, > 0
        :math:`G` (:math:`C` where gradients are clipped), the largest norm of a sample gradient.
    max_power : float or sequence of float, > 0
        :math:`P_{\max}` in watts, or :math:`P_m`, one per device.
    noise_power : float, > 0
        :math:`\sigma_n^2` in watts, per complex sample.
    order : float, > 1
        :math:`\alpha`, the Rényi order at which the leakage is minimised.
    privacy_noise_power : float, in (0, noise_power], optional
        The part of ``noise_power`` in watts that protects: the server cannot decode or cancel it, but can the rest,
        which disturbs the update all the same.  Default: all of it.
    """

    name: str
    num_devices: int
    num_rounds: int
    num_parameters: int
    batch_size: float | tuple[float, ...]
    dataset_size: float | tuple[float, ...]
    clip_norm: float
    max_power: float | tuple[float, ...]
    noise_power: float
    order: float = 3
    privacy_noise_power: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(
                f"name must be a non-empty string, got {shown(self.name)}", "name"
            )
        for name in ("num_devices", "num_rounds", "num_parameters"):
            most = MOST_DEVICES if name == "num_devices" else MOST_COUNT
            object.__setattr__(
                self, name, check.whole(name, getattr(self, name), most=most)
            )
        _refuse_decibels(self)
        optional = ("privacy_noise_power",) * (self.privacy_noise_power is not None)
        for name in (
            "batch_size",
            "dataset_size",
            "max_power",
            "clip_norm",
            "noise_power",
            *optional,
        ):
            value, is_shared = (
                check.positive(name, getattr(self, name)),
                name.endswith(("clip_norm", "noise_power")),
            )
            if value.shape and (is_shared or value.shape != (self.num_devices,)):
                expected = (
                    "one number"
                    if is_shared
                    else f"one number or {self.num_devices} of them"
                )
                raise InvalidInput(
                    f"{name} must be {expected}, got shape {value.shape}", name
                )
            object.__setattr__(
                self, name, tuple(value.tolist()) if value.shape else value.item()
            )
        if optional and (part := self.privacy_noise_power) > self.noise_power:  # type: ignore[operator]
            expected = f"at most noise_power = {self.noise_power}"
            raise InvalidInput(
                f"privacy_noise_power must be {expected}, got {part}",
                "privacy_noise_power",
            )
        object.__setattr__(self, "order", check.order("order", self.order))
        with np.errstate(over="ignore", under="ignore"):
            rate = self.sampling_rate
        for extreme in (rate.max(), rate.min()):
            if not 0 < extreme <= 1:
                expected = "in (0, 1], and not so small that float64 rounds it to 0"
                raise InvalidInput(
                    f"batch_size / dataset_size must be {expected}, got {extreme}",
                    "batch_size",
                )
        for formula, derive in _DERIVED.items():
            try:
                with np.errstate(all="ignore"):
                    derived = np.asarray(derive(self), dtype=float)
            except (OverflowError, ZeroDivisionError):
                derived = np.array(np.nan)
            if not ((derived >= _TINY) & (derived < np.inf)).all():
                names = [field.name for field in fields(self) if field.name in formula]
                given = ", ".join(
                    f"{name} {str(getattr(self, name))[:24]}" for name in names
                )
                raise InvalidInput(
                    f"{formula} is beyond floating point for {given}", names[0]
                )

    @classmethod
    def mnist(cls) -> "Scenario":
        """Return the paper's MNIST experiment: i.i.d. data, a CNN of 26,010 parameters, T = 500."""
        return from_mapping(cls, read_preset("mnist")[1]["scenario"])

    @classmethod
    def cifar10(cls) -> "Scenario":
        """Return the paper's CIFAR-10 experiment: two classes per device, 500,000 parameters, T = 720."""
        return from_mapping(cls, read_preset("cifar10")[1]["scenario"])

    @classmethod
    def digits(cls) -> "Scenario":
        """Return a small experiment on scikit-learn's digits in the paper's radio setting."""
        return from_mapping(cls, read_preset("digits")[1]["scenario"])

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> "Scenario":
        """Read a scenario from a TOML file whose keys are the parameters."""
        values = read_toml(path)
        try:
            return cls.from_table(values, str(path))
        except ValueError as error:
            raise InvalidFile(f"{path}: {error}", str(path)) from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], path: str) -> "Scenario":
        """Make a scenario of the parameters that a file gives, with a warning on a power that may be in dBm."""
        scenario = from_mapping(cls, table)
        if (power := float(np.max(scenario.max_power))) > MOST_USUAL_POWER:
            meant = (
                f"{power:g} dBm would be {_watts(power):.4g} W"
                if power < 300
                else "is it in milliwatts?"
            )
            warnings.warn(
                f"{path}: max_power is {power:g} W, more than radio devices send; {meant}",
                stacklevel=3,
            )
        return scenario

    def to_toml(self) -> str:
        """Format the scenario as TOML, which :meth:`from_toml` reads back exactly."""
        known = asdict(self).items()
        lines = (
            f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in known
            if value is not None
        )
        return "".join(lines).replace(
            "\x7f", "\\u007f"
        )  # TOML is JSON without surrogate pairs and a bare DEL

    @property
    def sampling_rate(self) -> FloatArray:
        r""":math:`q_m = B_m / n_m`, shape () or (M,)."""
        return cast(
            "FloatArray",
            np.asarray(self.batch_size, dtype=float)
            / np.asarray(self.dataset_size, dtype=float),
        )

    @property
    def batch_second_moment(self) -> FloatArray:
        r""":math:`k_m^2 = \mathbb E[|\mathcal B_m|^2] / B_m^2 = 1 + (1 - q_m) / B_m`, shape () or (M,).

        Random batch sizes multiply the mean transmit power by this, so gains are divided by it.
        """
        return cast(
            "FloatArray",
            1 + (1 - self.sampling_rate) / np.asarray(self.batch_size, dtype=float),
        )

    @property
    def power_share(self) -> FloatArray:
        r""":math:`P_m / P_{\max}`, shape () or (M,); it scales the gain of a device with its own power limit."""
        power = np.asarray(self.max_power, dtype=float)
        return np.asarray(power / power.max())

    @property
    def x_max(self) -> float:
        r""":math:`x_{\max} = \max_m P_m \, d M^2 / G^2`, the cap on :math:`\eta_t / h_{\min,t}^2`."""
        return (
            float(np.max(self.max_power))
            * self.num_parameters
            * self.num_devices**2
            / self.clip_norm**2
        )

    @property
    def noise_scale(self) -> float:
        r""":math:`d \sigma_n^2 = w_t \eta_t` in watts."""
        return self.num_parameters * self.noise_power

    @property
    def noise_share(self) -> float:
        """:math:`s_n`, the share of the noise power that protects, in (0, 1]: noise multipliers have its root."""
        return (
            1.0
            if self.privacy_noise_power is None
            else self.privacy_noise_power / self.noise_power
        )

    @cached_property
    def gain_limits(self) -> tuple[float, float]:
        r"""The smallest and largest :math:`h_{\min,t}^2` whose power limit and noise floor are normal floats."""
        least, most = (
            max(1e-307, self.noise_scale / 1e307),
            min(1e307, self.noise_scale / 1e-307),
        )
        return max(1e-307, least / self.x_max), min(1e307, most / self.x_max)

    def min_gain(self, gain: ArrayLike) -> FloatArray:
        r"""Compute :math:`h_{\min,t}^2 = \min_m |h_{m,t}|^2 P_m / (P_{\max} k_m^2)` of linear gains (..., M, T)."""
        return np.asarray(self.scaled_gain(gain).min(axis=-2))

    def floor(self, min_gain: ArrayLike) -> FloatArray:
        r"""Compute the noise energy at full power, :math:`w_{\min,t} = d \sigma_n^2 / (x_{\max} h_{\min,t}^2)`."""
        return np.asarray(self.noise_scale / (self.x_max * np.asarray(min_gain)))

    def scaled_gain(self, gain: ArrayLike) -> FloatArray:
        r"""Compute :math:`|h_{m,t}|^2 P_m / (P_{\max} k_m^2)` of linear gains, both of shape (..., M, T)."""
        gain = check.positive("gain", gain)
        if gain.ndim < 2 or gain.shape[-2] != self.num_devices:
            raise InvalidInput(
                f"gain must have shape (..., {self.num_devices}, T), got {gain.shape}",
                "gain",
            )
        scaled = (
            gain * self.power_share[..., None] / self.batch_second_moment[..., None]
        )
        return check.positive("gain / k_m^2", scaled)

    def mean_gain(self, path_loss: ArrayLike) -> FloatArray:
        r"""Compute :math:`P_m / (P_{\max} \mathrm{PL}_m k_m^2)` of linear path losses, shape (..., M)."""
        path_loss = check.per_device("path_loss", path_loss, self.num_devices)
        with np.errstate(over="ignore", divide="ignore"):
            mean = self.power_share / (path_loss * self.batch_second_moment)
        return check.positive("1 / (path_loss * k_m^2)", mean)


def _refuse_decibels(scenario: Scenario) -> None:
    """Refuse a negative power, which is no number of watts but may be one of dBm."""
    for name in ("max_power", "noise_power", "privacy_noise_power"):
        power = getattr(scenario, name)
        if (
            power is not None
            and (least := float(check.as_floats(name, power).min(initial=0))) < 0
        ):
            meant = (
                f"did you mean dBm? {least:g} dBm is {_watts(least):.4g} W"
                if least > -3000
                else "not in decibels"
            )
            raise InvalidInput(
                f"{name} must be > 0, in watts, got {least:g}; {meant}", name
            )


def _watts(dbm: float) -> float:
    return float(10 ** (dbm / 10 - 3))


_DERIVED: dict[
    str, Callable[[Scenario], ArrayLike]
] = {  # formulas of fields, as errors show them, and their values
    "x_max = max_power * num_parameters * num_devices**2 / clip_norm**2": lambda s: (
        s.x_max
    ),
    "num_parameters * noise_power": lambda s: s.noise_scale,
    "max_power over the largest": lambda s: s.power_share,
    "1 + (1 - q) / batch_size": lambda s: s.batch_second_moment,
    "2 * num_parameters * (clip_norm / (num_devices * batch_size))**2": lambda s: (  # w / sigma_m^2
        2
        * s.num_parameters
        * (s.clip_norm / (s.num_devices * np.asarray(s.batch_size))) ** 2
    ),
    "privacy_noise_power / noise_power": lambda s: s.noise_share,
}
