"""The size of one message has a limit on every transport, a setting that raises it, and an error that names both."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.http.sockets import listening
from support.peers import started

from mcp_generated import App, Gateway
from mcp_generated.http import HTTPLimits, HTTPOptions
from mcp_generated.v2026_07_28 import SyncClient
from mcp_runtime.errors import InvalidResponseError, LocalError, MCPError, RemoteJSONRPCError

SMALL = 20_000  # Bytes of a message in these tests.
LONG = 40_000  # Characters of a text that is longer.
LARGE = 1_000_000

SERVER = """
import sys
from mcp_generated import App

app = App("texts")

@app.tool
def make(length: int) -> str:
    return "x" * length

@app.tool
def measure(text: str) -> int:
    return len(text)

if __name__ == "__main__":
    app.run("stdio", **({"max_bytes": int(sys.argv[1])} if sys.argv[1:] else {}))
"""


@contextmanager
def served(words: list[str], transport: str) -> Iterator[Any]:
    """Yield what to connect to: a command, or the URL of its endpoint."""
    if transport == "stdio":
        yield words
        return
    process = started([*words, "--http", "127.0.0.1:0"], dict(os.environ), "listening at ")
    try:
        yield process.output.split("listening at ")[1].split()[0]
    finally:
        process.process.terminate()
        process.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return str(path)


def app() -> App:
    texts = App("texts")

    @texts.tool
    def make(length: int) -> str:
        return "x" * length

    @texts.tool
    def measure(text: str) -> int:
        return len(text)

    return texts


async def lengths(client: Any, size: int = LONG) -> tuple[int, int]:
    """Return the length of a long result, and of long arguments."""
    made = await client.call_tool("make", {"length": size}, timeout=10)
    measured = await client.call_tool("measure", {"text": "x" * size}, timeout=10)
    return len(made.content[0].text), int(measured.content[0].text)


@pytest.mark.long
async def test_a_long_result_over_stdio_names_the_limit_and_the_setting_that_raises_it(server: str) -> None:
    async with connect([sys.executable, server], max_bytes=SMALL) as client:
        with pytest.raises(InvalidResponseError, match=r"limit of 20000 bytes; max_bytes= of connect\(\) or Client"):
            await client.call_tool("make", {"length": LONG}, timeout=10)
        assert (await lengths(client, 10))[0] == 10
    async with connect([sys.executable, server], max_bytes=LARGE) as client:
        assert await lengths(client) == (LONG, LONG)


@pytest.mark.long
async def test_long_arguments_over_stdio_are_refused_at_once_for_the_request_that_has_them(
    server: str, revision: str
) -> None:
    async with connect([sys.executable, server, str(SMALL)], revisions=[revision]) as client:
        with pytest.raises(RemoteJSONRPCError, match=r'limit of 20000 bytes; max_bytes= of run\("stdio"\)'):
            await client.call_tool("measure", {"text": "x" * LONG}, timeout=10)
        assert (await lengths(client, 10))[1] == 10
    async with connect([sys.executable, server, str(LARGE)], revisions=[revision]) as client:
        assert await lengths(client) == (LONG, LONG)


def test_a_client_without_a_loop_has_the_setting(server: str) -> None:
    with (
        SyncClient.stdio(sys.executable, server, max_bytes=SMALL) as client,
        pytest.raises(InvalidResponseError, match="limit of 20000 bytes"),
    ):
        client.call_tool("make", {"length": LONG}, timeout=10)


@pytest.mark.parametrize("json_response", [True, False])
async def test_a_long_message_over_http_names_the_limit_and_its_setting(json_response: bool) -> None:
    asgi: Any = app().asgi(limits=HTTPLimits(max_body=SMALL), json_response=json_response)
    async with listening(asgi) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with connect(url, http=HTTPOptions(max_bytes=SMALL)) as client:
            with pytest.raises(
                MCPError,
                match=r"20000 bytes; HTTPOptions\(max_bytes=…\), --max-bytes of a",
            ):
                await client.call_tool("make", {"length": LONG}, timeout=10)
            with pytest.raises(
                RemoteJSONRPCError,
                match=r"20000 bytes; HTTPLimits\(max_body=…\) of the server, or --max-b",
            ):
                await client.call_tool("measure", {"text": "x" * LONG}, timeout=10)
        async with connect(url, http=HTTPOptions(max_bytes=LARGE)) as client:
            made: Any = await client.call_tool("make", {"length": LONG}, timeout=10)
            assert len(made.content[0].text) == LONG
    await asgi.close()


async def test_a_client_in_memory_has_no_limit() -> None:
    async with connect(app()) as client:
        assert await lengths(client, 9_000_000) == (9_000_000, 9_000_000)


@pytest.mark.long
async def test_a_bridge_has_the_setting_for_both_of_its_sides(server: str) -> None:
    bridge = [sys.executable, "-m", "mcp_products.relay.bridge"]
    async with connect([*bridge, "--max-bytes", str(SMALL), "--", sys.executable, server]) as client:
        with pytest.raises(RemoteJSONRPCError, match=r"limit of 20000 bytes; --max-bytes of the bridge raises it"):
            await client.call_tool("measure", {"text": "x" * LONG}, timeout=10)
        with pytest.raises(RemoteJSONRPCError, match=r"limit of 20000 bytes; --max-bytes of the bridge raises it"):
            await client.call_tool("make", {"length": LONG}, timeout=10)
    size = 9_000_000  # Above the default of each side.
    words = [*bridge, "--max-bytes", str(3 * size), "--", sys.executable, server, str(3 * size)]
    async with connect(words, max_bytes=3 * size) as client:
        assert await lengths(client, size) == (size, size)


@pytest.mark.long
async def test_servers_of_a_proxy_a_gateway_and_a_configuration_have_the_setting(server: str) -> None:
    entry = {"command": sys.executable, "args": [server], "max_bytes": SMALL}
    small = App.proxy([sys.executable, server], max_bytes=SMALL)
    gateway = Gateway({"upstreams": {"texts": {**entry, "prefix": ""}}})
    for front in (small, App.proxy(entry), App.proxy({"mcpServers": {"texts": entry}}), gateway.app):
        async with connect(front) as client:
            with pytest.raises(RemoteJSONRPCError, match="max_bytes= of connect.*, or of an entry, raises it"):
                await client.call_tool("make", {"length": LONG}, timeout=10)
            made: Any = await client.call_tool("make", {"length": 10}, timeout=10)
            assert made.content[0].text == "x" * 10


@pytest.mark.long
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_gateway_has_the_setting_for_its_clients(server: str, transport: str, tmp_path: Path) -> None:
    size = 9_000_000  # Above the default of each side.
    for limit, length in ((SMALL, LONG), (3 * size, size)):
        file = tmp_path / "gateway.toml"
        entry = {"command": sys.executable, "args": [server, str(limit)], "prefix": "", "max_bytes": limit}
        file.write_text(
            "[upstreams.texts]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
        )
        words = [sys.executable, "-m", "mcp_products.relay.gateway", str(file), "--max-bytes", str(limit)]
        with served(words, transport) as target:
            more: dict[str, Any] = {"max_bytes": LARGE} if transport == "stdio" else {}
            if limit != SMALL:
                more = {"max_bytes": limit} if transport == "stdio" else {"http": HTTPOptions(max_bytes=limit)}
            async with connect(target, **more) as client:
                if limit == SMALL:
                    with pytest.raises(RemoteJSONRPCError, match=r"limit of 20000 bytes; .*raises it"):
                        await client.call_tool("measure", {"text": "x" * length}, timeout=10)
                else:
                    assert await lengths(client, length) == (length, length)


def test_a_wrong_limit_is_refused_where_it_is_written(server: str) -> None:
    with pytest.raises(LocalError, match="max_bytes must be a whole number from 1; 0 is not"):
        connect([sys.executable, server], max_bytes=0)
    with pytest.raises(LocalError, match="max_bytes must be a whole number from 1"):
        app().run("stdio", max_bytes="8 MiB")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"write limits=HTTPLimits\(max_body=…\)"):
        app().run("http", max_bytes=10)  # type: ignore[call-overload]
    with pytest.raises(LocalError, match="'max_bytes' must be a whole number from 1, not '1'"):
        App.proxy({"command": "python", "max_bytes": "1"})
    with pytest.raises(TypeError, match="max_bytes"):
        connect("http://127.0.0.1:1/mcp", max_bytes=10)
