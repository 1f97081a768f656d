"""Servers in programs of trio and of anyio, with handlers that use anyio."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio
from support.clients import connect

from mcp_generated import App, LocalError

ENVIRONMENT = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
SCRIPT = str(Path(__file__).with_name("calculator.py"))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
async def test_a_server_over_stdio_runs_in_a_program_of_anyio(backend: str) -> None:
    steps: list[float] = []
    async with connect([sys.executable, SCRIPT, backend], env=ENVIRONMENT) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        result = await client.call_tool(
            "by_anyio", {"text": "x"}, on_progress=lambda progress: steps.append(progress.progress)
        )
        assert result.structured_content == {"result": "x"}
        result = await client.call_tool("through_program", {"text": "y"})
        assert result.structured_content == {"result": "y"}
    assert steps == [1]


def test_run_is_refused_in_a_trio_task_and_an_error_of_run_async_is_raised() -> None:
    async def main() -> None:
        app = App("x")
        with pytest.raises(LocalError, match="await app.run_async"):
            app.run()
        with pytest.raises(LocalError, match="no transport 'pigeon'"):
            await app.run_async("pigeon")  # type: ignore[call-overload]

    trio.run(main)
