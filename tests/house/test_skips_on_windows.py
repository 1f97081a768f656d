"""The table of what is skipped on Windows names tests that exist, and docs/platforms.md has its reasons."""

from __future__ import annotations

import re

import pytest
from support.project import ROOT
from support.systems import Row, rows

PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.reason[:40])
def test_the_tests_of_a_row_exist(row: Row) -> None:
    for test in row.tests:
        module, _, name = test.partition("::")
        source = (ROOT / module).read_text(encoding="utf-8")
        function = name.partition("[")[0]
        assert not name or re.search(rf"^(async )?def {function}\(", source, re.MULTILINE), test


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.reason[:40])
def test_the_page_has_the_reason(row: Row) -> None:
    assert f"| {row.where} | {row.reason} |" in PAGE
    assert row.where in ("windows", "wine")
