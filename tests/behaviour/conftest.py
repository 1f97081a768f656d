"""Coroutine functions go in as tests: each runs in an event loop of its own, under a deadline."""

from __future__ import annotations

import asyncio
import inspect

import pytest

DEADLINE = 20.0  # Seconds.


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    asyncio.run(asyncio.wait_for(test(**given), DEADLINE))
    return True
