"""What tests of several studies share: the folder of the committed results, and examples."""

from pathlib import Path

import pandas as pd

from companion.summary import by_seed
from companion.theory import convergence

RESULTS = Path(__file__).parents[2] / "results"


def example(spread=0.15):
    """Five devices whose targets differ by ``spread``."""
    return convergence.example(spread=spread).problem


def two_partitions(table, nus):
    """Accuracies of i.i.d. trainings and of those with two classes per device, paired by seed, in per cent."""
    every = by_seed(table)
    arms = {"no clipping": "without noise or clipping", "no noise": "without noise"}
    pairs = {arm: [(reading, f"two classes a device, {reading}"), "NoiseFree", 0.01] for arm, reading in arms.items()}
    pairs |= {f"ν = {nu:g}": [("as stated", "two classes a device"), "AdaScale", nu] for nu in nus}
    parts = [{arm: every[readings[i], *rest] for arm, (readings, *rest) in pairs.items()} for i in (0, 1)]
    both = pd.concat(map(pd.DataFrame, parts), axis=1, keys=("iid", "two classes")).dropna()
    return both["iid"], both["two classes"]
