"""The tables of docs/features.md: a row has our name and a test that is there, or says what is missing."""

from __future__ import annotations

import re

from support.project import ROOT

PAGE = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
ROWS = [re.split(r"(?<!\\)\|", line)[1:-1] for line in re.findall(r"^\| (?!module|group).*\|$", PAGE, re.M)]


def test_every_row_has_a_module_their_name_our_name_and_a_test() -> None:
    assert len(ROWS) > 90
    assert [row for row in ROWS if len(row) != 4 or not all(cell.strip() for cell in row)] == []


def test_the_tests_of_the_tables_are_there() -> None:
    paths = {row[3].strip(" `") for row in ROWS} - {"-"}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_a_row_without_a_test_says_that_the_feature_is_missing_and_why() -> None:
    for _, theirs, ours, test in ROWS:
        if test.strip() == "-":
            assert ours.strip().startswith(("not yet", "no: ")), theirs


def test_at_most_five_rows_say_no() -> None:
    assert len([row for row in ROWS if row[2].strip().startswith("no: ")]) <= 5
