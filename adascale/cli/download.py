"""``adascale download``: fetch a data set."""

from __future__ import annotations

import argparse

from adascale.cli import common

DESCRIPTION = """\
Fetch a data set through torchvision, checksums verified, into the folder in ADASCALE_DATA or into the user's cache.

Nothing else ever downloads. Needs the extra: pip install 'adascale[learn]'."""

EXAMPLE = "adascale download mnist"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("dataset", help="mnist or cifar10")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    print(common.visible(str(common.learning("adascale.learning.data").download(options.dataset))))
