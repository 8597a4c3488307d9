"""References in multi-precision arithmetic that share nothing with the package.

The log-moment is known anywhere to 30 digits and more: Gauss-Legendre over panels, no finite sum, no trapezoidal rule,
no closed form.  A value takes a tenth of a second.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
from mpmath.calculus.quadrature import GaussLegendre

from adascale.accounting.exact import certify
from adascale.errors import CannotCertify

NODES = GaussLegendre(mp.mp).calc_nodes(4, 230)  # 24 on [-1, 1], with 60 digits


def centres(q, s, alpha, bend):
    """Where mass may lie: at 0, sqrt(s), 2 sqrt(s), alpha sqrt(s), the bend, and the peaks of (1 - q + q e^L)^alpha."""
    root = mp.sqrt(s)
    found = [mp.mpf(0), root, 2 * root, alpha * root, bend]
    for u in (mp.mpf(0), alpha * root):
        for _ in range(
            400
        ):  # u = alpha sqrt(s) r(u), which comes nearer to the outer solutions step by step
            before, u = u, alpha * root / (1 + mp.exp(-root * (u - bend)))
            if abs(u - before) < 1e-3:
                break
        found.append(u)
    return sorted(found)


def log_moment(q, sigma, alpha):
    """A = ln(1 + E[g]) as an mpf, with g = y^alpha - 1 - alpha (y - 1) >= 0 and y = 1 - q + q e^L."""
    with mp.workdps(60):
        q, s, alpha = mp.mpf(q), 1 / mp.mpf(sigma) ** 2, mp.mpf(alpha)
        if q == 1:
            return alpha * (alpha - 1) * s / 2
        lost = (
            2 * mp.log10(q) + mp.log10(min(s, 1)) + mp.log10(alpha - 1)
        )  # digits that g loses
    with mp.workdps(50 - int(lost)):
        root = mp.sqrt(s)
        bend = (mp.log((1 - q) / q) + s / 2) / root

        def g(u):
            y = 1 - q + q * mp.exp(root * u - s / 2)
            return (y**alpha - 1 - alpha * (y - 1)) * mp.exp(-u * u / 2)

        middle = centres(q, s, alpha, bend)
        least = (
            max(g(u + d) for u in middle for d in (-1.3, -0.4, 0.4, 1.3))
            * mp.mpf(10) ** -22
        )
        total, end = mp.mpf(0), -mp.inf
        near = (mp.log(alpha) + 5) / root  # where g bends
        for u in middle:
            low, high = u - 9, u + 9
            while g(low) > least:
                low -= 2
            while g(high) > least:
                high += 2
            low = max(low, end)
            while (
                low < high
            ):  # panels of one and a half standard deviations, and shorter towards the bend
                width = min(mp.mpf(1.5), max(2.4 / root, (abs(low - bend) - near) / 3))
                end = min(low + width, high)
                half, centre = (end - low) / 2, (end + low) / 2
                total += half * mp.fsum(
                    weight * g(centre + half * x) for x, weight in NODES
                )
                low = end
        return mp.log(1 + total / mp.sqrt(2 * mp.pi))


def rdp(q, sigma, alpha) -> float:
    """rho_alpha(q, sigma)."""
    with mp.workdps(60):
        return float(log_moment(q, sigma, alpha) / (mp.mpf(alpha) - 1))


def epsilon_by(way, rounds, delta):
    """Sharp value, both ends and direction by one proof alone; an error where they are far apart."""
    return _by(way, rounds, certify.EpsilonProof(delta))


def delta_by(way, rounds, epsilon):
    return _by(way, rounds, certify.DeltaProof(epsilon))


def _by(way, rounds, proof):
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        way(rounds, proof)
    if proof.is_wide():
        raise CannotCertify("the ends are far apart")
    interval = proof.interval()
    return interval.estimate, interval.lower, interval.upper, interval.direction


def gaussian_delta(mu, epsilon):
    """The Gaussian mechanism, in multi-precision."""
    with mp.workdps(40):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        below = mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
        return mp.ncdf(mu / 2 - epsilon / mu) - below


def moment(u, q, z):
    """M(z) of a round by a trapezoidal rule of thirty digits, whose strip ends at the branch points of the ratio."""
    root, step = mp.sqrt(mp.mpf(u)), 2 * mp.pi / 90
    step = min(step, step * mp.pi / root)
    low, high = (
        sorted((0.0, float(mp.re(z) * root)))[i] + 12 * (2 * i - 1) for i in (0, 1)
    )
    total = mp.mpf(0)
    for i in range(int((high - low) / step)):
        x = low + i * step
        ratio = 1 + mp.mpf(q) * mp.expm1(root * x - root**2 / 2)
        total += mp.exp(z * mp.log(ratio) - x * x / 2)
    return total * step / mp.sqrt(2 * mp.pi)


def one_round(q, sigma, epsilon, direction):
    """Delta of one sampled Gaussian at any real epsilon, by the set on which the loss is above it; multi-precision."""
    with mp.workdps(60):
        q, root, epsilon = mp.mpf(q), 1 / mp.mpf(sigma), mp.mpf(epsilon)
        level = (mp.exp(epsilon if direction == "add" else -epsilon) - 1 + q) / q
        if level <= 0:  # everywhere, or nowhere
            return 1 - mp.exp(epsilon) if direction == "add" else mp.mpf(0)
        x = (mp.log(level) + root**2 / 2) / root
        if direction == "add":
            return (
                (1 - q) * mp.ncdf(-x)
                + q * mp.ncdf(root - x)
                - mp.exp(epsilon) * mp.ncdf(-x)
            )
        return mp.ncdf(x) - mp.exp(epsilon) * (
            (1 - q) * mp.ncdf(x) + q * mp.ncdf(x - root)
        )
