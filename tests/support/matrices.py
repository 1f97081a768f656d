"""The cases of an exhaustive test go in; the first of them run by default, and the others with `-m long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`, all after the first ones marked `long`.

    A case that is a tuple has a value for each argument.
    """
    return [_case(case, number < count) for number, case in enumerate(cases)]


def _case(case: Any, by_default: bool) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=() if by_default else pytest.mark.long)
