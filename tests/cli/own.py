"""A policy of one's own, as the text of a module."""

OWN = """
class Constant:
    tuned = ("extra",)

    def __init__(self, extra):
        self.extra = extra

    def start(self, scenario, budget):
        return scenario

    def step(self, scenario, min_gain_t):
        floor = scenario.noise_scale / (scenario.x_max * min_gain_t)
        return scenario, scenario.noise_scale / (floor + self.extra)


class Thrifty(Constant):
    tuned = ()

    def __init__(self):
        super().__init__(1e-4)
"""
