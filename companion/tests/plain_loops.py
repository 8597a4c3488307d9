"""Methods written out round by round, to hold the compiled ones to."""

import math


def lyapunov_cost(problem, penalty, rate):
    """Return the cost over the budget of the method of Shi et al. on one realisation."""
    queue, spent = 0.0, 0.0
    for cap, floor in zip(problem.max_eta, problem.min_noise_energy, strict=True):
        eta = cap if queue == 0 else min(cap, math.sqrt(penalty / queue))
        spent += problem.scenario.noise_scale / eta - floor
        queue = max(queue + eta - rate, 0.0)
    return spent / problem.num_rounds / float(problem.budget)
