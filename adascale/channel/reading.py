"""How a trace of measured gains is to be read."""

import math
from dataclasses import dataclass

from adascale import checks as check
from adascale.errors import InvalidInput

DECIBELS = ("db", "loss", "dbm")
"""Units of logarithmic values."""

AXES = (
    "round",
    "device",
    "antenna",
    "subcarrier",
    "even-subcarrier",
    "transmit",
    "path",
)
"""What an axis may be.  Those after the first two are reduced to a single gain, the last of them first."""


@dataclass(frozen=True)
class Reading:
    r"""The unit of a trace, and what replaces its missing values: an empty field, ``nan``, ``na``, ``none`` or ``-``.

    Parameters
    ----------
    unit : {"linear", "db", "loss", "dbm", "csi"}
        :math:`|h|^2`, linear or in dB; the path loss in dB; received power in dBm; or complex :math:`h`.
    transmit_power : float, in dBm, for "dbm" alone
    gaps : {"refuse", "hold", "floor"}
        A missing value is an error, the last value of its link, or the sensitivity.
    sensitivity : float, the weakest value that can be measured (with "csi" :math:`|h|`), for "floor" alone
    max_gaps : float in [0, 1], only for "hold" and "floor"
        Largest share of the values that may be missing; of those of one link, twice this share.  Both parts of a trace
        that is split must meet it; line by line, the rounds are those of the scenario.
    round_time : float > 0, in the unit of the column ``time``, in seconds for times in ISO 8601
        Round k holds the times within a quarter of ``round_time`` of t + k ``round_time``, with t the circular mean of
        all times.  A time that is in no round, and a second value of a link in a round, are errors.
    resource_blocks : int >= 1, for "dbm" alone
        The values are RSRP, the power of one of :math:`12 N` resource elements, and ``transmit_power`` is that of all.
    columns : str, for tables
        The columns to read, such as ``time=Timestamp,link=Device,value=RSRP`` or ``ue1,ue2``; the others are ignored.
    axes : str, for array files
        What each axis is, such as ``round,device,subcarrier``; axes of the same name are joined.  The gain is that of
        the weakest ``subcarrier``, or the harmonic mean over each ``even-subcarrier``
        (:func:`~adascale.channel.effective_gain`); the sum over ``transmit`` antennas, on which a device sends one
        signal, and the coherent sum over each ``path``.  Of several receive antennas (``antenna``) the server uses one
        per round, that on which the weakest device is strongest.  Without a ``round`` there is one round.
    variable : str, for array files, the name of an array; default: the only one of more than one number
    """

    unit: str = "linear"
    transmit_power: float | None = None
    gaps: str = "refuse"
    sensitivity: float | None = None
    max_gaps: float = 0.1
    round_time: float | None = None
    resource_blocks: int | None = None
    columns: str | None = None
    axes: str | None = None
    variable: str | None = None

    def __post_init__(self) -> None:
        check.one_of("unit", self.unit, "linear", "db", "loss", "dbm", "csi")
        check.one_of("gaps", self.gaps, "refuse", "hold", "floor")
        self._check_presence("transmit_power", "unit", "dbm")
        self._check_presence("sensitivity", "gaps", "floor")
        check.number("transmit_power", self.transmit_power or 0.0, -math.inf)
        if self.sensitivity is not None and self.unit in ("linear", "csi"):
            check.positive("sensitivity", self.sensitivity)
        check.number("sensitivity", self.sensitivity or 0.0, -math.inf)
        check.between("max_gaps", self.max_gaps, 0, 1)
        if self.round_time is not None:
            check.positive("round_time", self.round_time)
        if self.resource_blocks is not None:
            check.whole("resource_blocks", self.resource_blocks)
            if self.unit != "dbm":
                message = "resource_blocks must be given only if unit is dbm"
                raise InvalidInput(message, "resource_blocks")
        for axis in self.axes.split(",") if self.axes is not None else ():
            check.one_of("axes", axis, *AXES)

    def _check_presence(self, name: str, option: str, value: str) -> None:
        """Require that a number is given if and only if an option has the value that needs it."""
        if (getattr(self, name) is not None) != (getattr(self, option) == value):
            message = f"{name} must be given if and only if {option} is {value}"
            raise InvalidInput(message, name)

    @property
    def sent(self) -> float:
        """Power in dBm that was sent for each value received, for one resource element of RSRP; 0 for gains."""
        elements = 12 * self.resource_blocks if self.resource_blocks else 1
        return (self.transmit_power or 0.0) - 10 * math.log10(elements)

    @property
    def wanted(self) -> dict[str, str] | None:
        """The columns to read, by their names in the file in lower case, and their names here; None for all."""
        if self.columns is None:
            return None
        pairs = [pair.rpartition("=") for pair in self.columns.casefold().split(",")]
        return {name.strip(): (role or name).strip() for role, _, name in pairs}
