"""What a system cannot do that a test needs: tests/windows/skipped.toml has the tests, and the reasons."""

from __future__ import annotations

import ctypes
import sys
import tomllib
from functools import cache
from typing import Any, Final, NamedTuple

from support.project import TESTS

TABLE: Final = TESTS / "windows" / "skipped.toml"


class Row(NamedTuple):
    """Tests that are skipped on Windows, or only under wine, and the reason."""

    where: str
    reason: str
    tests: tuple[str, ...]


@cache
def rows() -> list[Row]:
    """Return the table."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Row(row["where"], row["reason"], tuple(row["tests"])) for row in table["row"]]


@cache
def is_wine() -> bool:
    """Return True where the functions of Windows are those of wine: its ntdll tells its version."""
    if sys.platform != "win32":
        return False
    libraries: Any = ctypes.windll
    return hasattr(libraries.ntdll, "wine_get_version")


PATIENCE: Final = 10 if is_wine() else 1  # How often so long something gets: a process starts slowly under wine.


def reason_to_skip(test: str) -> str | None:
    """Return why a module, a test or a case of one is skipped on this system, and None if it is not.

    A row with a module or a test is about all that is in it.
    """
    if sys.platform != "win32":
        return None
    names = {test, test.partition("[")[0], test.partition("::")[0]}
    systems = ("windows", "wine") if is_wine() else ("windows",)
    return next((row.reason for row in rows() if row.where in systems and not names.isdisjoint(row.tests)), None)
