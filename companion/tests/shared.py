"""What tests of several studies share: the folder of the committed results, and the chapter's least-squares example."""

from pathlib import Path

import numpy as np

from companion.theory.least_squares import LeastSquares

RESULTS = Path(__file__).parents[2] / "results"


def example(spread=0.15):
    """Five devices whose targets differ by ``spread``."""
    deviation = np.random.default_rng(0).standard_normal((5, 5))
    deviation -= deviation.mean(axis=0)
    return LeastSquares(np.array([1, 1, 0.8, 0.6, 0.5]), 0.3 + spread * deviation, label_noise=0.3)
