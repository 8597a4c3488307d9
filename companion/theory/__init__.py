"""Convergence, regret and least squares: both sides of every theorem."""
