"""The cases of an exhaustive test go in; the first of them run by default, and the others with `-m long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`, of which all after the first ones have the mark `long`."""
    return [case if number < count else _long(case) for number, case in enumerate(cases)]


def _long(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
