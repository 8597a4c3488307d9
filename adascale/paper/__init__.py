"""What is the paper's alone: its claims, its experiments and its figures."""

from adascale.paper.claims import compare, judge, paper_claims, verdicts

__all__ = ["compare", "judge", "paper_claims", "verdicts"]
