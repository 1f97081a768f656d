"""The tables of attacks in docs/security.md: their rows are whole, and the tests that they name are there."""

from __future__ import annotations

import re

from support.project import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
COLUMNS = ["attack", "limit", "default", "setting", "test"]


def rows() -> list[list[str]]:
    """Return the cells of the rows below the heads of the tables."""
    tables = re.findall(r"^(?:\|.*\n)+", PAGE, re.MULTILINE)
    cells = [[cells_of(line) for line in table.splitlines()] for table in tables]
    assert all(head == COLUMNS and set(rule) == {"---"} for head, rule, *_ in cells)
    return [row for table in cells for row in table[2:]]


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_each_row_is_whole_and_its_tests_are_there() -> None:
    for row in rows():
        assert len(row) == len(COLUMNS), row
        attack, limit, default, setting, test = row
        assert attack and (limit or default or setting), row
        named = re.findall(r"`(tests/[^`]+\.py)(?:::(\w+))?`", test)
        assert named or limit.startswith("none by this server"), f"no test, and no word of it: {attack}"
        for path, name in named:
            file = ROOT / path
            assert file.is_file(), path
            text = file.read_text(encoding="utf-8")
            assert re.search(rf"def {name}\b" if name else r"^(async )?def test_", text, re.MULTILINE), (path, name)


def test_an_attack_stands_there_once() -> None:
    attacks = [row[0] for row in rows()]
    assert len(attacks) == len(set(attacks)) > 50
