"""``python -m adascale``: the command ``adascale``."""

import sys

from adascale.cli import main

sys.exit(main())
