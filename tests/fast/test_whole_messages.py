"""What a client gets of our connections is what it gets of uvicorn's own, however its requests are cut into pieces."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest
from support.other_servers.recorded_connections import RecordedEndpoint, unchunked

from mcp_generated import App, Context
from mcp_products import fast as fast_paths

VERSION = "2026-07-28"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Endpoint(RecordedEndpoint):
    """An application, and connections to it of two classes: uvicorn's and ours."""

    def __init__(self, json_response: bool = True, **settings: Any) -> None:
        app = App("whole")
        self.ended: list[str] = []  # Why the handlers that wait for ever have ended.

        @app.tool()
        def echo(text: str) -> str:
            return text

        @app.tool()
        async def wait(text: str) -> str:
            await asyncio.sleep(0)
            return text

        @app.tool()
        async def report(ctx: Context, text: str) -> str:
            for step in range(3):
                await ctx.report_progress(step + 1, message=text)
                if text == "slowly":
                    await asyncio.sleep(0.002)
            return text

        @app.tool()
        async def never(ctx: Context, text: str) -> str:
            await ctx.report_progress(1, message=text)
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append(text)
            return text

        super().__init__(app.asgi(path="/mcp", json_response=json_response), **settings)

    async def writes(self, kind: str, pieces: list[bytes], responses: int) -> list[bytes]:
        """Return what a connection writes, when these pieces come one after the other without a pause."""
        connection, transport, state = self.connect(kind)
        for piece in pieces:
            connection.data_received(piece)
        deadline = time.monotonic() + 10
        while (state.total_requests < responses or state.tasks) and time.monotonic() < deadline:
            await asyncio.sleep(0)
        assert state.total_requests == responses
        transport.close()
        connection.connection_lost(None)
        return transport.writes


