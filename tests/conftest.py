"""What tests share: the official files, where they are, the revisions, and an event loop for each test that wants one."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

from mcp_generated import REVISIONS

ROOT = Path(__file__).resolve().parent.parent
OFFICIAL = Path(os.environ.get("MCP_OFFICIAL_SCHEMA", ROOT.parent / "shared" / "schema"))

# How long an example takes says more of the machine than of what is tested.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

DEADLINE = 20.0  # Seconds that a coroutine function gets as a test, where no marker gives it more.

needs_official = pytest.mark.skipif(
    not OFFICIAL.is_dir(), reason=f"the official schemas are not at {OFFICIAL} (set MCP_OFFICIAL_SCHEMA)"
)


@cache
def official(revision: str) -> dict[str, Any]:
    """The official schema.json of a revision."""
    schema: dict[str, Any] = json.loads((OFFICIAL / revision / "schema.json").read_text(encoding="utf-8"))
    return schema


def package(revision: str, module: str) -> ModuleType:
    """One module of the generated package of a revision."""
    return importlib.import_module(f"mcp_generated.{REVISIONS[revision]}.{module}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `revision` runs once for each."""
    if "revision" in metafunc.fixturenames:
        metafunc.parametrize("revision", list(REVISIONS))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function in an event loop of its own, under a deadline."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    own = pyfuncitem.get_closest_marker("deadline")
    asyncio.run(asyncio.wait_for(test(**given), DEADLINE if own is None else own.args[0]))
    return True
