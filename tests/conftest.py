"""Settings of every test: figures need no screen, and hypothesis draws the same examples on every machine."""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
# deadline: the first example of a compiled function includes its compilation
settings.register_profile("adascale", deadline=None, derandomize=True)
settings.load_profile("adascale")
