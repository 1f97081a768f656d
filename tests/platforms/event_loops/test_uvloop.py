"""Clients and servers in the event loops of asyncio that programs choose: its own, and uvloop's."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Context
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

LOOPS = ["uvloop", "selector"]
PROGRAM = """
import asyncio, sys
from mcp_generated import App
app = App("calculator")
@app.tool()
def add(a: int, b: int) -> int:
    return a + b
@app.tool()
async def loop() -> str:
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]
"""
OVER_STDIO = f"{PROGRAM}\nimport uvloop\nuvloop.run(app.run_async('stdio'))\n"
OVER_HTTP = f"{PROGRAM}\napp.run('http', port=0, uvicorn={{'loop': 'uvloop'}})\n"


def factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "selector":
        return asyncio.SelectorEventLoop
    uvloop = pytest.importorskip("uvloop", reason="uvloop does not run on this system")
    return uvloop.new_event_loop  # type: ignore[no-any-return]


def run(main: Any, name: str) -> None:
    with asyncio.Runner(loop_factory=factory(name)) as runner:
        runner.run(asyncio.wait_for(main, 15))


async def use(target: Any, expected: str) -> None:
    steps: list[float] = []
    environment = {"env": {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}}
    async with connect(target, **({} if isinstance(target, str) else environment)) as client:
        calls = [client.call_tool("add", {"a": number, "b": 1}) for number in range(50)]
        results = [result.structured_content for result in await asyncio.gather(*calls)]
        assert results == [{"result": number + 1} for number in range(50)]
        result = await client.call_tool("loop", on_progress=lambda progress: steps.append(progress.progress))
        assert result.structured_content == {"result": expected}


@pytest.mark.parametrize("name", LOOPS)
def test_a_client_and_a_server_over_stdio_run_in_the_event_loop_of_the_program(name: str, tmp_path: Path) -> None:
    factory("uvloop")
    script = tmp_path / "server.py"
    script.write_text(OVER_STDIO)
    run(use([sys.executable, str(script)], "uvloop"), name)


@pytest.mark.long
@pytest.mark.parametrize("name", LOOPS)
def test_a_client_and_a_server_over_http_run_in_the_event_loop_of_the_program(name: str, tmp_path: Path) -> None:
    factory("uvloop")
    script = tmp_path / "server.py"
    script.write_text(OVER_HTTP)

    async def main() -> None:
        server = await asyncio.create_subprocess_exec(sys.executable, str(script), stderr=asyncio.subprocess.PIPE)
        assert server.stderr is not None
        try:
            line = (await server.stderr.readline()).decode()
            await use(line.partition("listening at ")[2].strip(), "uvloop")
        finally:
            server.terminate()
            await server.communicate()

    run(main(), name)


@pytest.mark.parametrize("name", LOOPS)
def test_handlers_cancellation_and_subscriptions_work_in_memory(name: str) -> None:
    app, cancelled = App("waiting"), list[bool]()

    @app.tool()
    async def wait(ctx: Context) -> None:
        answer = await ctx.elicit("Begin?", bool)
        assert answer.action == "accept"
        try:
            began.set()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    class Guest(Client):
        async def on_elicit(self, ctx: object, params: object) -> t.ElicitResult:
            return t.ElicitResult(action="accept", content={"value": True})

    began = asyncio.Event()

    async def main() -> None:
        async with Guest.memory(app) as client, client.listen(tool_list_changed=True) as changes:
            call = asyncio.create_task(client.call_tool("wait"))
            await began.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            app.remove_tool("wait")
            assert isinstance(await anext(changes), t.ToolListChangedNotification)
        assert cancelled == [True]

    run(main(), name)
