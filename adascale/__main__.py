"""``python -m adascale``: the command ``adascale``."""

import sys

from adascale.cli import main

if __name__ == "__main__":
    sys.exit(main())
