"""Certified intervals from the bounds of :mod:`adascale.accounting.exact.certify`."""

from adascale.accounting.exact import gaussian
from adascale.accounting.exact.certify import NOTHING, bracket, delta_bracket
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.interval import CertifiedInterval


def _energy(rounds: Rounds) -> float:
    return rounds.gaussian + sum(float(n @ u) for u, n in zip(rounds.energies, rounds.counts, strict=True))


def epsilon_interval(rounds: Rounds, delta: float) -> CertifiedInterval:
    """Compute epsilon between proven bounds."""
    try:
        value, lower, upper, direction = bracket(rounds, delta)
        return CertifiedInterval(lower, upper, ("inversion", "inversion"), direction, value, upper, NOTHING)
    except ArithmeticError:
        upper = gaussian.epsilon(_energy(rounds), delta)[2]
        return CertifiedInterval(0.0, upper, ("none", "gaussian"), "both", upper, upper, NOTHING)


def delta_interval(rounds: Rounds, epsilon: float) -> CertifiedInterval:
    """Compute delta between proven bounds."""
    try:
        value, lower, upper, direction = delta_bracket(rounds, epsilon)
        return CertifiedInterval(lower, upper, ("inversion", "inversion"), direction, value, upper)
    except ArithmeticError:
        upper = gaussian.delta(_energy(rounds), epsilon)[2]
        return CertifiedInterval(0.0, upper, ("none", "gaussian"), "both", upper, upper)
