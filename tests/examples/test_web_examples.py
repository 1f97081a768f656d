"""The examples over HTTP as processes of their own, and the tutorials' servers together in one chatbot."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from support.clients import connect
from support.fake_weather import serving
from support.project import ROOT

from mcp_codegen.cli.main import main
from mcp_generated import v2024_11_05, v2025_03_26

EXAMPLES = ROOT / "examples"
DEADLINE = 60.0
# Runs a program that keeps its log to itself, so that it says where it listens.
LOUD = (
    "import logging, runpy, sys; logging.basicConfig(level=20); del sys.argv[0]; "
    "runpy.run_path(sys.argv[0], None, '__main__')"
)


@asynccontextmanager
async def listening(*words: str, **env: str) -> AsyncIterator[str]:
    """A program that serves HTTP; the URL that it says it listens at."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=pipe, env={**os.environ, **env})
    assert process.stderr is not None
    last_line = b""
    try:
        while not (match := re.search(rb"http://127\.0\.0\.1:\d+\S*", last_line)):
            line = await process.stderr.readline()
            assert line, last_line.decode()
            last_line = line
        yield match[0].decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def within_deadline(conversation: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(conversation(), DEADLINE))


async def call_for_text(client: Any, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(name=tool, arguments=arguments)
    assert not result.is_error, result
    return str(result.content[0].text)


@pytest.mark.long
def test_an_app_mounted_in_fastapi_shares_the_applications_state() -> None:
    async def conversation() -> None:
        program = ("-m", "uvicorn", "--app-dir", str(EXAMPLES / "web"), "--port", "0", "fastapi_app:web")
        async with listening(*program) as url:
            for number, client in enumerate((connect(f"{url}/mcp"), v2025_03_26.Client.http(f"{url}/mcp"))):
                async with client:
                    assert (
                        await call_for_text(client, "write_note", name=f"n{number}", text="hi")
                        == f"n{number} is at /notes"
                    )
                    [content] = (await client.read_resource(uri="note://n0")).contents
                    assert content.text == "hi"
            async with httpx2.AsyncClient() as browser:
                assert (await browser.get(f"{url}/notes")).json() == {"n0": "hi", "n1": "hi"}

    within_deadline(conversation)


@pytest.mark.long
def test_two_apps_are_served_to_clients_of_the_old_pair_of_endpoints_as_well() -> None:
    async def conversation() -> None:
        async with listening(str(EXAMPLES / "web" / "legacy_sse.py"), "0") as url:
            clients = (connect(url), v2025_03_26.Client.http(url), v2024_11_05.Client.http(url.replace("/mcp", "/sse")))
            for client in clients:
                async with client:
                    assert "3" in await call_for_text(client, "count_words", text="one two three")
                    assert "5" in await call_for_text(client, "numbers_add", a=2, b=3)

    within_deadline(conversation)


@pytest.mark.long
def test_the_weather_server_gives_the_same_over_http() -> None:
    async def conversation() -> None:
        with serving() as fake:
            folder = EXAMPLES / "weather"
            words = ("-c", LOUD, str(folder / "decorated.py"), "http", "0")
            async with listening(*words, WEATHER_API=fake.url, PYTHONPATH=str(folder)) as url:
                async with connect(url) as client:
                    assert "Flood Warning" in await call_for_text(client, "get_alerts", state="CA")

    within_deadline(conversation)


@pytest.mark.long
def test_one_configuration_starts_all_of_the_tutorials_servers_in_the_chatbot(tmp_path: Path) -> None:
    config = str(tmp_path / "claude_desktop_config.json")
    servers = {"weather": [], "sqlite": [], "filesystem": [str(tmp_path)], "memory": [str(tmp_path / "m.json")]}
    for name, words in {**servers, "thinking": [], "fetch": []}.items():
        program = str(EXAMPLES / name / "server.py")
        done = CliRunner().invoke(
            main, ["config", "add", "--file", config, name, "--", sys.executable, program, *words]
        )
        assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["config", "check", "--file", config]).exit_code == 0
    chatbot = [sys.executable, str(EXAMPLES / "chatbot" / "client.py"), config]
    ended = subprocess.run(chatbot, input="quit\n", capture_output=True, text=True, timeout=DEADLINE)
    assert ended.returncode == 0, ended.stderr
    [tools] = [line for line in ended.stdout.splitlines() if line.startswith("Tools: ")]
    for tool in ("get_forecast", "query", "read_file", "remember", "sequentialthinking", "fetch"):
        assert tool in tools.removeprefix("Tools: ").split(", ")
