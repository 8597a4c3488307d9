"""The epsilon of other accountants, asked with our events: Opacus and dp_accounting."""

import warnings
from functools import partial
from importlib import import_module


def _opacus(name, events, delta):
    """Return epsilon of one of Opacus' accountants, a bound from above."""
    accountant = getattr(import_module("opacus.accountants"), name)()
    accountant.history = [(sigma, rate, count) for rate, sigma, count in events]
    with warnings.catch_warnings(action="ignore"):
        return float(accountant.get_epsilon(delta=delta))


def _pld(events, delta):
    """Return epsilon of dp_accounting's privacy loss distributions, a bound from above."""
    dp, accountants = map(import_module, ("dp_accounting", "dp_accounting.pld"))
    accountant = accountants.PLDAccountant()
    for rate, sigma, count in events:
        event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
        accountant.compose(event, count)
    return float(accountant.get_epsilon(delta))


PEERS = {
    "dp-accounting, PLD": _pld,
    "Opacus, PRV": partial(_opacus, "PRVAccountant"),
    "Opacus, Rényi": partial(_opacus, "RDPAccountant"),
}
"""Accountants at their default settings."""
