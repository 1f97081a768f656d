"""docs/features.md has a row for each feature of the specification, and each row leads to an example that runs."""

from __future__ import annotations

import re
from typing import Final

import pytest
from support.docs.blocks import blocks_of
from support.project import ROOT

DOCS: Final = ROOT / "docs"
# How many features the tiers of SDKs (SEP-1730) count in each group.
GROUPS: Final = {
    "Tools": 8,
    "Resources": 8,
    "Prompts": 6,
    "Sampling": 1,
    "Elicitation": 6,
    "Roots": 2,
    "Logging": 2,
    "Completion": 2,
    "Ping": 1,
    "Transports": 6,
    "Protocol": 6,
}
_TABLE: Final = (DOCS / "features.md").read_text(encoding="utf-8").split("## The specification")[1].split("\n## ")[0]
ROWS: Final = re.findall(r"^\| (\w+) \| (.+?) \| \[.+?\]\((.+?)#(.+?)\) \| `.+?` \|$", _TABLE, re.M)


def test_each_group_has_all_of_its_features() -> None:
    counted = {group: sum(row[0] == group for row in ROWS) for group in GROUPS}
    assert counted == GROUPS
    assert len(ROWS) == len(re.findall(r"^\| ", _TABLE, re.M)) - 1
    assert len({(group, feature) for group, feature, *_ in ROWS}) == 48


@pytest.mark.parametrize(("group", "feature", "page", "anchor"), ROWS)
def test_the_example_of_a_feature_runs_and_has_its_names(group: str, feature: str, page: str, anchor: str) -> None:
    """`tests/house/test_docs.py` runs every block; here is where a block stands, and what is in it."""
    names = re.findall(r"`([^`]+)`", feature)
    assert names, f"{group}, {feature}: the row names nothing of its example"
    code = "".join(block.source for block in blocks_of(DOCS / page) if section_of(page, block.line) == anchor)
    assert [name for name in names if name not in code] == []


def section_of(page: str, line: int) -> str:
    """The anchor of the heading above a line of a page."""
    above = "\n".join((DOCS / page).read_text(encoding="utf-8").splitlines()[:line])
    plain = re.sub(r"^```.*?^```$", "", above, flags=re.M | re.S)
    heading = re.findall(r"^#{1,4} (.+)$", plain, re.M)[-1]
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
