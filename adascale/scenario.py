"""The constants of an experiment, in SI units; "the paper" is that of Moradi Kalarde et al., INFOCOM 2026."""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.checks import FloatArray as FloatArray
from adascale.errors import InvalidFile, InvalidInput
from adascale.files import from_mapping, read_preset, read_toml
from adascale.text import shown
from adascale.units import in_watts

MOST_DEVICES = 1_000_000
"""Largest M of a scenario."""
MOST_COUNT = 2**53
"""Largest T and d of a scenario, up to which floats are whole."""
MOST_USUAL_POWER = 10.0
"""Largest power in watts of a device in a file that is read without a warning."""
USUAL_NOISE = 1e-18, 1e-6
"""Noise powers in watts (-150 to -30 dBm) in a file that are read without a warning."""

# in these limits, nothing that is computed from a scenario and its gains overflows or underflows
_NUMBERS = 1e-40, 1e40
_GAINS = 1e-60, 1e60


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
        The part of ``noise_power``, in watts, that protects the data.  The server may be able to decode or cancel the
        rest, which disturbs the update all the same.  Default: all of it.
    weights : sequence of float, > 0, one per device, optional
        Weights :math:`p_m` of the devices' gradients, up to a factor; the sum of :math:`p_m` is 1.  Those of FedAvg are
        the ``dataset_size``.  Default: :math:`1/M`, as in the paper.  See :ref:`how-unequal`.
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
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(
                f"name must be a non-empty string, got {shown(self.name)}", "name"
            )
        self._set("num_devices", check.whole, most=MOST_DEVICES)
        self._set("num_rounds", check.whole, most=MOST_COUNT)
        self._set("num_parameters", check.whole, most=MOST_COUNT)
        self._set("batch_size", _for_all_or_each, self.num_devices)
        self._set("dataset_size", _for_all_or_each, self.num_devices)
        self._set("max_power", _for_all_or_each, self.num_devices)
        self._set("clip_norm", check.number, *_NUMBERS)
        self._set("noise_power", check.number, *_NUMBERS)
        if self.privacy_noise_power is not None:
            most = self.noise_power
            self._set("privacy_noise_power", check.number, _NUMBERS[0], most)
        self._set("order", check.order)
        if self.weights is not None:
            # one number may stand for all devices in other parameters only
            if np.ndim(self.weights) == 0:
                message = (
                    f"weights must be {self.num_devices} numbers, got {self.weights!r}"
                )
                raise InvalidInput(message, "weights")
            self._set("weights", _for_all_or_each, self.num_devices)
        check.sampling_rate("batch_size / dataset_size", self.sampling_rate)

    def _set(
        self, name: str, checked: Callable[..., Any], *limits: Any, **named: Any
    ) -> None:
        """Validate a field of this frozen dataclass, and store it as the check returns it."""
        value = checked(name, getattr(self, name), *limits, **named)
        object.__setattr__(self, name, value)

    @classmethod
    def mnist(cls) -> "Scenario":
        """Return the paper's MNIST experiment: i.i.d. data, a CNN of 26,010 parameters, T = 500."""
        return cls._of_preset("mnist")

    @classmethod
    def cifar10(cls) -> "Scenario":
        """Return the paper's CIFAR-10 experiment: two classes per device, 500,000 parameters, T = 720."""
        return cls._of_preset("cifar10")

    @classmethod
    def digits(cls) -> "Scenario":
        """Return a small experiment on scikit-learn's digits in the paper's radio setting."""
        return cls._of_preset("digits")

    @classmethod
    def _of_preset(cls, name: str) -> "Scenario":
        _, tables = read_preset(name)
        return from_mapping(cls, tables["scenario"])

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
        r"""Make a scenario of the parameters that a file gives, with a warning on a power that may have another unit.

        The warning names the file by its ``path``.
        Powers are in watts, or in dBm as ``max_power_dbm`` and ``noise_power_dbm``.  Instead of the noise power, a file
        may give ``bandwidth_hz``, :math:`W`, ``noise_figure_db``, :math:`F`, and ``interference_dbm``, :math:`I`:

        .. math:: \sigma_n^2 = k T_0 W F + I, \qquad T_0 = 290 \text{ K}.

        Only the first summand then protects, unless ``privacy_noise_power`` says otherwise: a server may decode and
        cancel interference.
        """
        scenario = from_mapping(cls, in_watts(table))
        power, noise = float(np.max(scenario.max_power)), scenario.noise_power
        if power > MOST_USUAL_POWER:
            doubt = f"max_power is {power:g} W, more than radio devices send; is it in dBm or milliwatts?"
            warnings.warn(f"{path}: {doubt}", stacklevel=3)
        if not USUAL_NOISE[0] <= noise <= USUAL_NOISE[1]:
            doubt = f"noise_power is {noise:g} W; is it in milliwatts, or per hertz?"
            warnings.warn(f"{path}: {doubt}", stacklevel=3)
        return scenario

    def to_toml(self) -> str:
        """Format the scenario as TOML, which :meth:`from_toml` reads back exactly."""
        lines = [
            f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in asdict(self).items()
            if value is not None
        ]
        # values in JSON are values in TOML, but TOML forbids escaped surrogates (so no ensure_ascii) and a bare DEL
        return "".join(lines).replace("\x7f", "\\u007f")

    @property
    def sampling_rate(self) -> FloatArray:
        r""":math:`q_m = B_m / n_m`, shape () or (M,)."""
        return self._array("batch_size") / self._array("dataset_size")

    @property
    def batch_second_moment(self) -> FloatArray:
        r""":math:`k_m^2 = \mathbb E[|\mathcal B_m|^2] / B_m^2 = 1 + (1 - q_m) / B_m`, shape () or (M,).

        Random batch sizes multiply the mean transmit power by this, so gains are divided by it.
        """
        return 1 + (1 - self.sampling_rate) / self._array("batch_size")

    @property
    def relative_weight(self) -> FloatArray:
        r""":math:`M p_m`, shape () or (M,), whose mean is 1; 1 for all devices without weights."""
        if self.weights is None:
            return np.ones(())
        weights = self._array("weights")
        return weights / weights.mean()

    @property
    def weighted_batch_size(self) -> FloatArray:
        r""":math:`B_m / (M p_m)`, shape () or (M,): a sample moves the mean gradient by :math:`p_m G / B_m` at most."""
        return self._array("batch_size") / self.relative_weight

    @property
    def power_share(self) -> FloatArray:
        r""":math:`P_m / (P_{\max} (M p_m)^2)`, shape () or (M,): how power and weight scale a gain."""
        power = self._array("max_power")
        return power / power.max() / self.relative_weight**2

    def _array(self, name: str) -> FloatArray:
        return np.asarray(getattr(self, name), dtype=float)

    @property
    def x_max(self) -> float:
        r""":math:`x_{\max} = \max_m P_m \, d M^2 / G^2`, the cap on :math:`\eta_t / h_{\min,t}^2`."""
        power = float(np.max(self.max_power))
        return power * self.num_parameters * self.num_devices**2 / self.clip_norm**2

    @property
    def noise_scale(self) -> float:
        r""":math:`d \sigma_n^2 = w_t \eta_t` in watts."""
        return self.num_parameters * self.noise_power

    @property
    def noise_share(self) -> float:
        """:math:`s_n`, the share of the noise power that protects, in (0, 1]; noise multipliers grow as its root."""
        if self.privacy_noise_power is None:
            return 1.0
        return self.privacy_noise_power / self.noise_power

    @property
    def gain_limits(self) -> tuple[float, float]:
        r"""The smallest and largest :math:`h_{\min,t}^2` with which nothing overflows or underflows."""
        return _GAINS

    def min_gain(self, gain: ArrayLike) -> FloatArray:
        r"""Compute :math:`h_{\min,t}^2`, shape (..., T): the smallest scaled gain, for linear gains (..., M, T)."""
        return self.scaled_gain(gain).min(axis=-2)

    def floor(self, min_gain: ArrayLike) -> FloatArray:
        r"""Compute :math:`w_{\min,t} = d \sigma_n^2 / (x_{\max} h_{\min,t}^2)`, the noise energy at full power."""
        return self.noise_scale / (self.x_max * np.asarray(min_gain))

    def scaled_gain(self, gain: ArrayLike) -> FloatArray:
        r"""Compute :math:`|h_{m,t}|^2 P_m / (P_{\max} k_m^2 (M p_m)^2)` for linear gains, both of shape (..., M, T)."""
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
        r"""Compute the scaled gains of :math:`1 / \mathrm{PL}_m`, for linear path losses, both of shape (..., M)."""
        path_loss = check.per_device("path_loss", path_loss, self.num_devices)
        with np.errstate(over="ignore", divide="ignore"):
            mean = self.power_share / (path_loss * self.batch_second_moment)
        return check.positive("1 / (path_loss * k_m^2)", mean)


def _for_all_or_each(
    name: str, value: ArrayLike, num_devices: int
) -> float | tuple[float, ...]:
    """Return a number that holds for all devices, or a tuple with one per device."""
    array = check.between(name, value, *_NUMBERS)
    if array.shape not in ((), (num_devices,)):
        raise InvalidInput(
            f"{name} must be one number or {num_devices} of them, got shape {array.shape}",
            name,
        )
    return tuple(array.tolist()) if array.shape else array.item()
