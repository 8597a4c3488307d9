"""What is one paper's alone: its methods and claims, the numbers it quotes, its experiments and its figures."""

from adascale.paper.claims import (
    QUOTED_ACCURACY,
    compare,
    holm,
    judge,
    overview,
    paper_claims,
    side_by_side,
    verdict_counts,
    verdicts,
)
from adascale.paper.lyapunov import LyapunovMatch, filled_lyapunov, kindest_lyapunov, match_lyapunov
from adascale.paper.methods import METHODS, VARIANTS

__all__ = [
    "METHODS",
    "QUOTED_ACCURACY",
    "VARIANTS",
    "LyapunovMatch",
    "compare",
    "filled_lyapunov",
    "holm",
    "judge",
    "kindest_lyapunov",
    "match_lyapunov",
    "overview",
    "paper_claims",
    "side_by_side",
    "verdict_counts",
    "verdicts",
]
