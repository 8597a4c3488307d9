"""Download a data set through torchvision, with checksums verified, to the folder ADASCALE_DATA or the user's cache.

No other command downloads anything. This command needs the extra: pip install 'adascale[learn]'.

example:
  adascale download mnist
"""

import argparse
import importlib

from adascale.cli import common


def run(options: argparse.Namespace) -> None:
    """Download, and print the folder."""
    print(common.visible(str(importlib.import_module("adascale.learning.data").download(options.dataset))))
