"""Which run is the first to have a case: each value by default or in the long run, and then all cases."""

from __future__ import annotations

from itertools import product

import pytest
from support.matrices import DEFAULT, EXHAUSTIVE, LONG, edges, first_runs


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (7, 22), (2, 3, 4)], ids=str)
def test_each_value_runs_by_default_and_the_rest_of_the_product_is_exhaustive(sizes: tuple[int, ...]) -> None:
    cases = [dict(enumerate(values)) for values in product(*(range(size) for size in sizes))]
    runs = first_runs([{str(name): value for name, value in case.items()} for case in cases], [DEFAULT] * len(cases))
    by_default = [case for case, run in zip(cases, runs, strict=True) if run == DEFAULT]
    assert {item for case in by_default for item in case.items()} == {i for case in cases for i in case.items()}
    assert len(by_default) == max(sizes) and runs.count(EXHAUSTIVE) == len(cases) - len(by_default)


def test_a_value_that_is_long_waits_for_the_long_run() -> None:
    cases = [{"over": over, "version": version} for over, version in product(range(3), range(2))]
    runs = first_runs(cases, [LONG if case["over"] == 2 else DEFAULT for case in cases])
    assert [run for case, run in zip(cases, runs, strict=True) if case["over"] == 2] == [LONG, EXHAUSTIVE]
    assert (runs.count(DEFAULT), runs.count(EXHAUSTIVE)) == (2, 3)


def test_a_test_that_is_long_as_a_whole_has_each_value_in_the_long_run() -> None:
    cases = [{"over": over, "version": version} for over, version in product(range(3), range(2))]
    runs = first_runs(cases, [LONG] * len(cases))
    assert (runs.count(LONG), runs.count(EXHAUSTIVE)) == (3, 3)


def test_a_case_that_is_marked_exhaustive_is_in_neither_run() -> None:
    cases = [{"over": over} for over in range(4)]
    assert first_runs(cases, [DEFAULT, EXHAUSTIVE, LONG, EXHAUSTIVE]) == [DEFAULT, EXHAUSTIVE, LONG, EXHAUSTIVE]
    assert first_runs(cases, [LONG, EXHAUSTIVE, EXHAUSTIVE, EXHAUSTIVE]) == [LONG, *[EXHAUSTIVE] * 3]


def test_a_dear_test_keeps_the_first_and_the_last_case_or_those_that_it_names() -> None:
    ids = ["one]", "two]", "three]"]
    assert edges(ids, ()) == [True, False, True]
    assert edges(ids, ("two",)) == [False, True, False]
    with pytest.raises(ValueError, match="names four, and no case has one of them: one"):
        edges(ids, ("four",))
