"""Which cases of a test run by default, which in the long run, and which in the exhaustive one alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

DEFAULT, LONG, EXHAUSTIVE = range(3)  # Which run is the first to have a case.
# What the runs are asked for by, and the last cases that they have; any other expression selects among all cases.
RUNS: Final = {"not long and not exhaustive and not campaign and not check": DEFAULT, "long": LONG}
_LATER: Final = r"pytest\.mark\.(?:long|exhaustive|campaign)\b"
_ALL_LATER: Final = re.compile(rf"^pytestmark = .*{_LATER}", re.MULTILINE)
_TEST: Final = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)
_LATER_TEST: Final = re.compile(rf"^ *@{_LATER}\n(?: *@.*\n)* *(?:async )?def test_", re.MULTILINE)


def is_for_later(module: Path) -> bool:
    """Return True for a module whose tests are all marked for other runs than the default one, or read the whole
    repository. It is not imported to know."""
    if module.parent.name == "house" and module.name != "test_docs.py":
        return True
    text = module.read_text(encoding="utf-8")
    tests = len(_TEST.findall(text))
    return tests > 0 and (_ALL_LATER.search(text) is not None or tests == len(_LATER_TEST.findall(text)))


def long_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`, all after the first ones marked `long`.

    A case that is a tuple has a value for each argument.
    """
    return [_case(case, () if number < count else pytest.mark.long) for number, case in enumerate(cases)]


def edges(ids: Sequence[str], names: Collection[str]) -> list[bool]:
    """Return which cases of a dear test its marker `edges` keeps, by their ids: those whose id has one of the names in
    it, or, without names, the first and the last. Raises ValueError if no case has one of the names."""
    if names:
        kept = [any(name in id for name in names) for id in ids]
        if not any(kept):
            raise ValueError(f"edges names {', '.join(names)}, and no case has one of them: {', '.join(ids)}")
        return kept
    return [number in (0, len(ids) - 1) for number in range(len(ids))]


def _case(case: Any, marks: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=marks)


def first_runs(cases: Sequence[Mapping[str, int]], marked: Sequence[int]) -> list[int]:
    """Return the first run that has each case of a test: the cases say which value of each argument they have, and the
    marks which run may be the first.

    By default each value of each argument has a case. In the long run each value has one whose cases are all marked
    `long`, such as a version between the first and the last. The rest of the product, and what is marked `exhaustive`,
    is left to the exhaustive run.
    """
    runs = [EXHAUSTIVE] * len(cases)
    values = [frozenset(case.items()) for case in cases]
    covered: set[tuple[str, int]] = set()
    for run in (DEFAULT, LONG):
        for number in _covering(values, [number for number, mark in enumerate(marked) if mark == run], covered):
            runs[number] = run
            covered |= values[number]
    return runs


def _covering(parts: Sequence[frozenset[Any]], candidates: list[int], covered: set[Any]) -> list[int]:
    """Return the candidates that together have all parts that any of them has, each time the one with most new ones."""
    chosen: list[int] = []
    left = {part for number in candidates for part in parts[number]} - covered
    while left:
        best = max(candidates, key=lambda number: len(parts[number] & left))  # The first of those that are alike.
        chosen.append(best)
        left -= parts[best]
    return chosen


def arguments_of(tests: Sequence[pytest.Function]) -> list[dict[str, int]]:
    """Return which value each case of a test has of each argument; arguments of one `parametrize` are one."""
    names = {name: name for test in tests for name in _params(test)}
    for mark in tests[0].iter_markers("parametrize"):
        together = [name.strip() for name in _names(mark.args[0] if mark.args else mark.kwargs["argnames"])]
        names |= dict.fromkeys(together, ",".join(together))
    numbers: dict[tuple[str, tuple[int, ...]], int] = {}
    cases: list[dict[str, int]] = []
    for test in tests:
        values: dict[str, tuple[int, ...]] = {}
        for name, value in _params(test).items():
            values[names[name]] = (*values.get(names[name], ()), id(value))
        cases.append({name: numbers.setdefault((name, value), len(numbers)) for name, value in values.items()})
    return cases


def _params(test: pytest.Function) -> dict[str, Any]:
    return dict(test.callspec.params) if hasattr(test, "callspec") else {}


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return names.split(",") if isinstance(names, str) else names
