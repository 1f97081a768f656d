"""The table of attacks in docs/security.md: its rows are whole, and the tests that they name are there."""

from __future__ import annotations

import re

import pytest
from support.project import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
COLUMNS = ["attack", "limit", "default", "setting", "test"]


def rows() -> list[list[str]]:
    """Return the cells of the rows below the head of the table."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert cells[0] == COLUMNS and set(cells[1]) == {"---"}
    return cells[2:]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_row_is_whole_and_its_tests_are_there(row: list[str]) -> None:
    assert len(row) == len(COLUMNS), row
    attack, limit, default, setting, test = row
    assert attack and (limit or default or setting)
    named = re.findall(r"`(tests/[^`]+\.py)(?:::(\w+))?`", test)
    assert named or limit.startswith("none by this server"), "a row without a test says that there is no limit"
    for path, name in named:
        file = ROOT / path
        assert file.is_file(), path
        text = file.read_text(encoding="utf-8")
        assert re.search(rf"def {name}\b" if name else r"^(async )?def test_", text, re.MULTILINE), (path, name)


def test_an_attack_stands_there_once() -> None:
    attacks = [row[0] for row in rows()]
    assert len(attacks) == len(set(attacks)) > 50
