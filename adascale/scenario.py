r"""``Scenario``: every constant of an experiment, in SI units, validated once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.files import read_preset, read_toml


def _toml(value: Any) -> str:
    """A string, a number or a tuple of numbers as TOML: JSON, but no pairs of surrogates and no bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


MOST_DEVICES = 1_000_000
"""The largest M of a scenario, since what is drawn and reported has an entry for every device."""

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Scenario:
    r"""The constants of over-the-air FedSGD, in SI units.

    Parameters
    ----------
    name : str
        What results are filed under.
    num_devices : int
        :math:`M`, from 1 to a million.
    num_rounds : int
        :math:`T \ge 1`.
    num_parameters : int
        :math:`d \ge 1`, the dimension of the model and of the transmitted gradient.
    batch_size : float or sequence of float
        :math:`B_m`, the *expected* size of a Poisson batch; one number, or one for each device; 0 < B_m <= n_m.
    dataset_size : float or sequence of float
        :math:`n_m`, samples on a device; one number, or one for each device.
    clip_norm : float
        :math:`G` (or :math:`C`), the largest norm of a sample gradient.
    max_power : float or sequence of float
        :math:`P_{\max}` in watts, or :math:`P_m`, one for each device.
    noise_power : float
        :math:`\sigma_n^2` in watts, per complex sample.
    order : float
        :math:`\alpha > 1`, the Rényi order that is minimised (default 3).

    Raises
    ------
    ValueError
        If a constant is out of range, a per-device sequence does not have M entries, or what follows from them
        (:attr:`x_max`, :attr:`noise_scale`, :math:`k_m^2`, :math:`w / \sigma_m^2`) is beyond floating point.
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

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must be a non-empty string, got {self.name!r}")
        for name in ("num_devices", "num_rounds", "num_parameters"):
            object.__setattr__(self, name, check.whole(name, getattr(self, name)))
        if self.num_devices > MOST_DEVICES:
            raise ValueError(f"num_devices must be at most {MOST_DEVICES:,}, got {self.num_devices}")
        for name in ("batch_size", "dataset_size", "max_power"):
            value = check.positive(name, getattr(self, name))
            if value.shape not in ((), (self.num_devices,)):
                raise ValueError(f"{name} must be one number or {self.num_devices} of them, got shape {value.shape}")
            object.__setattr__(self, name, tuple(value.tolist()) if value.shape else value.item())
        for name in ("clip_norm", "noise_power"):
            value = check.positive(name, getattr(self, name))
            if value.shape:
                raise ValueError(f"{name} must be one number, got {getattr(self, name)!r}")
            object.__setattr__(self, name, value.item())
        object.__setattr__(self, "order", check.order("order", self.order))
        with np.errstate(over="ignore", under="ignore"):
            rate = self.sampling_rate
        try:
            check.sampling_rate("sampling rate batch_size / dataset_size", rate)
        except ValueError as error:
            why = "batch_size must not exceed dataset_size" if (rate > 1).any() else "float64 rounds it to 0"
            raise ValueError(f"{error}: {why}") from None
        self._check_derived()

    def _check_derived(self) -> None:
        """What every later formula starts from is a positive number that float64 holds with all its digits."""
        for shown, derive in _DERIVED.items():
            try:
                with np.errstate(all="ignore"):
                    value = np.asarray(derive(self), dtype=float)
            except (OverflowError, ZeroDivisionError):
                value = np.array(np.nan)
            if not ((value >= _TINY) & (value < np.inf)).all():
                names = [field.name for field in fields(self) if field.name in shown]
                given = ", ".join(f"{name} {str(getattr(self, name))[:24]}" for name in names)
                raise ValueError(f"{shown} is beyond floating point for {given}")

    @classmethod
    def mnist(cls) -> Scenario:
        """The paper's MNIST experiment: i.i.d. data, CNN of 26,010 parameters, 5 epochs of 6000/60 rounds."""
        return cls.from_table(read_preset("mnist")[1]["scenario"])

    @classmethod
    def cifar10(cls) -> Scenario:
        """The paper's CIFAR-10 experiment: two classes a device, 500,000 parameters, T = 720."""
        return cls.from_table(read_preset("cifar10")[1]["scenario"])

    @classmethod
    def digits(cls) -> Scenario:
        """A small experiment in the paper's radio setting, on the 1,500 training scans of scikit-learn's digits."""
        return cls.from_table(read_preset("digits")[1]["scenario"])

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Scenario:
        """Read a scenario from a TOML file whose keys are the parameters above.

        Raises
        ------
        ValueError
            If the file is not TOML, has an unknown key, lacks one, or holds a value out of range; it names the file.
        """
        values = read_toml(path)
        try:
            return cls.from_table(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_table(cls, values: Mapping[str, Any]) -> Scenario:
        """A scenario from its parameters by name; ``ValueError`` on an unknown, a missing or a bad one."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        missing = sorted(set(known) - set(values) - {"order"})
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; expected {', '.join(known)}")
        if missing:
            raise ValueError(f"missing key {missing[0]!r}; expected {', '.join(known)}")
        return cls(**values)

    def to_toml(self) -> str:
        """The scenario as TOML text, such that :meth:`from_toml` gives it back exactly."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())

    @property
    def sampling_rate(self) -> NDArray[np.float64]:
        r""":math:`q_m = B_m / n_m`, shape () or (M,)."""
        chosen, held = np.asarray(self.batch_size, dtype=float), np.asarray(self.dataset_size, dtype=float)
        rate: NDArray[np.float64] = chosen / held
        return rate

    @property
    def batch_second_moment(self) -> NDArray[np.float64]:
        r""":math:`k_m^2 = \mathbb E[|\mathcal B_m|^2] / B_m^2 = 1 + (1 - q_m) / B_m`, shape () or (M,)."""
        moment: NDArray[np.float64] = 1 + (1 - self.sampling_rate) / np.asarray(self.batch_size, dtype=float)
        return moment

    @property
    def power_share(self) -> NDArray[np.float64]:
        r""":math:`P_m / P_{\max}`, shape () or (M,); 1 where all devices have the same limit.

        The limit of a device, :math:`\eta_t k_m^2 G^2 / (d M^2 |h_{m,t}|^2) \le P_m`, is that of a device with
        :math:`P_{\max}` and the gain :math:`|h_{m,t}|^2 P_m / P_{\max}`.
        """
        power = np.asarray(self.max_power, dtype=float)
        return np.asarray(power / power.max())

    @property
    def x_max(self) -> float:
        r""":math:`x_{\max} = P_{\max} d M^2 / G^2`, the largest :math:`\eta_t / h_{\min,t}^2` of the power limit.

        Of devices with several limits, :math:`P_{\max} = \max_m P_m`.
        """
        return float(np.max(self.max_power)) * self.num_parameters * self.num_devices**2 / self.clip_norm**2

    @property
    def noise_scale(self) -> float:
        r""":math:`d \sigma_n^2` in watts; the noise energy of a round is :math:`w_t = d \sigma_n^2 / \eta_t`."""
        return self.num_parameters * self.noise_power

    @cached_property
    def gain_limits(self) -> tuple[float, float]:
        r"""The least and the largest :math:`h_{\min,t}^2` whose cap and floor float64 holds with all their digits."""
        least, most = max(1e-307, self.noise_scale / 1e307), min(1e307, self.noise_scale / 1e-307)
        return max(1e-307, least / self.x_max), min(1e307, most / self.x_max)

    def min_gain(self, gain: ArrayLike) -> NDArray[np.float64]:
        r"""The bottleneck :math:`h_{\min,t}^2 = \min_m |h_{m,t}|^2 / k_m^2`, times :attr:`power_share` of each device.

        Parameters
        ----------
        gain : array_like
            Squared channel norms :math:`|h_{m,t}|^2 > 0` (linear), shape (..., M, T).

        Returns
        -------
        numpy.ndarray
            Shape (..., T).
        """
        gain = check.positive("gain", gain)
        if gain.ndim < 2 or gain.shape[-2] != self.num_devices:
            raise ValueError(f"gain must have shape (..., {self.num_devices}, T), got {gain.shape}")
        scaled: NDArray[np.float64] = gain * self.power_share[..., None] / self.batch_second_moment[..., None]
        return check.positive("gain / k_m^2", scaled.min(axis=-2))

    def mean_gain(self, path_loss: ArrayLike) -> NDArray[np.float64]:
        r"""The channel statistics :math:`\mathbb E|h_m|^2 / k_m^2 = 1 / (\mathrm{PL}_m k_m^2)`, shape (..., M).

        Times :attr:`power_share`, as the bottleneck.

        ``path_loss`` is :math:`\mathrm{PL}_m > 0` (linear), shape (..., M); errors as in :meth:`min_gain`.
        """
        path_loss = check.positive("path_loss", path_loss)
        if path_loss.shape[-1:] != (self.num_devices,):
            raise ValueError(f"path_loss must have shape (..., {self.num_devices}), got {path_loss.shape}")
        with np.errstate(over="ignore", divide="ignore"):
            mean = self.power_share / (path_loss * self.batch_second_moment)
        return check.positive("1 / (path_loss * k_m^2)", mean)


def _squared_sensitivity(scenario: Scenario) -> NDArray[np.float64]:
    """What turns noise energies into noise multipliers, w / sigma_m^2."""
    relative = scenario.clip_norm / (scenario.num_devices * np.asarray(scenario.batch_size, dtype=float))
    squared: NDArray[np.float64] = 2 * scenario.num_parameters * relative**2
    return squared


_DERIVED: dict[str, Callable[[Scenario], ArrayLike]] = {
    "x_max = max_power * num_parameters * num_devices**2 / clip_norm**2": lambda scenario: scenario.x_max,
    "num_parameters * noise_power": lambda scenario: scenario.noise_scale,
    "max_power over the largest": lambda scenario: scenario.power_share,
    "1 + (1 - q) / batch_size": lambda scenario: scenario.batch_second_moment,
    "2 * num_parameters * (clip_norm / (num_devices * batch_size))**2": _squared_sensitivity,
}
"""What :class:`Scenario` checks of itself beyond each constant alone."""
