"""Slow references that share nothing with the package: 60-digit arithmetic and plain loops over the paper's symbols."""

from __future__ import annotations

import math

import mpmath as mp


def rdp(q, sigma, alpha) -> float:
    """rho_alpha(q, sigma) at an integer order, by Lemma 1 term by term."""
    with mp.workdps(60):
        q, s = mp.mpf(q), 1 / mp.mpf(sigma) ** 2
        moment = mp.fsum(
            mp.binomial(alpha, k)
            * (1 - q) ** (alpha - k)
            * q**k
            * mp.exp(s * k * (k - 1) / 2)
            for k in range(alpha + 1)
        )
        return float(mp.log(moment) / (alpha - 1))


# The paper, symbol by symbol, in x_t and in plain loops -------------------------------------------------------------


def device_value(value, m):
    """A per-device constant of device m, whether one number or one a device."""
    return value[m] if isinstance(value, tuple) else value


def x_max(scenario):
    """Section IV-B: P_max d M^2 / G^2."""
    return (
        scenario.max_power
        * scenario.num_parameters
        * scenario.num_devices**2
        / scenario.clip_norm**2
    )


def noise_multiplier(scenario, x, min_gain, m):
    """Equation (25): M B_m sigma_n / (sqrt(2 x_t) G h_min,t)."""
    batch = device_value(scenario.batch_size, m)
    sigma_n = math.sqrt(scenario.privacy_noise_power or scenario.noise_power)
    return (
        scenario.num_devices
        * batch
        * sigma_n
        / (math.sqrt(2 * x) * scenario.clip_norm * math.sqrt(min_gain))
    )


def constraint(scenario, x, min_gain):
    """The summand of constraint (28b): d sigma_n^2 / h_min,t^2 (1 / x_t - 1 / x_max)."""
    return (
        scenario.num_parameters
        * scenario.noise_power
        / min_gain
        * (1 / x - 1 / x_max(scenario))
    )


def device_rdp(scenario, x, min_gain, m, alpha):
    """sum_t rho_alpha(q_m, sigma_m,t) of one device and an integer order."""
    q = device_value(scenario.batch_size, m) / device_value(scenario.dataset_size, m)
    pairs = zip(x, min_gain, strict=True)
    return math.fsum(
        rdp(q, noise_multiplier(scenario, a, g, m), alpha) for a, g in pairs
    )


def round_leakage(scenario, x, min_gain):
    """sum_m rho_3(q_m, sigma_m,t) of one round."""
    return math.fsum(
        device_rdp(scenario, [x], [min_gain], m, 3) for m in range(scenario.num_devices)
    )


def water_level(floor, budget):
    """The level that spends the budget, by bisection on exact sums."""
    low, high = min(floor), max(floor) + budget * len(floor)
    for _ in range(200):
        level = (low + high) / 2
        if math.fsum(max(level - w, 0) for w in floor) < budget * len(floor):
            low = level
        else:
            high = level
    return (low + high) / 2