def post(message: dict[str, Any], *lines: str, version: str = "1.1", host: str = "localhost") -> bytes:
    """Return a POST of a message of the newest protocol version."""
    params = message.get("params", {})
    message = {"jsonrpc": "2.0", **message, "params": {**params, "_meta": {**META, "progressToken": "t"}}}
    body = json.dumps(message).encode()
    head = [
        f"POST /mcp HTTP/{version}",
        f"host: {host}",
        "accept: application/json, text/event-stream",
        "content-type: application/json",
        f"mcp-protocol-version: {VERSION}",
        f"mcp-method: {message['method']}",
        *([f"mcp-name: {params['name']}"] if "name" in params else []),
        f"content-length: {len(body)}",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def call(name: str = "echo", text: str = "hi", **keywords: Any) -> bytes:
    lines: tuple[str, ...] = keywords.pop("lines", ())
    return post(
        {"id": 1, "method": "tools/call", "params": {"name": name, "arguments": {"text": text}}}, *lines, **keywords
    )


# Bytes of a client, and the number of responses.
REQUESTS: dict[str, tuple[bytes, int]] = {
    "a call": (call(), 1),
    "a call that waits": (call("wait"), 1),
    "an unknown tool": (call("nothing"), 1),
    "a wrong argument": (call(text=5), 1),  # type: ignore[arg-type]
    "a notification": (post({"method": "notifications/cancelled", "params": {"requestId": 7}}), 1),
    "a long text": (call(text="x" * 100_000), 1),
    "a connection that is to be closed": (call(lines=("connection: close",)), 1),
    "HTTP/1.0": (call(version="1.0"), 1),
    "a wrong host": (call(host="elsewhere.example"), 1),
    "an expected 100": (call(lines=("expect: 100-continue",)), 1),
    "a GET": (b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n", 1),
    "a HEAD": (b"HEAD /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n", 1),
    "three calls at once": (call(text="a") + call("wait", "b") + call(text="c"), 3),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_requests_cut_anywhere_get_the_responses_of_uvicorn(name: str) -> None:
    data, responses = REQUESTS[name]
    body = data.find(b"\r\n\r\n") + 4
    cuts = [[data], [data[:body], data[body:]], [data[at : at + 300] for at in range(0, len(data), 300)]]
    cuts += [[data[:at], data[at:]] for at in range(1, len(data), max(len(data) // 40, 1))]
    async with Endpoint() as endpoint:
        expected = b"".join(await endpoint.writes("uvicorn", [data], responses))
        assert expected.count(b"HTTP/1.1 ") >= responses
        for pieces in cuts:
            got = b"".join(await endpoint.writes("ours", [piece for piece in pieces if piece], responses))
            # The interim response depends on whether the body has come with the head.
            assert got.removeprefix(CONTINUE) == expected.removeprefix(CONTINUE), [len(piece) for piece in pieces]


@pytest.mark.parametrize("header", [("x-own", "yes"), ("connection", "close")])
async def test_headers_of_all_responses_are_written_as_uvicorn_writes_them(header: tuple[str, str]) -> None:
    async with Endpoint(headers=[header]) as endpoint:
        expected = b"".join(await endpoint.writes("uvicorn", [call()], 1))
        assert ": ".join(header).encode() in expected
        assert b"".join(await endpoint.writes("ours", [call()], 1)) == expected


@pytest.mark.skipif(not fast_paths.ENABLED, reason="uvicorn writes head and body one after the other")
@pytest.mark.parametrize("iterations", [0, 1, 5])
async def test_a_call_is_answered_with_one_write(iterations: int) -> None:
    data = call()
    body = data.index(b"\r\n\r\n") + 4
    async with Endpoint() as endpoint:
        connection, transport, state = endpoint.connect()
        connection.data_received(data[:body])
        for _ in range(iterations):
            await asyncio.sleep(0)
        assert len(state.tasks) == (iterations > 2)  # The application sees a head whose body is late.
        connection.data_received(data[body:])
        while not state.total_requests:
            await asyncio.sleep(0)
        [written] = transport.writes
        assert json.loads(written.partition(b"\r\n\r\n")[2])["result"]["content"][0]["text"] == "hi"


async def test_a_request_whose_client_has_gone_is_not_answered() -> None:
    async with Endpoint() as endpoint:
        connection, transport, state = endpoint.connect()
        connection.data_received(call()[:-5])
        transport.close()
        connection.connection_lost(None)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not transport.writes and not state.tasks


@pytest.mark.parametrize(("level", "lines"), [("info", 2), ("warning", 0)])
async def test_the_access_log_has_a_line_for_each_request_at_its_level(
    level: str, lines: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Endpoint(log_config=None) as endpoint:
        access = logging.getLogger("uvicorn.access")
        monkeypatch.setattr(access, "level", getattr(logging, level.upper()))
        monkeypatch.setattr(access, "_cache", {})
        await endpoint.writes("ours", [call(), call()], 2)
    assert len([record for record in caplog.records if record.name == "uvicorn.access"]) == lines


STREAMS: dict[str, bytes] = {
    "at once": call("report", "at once"),
    "in parts": call("report", "slowly"),
    "large messages": call("report", "x" * 200_000),
    "a connection that is to be closed": call("report", lines=("connection: close",)),
    "an expected 100": call("report", lines=("expect: 100-continue",)),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_has_the_head_and_the_events_of_uvicorn(name: str) -> None:
    async with Endpoint(json_response=False) as endpoint:
        expected = b"".join(await endpoint.writes("uvicorn", [STREAMS[name]], 1))
        got = b"".join(await endpoint.writes("ours", [STREAMS[name]], 1))
    assert expected.endswith(b"0\r\n\r\n") and got.endswith(b"0\r\n\r\n")
    head, body = unchunked(got.removeprefix(CONTINUE))
    assert (head, body) == unchunked(expected.removeprefix(CONTINUE))
    assert body.count(b"data: ") == 4


@pytest.mark.skipif(not fast_paths.ENABLED, reason="uvicorn writes head and body one after the other")
async def test_a_stream_whose_handler_has_ended_is_one_write() -> None:
    async with Endpoint(json_response=False) as endpoint:
        [written] = await endpoint.writes("ours", [call("report")], 1)
    assert written.count(b"data: ") == 4


NEEDS_FAST_PATHS = pytest.mark.skipif(
    not fast_paths.ENABLED, reason="uvicorn tells only the last request that it has read"
)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        pytest.param("uvicorn", b"", id="uvicorn"),
        pytest.param("ours", b"", id="ours"),
        pytest.param("ours", call("echo", "after it"), id="with the next one", marks=NEEDS_FAST_PATHS),
    ],
)
async def test_a_handler_whose_client_goes_is_cancelled(kind: str, more: bytes, is_stream: bool) -> None:
    async with Endpoint(json_response=not is_stream) as endpoint:
        connection, transport, state = endpoint.connect(kind)
        connection.data_received(call("never") + more)
        for _ in range(20):
            await asyncio.sleep(0)
        assert bool(transport.writes) == is_stream and endpoint.ended == []
        transport.close()
        connection.connection_lost(None)
        async with asyncio.timeout(10):
            while not endpoint.ended or state.tasks:
                await asyncio.sleep(0)
        assert endpoint.ended == ["hi"]
