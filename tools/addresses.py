"""Write the public address of this repository where packages and pages need it: ``python tools/addresses.py URL``

The workflows for releases and for the site call it.  The pages take their launch buttons from ``repository.url`` in
``_config.yml``; a package index shows links of pyproject.toml, and README with absolute links.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = """\
[project.urls]
Repository = "{url}"
Changelog = "{url}/blob/main/CHANGELOG.md"
Issues = "{url}/issues"

[project]
"""


def absolute(text, url):
    """Return Markdown with absolute links and pictures."""
    kinds = {"!": "raw", "": "blob"}
    return re.sub(
        r"(!?)\[([^]]*)\]\((?!https?:|#)([^)]+)\)",
        lambda link: f"{link[1]}[{link[2]}]({url}/{kinds[link[1]]}/main/{link[3]})",
        text,
    )


def main(url):
    settings = ROOT / "_config.yml"
    readme = ROOT / "README.md"
    settings.write_text(settings.read_text().replace('  url: ""', f'  url: "{url}"'))
    readme.write_text(absolute(readme.read_text(), url))
    for path in (ROOT / "pyproject.toml", ROOT / "companion" / "pyproject.toml"):
        table = TABLE.format(url=url)
        path.write_text(path.read_text().replace("[project]\n", table, 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
