"""Let the scripts of .venv find the interpreter beside them: ``python tools/scripts.py``

Where its path has spaces, pip starts it by a shell, in double quotes: a dollar sign or a quotation mark would end that.
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".venv" / "bin"
BY_PATH = b"#!/bin/sh\n'''exec' "
BESIDE = b"""#!/bin/sh\n'''exec' "$(dirname "$0")/python" "$0" "$@"\n"""


def beside(script: bytes) -> bytes:
    """Return a script that starts the interpreter of its own folder, where it started one by path and by a shell."""
    if not script.startswith(BY_PATH):
        return script
    _, _, rest = script.split(b"\n", 2)
    return BESIDE + rest


if __name__ == "__main__":
    for path in FOLDER.iterdir():
        if path.is_file() and not path.is_symlink():
            path.write_bytes(beside(path.read_bytes()))
