"""How to cite and under which terms: CITATION.cff and the two licences say what the rest of the repository says."""

import re
import tomllib
from pathlib import Path

import yaml
from pybtex.database import parse_file

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_citation_has_what_version_1_2_of_the_format_requires():
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert CITATION["type"] == "software"
    paper = CITATION["preferred-citation"]
    assert {"type", "title", "authors"} <= paper.keys()
    for author in CITATION["authors"] + paper["authors"]:
        assert author.keys() in ({"name"}, {"family-names", "given-names"})


def test_citation_names_the_paper_as_the_bibliography_does():
    entry = parse_file(str(ROOT / "book" / "references.bib")).entries["moradi2026adascale"]
    paper = CITATION["preferred-citation"]
    assert paper["title"] == entry.fields["title"]
    assert paper["collection-title"] == entry.fields["booktitle"]
    assert str(paper["year"]) == entry.fields["year"]
    assert [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]] == [
        str(person) for person in entry.persons["author"]
    ]
    arxiv = re.search(r"\d{4}\.\d{5}", str(entry.fields))[0]
    assert paper["identifiers"] == [{"type": "other", "value": f"arXiv:{arxiv}"}]


def test_licences_are_the_ones_that_are_named():
    code, text = (ROOT / "LICENSE").read_text(), (ROOT / "LICENSE-text").read_text()
    assert code.startswith("BSD 3-Clause License")
    assert PROJECT["license"] == f"{CITATION['license']} AND CC-BY-4.0" == "BSD-3-Clause AND CC-BY-4.0"
    assert "CC BY 4.0" in text.partition("\n")[0]
    assert re.search(r"Copyright .*", code)[0] == re.search(r"Copyright .*", text)[0]
    for place in re.findall(r"[\w.]+/(?:_static/)?|README\.md", text.partition("The legal code")[0]):
        assert (ROOT / place).exists(), place
    assert set(PROJECT["license-files"]) == {path.name for path in ROOT.glob("LICENSE*")}, "a wheel carries both"
