"""The methods of the paper's figures, and other readings of what the paper leaves open about its benchmarks."""

from functools import partial

from adascale.comparison import PAPER, PolicyBuilder, find_method
from adascale.comparison.shi_tuning import best_lyapunov
from companion.shi import filled_lyapunov

METHODS: dict[str, PolicyBuilder] = dict(map(find_method, PAPER))
"""Every method of the paper's figures by the name of its policy."""

_CHANGED = {
    "EstimFuture, devices": "EstimFuture:estimate=devices",
    "PowerControl, minimum": "PowerControl:estimate=minimum",
    "PowerControl, r = 0.99": "PowerControl:contraction=0.99",
    "PowerControl, not subtracted": "PowerControl:subtract=False",
}
VARIANTS: dict[str, PolicyBuilder] = {
    **{name: find_method(method)[1] for name, method in _CHANGED.items()},
    "LyapunovPowerControl, half the rate": partial(best_lyapunov, relative_rates=0.5),
    "LyapunovPowerControl, 1.2 times the rate": partial(
        best_lyapunov, relative_rates=1.2
    ),
    "LyapunovPowerControl, filled queue": filled_lyapunov,
    "LyapunovPowerControl, filled queue, V = 30 η̄³": partial(
        filled_lyapunov, multiple=30.0
    ),
}
"""The benchmarks with one choice changed that the paper leaves open, the last with two (:ref:`chap-benchmarks`)."""
