"""Write the public address where packages, archives and pages need it: ``python tools/addresses.py [URL]``

The one setting is ``repository.url`` in ``_config.yml``.  A URL given here is written there first, as the workflows for
releases and for the site do.  Where the setting is empty, nothing changes: nothing names an address.  Pages take their
base address, their canonical links and their launch buttons from the same setting (``site_pages.py``).
"""

import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def absolute(text, url):
    """README with absolute links and pictures, for a package index."""
    text = re.sub(
        r"!\[([^]]*)\]\((?!https?:)([^)]+)\)", rf"![\1]({url}/raw/main/\2)", text
    )
    return re.sub(
        r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)]+)\)", rf"[\1]({url}/blob/main/\2)", text
    )


def with_urls(text, url):
    """A pyproject.toml with the table of addresses that a package index shows."""
    table = {
        "Repository": url,
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    lines = [f'{name} = "{address}"' for name, address in table.items()]
    return re.sub(
        r"^\[project\]$",
        "\n".join(["[project.urls]", *lines, "", "[project]"]),
        text,
        count=1,
        flags=re.M,
    )


def main():
    settings = ROOT / "_config.yml"
    if len(sys.argv) > 1:
        settings.write_text(
            re.sub(
                r'^(  url: )".*?"',
                rf'\1"{sys.argv[1]}"',
                settings.read_text(),
                flags=re.M,
            )
        )
    url = yaml.safe_load(settings.read_text())["repository"]["url"]
    if not url:
        return
    (ROOT / "README.md").write_text(absolute((ROOT / "README.md").read_text(), url))
    for path in (ROOT / "pyproject.toml", ROOT / "companion" / "pyproject.toml"):
        if "[project.urls]" not in path.read_text():
            path.write_text(with_urls(path.read_text(), url))
    citation = re.sub(
        r"^repository-code: .*\n", "", (ROOT / "CITATION.cff").read_text(), flags=re.M
    )
    (ROOT / "CITATION.cff").write_text(f"{citation}repository-code: {url}\n")
    about = json.loads((ROOT / "codemeta.json").read_text()) | {
        "codeRepository": url,
        "issueTracker": f"{url}/issues",
    }
    (ROOT / "codemeta.json").write_text(
        json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
