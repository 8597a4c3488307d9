"""Write the table of a coverage measurement: ``python tools/coverage_table.py FILE PERCENT``

Percentages of lines and branches for each module, what is not run, and the versions that measured; no time and no
place, so that the file changes with the code and the tests alone.  Under PERCENT on the whole it fails.
"""

import io
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import coverage

from adascale.files import write_atomically


def main(path, least):
    data = coverage.Coverage()
    data.load()
    table = io.StringIO()
    total = data.report(file=table)
    packages = ("coverage", "numba", "numpy", "pytest", "torch")
    made = ", ".join(
        [f"Python {platform.python_version()}", *(f"{name} {version(name).partition('+')[0]}" for name in packages)]
    )
    head = f"Lines and branches of the library that the tests run, by `make coverage`.\n{made}\n\n"
    write_atomically(path, (head + table.getvalue()).encode())
    print(table.getvalue())
    if total < least:
        raise SystemExit(f"{path}: {total:.1f} % of lines and branches are run, expected at least {least:g} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
