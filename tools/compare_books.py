"""Whether two builds of the book are the same book: ``python tools/compare_books.py FOLDER FOLDER``

Every file of the site must be there twice, byte for byte, but for the seconds that the chapters took (``executed.py``).
What differs is named, with the first line that does.
"""

import re
import sys
from pathlib import Path

SECONDS = re.compile(rb'(<td class="[^"]*\bseconds\b[^"]*">).*?</td>', re.DOTALL)


def content(path):
    """The bytes of a file; of a page, without the seconds."""
    return SECONDS.sub(rb"\1</td>", path.read_bytes()) if path.suffix == ".html" else path.read_bytes()


def difference(one, other):
    """The first line in which two files differ, or None."""
    a, b = content(one), content(other)
    if a == b:
        return None
    first, second = a.splitlines(), b.splitlines()
    for number, (left, right) in enumerate(zip(first, second, strict=False), 1):
        if left != right:
            at = next((i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), 0)
            start = max(at - 40, 0)
            return f"line {number}: {left[start : at + 60]!r} and {right[start : at + 60]!r}"
    return f"{len(first)} and {len(second)} lines"


def compare(one, other):
    """What differs, a line for each file."""
    names = sorted({path.relative_to(side) for side in (one, other) for path in side.rglob("*") if path.is_file()})
    if not names:
        raise SystemExit(f"there is no book in {one}")
    found = []
    for name in names:
        if missing := [side for side in (one, other) if not (side / name).is_file()]:
            found.append(f"{name}: not in {missing[0]}")
        elif (said := difference(one / name, other / name)) is not None:
            found.append(f"{name}: {said}")
    return names, found


def main(one, other):
    names, found = compare(one, other)
    print(*found, sep="\n", end="\n" if found else "")
    if found:
        raise SystemExit(f"{len(found)} of {len(names)} files differ")
    print(f"all {len(names)} files are the same")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
