"""ARCHITECTURE.md and its neighbours name files that exist."""

from __future__ import annotations

import re

import pytest
from support.source_tree import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "RELEASING.md")


def test_every_place_of_an_everyday_change_exists() -> None:
    rows = re.findall(r"^\| (.+) \| `(.+)` \|$", TEXT.partition("## Where do I find")[2], re.MULTILINE)
    assert len(rows) >= 20
    assert [path for _, path in rows if not (ROOT / path).is_file()] == []
    assert len({path for _, path in rows}) == len(rows)


def test_the_layers_drawn_are_those_of_the_runtime() -> None:
    drawing = TEXT.partition("## The runtime")[2].partition("```")[2].partition("```")[0]
    runtime = ROOT / "runtime" / "mcp_runtime"
    names = {path.stem for path in runtime.iterdir() if path.stem not in ("__init__", "__pycache__", "py")}
    assert {name for name in names if not re.search(rf"(?<!\w){name}(/|\s)", drawing)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (ROOT / link).exists()] == []
