"""The methods of the paper's figures, and other readings of what the paper leaves open about its benchmarks."""

from functools import partial

from adascale import policies
from adascale.comparison import PolicyBuilder, TunedOnRealisation
from adascale.comparison.shi_tuning import best_lyapunov
from companion.shi import filled_lyapunov

METHODS: dict[str, PolicyBuilder] = {
    "Optimal": TunedOnRealisation(policies.Optimal),
    "AdaScale": TunedOnRealisation(policies.AdaScale),
    "EqualAlloc": TunedOnRealisation(policies.EqualAlloc),
    "EstimFuture": TunedOnRealisation(policies.EstimFuture),
    "PowerControl": TunedOnRealisation(policies.PowerControl),
    "LyapunovPowerControl": best_lyapunov,
}
"""Every method of the paper's figures by the name of its policy."""

VARIANTS: dict[str, PolicyBuilder] = {
    "EstimFuture, devices": TunedOnRealisation(
        policies.EstimFuture, estimate="devices"
    ),
    "PowerControl, minimum": TunedOnRealisation(
        policies.PowerControl, estimate="minimum"
    ),
    "PowerControl, r = 0.99": TunedOnRealisation(
        policies.PowerControl, contraction=0.99
    ),
    "PowerControl, not subtracted": TunedOnRealisation(
        policies.PowerControl, subtract=False
    ),
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
